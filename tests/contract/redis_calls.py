"""Every call that is made of Redis, by name, and what is to become of one that fails."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from tests.contract.store_cases import a_biz
from tests.fakes.quotas import MemoryQuotaCeilings
from tests.kit.bidding import (
    Decline,
    JobListing,
    Probe,
    ProbeKey,
    RedisBoard,
    RedisProbeCache,
    WhyNot,
)
from tests.kit.broken_servers import broken_server
from tests.kit.config import IntakeLimits
from tests.kit.fetching import ProxyExchange, RedisSessions
from tests.kit.fleet import (
    FLEET_POOL,
    LeasedNumber,
    RedisFailureDetector,
    RedisProxyPools,
    RedisScalingTargets,
    RedisTicks,
    RedisWorkers,
    ScalingTarget,
    Throughput,
    TickPart,
    WorkerStatus,
)
from tests.kit.frontier import FOREVER, RedisSeedFilter
from tests.kit.ids import RedisWorkerNumbers
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.politeness import HostAsk, HostReport, RedisHosts, RedisRobotsCache, RobotsCopy
from tests.kit.queue import (
    RedisLeaseBook,
    RedisOpenQueues,
    RedisOverview,
    RedisQueue,
    RedisQueueRebuild,
    RedisQueueSampler,
)
from tests.kit.quotas import QuotaLedgers, RedisQuotaLedgers
from tests.kit.records import RedisCoverages, RedisDataQueue
from tests.kit.recovery import RedisBizs
from tests.kit.redis import RedisConnection
from tests.kit.requests import Coverage, Entry
from tests.kit.submission import RedisIntake
from tests.kit.worlds.quotas import a_limit, hold_a_share

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUEUE_KEY = QueueKey("acme", "docs", "main")
A_BIZ = a_biz()
ENTRIES = [Entry(1, "docs", 1)]
SECOND = timedelta(seconds=1)
HELD = LeasedNumber(number=1, fence="f", mark=1)

HOST = "example.org"
ASK = HostAsk(host=HOST, tenant="acme", count=2, running=0, interval_seconds=0.1, concurrency=8)
REPORT = HostReport(host=HOST, tenant="acme", running=0, answered=1, seconds=0.1)

STAFF = ScalingTarget(needed=1, kept=1, at_ms=1)
LISTING = JobListing(tenant="acme", biz="docs", job="june")
WHY = Decline(kind=WhyNot.LACKS, lowered=0, why="why")
LINK = ProbeKey(tenant="acme", biz="docs", pool="main", origin="http://a.example")

#: Every method of the ports that Redis answers.
CALLS: dict[str, Callable[[RedisConnection], object]] = {
    "enqueue": lambda it: RedisQueue(it).enqueue(QUEUE_KEY, ENTRIES, NOW),
    "requeue": lambda it: RedisQueue(it).requeue(QUEUE_KEY, ENTRIES),
    "lease": lambda it: RedisQueue(it).lease(QUEUE_KEY, "a", 1, NOW, NOW),
    "renew": lambda it: RedisQueue(it).renew(QUEUE_KEY, "a", ENTRIES, NOW),
    "finish": lambda it: RedisQueue(it).finish(QUEUE_KEY, "a", ENTRIES, 1, NOW),
    "give_back": lambda it: RedisQueue(it).give_back(QUEUE_KEY, "a", ENTRIES),
    "return_unconfirmed": lambda it: RedisQueue(it).return_unconfirmed(QUEUE_KEY, "a", NOW),
    "delay": lambda it: RedisQueue(it).delay(QUEUE_KEY, "a", [(ENTRIES[0], NOW)]),
    "defer": lambda it: RedisQueue(it).defer(QUEUE_KEY, "a", [(HOST, NOW, ENTRIES)]),
    "deferred": lambda it: RedisQueue(it).deferred(QUEUE_KEY, NOW, 9),
    "lease_deferred": lambda it: RedisQueue(it).lease_deferred(
        QUEUE_KEY, "a", [(HOST, 1, NOW)], NOW
    ),
    "loads": lambda it: RedisQueue(it).loads([QUEUE_KEY], NOW),
    "reserve slots": lambda it: RedisHosts(it).reserve([ASK], "a"),
    "report hosts": lambda it: RedisHosts(it).report([REPORT], "a"),
    "states of hosts": lambda it: RedisHosts(it).states([HOST]),
    "load robots": lambda it: RedisRobotsCache(it).load(f"https://{HOST}"),
    "save robots": lambda it: RedisRobotsCache(it).save(HOST, RobotsCopy(status=404), 9, "acme"),
    "depth": lambda it: RedisQueue(it).depth(QUEUE_KEY),
    "depths": lambda it: RedisQueue(it).depths([QUEUE_KEY, QUEUE_KEY]),
    "rates": lambda it: RedisQueue(it).rates(QUEUE_KEY, NOW),
    "per_second": lambda it: RedisQueue(it).per_second(QUEUE_KEY, NOW),
    "add_phases": lambda it: RedisQueue(it).add_phases(QUEUE_KEY, {"fetch": 1.0}),
    "phases": lambda it: RedisQueue(it).phases(QUEUE_KEY),
    "troubled": lambda it: RedisHosts(it).troubled(["acme"], 9),
    "exchange shares": lambda it: hold_a_share(
        QuotaLedgers(RedisQuotaLedgers(it), MemoryQuotaCeilings()), QUEUE_KEY, NOW
    ),
    "read shares": lambda it: QuotaLedgers(RedisQuotaLedgers(it), MemoryQuotaCeilings()).standings(
        [a_limit(9)], NOW
    ),
    "counts": lambda it: RedisOverview(it).counts([QUEUE_KEY]),
    "waiting hosts": lambda it: RedisOverview(it).waiting_hosts([QUEUE_KEY], 9),
    "beat": lambda it: RedisWorkers(it).beat("a", NOW),
    "beat with a status": lambda it: RedisWorkers(it).beat(
        "a", NOW, WorkerStatus(held={"acme/docs": 1})
    ),
    "beat with proxies": lambda it: RedisWorkers(it).beat("a", NOW, proxies=ProxyExchange()),
    "states of proxies": lambda it: RedisProxyPools(it).states(["eu"]),
    "leave": lambda it: RedisWorkers(it).leave("a"),
    "retire": lambda it: RedisWorkers(it).retire("a", NOW, 1),
    "live": lambda it: RedisWorkers(it).live(NOW),
    "live by the server's clock": lambda it: RedisWorkers(it).live(),
    "staying": lambda it: RedisWorkers(it).staying(NOW),
    "reserve_wake": lambda it: RedisWorkers(it).reserve_wake(NOW, 1),
    "reserve_wake by the server's clock": lambda it: RedisWorkers(it).reserve_wake(None, 1),
    "standing decision": lambda it: RedisScalingTargets(it).read(FLEET_POOL),
    "decide": lambda it: RedisScalingTargets(it).settle(
        FLEET_POOL, RedisScalingTargets(it).read(FLEET_POOL), STAFF
    ),
    "throughputs": lambda it: RedisScalingTargets(it).throughputs(FLEET_POOL),
    "tick": lambda it: RedisTicks(it).note(1.0, {}),
    "fault between ticks": lambda it: RedisTicks(it).report_fault(TickPart.STARTS, "one"),
    "last tick": lambda it: RedisTicks(it).last(),
    "report throughput": lambda it: RedisScalingTargets(it).report_throughput(
        FLEET_POOL, "a", Throughput(per_second=1.0), NOW, {"acme/docs": Throughput(per_second=1.0)}
    ),
    "works": lambda it: RedisQueueSampler(it).works([QUEUE_KEY], NOW, SECOND, 9),
    "sample queue": lambda it: RedisQueueSampler(it).sample_queue(QUEUE_KEY, 9),
    "gone bizs": lambda it: RedisBizs(it).gone({"main": [QUEUE_KEY]}),
    "announce open": lambda it: RedisOpenQueues(it).announce([QUEUE_KEY]),
    "open queues": lambda it: RedisOpenQueues(it).listed(),
    "forget open": lambda it: RedisOpenQueues(it).forget({QUEUE_KEY: 1}),
    "epochs": lambda it: RedisQueueRebuild(it).epochs([QUEUE_KEY]),
    "acquire_lock": lambda it: RedisFailureDetector(it).acquire_lock("reap", "a", SECOND, SECOND),
    "keep_lock": lambda it: RedisFailureDetector(it).keep_lock("reap", "a", SECOND),
    "release_lock": lambda it: RedisFailureDetector(it).release_lock("reap", "a"),
    "heartbeats": lambda it: RedisFailureDetector(it).heartbeats(),
    "silent": lambda it: RedisFailureDetector(it).heartbeats(SECOND),
    "reap": lambda it: RedisFailureDetector(it).reap("a"),
    "leases": lambda it: RedisLeaseBook(it).leases(QUEUE_KEY),
    "leases of one": lambda it: RedisLeaseBook(it).leases(QUEUE_KEY, "a"),
    "relist": lambda it: RedisLeaseBook(it).relist(QUEUE_KEY, "a.n.1", ENTRIES, NOW),
    "load cookies": lambda it: RedisSessions(it).load(QUEUE_KEY, "june"),
    "keep cookies": lambda it: RedisSessions(it).save(QUEUE_KEY, "june", b"x"),
    "epoch": lambda it: RedisQueueRebuild(it).epoch(QUEUE_KEY),
    "clear": lambda it: RedisQueueRebuild(it).clear(QUEUE_KEY, "n"),
    "fill": lambda it: RedisQueueRebuild(it).fill(QUEUE_KEY, "n", ENTRIES, 1),
    "fill_delayed": lambda it: RedisQueueRebuild(it).fill_delayed(
        QUEUE_KEY, "n", [(ENTRIES[0], NOW)]
    ),
    "filled": lambda it: RedisQueueRebuild(it).filled(QUEUE_KEY, "n"),
    "admit": lambda it: RedisIntake(it).admit(QUEUE_KEY, 1, IntakeLimits(per_second=1), 0.9, NOW),
    "put items": lambda it: RedisDataQueue(it).put(QUEUE_KEY, [b"{}"]),
    "lease items": lambda it: RedisDataQueue(it).lease(QUEUE_KEY, "a", 1, NOW, NOW),
    "finish items": lambda it: RedisDataQueue(it).finish(QUEUE_KEY, "a", ["1"]),
    "give items back": lambda it: RedisDataQueue(it).give_back(QUEUE_KEY, "a", ["1"]),
    "count items": lambda it: RedisDataQueue(it).waiting([QUEUE_KEY]),
    "add coverage": lambda it: RedisCoverages(it).add(QUEUE_KEY, "r", "v", Coverage(pages=1)),
    "coverage": lambda it: RedisCoverages(it).of(QUEUE_KEY),
    "coverage by hour": lambda it: RedisCoverages(it).by_hour(QUEUE_KEY),
    "seen": lambda it: RedisSeedFilter(it).seen(QUEUE_KEY, A_BIZ, FOREVER, [b"k" * 16]),
    "add seen": lambda it: RedisSeedFilter(it).add(QUEUE_KEY, A_BIZ, FOREVER, [b"k" * 16]),
    "size of a filter": lambda it: RedisSeedFilter(it).size(QUEUE_KEY, "forever"),
    "drop a filter": lambda it: RedisSeedFilter(it).drop(QUEUE_KEY, "forever"),
    "list a job": lambda it: RedisBoard(it).add(LISTING, NOW, SECOND),
    "head of the board": lambda it: RedisBoard(it).head("main", 9),
    "apply": lambda it: RedisBoard(it).apply("a", LISTING.key, b"{}", NOW, SECOND),
    "held": lambda it: RedisBoard(it).held("a"),
    "retract": lambda it: RedisBoard(it).retract("a", NOW, SECOND),
    "decline": lambda it: RedisBoard(it).decline("main", {LISTING.key: WHY}, NOW),
    "due windows": lambda it: RedisBoard(it).due_windows(NOW, 9),
    "due waits": lambda it: RedisBoard(it).due_waits(NOW, 9),
    "read a job": lambda it: RedisBoard(it).read(LISTING.key),
    "award": lambda it: RedisBoard(it).award(LISTING.key, 1, "a", NOW),
    "acknowledge": lambda it: RedisBoard(it).acknowledge("a", LISTING.key, 1, NOW),
    "lapse": lambda it: RedisBoard(it).lapse(NOW, SECOND, 9),
    "lower": lambda it: RedisBoard(it).lower(LISTING.key, 0, NOW, SECOND),
    "withdraw": lambda it: RedisBoard(it).withdraw(LISTING.key),
    "stands": lambda it: RedisBoard(it).stands("acme", None, None, 9),
    "missing jobs": lambda it: RedisBoard(it).missing([LISTING.key]),
    "look up a probe": lambda it: RedisProbeCache(it).get_or_claim(LINK, "a", SECOND),
    "save a probe": lambda it: RedisProbeCache(it).save(LINK, "a", Probe(at=NOW), SECOND),
    "release a probe": lambda it: RedisProbeCache(it).release(LINK, "a"),
    "lease_number": lambda it: RedisWorkerNumbers(it).lease("a", 1, 1),
    "advance": lambda it: RedisWorkerNumbers(it).advance(HELD, 2, 1, 1),
}
#: The adapter that each call goes to.
KINDS = {
    name: next(word for word in call.__code__.co_names if word.startswith("Redis"))
    for name, call in CALLS.items()
}


def call_by_answer(answers: Sequence[bytes], others: pytest.MarkDecorator) -> pytest.MarkDecorator:
    """Try every call with an answer, and every answer with a call of each adapter; mark others."""
    first = {kind: name for name, kind in reversed(KINDS.items())}
    cases = []
    for number, (name, call) in enumerate(CALLS.items()):
        for at, answer in enumerate(answers):
            is_short = number % len(answers) == at or first[KINDS[name]] == name
            marks = () if is_short else others
            cases.append(pytest.param(call, answer, marks=marks, id=f"{name}-{at}"))
    return pytest.mark.parametrize(("call", "answer"), cases)


ANY_CALL = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@contextmanager
def answering(answer: bytes | None) -> Iterator[str]:
    """The URL of a Redis that answers everything with ``answer``, or never when that is None."""
    with broken_server(answer) as address:
        yield f"redis://{address}/0"


def refused(call: Callable[[], object]) -> StoreUnavailableError:
    with pytest.raises(StoreUnavailableError) as caught:
        call()
    assert caught.value.part == "redis"
    assert caught.value.retryable
    assert caught.value.__cause__ is not None
    return caught.value
