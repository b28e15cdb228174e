"""Redis as a stage on AWS has it: ``rediss://``, the password in Secrets Manager, rotated."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import boto3
import pytest
import redis

from infra.local.redis_server import ENV_URL, RedisServer
from tests.kit.apps import Parts
from tests.kit.kernel import QueueKey, Settings, StoreUnavailableError
from tests.kit.queue import RedisQueue
from tests.kit.redis import RedisConnection
from tests.kit.tls import LOOPBACK, Authority, tls_end

QUEUE_KEY = QueueKey("acme", "docs", "main")
SECRET = "crawlfleet/test/redis"
FIRST, SECOND = "the-first-password", "the-second-password"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    """A Redis of its own that asks for a password."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(ENV_URL, raising=False)
        with RedisServer() as server:
            yield server


@pytest.fixture
def operator(server: RedisServer) -> Iterator[redis.Redis]:
    """The user that sets passwords; its own connection outlives their change."""
    with redis.Redis.from_url(server.url, single_connection_client=True) as client:
        client.config_set("requirepass", FIRST)
        yield client
        client.config_set("requirepass", "")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The authority is one of the machine's, as Amazon's is."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    return authority.file


@pytest.fixture
def url(server: RedisServer, authority: Authority) -> Iterator[str]:
    behind = urlsplit(server.url)
    with tls_end(authority.server_context(LOOPBACK), str(behind.hostname), behind.port) as port:
        yield f"rediss://{LOOPBACK}:{port}"


@pytest.fixture
def secret(aws: None) -> str:
    boto3.client("secretsmanager").create_secret(Name=SECRET, SecretString=FIRST)
    return SECRET


@pytest.fixture
def parts(url: str, secret: str, trusted: Path, operator: redis.Redis) -> Iterator[Parts]:
    """Yield the parts that every function opens."""
    parts = Parts(Settings(stage="test", redis_url=url, redis_secret=secret), "router")
    yield parts
    parts.redis.close()


def rotate(operator: redis.Redis) -> None:
    """The second password is in force, and no connection from before it is left."""
    boto3.client("secretsmanager").put_secret_value(SecretId=SECRET, SecretString=SECOND)
    operator.config_set("requirepass", SECOND)
    operator.client_kill_filter(_type="normal", skipme=True)


def test_a_stage_speaks_tls_and_gives_the_password_of_its_secret(parts: Parts):
    assert parts.redis.client.ping()
    assert parts.queue.depth(QUEUE_KEY).queued == 0


def test_a_rotated_password_is_in_use_within_the_call_that_was_refused(
    parts: Parts, operator: redis.Redis
):
    assert parts.queue.depth(QUEUE_KEY).queued == 0

    rotate(operator)

    assert parts.queue.depth(QUEUE_KEY).queued == 0


def test_a_call_that_is_not_repeated_is_refused_once_after_a_rotation(
    url: str, trusted: Path, operator: redis.Redis, secret: str
):
    rotate(operator)

    with RedisConnection(url, password=FIRST, renew=lambda: SECOND) as connection:
        with pytest.raises(StoreUnavailableError), connection.translated():
            connection.client.ping()

        with connection.translated():
            assert connection.client.ping()


def test_a_wrong_secret_is_not_asked_for_with_every_call(
    url: str, trusted: Path, operator: redis.Redis
):
    asked: list[str] = []

    def renew() -> str:
        asked.append(SECRET)
        return "wrong as well"

    with RedisConnection(url, password="wrong", renew=renew) as connection:
        for _ in range(3):
            with pytest.raises(StoreUnavailableError, match="AuthenticationError"):
                RedisQueue(connection).depth(QUEUE_KEY)

    assert asked == [SECRET]


def test_a_certificate_that_nobody_known_signed_is_refused(url: str, operator: redis.Redis):
    with (
        RedisConnection(url, password=FIRST) as connection,
        pytest.raises(StoreUnavailableError, match="certificate"),
    ):
        RedisQueue(connection).depth(QUEUE_KEY)


def test_a_certificate_of_another_host_is_refused(
    server: RedisServer, authority: Authority, trusted: Path, operator: redis.Redis
):
    behind = urlsplit(server.url)
    context = authority.server_context("127.0.0.2")

    with (
        tls_end(context, str(behind.hostname), behind.port) as port,
        RedisConnection(f"rediss://{LOOPBACK}:{port}", password=FIRST) as connection,
        pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1"),
    ):
        RedisQueue(connection).depth(QUEUE_KEY)
