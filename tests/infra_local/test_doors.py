"""The REST API and the Invoke API over real sockets, with sample handlers behind them."""

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import boto3
import pytest
import requests
from aiohttp import web
from botocore.config import Config

from infra.fleet import Clock, Route
from infra.local.clocks import Clocks
from infra.local.gateway import MAX_BODY_BYTES, Gateway
from infra.local.invoke_api import InvokeApi
from infra.local.keys import DEFAULT_KEY_ID, ApiKeys
from infra.local.lambda_service import LambdaService
from infra.local.parts import LOOPBACK, free_port
from tests.infra_local.sample_functions import function, holding

NAMES = {handler: f"local-{handler}" for handler in ("proxy", "malformed", "leave", "hang", "hold")}
ROUTES = (
    Route(path="/health", function="proxy", api_key_required=False),
    Route(path="/malformed", function="malformed"),
    Route(path="/crash", function="leave"),
    Route(path="/slow", function="hang"),
    Route(path="/busy", function="hold"),
    Route(path="/{proxy+}", function="proxy"),
)
RESERVED = "ReservedConcurrentExecutions"
CLOCKS = (Clock(name="tick", function="proxy", every_seconds=60),)


class Doors:
    def __init__(self, api, invoke, keys, folder):
        self.api, self.invoke, self.keys, self.folder = api, invoke, keys, folder
        self.key = keys.default_key

    def get(self, path, key=None):
        return requests.get(self.api + path, headers={"x-api-key": key or self.key}, timeout=60)

    @property
    def boto(self):
        return boto3.client(
            "lambda",
            endpoint_url=self.invoke,
            region_name="us-east-1",
            aws_access_key_id="local",
            aws_secret_access_key="local",
            config=Config(retries={"total_max_attempts": 1}),
        )


@contextmanager
def opened(folder, *, ticking=False):
    """Both doors, served by a loop in another thread."""
    keys = ApiKeys(folder / "keys.json")
    ports = free_port(), free_port()
    ready, loop = Event(), asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve():
        service = LambdaService(
            [
                function("proxy"),
                function("malformed"),
                function("leave", retry_attempts=0),
                function("hang", timeout_seconds=0.3),
                function("hold", limit=1, throttles=True),
                function("count", limit=2, throttles=True, ceiling=5),
            ],
            folder,
        )
        clocks = Clocks(CLOCKS, {"tick": "local-tick"}, NAMES, service)
        gateway = Gateway(ROUTES, NAMES, service, keys, "local")
        runners = []
        for application, port in zip(
            (gateway.application(), InvokeApi(service, clocks).application()), ports, strict=True
        ):
            runner = web.AppRunner(application)
            runners.append(runner)
            await runner.setup()
            await web.TCPSite(runner, LOOPBACK, port).start()
        if ticking:
            clocks.start()
        ready.set()
        await ended.wait()
        await clocks.stop()
        await service.stop()
        for runner in runners:
            await runner.cleanup()

    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(loop.run_until_complete, serve())
        assert ready.wait(60)
        api, invoke = (f"http://{LOOPBACK}:{port}" for port in ports)
        try:
            yield Doors(api, invoke, keys, folder)
        finally:
            loop.call_soon_threadsafe(ended.set)
            serving.result(60)
            loop.close()


@pytest.fixture(scope="module")
def doors(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("doors")) as doors:
        yield doors


def test_a_request_reaches_the_function_and_its_answer_comes_back(doors):
    response = requests.post(
        f"{doors.api}/v1/shop/requests?state=done",
        headers={"x-api-key": doors.key, "Content-Type": "text/x-note"},
        data="body",
        timeout=60,
    )

    event = response.json()
    assert response.status_code == 201
    assert response.headers["X-One"] == "1"
    assert response.raw.headers.getlist("X-Two") == ["a", "b"]
    assert response.headers["Content-Type"] == "application/json"
    assert event["body"] == "body"
    assert event["headers"]["Content-Type"] == "text/x-note"
    assert event["headers"]["X-Forwarded-For"] == "127.0.0.1"
    assert event["requestContext"]["identity"]["apiKeyId"] == DEFAULT_KEY_ID
    assert event["requestContext"]["requestId"] == response.headers["x-amzn-RequestId"]


@pytest.mark.parametrize("key", ["wrong", "ключ".encode()])
def test_a_caller_without_a_key_is_refused_as_api_gateway_does(doors, key):
    for headers in ({}, {"x-api-key": key}):
        response = requests.get(f"{doors.api}/v1/shop", headers=headers, timeout=60)

        assert response.status_code == 403
        assert response.json() == {"message": "Forbidden"}
        assert response.headers["x-amzn-ErrorType"] == "ForbiddenException"


def test_an_open_path_needs_no_key_and_carries_no_identity(doors):
    event = requests.get(f"{doors.api}/health", timeout=60).json()

    assert event["resource"] == "/health"
    assert "apiKeyId" not in event["requestContext"]["identity"]


def test_a_key_is_in_force_as_soon_as_it_is_in_the_file(doors):
    key = ApiKeys(doors.folder / "keys.json").add("acme")

    event = doors.get("/v1/shop", key).json()

    assert event["requestContext"]["identity"]["apiKeyId"] == "acme"
    assert (doors.folder / "keys.json").stat().st_mode & 0o077 == 0


def test_a_body_above_the_limit_is_refused(doors):
    for size, status in ((MAX_BODY_BYTES + 1, 413), (1_000_000, 201)):
        response = requests.post(
            f"{doors.api}/v1/shop",
            headers={"x-api-key": doors.key},
            data=b"x" * size,
            timeout=60,
        )

        assert response.status_code == status


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/malformed", 502, "Internal server error"),
        ("/crash", 502, "Internal server error"),
        ("/slow", 504, "Endpoint request timed out"),
        ("/", 403, "Missing Authentication Token"),
    ],
)
def test_a_function_that_fails_is_answered_for_as_api_gateway_does(doors, path, status, message):
    response = doors.get(path)

    assert response.status_code == status
    assert response.json() == {"message": message}


def test_boto3_invokes_and_sees_function_errors(doors):
    good = doors.boto.invoke(FunctionName="local-proxy", Payload=b'{"a": 1}')
    bad = doors.boto.invoke(FunctionName="local-leave", Payload=b"{}")

    assert good["StatusCode"] == 200
    assert "FunctionError" not in good
    assert json.loads(json.load(good["Payload"])["body"]) == {"a": 1}
    assert bad["FunctionError"] == "Unhandled"
    assert json.load(bad["Payload"])["errorType"] == "Runtime.ExitError"


def test_boto3_is_throttled_when_the_concurrency_is_used_up(doors, tmp_path):
    event, client = holding(tmp_path, "one"), doors.boto
    payload = json.dumps(event).encode()
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(client.invoke, FunctionName="local-hold", Payload=payload)
        while not Path(event["begun"]).exists():
            os.sched_yield()

        with pytest.raises(client.exceptions.TooManyRequestsException):
            client.invoke(FunctionName="local-hold", Payload=payload)

        Path(event["pipe"]).write_text("go")
        assert json.load(held.result()["Payload"]) == "go"


def test_boto3_sends_an_event_that_nobody_waits_for(doors, tmp_path):
    event = holding(tmp_path, "one")

    answer = doors.boto.invoke(
        FunctionName="local-hold", InvocationType="Event", Payload=json.dumps(event).encode()
    )

    assert answer["StatusCode"] == 202
    Path(event["pipe"]).write_text("go")  # opens only when the handler reads


def test_what_the_invoke_api_refuses(doors):
    client = doors.boto
    refused = [
        (client.exceptions.ResourceNotFoundException, "local-nonesuch", b"{}", "RequestResponse"),
        (client.exceptions.ResourceNotFoundException, "local-nonesuch", b"{}", "Event"),
        (client.exceptions.ResourceNotFoundException, "local-nonesuch", b"{}", "DryRun"),
        (client.exceptions.InvalidRequestContentException, "local-proxy", b"{", "RequestResponse"),
        (client.exceptions.RequestTooLargeException, "local-proxy", b" " * 1_100_000, "Event"),
        (client.exceptions.RequestTooLargeException, "local-proxy", b" " * 7_000_000, "DryRun"),
    ]

    for error, name, payload, kind in refused:
        with pytest.raises(error):
            client.invoke(FunctionName=name, Payload=payload, InvocationType=kind)
    assert client.invoke(FunctionName="local-proxy", InvocationType="DryRun")["StatusCode"] == 204


def test_reserved_concurrency_is_reported_and_changed_as_lambda_does(doors):
    client = doors.boto
    try:
        assert client.get_function_concurrency(FunctionName="local-count")[RESERVED] == 2
        answer = client.put_function_concurrency(
            FunctionName="local-count", ReservedConcurrentExecutions=4
        )
        assert answer[RESERVED] == 4
        assert client.get_function_concurrency(FunctionName="local-count")[RESERVED] == 4
        status = requests.get(f"{doors.invoke}/_local/status", timeout=60).json()
        assert status["functions"]["local-count"]["limit"] == 4
    finally:
        client.put_function_concurrency(FunctionName="local-count", ReservedConcurrentExecutions=2)
    assert RESERVED not in client.get_function_concurrency(FunctionName="local-proxy")


def test_concurrency_that_there_is_not_is_refused_in_lambdas_words(doors):
    client = doors.boto

    with pytest.raises(client.exceptions.InvalidParameterValueException, match="minimum value"):
        client.put_function_concurrency(FunctionName="local-count", ReservedConcurrentExecutions=6)
    for call in (
        lambda: client.get_function_concurrency(FunctionName="local-nonesuch"),
        lambda: client.put_function_concurrency(
            FunctionName="local-nonesuch", ReservedConcurrentExecutions=1
        ),
    ):
        with pytest.raises(client.exceptions.ResourceNotFoundException):
            call()
    assert client.get_function_concurrency(FunctionName="local-count")[RESERVED] == 2


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"ReservedConcurrentExecutions": true}'])
def test_what_is_no_concurrency_is_refused(doors, body):
    url = f"{doors.invoke}/2017-10-31/functions/local-count/concurrency"

    assert requests.put(url, data=body, timeout=60).status_code == 400


def test_a_clock_fires_at_once_with_a_scheduled_event(doors):
    fired = requests.post(f"{doors.invoke}/_local/clocks/tick", timeout=60).json()
    unknown = requests.post(f"{doors.invoke}/_local/clocks/tock", timeout=60)

    event = json.loads(fired["answer"]["body"])
    assert not fired["failed"]
    assert event["source"] == "aws.events"
    assert event["detail-type"] == "Scheduled Event"
    assert event["resources"] == ["arn:aws:events:us-east-1:123456789012:rule/local-tick"]
    assert event["time"].endswith("Z")
    assert unknown.status_code == 404


def test_the_status_reports_what_ran(doors):
    doors.get("/v1/shop")

    proxy = requests.get(f"{doors.invoke}/_local/status", timeout=60).json()["functions"][
        "local-proxy"
    ]

    assert proxy["invocations"] >= 1
    assert len(proxy["environments"]) >= 1


def test_clocks_tick_by_themselves_from_the_start(tmp_path):
    with opened(tmp_path, ticking=True) as doors:
        while True:
            status = requests.get(f"{doors.invoke}/_local/status", timeout=60).json()
            if status["functions"]["local-proxy"]["invocations"]:
                break
