"""Parts that die while the router is at work, and what clients see of it."""

import time
from datetime import timedelta

import pytest
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from crawlfleet import names
from crawlfleet.wiring.parts import now
from infra.local.mongo_server import ENV_URI, MongoServer
from infra.local.parts import free_port
from infra.local.redis_server import ENV_URL, RedisServer
from tests.functions.http import ask, submit
from tests.functions.open_api import Document
from tests.functions.world import a_world, environment_ends, throttled

PAGE = {"url": "https://example.org/"}
SECRETS = ("mongodb://", "redis://", "127.0.0.1", "crawlfleet/test")


def refused_for_now(answer) -> None:
    assert answer.status == 503, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert int(answer.headers["Retry-After"]) > 0
    assert not any(secret in answer.text for secret in SECRETS), answer.text


class Mortal:
    """A Redis and a replica set that a test may end and start again where they were."""

    def __init__(self, folder) -> None:
        self._redis_port, self._mongo_port = free_port(), free_port()
        self._folder = folder
        self.start_redis()
        self.start_mongo()

    def start_redis(self) -> None:
        self.redis = RedisServer(port=self._redis_port).start()

    def start_mongo(self) -> None:
        server = MongoServer(self._folder, ports=[self._mongo_port], cache_gb=0.25)
        self.mongo = server.start()


@pytest.fixture(scope="module")
def mortal(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(ENV_URL, raising=False)
        patch.delenv(ENV_URI, raising=False)
        servers = Mortal(tmp_path_factory.mktemp("mongo"))
        try:
            yield servers
        finally:
            servers.redis.stop()
            servers.mongo.stop()


@pytest.fixture
def doomed(mortal):
    """A world on servers that may die; cold."""
    with a_world(mortal.redis.url, mortal.mongo.uri, own_mongo=True) as world:
        yield world


@pytest.mark.parametrize("start", ["cold", "warm"])
def test_redis_dead_means_202_and_the_next_tick_queues_it_once(doomed, mortal, monkeypatch, start):
    if start == "warm":
        submit(doomed, "https://example.org/before")
    stored = doomed.stored()
    mortal.redis.stop()
    try:
        answer = ask(doomed, "POST", "/v1/docs/requests", PAGE)
        assert answer.status == 202, answer.text
        assert doomed.stored() - stored == 1
        assert doomed.lambdas.woken.count(names.CONSUMER) == (start == "warm")
        place = f"/v1/docs/requests/{answer.json['id']}"
        assert ask(doomed, "GET", place).json["state"] == "pending"
        assert ask(doomed, "GET", "/health", key=None).json["status"] == "degraded"
        refused_for_now(ask(doomed, "GET", "/v1/docs/stats"))
        done = doomed.call(names.SCHEDULER, {})
        assert done == {"fires": 0, "requests": 0, "requeued": 0, "expired": 0}
    finally:
        mortal.start_redis()

    later = now() + timedelta(seconds=10)
    monkeypatch.setattr("crawlfleet.wiring.scheduler.now", lambda: later)
    ticks = [doomed.call(names.SCHEDULER, {}) for _ in range(2)]

    assert [tick["requeued"] for tick in ticks] == [stored + 1, 0]
    assert doomed.queued() == stored + 1
    assert ask(doomed, "GET", "/health", key=None).json["status"] == "ok"


def test_mongodb_dead_means_503_within_ten_seconds_and_nothing_half_done(doomed, mortal):
    submit(doomed, "https://example.org/before")
    keys = sorted(doomed.lane_keys())
    doomed.lambdas.woken.clear()
    mortal.mongo.stop()
    try:
        for start, body in {"warm": {"requests": [PAGE] * 100}, "cold": PAGE}.items():
            if start == "cold":
                environment_ends(doomed)
            started = time.monotonic()
            refused_for_now(ask(doomed, "POST", "/v1/docs/requests", body))
            assert time.monotonic() - started < 10, start
        assert sorted(doomed.lane_keys()) == keys
        assert doomed.lambdas.woken == []
        refused_for_now(ask(doomed, "GET", "/v1/docs/requests/1"))
        health = ask(doomed, "GET", "/health", key=None)
        assert (health.status, health.json["status"]) == (503, "down")
        assert not any(secret in health.text for secret in SECRETS), health.text
    finally:
        mortal.start_mongo()

    assert ask(doomed, "POST", "/v1/docs/requests", PAGE).status == 202
    assert doomed.stored() == 2


def test_a_redis_that_hangs_delays_a_submission_by_seconds_and_loses_nothing(doomed):
    submit(doomed, "https://example.org/before")
    doomed.redis.client_pause(4_000)

    started = time.monotonic()
    answer = ask(doomed, "POST", "/v1/docs/requests", PAGE)
    took = time.monotonic() - started

    assert answer.status == 202
    assert took < 5
    assert doomed.stored() == 2
    doomed.redis.client_unpause()


FAULTS = {
    "throttled": throttled(),
    "gone": EndpointConnectionError(endpoint_url="https://lambda.test"),
    "slow": ReadTimeoutError(endpoint_url="https://lambda.test"),
    "failed": b'{"errorType": "StoreUnavailableError", "errorMessage": "redis://10.0.0.7 refuses"}',
    "timed out": b'{"errorMessage": "2026-03-01 Task timed out after 10.00 seconds"}',
    "nonsense": b"<html>",
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_an_id_issuer_that_issues_nothing_means_503_and_nothing_stored(world, fault):
    environment_ends(world)
    world.lambdas.faults[names.ID_ISSUER] = fault

    refused_for_now(ask(world, "POST", "/v1/docs/requests", PAGE))

    assert world.stored() == 0
    assert world.lane_keys() == []
    world.lambdas.faults.clear()
    assert ask(world, "POST", "/v1/docs/requests", PAGE).status == 202


def test_a_consumer_that_cannot_be_woken_does_not_fail_the_submission(world):
    world.lambdas.faults[names.CONSUMER] = throttled()

    assert ask(world, "POST", "/v1/docs/requests", PAGE).status == 202
    assert (world.stored(), world.queued()) == (1, 1)


def test_ssm_dead_at_a_cold_start_means_503_until_it_answers(world):
    environment_ends(world)
    world.dead.add("ssm")

    refused_for_now(ask(world, "POST", "/v1/docs/requests", PAGE))
    health = ask(world, "GET", "/health", key=None)
    assert (health.status, health.json["status"]) == (503, "down")
    assert ask(world, "GET", "/openapi.json", key=None).status == 200

    world.dead.clear()
    assert ask(world, "POST", "/v1/docs/requests", PAGE).status == 202


def test_ssm_dead_when_warm_leaves_the_last_good_configuration_in_force(world):
    submit(world, "https://example.org/")
    world.dead.add("ssm")

    for _ in range(3):
        assert ask(world, "POST", "/v1/docs/requests", PAGE).status == 202
    assert ask(world, "GET", "/health", key=None).json["status"] == "ok"


def test_secrets_manager_dead_at_a_cold_start_means_503_until_it_answers(world):
    environment_ends(world)
    world.dead.add("secretsmanager")

    refused_for_now(ask(world, "POST", "/v1/docs/requests", PAGE))
    assert ask(world, "GET", "/health", key=None).status == 503

    world.dead.clear()
    assert ask(world, "POST", "/v1/docs/requests", PAGE).status == 202


def test_an_environment_that_lacks_a_variable_says_503_and_logs_which(world, monkeypatch, caplog):
    environment_ends(world)
    monkeypatch.delenv(names.ENV_REDIS_URL)

    answer = ask(world, "GET", "/health", key=None)

    refused_for_now(answer)
    assert names.ENV_REDIS_URL not in answer.text
    assert names.ENV_REDIS_URL in caplog.text
    Document.of(world).check("GET", "/health", answer)


def test_a_fault_nobody_foresaw_is_a_500_that_shows_nothing(world, monkeypatch, caplog):
    def explode(*_: object) -> None:
        raise RuntimeError("the inner secret")

    monkeypatch.setattr("crawlfleet.wiring.router.RouterOperations.stats", explode)

    answer = ask(world, "GET", "/v1/docs/stats")

    assert (answer.status, answer.json["title"]) == (500, "Internal error")
    assert "inner secret" not in answer.text
    assert "inner secret" in caplog.text


@pytest.mark.parametrize("event", [{}, {"httpMethod": "GET"}, {"httpMethod": 1, "path": None}])
def test_an_event_that_is_none_is_answered_all_the_same(world, event):
    assert world.call(names.ROUTER, event)["statusCode"] in {404, 500}
