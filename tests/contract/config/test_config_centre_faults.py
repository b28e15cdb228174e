"""The config centre and the secrets when AWS is dead, slow or no AWS at all: a socket that lies."""

import json
import socket
import threading

import pytest

from tests.kit.aws import Secrets
from tests.kit.aws import aws as clients
from tests.kit.config import SsmConfig
from tests.kit.kernel import StoreUnavailableError
from tests.waiting import in_time

KEYS = {
    "region_name": "us-east-1",
    "aws_access_key_id": "local",
    "aws_secret_access_key": "local",
}


class Liar:
    """Accepts connections on loopback and answers each request with the same bytes, or never."""

    def __init__(self, answer):
        self._answer = answer
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self.connections = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.connections.append(connection)
            if self._answer is not None:
                connection.recv(65536)
                connection.sendall(self._answer)
                connection.close()

    def close(self):
        self._server.close()
        for connection in self.connections:
            connection.close()


@pytest.fixture
def liar():
    opened = []

    def start(answer):
        opened.append(Liar(answer))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def http(body, status="200 OK"):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/x-amz-json-1.1\r\n"
    return head.encode() + f"Content-Length: {len(content)}\r\n\r\n".encode() + content


LIES = {
    "no HTTP": b"\x00\x01\x02 good day\r\n\r\n",
    "nothing": b"",
    "half an answer": b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{",
    "a web page": http(b"<html>login</html>"),
    "a list": http([]),
    "a number": http(5),
    "another object": http({"Hello": "World"}),
    "a parameter without a value": http({"Parameters": [{"Name": "/crawlfleet/test/revision"}]}),
    "a parameter that is a number": http({"Parameters": [5]}),
    "parameters that are a number": http({"Parameters": 5}),
    "a value that is a number": http(
        {"Parameters": [{"Name": "/crawlfleet/test/revision", "Value": 5}]}
    ),
    "an unknown error": http({"__type": "Oops"}, "400 Bad Request"),
    "a fault": http({"__type": "InternalServerError"}, "500 Internal Server Error"),
    "throttling": http({"__type": "ThrottlingException"}, "400 Bad Request"),
    "no JSON": http(b"\xff\xfe{"),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_ssm_that_lies_is_an_unavailable_one(liar, lie):
    client = clients.client("ssm", endpoint_url=liar(LIES[lie]).url, attempts=1, **KEYS)

    with pytest.raises(StoreUnavailableError):
        SsmConfig(client, "test").current()


def test_an_ssm_that_never_answers_costs_its_timeouts_and_no_more(liar):
    mute = liar(None)
    client = clients.client("ssm", endpoint_url=mute.url, timeout_seconds=0.2, attempts=2, **KEYS)
    config = SsmConfig(client, "test")

    with in_time(1), pytest.raises(StoreUnavailableError):  # the driver's own would be minutes
        config.current()
    asked = len(mute.connections)
    with pytest.raises(StoreUnavailableError):
        config.current()

    assert asked == len(mute.connections) > 0, "the second caller is made to wait"


def test_an_ssm_that_refuses_connections_is_unavailable():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    client = clients.client("ssm", endpoint_url=url, attempts=1, **KEYS)

    with pytest.raises(StoreUnavailableError, match="EndpointConnectionError"):
        SsmConfig(client, "test").current()


class Endless:
    """An SSM whose pages never end: the same token for ever, or a new one each time."""

    def __init__(self, *, fresh):
        self._fresh = fresh
        self.pages = 0

    def get_parameters(self, **arguments):
        return {"Parameters": [{"Name": arguments["Names"][0], "Value": "r"}]}

    def get_parameters_by_path(self, **arguments):
        self.pages += 1
        return {"Parameters": [], "NextToken": f"{self.pages}" if self._fresh else "same"}


@pytest.mark.parametrize("fresh", [True, False])
def test_pages_without_end_are_given_up(fresh):
    endless = Endless(fresh=fresh)

    with pytest.raises(StoreUnavailableError, match="nonsense"):
        SsmConfig(endless, "test").current()

    assert endless.pages <= 5000


def test_clients_have_short_timeouts_and_few_tries():
    config = clients.client("ssm", **KEYS).meta.config

    assert config.connect_timeout == config.read_timeout == 2.0
    assert config.retries["total_max_attempts"] == 2


# ---- secrets ------------------------------------------------------------------------------------

SECRET_LIES = LIES | {
    "a secret in a broken answer": http(b'{"SecretString": "hunter2"'),
    "a secret that is a number": http({"SecretString": 5}),
    "an empty secret": http({"SecretString": ""}),
}


@pytest.mark.parametrize("lie", SECRET_LIES)
def test_a_secrets_manager_that_lies_is_an_error_that_quotes_nothing(liar, lie, caplog):
    client = clients.client(
        "secretsmanager", endpoint_url=liar(SECRET_LIES[lie]).url, attempts=1, **KEYS
    )

    with pytest.raises(Exception) as caught, caplog.at_level("INFO"):
        Secrets(client).read("some/secret")

    assert type(caught.value).__name__ in {"StoreUnavailableError", "ConfigError"}
    assert "some/secret" in str(caught.value)
    assert "hunter2" not in f"{caught.value!r} {caught.value.__cause__!r} {caplog.text}"


def test_a_secrets_manager_that_never_answers_is_unavailable(liar):
    client = clients.client(
        "secretsmanager", endpoint_url=liar(None).url, timeout_seconds=0.2, attempts=1, **KEYS
    )

    with pytest.raises(StoreUnavailableError, match="ReadTimeoutError"):
        Secrets(client).read("some/secret")
