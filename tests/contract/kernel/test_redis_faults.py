"""Redis dead, slow, lying, full, busy or demoted: StoreUnavailableError, in time."""

import contextlib
import threading
import time
from datetime import timedelta
from typing import Final

import pytest
import redis
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from infra.local.parts import LOOPBACK, free_port
from tests.contract.redis_calls import (
    ANY_CALL,
    ASK,
    CALLS,
    ENTRIES,
    HOST,
    NOW,
    QUEUE_KEY,
    REPORT,
    answering,
    call_by_answer,
    refused,
)
from tests.kit.examples import examples
from tests.kit.fleet import RedisWorkers
from tests.kit.ids import RedisWorkerNumbers
from tests.kit.kernel import StoreUnavailableError, WorkerNumbersExhaustedError
from tests.kit.politeness import RedisHosts
from tests.kit.queue import Depth, RedisQueue
from tests.kit.redis import RedisConnection
from tests.kit.requests import Entry
from tests.waiting import in_time


@ANY_CALL
def test_a_dead_redis_is_unavailable_at_once(call):
    with in_time(0), RedisConnection(f"redis://{LOOPBACK}:{free_port()}/0") as connection:
        refused(lambda: call(connection))


@ANY_CALL
def test_a_redis_that_never_answers_is_unavailable_when_the_time_is_up(call):
    started = time.monotonic()
    # Who had not heeded it would wait for the half of a minute that all others have in tests.
    with (
        in_time(0.05),
        answering(None) as url,
        RedisConnection(url, answer_seconds=0.05) as connection,
    ):
        refused(lambda: call(connection))

    assert time.monotonic() - started >= 0.05


def test_the_time_that_an_answer_may_take_is_two_seconds():
    started = time.monotonic()
    with in_time(2), answering(None) as url, RedisConnection(url) as connection:
        assert connection.client.connection_pool.connection_kwargs["socket_timeout"] == 2.0
        refused(lambda: RedisQueue(connection).depth(QUEUE_KEY))

    assert time.monotonic() - started >= 2.0


@call_by_answer(
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"$abc\r\n",
        b":one\r\n",
        b"\x00\xff\x00\xff",
        b"-LOADING Redis is loading the dataset in memory\r\n",
        b"-ERR unknown command\r\n",
    ],
    others=pytest.mark.long,
)
def test_a_lying_redis_is_unavailable(call, answer):
    with (
        answering(answer) as url,
        RedisConnection(url, answer_seconds=0.05) as connection,
        pytest.raises(StoreUnavailableError),
    ):
        call(connection)


_OTHER_SHAPES = [b"+OK\r\n", b"$-1\r\n", b"*1\r\n:1\r\n"]
_EMPTY_SHAPES = [b"*0\r\n", b"*-7\r\n"]


@pytest.mark.parametrize("answer", _OTHER_SHAPES)
@pytest.mark.parametrize("name", ["phases", "coverage", "throughputs", "rates", "gone bizs"])
def test_what_is_no_list_of_pairs_is_no_mapping(name, answer):
    with (
        answering(answer) as url,
        RedisConnection(url, answer_seconds=0.05) as connection,
        pytest.raises(StoreUnavailableError),
    ):
        CALLS[name](connection)


@pytest.mark.parametrize("answer", [*_OTHER_SHAPES, *_EMPTY_SHAPES])
@pytest.mark.parametrize(
    "name",
    [
        *("lease", "finish", "depth", "reserve_wake", "advance", "per_second", "live"),
        *("beat", "leave", "retire", "report throughput", "acquire_lock", "reap", "relist"),
        *("epoch", "clear", "fill", "admit"),
        *("defer", "lease_deferred", "loads", "reserve slots", "report hosts", "counts"),
    ],
)
def test_an_answer_of_another_shape_is_never_taken_for_the_scripts(name, answer):
    with (
        answering(answer) as url,
        RedisConnection(url, answer_seconds=0.05) as connection,
        pytest.raises(StoreUnavailableError),
    ):
        CALLS[name](connection)


def test_a_redis_whose_steps_lead_nowhere_is_left():
    with (
        answering(b"*1\r\n$1\r\n5\r\n") as url,
        RedisConnection(url) as connection,
        pytest.raises(StoreUnavailableError),
    ):
        CALLS["leases"](connection)


#: To some an answer that says nothing says something: that all numbers are leased.
NOTHING_MEANS: Final = {"lease_number": (WorkerNumbersExhaustedError,)}


@examples(0.4, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(answer=b"$-1\r\n")
@example(answer=b"*-1\r\n")
@example(answer=b"*0\r\n")
@given(
    answer=st.binary(min_size=1, max_size=40)
    | st.builds(
        lambda kind, rest: kind + rest + b"\r\n",
        st.sampled_from([b"+", b"-", b":", b"$", b"*"]),
        st.text("0123456789-*$:\r\nabc", max_size=12).map(str.encode),
    )
)
def test_no_answer_whatever_raises_anything_else(answer):
    with answering(answer) as url, RedisConnection(url, answer_seconds=0.02) as connection:
        for name in (
            "depth",
            "lease",
            "per_second",
            "lease_number",
            "live",
            "heartbeats",
            "leases",
            "epoch",
            "admit",
            "clear",
            "deferred",
            "lease_deferred",
            "reserve slots",
            "states of hosts",
            "load robots",
            "counts",
            "waiting hosts",
        ):
            with contextlib.suppress(StoreUnavailableError, *NOTHING_MEANS.get(name, ())):
                CALLS[name](connection)


def test_with_a_full_redis_requests_wait_for_their_host_and_get_slots(own):
    queue, hosts = RedisQueue(own), RedisHosts(own)
    entries = [Entry(n, "docs", n) for n in range(9)]
    until = NOW + timedelta(seconds=60)
    queue.enqueue(QUEUE_KEY, entries, NOW)
    leased = queue.lease(QUEUE_KEY, "a", 9, NOW, until)
    own.client.config_set("maxmemory", 1)
    try:
        deferred = queue.defer(QUEUE_KEY, "a", [(HOST, NOW, leased)])
        (grant,) = hosts.reserve([ASK], "a")
        hosts.report([REPORT], "a")
        reported = queue.deferred(QUEUE_KEY, NOW, 1)
        served = queue.lease_deferred(QUEUE_KEY, "b", [(HOST, 2, NOW)], until)
    finally:
        own.client.config_set("maxmemory", 0)

    assert (deferred, grant.count, reported[0].count) == (9, 2, 9)
    assert served == {HOST: entries[:2]}


#: What the monitor and whoever decides on workers ask of Redis: a full one needs both.
_OF_WATCHING = (
    *("loads", "depth", "depths", "rates", "per_second", "phases", "counts", "waiting hosts"),
    *(
        "read shares",
        "troubled",
        "states of hosts",
        "live",
        "heartbeats",
        "silent",
        "count items",
        "coverage",
    ),
    *("standing decision", "decide", "throughputs", "report throughput", "works", "sample queue"),
    *("reserve_wake", "leave", "retire"),
    *("beat", "beat with a status", "reap", "leases", "load robots", "load cookies", "gone bizs"),
)


@pytest.mark.parametrize("name", _OF_WATCHING)
def test_a_full_redis_still_detects_failures_and_scales(own, name):
    hosts_and_workers = ("report hosts", "report throughput", "beat")
    for filled in ("enqueue", *hosts_and_workers, "put items", "add coverage"):
        CALLS[filled](own)
    expected = CALLS[name](own)
    own.client.config_set("maxmemory", 1)
    try:
        answer = CALLS[name](own)
    finally:
        own.client.config_set("maxmemory", 0)

    assert type(answer) is type(expected)


def test_a_full_redis_takes_no_more_but_lets_work_end(own):
    queue, workers, numbers = RedisQueue(own), RedisWorkers(own), RedisWorkerNumbers(own)
    entries = [Entry(n, "docs", n) for n in range(9)]
    queue.enqueue(QUEUE_KEY, entries, NOW)
    held = numbers.lease("a", 1, 1)
    own.client.config_set("maxmemory", 1)
    try:
        error = refused(lambda: queue.enqueue(QUEUE_KEY, ENTRIES, NOW))
        refused(lambda: queue.requeue(QUEUE_KEY, ENTRIES))
        queue.lease(QUEUE_KEY, "unheard", 3, NOW, NOW + timedelta(seconds=60))
        returned = queue.return_unconfirmed(QUEUE_KEY, "unheard", NOW + timedelta(seconds=60))
        leased = queue.lease(QUEUE_KEY, "a", 3, NOW, NOW + timedelta(seconds=60))
        lost = queue.renew(QUEUE_KEY, "a", leased, NOW)
        finished = queue.finish(QUEUE_KEY, "a", leased[:1], 1, NOW)
        given_back = queue.give_back(QUEUE_KEY, "a", leased[1:2])
        delayed = queue.delay(QUEUE_KEY, "a", [(leased[2], NOW)])
        workers.beat("a", NOW)
        reserved = workers.reserve_wake(NOW, 2)
        advanced = numbers.advance(held, held.mark + 1, 1, 1)
    finally:
        own.client.config_set("maxmemory", 0)

    assert "OOM" in str(error)
    assert (returned, leased, lost) == (3, entries[:3], [])
    assert (finished, given_back, delayed, reserved, advanced) == (1, 1, 1, 1, True)
    assert queue.depth(QUEUE_KEY) == Depth(queued=7, leased=0, delayed=1, oldest_ts=1, heads={5: 1})


def test_a_demoted_redis_is_unavailable_until_another_is_found(own):
    queue = RedisQueue(own)
    queue.enqueue(QUEUE_KEY, ENTRIES, NOW)
    own.client.replicaof(LOOPBACK, free_port())
    try:
        before = own.client.client_id()
        error = refused(lambda: queue.enqueue(QUEUE_KEY, ENTRIES, NOW))
        assert own.client.client_id() != before
    finally:
        own.client.replicaof("NO", "ONE")

    assert "READONLY" in str(error)
    queue.enqueue(QUEUE_KEY, ENTRIES, NOW)


def test_a_redis_busy_with_a_script_is_unavailable(own, own_server):
    own.client.config_set("lua-time-limit", 1)
    blocker = redis.Redis.from_url(own_server, socket_timeout=60)

    def block() -> None:
        with contextlib.suppress(redis.ResponseError):
            blocker.eval("while true do end", 0)

    thread = threading.Thread(target=block)
    thread.start()
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                own.client.ping()
            except redis.ResponseError:
                break
        error = refused(lambda: RedisQueue(own).enqueue(QUEUE_KEY, ENTRIES, NOW))
    finally:
        own.client.script_kill()
        thread.join()
        blocker.close()

    assert "BUSY" in str(error)
