"""Redis and MongoDB that die while the router is at work: in worlds of their own."""

import os
import signal

import pytest

from infra.local.mongo_server import ENV_URI, MongoServer
from infra.local.parts import free_port
from infra.local.redis_server import ENV_URL, RedisServer
from tests.functions.http import ask, submit
from tests.functions.refusals import SECRETS, refused_for_now
from tests.kit.kernel import names
from tests.kit.patience import patient
from tests.kit.worlds.functions import a_world
from tests.steady import SteadyClock

PAGE = {"url": "https://example.org/"}


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
    with a_world(patient(mortal.redis.url), mortal.mongo.uri, own_mongo=True) as world:
        yield world


@pytest.mark.parametrize("start", ["cold", "warm"])
def test_redis_dead_means_202_and_the_next_tick_queues_it_once(doomed, mortal, start):
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
        assert done.pop("faults") > 0
        assert done == dict.fromkeys(done, 0)
        assert {"fires", "tasks", "requeued", "expired"} <= done.keys()
    finally:
        mortal.start_redis()

    ticks = [doomed.call(names.SCHEDULER, {}) for _ in range(2)]

    assert [tick["requeued"] for tick in ticks] == [stored + 1, 0]
    assert doomed.queued() == stored + 1
    assert ask(doomed, "GET", "/health", key=None).json["status"] == "ok"


def test_mongodb_dead_means_503_within_ten_seconds_and_nothing_half_done(doomed, mortal):
    submit(doomed, "https://example.org/before")
    keys = sorted(doomed.redis_keys())
    doomed.lambdas.woken.clear()
    mortal.mongo.stop()
    try:
        for start, body in {"warm": {"requests": [PAGE] * 100}, "cold": PAGE}.items():
            if start == "cold":
                doomed.end_environments()
            # Three seconds and a little; a machine that stands still takes none of the others.
            with SteadyClock() as clock:
                started = clock()
                refused_for_now(ask(doomed, "POST", "/v1/docs/requests", body))
                assert clock() - started < 10, start
        assert sorted(doomed.redis_keys()) == keys
        assert doomed.lambdas.woken == []
        refused_for_now(ask(doomed, "GET", "/v1/docs/requests/1"))
        health = ask(doomed, "GET", "/health", key=None)
        assert (health.status, health.json["status"]) == (503, "down")
        assert not any(secret in health.text for secret in SECRETS), health.text
    finally:
        mortal.start_mongo()

    assert ask(doomed, "POST", "/v1/docs/requests", PAGE).status == 202
    assert doomed.stored() == 2


def test_a_redis_that_hangs_delays_a_submission_by_seconds_and_loses_nothing(
    doomed, mortal, monkeypatch
):
    monkeypatch.setenv(names.ENV_REDIS_URL, mortal.redis.url)
    doomed.end_environments()
    submit(doomed, "https://example.org/before")
    process = doomed.redis.info("server")["process_id"]
    os.kill(process, signal.SIGSTOP)
    try:
        with SteadyClock() as clock:
            started = clock()
            answer = ask(doomed, "POST", "/v1/docs/requests", PAGE)
            took = clock() - started
    finally:
        os.kill(process, signal.SIGCONT)

    assert answer.status == 202
    assert took < 9, "it waits for Redis to come back"
    assert doomed.stored() == 2
