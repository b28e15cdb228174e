"""Redis dead, slow, lying, full, busy or demoted: StoreUnavailableError, in time."""

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
import redis
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crawlfleet.adapters.redis_queue import connection as border
from crawlfleet.adapters.redis_queue.bizs import RedisBizs
from crawlfleet.adapters.redis_queue.board import RedisBoard
from crawlfleet.adapters.redis_queue.connection import RedisConnection
from crawlfleet.adapters.redis_queue.coverages import RedisCoverages
from crawlfleet.adapters.redis_queue.data_queue import RedisDataQueue
from crawlfleet.adapters.redis_queue.filling import RedisFilling
from crawlfleet.adapters.redis_queue.hosts import RedisHosts
from crawlfleet.adapters.redis_queue.intake import RedisIntake
from crawlfleet.adapters.redis_queue.lease_book import RedisLeaseBook
from crawlfleet.adapters.redis_queue.numbers import RedisWorkerNumbers
from crawlfleet.adapters.redis_queue.outlook import RedisOutlook
from crawlfleet.adapters.redis_queue.overview import RedisOverview
from crawlfleet.adapters.redis_queue.probes import RedisProbes
from crawlfleet.adapters.redis_queue.queue import RedisQueue
from crawlfleet.adapters.redis_queue.robots import RedisRobotsCache
from crawlfleet.adapters.redis_queue.seed_filter import RedisSeedFilter
from crawlfleet.adapters.redis_queue.sessions import RedisSessions
from crawlfleet.adapters.redis_queue.staffing import RedisStaffing
from crawlfleet.adapters.redis_queue.ticks import RedisTicks
from crawlfleet.adapters.redis_queue.watch import RedisWatch
from crawlfleet.adapters.redis_queue.workers import RedisWorkers
from crawlfleet.errors import ConfigError, StoreUnavailableError, WorkerNumbersExhaustedError
from crawlfleet.model.biz import IntakeLimits
from crawlfleet.model.board import Decline, Offer, WhyNot
from crawlfleet.model.harvest import Coverage
from crawlfleet.model.lane import Lane
from crawlfleet.model.politeness import HostAsk, HostReport, RobotsCopy
from crawlfleet.model.probing import ProbeKey
from crawlfleet.model.request import Entry
from crawlfleet.model.staff import FLEET_POOL, Shown, Staff
from crawlfleet.model.tick import TickPart
from crawlfleet.model.totals import Depth
from crawlfleet.model.usage import Probe
from crawlfleet.model.worker import Card, HeldNumber
from crawlfleet.policy.segment import FOREVER
from infra.local.parts import LOOPBACK, free_port
from infra.local.redis_server import ENV_URL, RedisServer
from tests.contract.store_cases import a_biz
from tests.waiting import in_time

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LANE = Lane("acme", "docs", "main")
A_BIZ = a_biz()
ENTRIES = [Entry(1, "docs", 1)]
SECOND = timedelta(seconds=1)
HELD = HeldNumber(number=1, fence="f", mark=1)

HOST = "example.org"
ASK = HostAsk(host=HOST, tenant="acme", count=2, running=0, interval_seconds=0.1, concurrency=8)
REPORT = HostReport(host=HOST, tenant="acme", running=0, answered=1, seconds=0.1)

STAFF = Staff(needed=1, kept=1, at_ms=1)
OFFER = Offer(tenant="acme", biz="docs", job="june")
WHY = Decline(kind=WhyNot.LACKS, lowered=0, why="why")
WAY = ProbeKey(tenant="acme", biz="docs", pool="main", origin="http://a.example")

#: Every method of the ports that Redis answers.
CALLS: dict[str, Callable[[RedisConnection], object]] = {
    "enqueue": lambda it: RedisQueue(it).enqueue(LANE, ENTRIES, NOW),
    "requeue": lambda it: RedisQueue(it).requeue(LANE, ENTRIES),
    "lease": lambda it: RedisQueue(it).lease(LANE, "a", 1, NOW, NOW),
    "renew": lambda it: RedisQueue(it).renew(LANE, "a", ENTRIES, NOW),
    "finish": lambda it: RedisQueue(it).finish(LANE, "a", ENTRIES, 1, NOW),
    "give_back": lambda it: RedisQueue(it).give_back(LANE, "a", ENTRIES),
    "disclaim": lambda it: RedisQueue(it).disclaim(LANE, "a", NOW),
    "delay": lambda it: RedisQueue(it).delay(LANE, "a", [(ENTRIES[0], NOW)]),
    "park": lambda it: RedisQueue(it).park(LANE, "a", [(HOST, NOW, ENTRIES)]),
    "parked": lambda it: RedisQueue(it).parked(LANE, NOW, 9),
    "lease_parked": lambda it: RedisQueue(it).lease_parked(LANE, "a", [(HOST, 1, NOW)], NOW),
    "loads": lambda it: RedisQueue(it).loads([LANE], NOW),
    "reserve turns": lambda it: RedisHosts(it).reserve([ASK], "a"),
    "report hosts": lambda it: RedisHosts(it).report([REPORT], "a"),
    "states of hosts": lambda it: RedisHosts(it).states([HOST]),
    "load robots": lambda it: RedisRobotsCache(it).load(f"https://{HOST}"),
    "save robots": lambda it: RedisRobotsCache(it).save(HOST, RobotsCopy(status=404), 9),
    "depth": lambda it: RedisQueue(it).depth(LANE),
    "depths": lambda it: RedisQueue(it).depths([LANE, LANE]),
    "rates": lambda it: RedisQueue(it).rates(LANE, NOW),
    "per_second": lambda it: RedisQueue(it).per_second(LANE, NOW),
    "add_phases": lambda it: RedisQueue(it).add_phases(LANE, {"fetch": 1.0}),
    "phases": lambda it: RedisQueue(it).phases(LANE),
    "troubled": lambda it: RedisHosts(it).troubled(["acme"], 9),
    "counts": lambda it: RedisOverview(it).counts([LANE]),
    "waiting hosts": lambda it: RedisOverview(it).waiting_hosts([LANE], 9),
    "beat": lambda it: RedisWorkers(it).beat("a", NOW),
    "beat with a card": lambda it: RedisWorkers(it).beat("a", NOW, Card(held={"acme/docs": 1})),
    "leave": lambda it: RedisWorkers(it).leave("a"),
    "retire": lambda it: RedisWorkers(it).retire("a", NOW, 1),
    "live": lambda it: RedisWorkers(it).live(NOW),
    "live by the server's clock": lambda it: RedisWorkers(it).live(),
    "staying": lambda it: RedisWorkers(it).staying(NOW),
    "reserve_wake": lambda it: RedisWorkers(it).reserve_wake(NOW, 1),
    "reserve_wake by the server's clock": lambda it: RedisWorkers(it).reserve_wake(None, 1),
    "standing decision": lambda it: RedisStaffing(it).read(FLEET_POOL),
    "decide": lambda it: RedisStaffing(it).settle(
        FLEET_POOL, RedisStaffing(it).read(FLEET_POOL), STAFF
    ),
    "paces": lambda it: RedisStaffing(it).paces(FLEET_POOL),
    "tick": lambda it: RedisTicks(it).note(1.0, {}),
    "fault between ticks": lambda it: RedisTicks(it).tell_fault(TickPart.STARTS, "one"),
    "last tick": lambda it: RedisTicks(it).last(),
    "muster": lambda it: RedisStaffing(it).muster(
        FLEET_POOL, "a", Shown(pace=1.0), NOW, {"acme/docs": Shown(pace=1.0)}
    ),
    "works": lambda it: RedisOutlook(it).works([LANE], NOW, SECOND, 9),
    "glimpse": lambda it: RedisOutlook(it).glimpse(LANE, 9),
    "gone bizs": lambda it: RedisBizs(it).gone({"main": [LANE]}),
    "take_turn": lambda it: RedisWatch(it).take_turn("bury", "a", SECOND, SECOND),
    "end_turn": lambda it: RedisWatch(it).end_turn("bury", "a"),
    "pulses": lambda it: RedisWatch(it).pulses(),
    "silent": lambda it: RedisWatch(it).pulses(SECOND),
    "bury": lambda it: RedisWatch(it).bury("a"),
    "leases": lambda it: RedisLeaseBook(it).leases(LANE),
    "leases of one": lambda it: RedisLeaseBook(it).leases(LANE, "a"),
    "relist": lambda it: RedisLeaseBook(it).relist(LANE, "a.n.1", ENTRIES, NOW),
    "load cookies": lambda it: RedisSessions(it).load(LANE, "june"),
    "keep cookies": lambda it: RedisSessions(it).save(LANE, "june", b"x"),
    "mark": lambda it: RedisFilling(it).mark(LANE),
    "clear": lambda it: RedisFilling(it).clear(LANE, "n"),
    "fill": lambda it: RedisFilling(it).fill(LANE, "n", ENTRIES, 1),
    "fill_delayed": lambda it: RedisFilling(it).fill_delayed(LANE, "n", [(ENTRIES[0], NOW)]),
    "filled": lambda it: RedisFilling(it).filled(LANE, "n"),
    "admit": lambda it: RedisIntake(it).admit(LANE, 1, IntakeLimits(per_second=1), 0.9, NOW),
    "put items": lambda it: RedisDataQueue(it).put(LANE, [b"{}"]),
    "lease items": lambda it: RedisDataQueue(it).lease(LANE, "a", 1, NOW, NOW),
    "finish items": lambda it: RedisDataQueue(it).finish(LANE, "a", ["1"]),
    "give items back": lambda it: RedisDataQueue(it).give_back(LANE, "a", ["1"]),
    "count items": lambda it: RedisDataQueue(it).waiting([LANE]),
    "add coverage": lambda it: RedisCoverages(it).add(LANE, "r", "v", Coverage(pages=1)),
    "coverage": lambda it: RedisCoverages(it).of(LANE),
    "seen": lambda it: RedisSeedFilter(it).seen(LANE, A_BIZ, FOREVER, [b"k" * 16]),
    "add seen": lambda it: RedisSeedFilter(it).add(LANE, A_BIZ, FOREVER, [b"k" * 16]),
    "size of a filter": lambda it: RedisSeedFilter(it).size(LANE, "forever"),
    "drop a filter": lambda it: RedisSeedFilter(it).drop(LANE, "forever"),
    "offer a job": lambda it: RedisBoard(it).offer(OFFER, NOW, SECOND),
    "head of the board": lambda it: RedisBoard(it).head("main", 9),
    "apply": lambda it: RedisBoard(it).apply("a", OFFER.key, b"{}", NOW, SECOND),
    "held": lambda it: RedisBoard(it).held("a"),
    "retract": lambda it: RedisBoard(it).retract("a", NOW, SECOND),
    "decline": lambda it: RedisBoard(it).decline("main", {OFFER.key: WHY}, NOW),
    "due windows": lambda it: RedisBoard(it).due_windows(NOW, 9),
    "due waits": lambda it: RedisBoard(it).due_waits(NOW, 9),
    "read a job": lambda it: RedisBoard(it).read(OFFER.key),
    "award": lambda it: RedisBoard(it).award(OFFER.key, 1, "a", NOW),
    "acknowledge": lambda it: RedisBoard(it).acknowledge("a", OFFER.key, 1, NOW),
    "lapse": lambda it: RedisBoard(it).lapse(NOW, SECOND, 9),
    "lower": lambda it: RedisBoard(it).lower(OFFER.key, 0, NOW, SECOND),
    "withdraw": lambda it: RedisBoard(it).withdraw(OFFER.key),
    "stands": lambda it: RedisBoard(it).stands("acme", None, None, 9),
    "missing jobs": lambda it: RedisBoard(it).missing([OFFER.key]),
    "look at a way": lambda it: RedisProbes(it).look(WAY, "a", SECOND),
    "save a way": lambda it: RedisProbes(it).save(WAY, "a", Probe(at=NOW), SECOND),
    "release a way": lambda it: RedisProbes(it).release(WAY, "a"),
    "lease_number": lambda it: RedisWorkerNumbers(it).lease("a", 1, 1),
    "advance": lambda it: RedisWorkerNumbers(it).advance(HELD, 2, 1, 1),
}
ANY_CALL = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@contextlib.contextmanager
def answering(answer: bytes | None) -> Iterator[str]:
    """A server that answers everything with ``answer``, or never when that is None."""
    open_sockets: list[socket.socket] = []

    def serve(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                open_sockets.append(client)
                threading.Thread(target=talk, args=(client,)).start()

    def talk(client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            while client.recv(65536):
                if answer is not None:
                    client.sendall(answer)

    with socket.create_server((LOOPBACK, 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        try:
            yield f"redis://{LOOPBACK}:{listener.getsockname()[1]}/0"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for one in open_sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def own_server() -> Iterator[str]:
    """A Redis that a test may fill, block and demote."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(ENV_URL, raising=False)
        with RedisServer() as server:
            yield server.url


@pytest.fixture
def own(own_server: str) -> Iterator[RedisConnection]:
    with RedisConnection(own_server) as connection:
        connection.client.flushall()
        yield connection


def close_all_others(url: str) -> None:
    """Let the server close every connection but this one, and return when it has."""
    with redis.Redis.from_url(url) as client:
        client.client_kill_filter(_type="normal", skipme=True)


def refused(call: Callable[[], object]) -> StoreUnavailableError:
    with pytest.raises(StoreUnavailableError) as caught:
        call()
    assert caught.value.part == "redis"
    assert caught.value.retryable
    assert caught.value.__cause__ is not None
    return caught.value


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


@pytest.mark.usefixtures("product_patience")
def test_the_time_that_an_answer_may_take_is_two_seconds():
    started = time.monotonic()
    with in_time(2), answering(None) as url, RedisConnection(url) as connection:
        assert connection.client.connection_pool.connection_kwargs["socket_timeout"] == 2.0
        refused(lambda: RedisQueue(connection).depth(LANE))

    assert time.monotonic() - started >= 2.0


@ANY_CALL
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"$abc\r\n",
        b":one\r\n",
        b"\x00\xff\x00\xff",
        b"-LOADING Redis is loading the dataset in memory\r\n",
        b"-ERR unknown command\r\n",
    ],
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
@pytest.mark.parametrize("name", ["phases", "coverage", "paces", "rates", "gone bizs"])
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
        *(
            "beat",
            "leave",
            "retire",
            "muster",
            "take_turn",
            "bury",
            "relist",
            "mark",
            "clear",
            "fill",
            "admit",
        ),
        *("park", "lease_parked", "loads", "reserve turns", "report hosts", "counts"),
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


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
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
            "pulses",
            "leases",
            "mark",
            "admit",
            "clear",
            "parked",
            "lease_parked",
            "reserve turns",
            "states of hosts",
            "load robots",
            "counts",
            "waiting hosts",
        ):
            with contextlib.suppress(StoreUnavailableError, *NOTHING_MEANS.get(name, ())):
                CALLS[name](connection)


def test_a_full_redis_lets_requests_wait_for_their_host_and_have_their_turn(own):
    queue, hosts = RedisQueue(own), RedisHosts(own)
    entries = [Entry(n, "docs", n) for n in range(9)]
    until = NOW + timedelta(seconds=60)
    queue.enqueue(LANE, entries, NOW)
    leased = queue.lease(LANE, "a", 9, NOW, until)
    own.client.config_set("maxmemory", 1)
    try:
        parked = queue.park(LANE, "a", [(HOST, NOW, leased)])
        (grant,) = hosts.reserve([ASK], "a")
        hosts.report([REPORT], "a")
        told = queue.parked(LANE, NOW, 1)
        served = queue.lease_parked(LANE, "b", [(HOST, 2, NOW)], until)
    finally:
        own.client.config_set("maxmemory", 0)

    assert (parked, grant.count, told[0].count) == (9, 2, 9)
    assert served == {HOST: entries[:2]}


#: What the monitor and whoever decides on workers ask of Redis: a full one needs both.
_OF_WATCHING = (
    *("loads", "depth", "depths", "rates", "per_second", "phases", "counts", "waiting hosts"),
    *("troubled", "states of hosts", "live", "pulses", "silent", "count items", "coverage"),
    *("standing decision", "decide", "paces", "muster", "works", "glimpse", "reserve_wake"),
    *("leave", "retire"),
    *("beat", "beat with a card", "bury", "leases", "load robots", "load cookies", "gone bizs"),
)


@pytest.mark.parametrize("name", _OF_WATCHING)
def test_a_full_redis_is_watched_and_staffed(own, name):
    for filled in ("enqueue", "report hosts", "muster", "beat", "put items", "add coverage"):
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
    queue.enqueue(LANE, entries, NOW)
    held = numbers.lease("a", 1, 1)
    own.client.config_set("maxmemory", 1)
    try:
        error = refused(lambda: queue.enqueue(LANE, ENTRIES, NOW))
        refused(lambda: queue.requeue(LANE, ENTRIES))
        queue.lease(LANE, "unheard", 3, NOW, NOW + timedelta(seconds=60))
        disclaimed = queue.disclaim(LANE, "unheard", NOW + timedelta(seconds=60))
        leased = queue.lease(LANE, "a", 3, NOW, NOW + timedelta(seconds=60))
        lost = queue.renew(LANE, "a", leased, NOW)
        finished = queue.finish(LANE, "a", leased[:1], 1, NOW)
        given_back = queue.give_back(LANE, "a", leased[1:2])
        delayed = queue.delay(LANE, "a", [(leased[2], NOW)])
        workers.beat("a", NOW)
        reserved = workers.reserve_wake(NOW, 2)
        advanced = numbers.advance(held, held.mark + 1, 1, 1)
    finally:
        own.client.config_set("maxmemory", 0)

    assert "OOM" in str(error)
    assert (disclaimed, leased, lost) == (3, entries[:3], [])
    assert (finished, given_back, delayed, reserved, advanced) == (1, 1, 1, 1, True)
    assert queue.depth(LANE) == Depth(queued=7, leased=0, delayed=1, oldest_ts=1, heads={5: 1})


def test_a_demoted_redis_is_unavailable_until_another_is_found(own):
    queue = RedisQueue(own)
    queue.enqueue(LANE, ENTRIES, NOW)
    own.client.replicaof(LOOPBACK, free_port())
    try:
        before = own.client.client_id()
        error = refused(lambda: queue.enqueue(LANE, ENTRIES, NOW))
        assert own.client.client_id() != before
    finally:
        own.client.replicaof("NO", "ONE")

    assert "READONLY" in str(error)
    queue.enqueue(LANE, ENTRIES, NOW)


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
        error = refused(lambda: RedisQueue(own).enqueue(LANE, ENTRIES, NOW))
    finally:
        own.client.script_kill()
        thread.join()
        blocker.close()

    assert "BUSY" in str(error)


@ANY_CALL
def test_connections_that_the_server_closed_are_replaced_unnoticed(own, own_server, call):
    CALLS["depth"](own)
    close_all_others(own_server)

    call(own)


def test_a_connection_idle_for_long_is_tried_before_it_carries_a_call(own, own_server):
    CALLS["depth"](own)
    close_all_others(own_server)
    own._place.used_at -= border.IDLE_SECONDS + 1
    pings = own.client.info("commandstats").get("cmdstat_ping", {"calls": 0})["calls"]

    CALLS["enqueue"](own)

    assert own.client.info("commandstats")["cmdstat_ping"]["calls"] == pings + 1


def test_scripts_that_redis_forgot_are_sent_again(own):
    for call in CALLS.values():
        own.client.script_flush()
        call(own)


def test_a_forked_child_uses_connections_of_its_own(own_server):
    program = f"""
import os
from crawlfleet.adapters.redis_queue.connection import RedisConnection
it = RedisConnection({own_server!r})
it.client.ping()
child = os.fork()
mine = [it.client.client_id() for _ in range(200)]
if child == 0:
    os._exit(0 if len(set(mine)) == 1 and it.client.ping() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert len(set(mine)) == 1 and it.client.ping()
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize("url", ["", "localhost:6379", "http://localhost", "redis://h:port/0"])
def test_an_address_that_is_none_is_a_mistake_in_the_configuration(url):
    with pytest.raises(ConfigError, match="redis_url"):
        RedisConnection(url)


def test_no_error_tells_the_password(own):
    own.client.config_set("requirepass", "s3cret")
    url = own.client.connection_pool.connection_kwargs
    address = f"redis://{url['host']}:{url['port']}/0"
    try:
        with RedisConnection(address, password="s3cret") as right:
            CALLS["depth"](right)
        with RedisConnection(address, password="wr0ng") as wrong:
            error = refused(lambda: CALLS["depth"](wrong))
    finally:
        with RedisConnection(address, password="s3cret") as right:
            right.client.config_set("requirepass", "")

    assert "wr0ng" not in f"{error} {error.__cause__}"
    with pytest.raises(ConfigError) as caught:
        RedisConnection("redis://:s3cret@host:port/0")
    assert "s3cret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_threads_share_a_connection_pool(own):
    queue = RedisQueue(own)
    threads = [
        threading.Thread(target=lambda: [queue.enqueue(LANE, ENTRIES, NOW) for _ in range(50)])
        for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert queue.depth(LANE).queued == 1000
