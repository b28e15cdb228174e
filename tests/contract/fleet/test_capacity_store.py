"""The contract of scaling targets: one stands, and as many workers leave as it says."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.examples import examples
from tests.kit.fleet import (
    FRESH_MS,
    MOST_THROUGHPUTS,
    RedisFailureDetector,
    RedisScalingTargets,
    RedisWorkers,
    ScalingState,
    ScalingTarget,
    Throughput,
    WorkerStatus,
    learnt,
)
from tests.kit.implementations import backend_over
from tests.kit.kernel import StoreUnavailableError
from tests.kit.queue import fleet_keys
from tests.waiting import eventually

POOL = "fleet"


def now() -> datetime:
    return datetime.now(UTC)


class Fleet:
    """The workers and what is decided of them, over one adapter."""

    def __init__(self, workers, targets) -> None:
        self.workers, self.targets = workers, targets

    def beat(self, *names: str) -> None:
        for name in names:
            self.workers.beat(name, now())

    def decide(self, needed: int, kept: int, age_ms: int = 0) -> None:
        standing = self.targets.read(POOL)
        target = ScalingTarget(needed=needed, kept=kept, at_ms=standing.now_ms - age_ms)
        assert self.targets.settle(POOL, standing, target)

    def report_throughput(
        self, *names: str, throughput: float | None = None, is_least: bool = False
    ) -> list[str]:
        """Report throughputs of the named workers and return the workers that are to leave."""
        shown = None if throughput is None else Throughput(per_second=throughput, is_least=is_least)
        return [n for n in names if self.targets.report_throughput(POOL, n, shown, now()).leaves]


backend = backend_over(RedisWorkers, RedisScalingTargets, RedisFailureDetector)


@pytest.fixture
def fleet(backend) -> Fleet:
    return Fleet(backend[RedisWorkers], backend[RedisScalingTargets])


def test_at_first_nothing_is_decided_and_nothing_known(fleet):
    found = fleet.targets.read(POOL)

    assert found == ScalingState(now_ms=found.now_ms)
    assert abs(found.now_ms - now().timestamp() * 1000) < 5_000


@pytest.mark.parametrize("allowed", [None, 0, 7])
def test_what_is_decided_stands_whole(fleet, allowed):
    target = ScalingTarget(
        needed=3, kept=5, at_ms=1_800_000_000_000, quiet_ms=1_700_000_000_000, peak=4
    )
    target = replace(target, allowed=allowed)

    assert fleet.targets.settle(POOL, fleet.targets.read(POOL), target)

    found = fleet.targets.read(POOL)
    assert found.target == target
    assert found.version == 1


def test_of_two_who_decide_at_the_same_moment_one_is_asked_to_look_again(fleet):
    standing = fleet.targets.read(POOL)

    assert fleet.targets.settle(POOL, standing, ScalingTarget(needed=1, kept=1, at_ms=1))
    assert not fleet.targets.settle(POOL, standing, ScalingTarget(needed=9, kept=9, at_ms=1))

    assert fleet.targets.read(POOL).target.needed == 1


def test_under_many_deciders_each_decision_is_made_on_top_of_the_one_before(fleet):
    def count(_: int) -> int:
        while True:
            standing = fleet.targets.read(POOL)
            target = ScalingTarget(
                needed=standing.target.needed + 1, kept=standing.target.needed + 1
            )
            if fleet.targets.settle(POOL, standing, target):
                return target.needed

    with ThreadPoolExecutor(8) as pool:
        found = sorted(pool.map(count, range(40)))

    assert found == list(range(1, 41))


def test_pools_are_decided_by_themselves(fleet):
    fleet.decide(2, 2)

    assert fleet.targets.read("browser").version == 0


def test_the_throughput_is_learnt_from_reports(fleet):
    fleet.beat("a", "b")
    fleet.report_throughput("a", throughput=10.0)
    assert fleet.targets.read(POOL).throughput == pytest.approx(10.0)

    fleet.report_throughput("b", throughput=20.0)
    assert 10 < fleet.targets.read(POOL).throughput < 12
    for _ in range(100):
        fleet.report_throughput("a", "b", throughput=20.0)
    assert fleet.targets.read(POOL).throughput == pytest.approx(20.0, rel=0.01)
    fleet.report_throughput("a")
    assert fleet.targets.read(POOL).throughput == pytest.approx(20.0, rel=0.01)


def test_the_pace_of_each_queue_is_learnt_by_itself(fleet):
    fleet.beat("a")
    shown = {"acme/docs": Throughput(per_second=10.0), "acme/news": Throughput(per_second=400.0)}
    fleet.targets.report_throughput(POOL, "a", None, now(), shown)
    fleet.targets.report_throughput(
        POOL, "a", None, now(), {"acme/docs": Throughput(per_second=20.0)}
    )

    assert fleet.targets.throughputs(POOL) == pytest.approx({"acme/docs": 11.0, "acme/news": 400.0})
    assert fleet.targets.throughputs("browser") == {}
    assert fleet.targets.read(POOL).throughput is None


def test_an_idle_worker_can_only_raise_a_throughput(fleet):
    """An idle worker's throughput is its demand, not its capacity."""
    fleet.beat("a")
    few, many = (
        Throughput(per_second=1.0, is_least=True),
        Throughput(per_second=200.0, is_least=True),
    )
    fleet.targets.report_throughput(POOL, "a", many, now(), {"acme/docs": many})
    assert fleet.targets.read(POOL).throughput is None
    assert fleet.targets.throughputs(POOL) == {}

    fleet.targets.report_throughput(
        POOL, "a", Throughput(per_second=100.0), now(), {"acme/docs": Throughput(per_second=50.0)}
    )
    for _ in range(3):
        fleet.targets.report_throughput(POOL, "a", few, now(), {"acme/docs": few})
    assert fleet.targets.read(POOL).throughput == pytest.approx(100.0)
    assert fleet.targets.throughputs(POOL) == pytest.approx({"acme/docs": 50.0})

    fleet.targets.report_throughput(POOL, "a", many, now(), {"acme/docs": many})
    assert fleet.targets.read(POOL).throughput == pytest.approx(110.0)
    assert fleet.targets.throughputs(POOL) == pytest.approx({"acme/docs": 65.0})


@given(st.lists(st.tuples(st.floats(0.01, 10_000), st.booleans()), max_size=20))
@examples(0.25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_learnt_is_what_the_policy_says(fleet, shown):
    pool, known = uuid4().hex, None
    for throughput, is_least in shown:
        one = Throughput(per_second=throughput, is_least=is_least)
        known = learnt(known, one)
        fleet.targets.report_throughput(pool, "a", one, now(), {"acme/docs": one})

    reported = {} if known is None else {"acme/docs": known}
    assert fleet.targets.throughputs(pool) == pytest.approx(reported, rel=1e-3)
    assert fleet.targets.read(pool).throughput == (
        None if known is None else pytest.approx(known, 1e-3)
    )


def test_of_many_queues_the_paces_shown_last_are_kept(fleet):
    fleet.beat("a")
    for first in range(0, MOST_THROUGHPUTS + 100, 50):
        shown = {f"acme/b{n}": Throughput(per_second=1.0) for n in range(first, first + 50)}
        fleet.targets.report_throughput(POOL, "a", None, now(), shown)

    kept = fleet.targets.throughputs(POOL)

    assert MOST_THROUGHPUTS * 0.8 <= len(kept) <= MOST_THROUGHPUTS
    assert f"acme/b{MOST_THROUGHPUTS + 99}" in kept
    assert "acme/b0" not in kept


def test_what_is_learnt_and_what_is_decided_leave_each_other_alone(fleet):
    fleet.beat("a")
    standing = fleet.targets.read(POOL)
    fleet.report_throughput("a", throughput=10.0)

    assert fleet.targets.settle(
        POOL, standing, ScalingTarget(needed=1, kept=1, at_ms=standing.now_ms)
    )
    assert fleet.targets.read(POOL).throughput == pytest.approx(10.0)


def test_as_many_are_asked_to_leave_as_are_too_many_whoever_asks_how_often(fleet):
    names = [f"w{n}" for n in range(5)]
    fleet.beat(*names)
    fleet.decide(needed=2, kept=3)

    first = fleet.report_throughput(*names)
    again = fleet.report_throughput(*reversed(names))

    assert len(first) == 2
    assert sorted(again) == sorted(first)
    assert fleet.targets.read(POOL).leaving == 2


def test_nobody_leaves_while_as_many_are_kept_or_nothing_is_decided(fleet):
    names = ["a", "b", "c"]
    fleet.beat(*names)

    assert fleet.report_throughput(*names) == []
    fleet.decide(needed=0, kept=3)
    assert fleet.report_throughput(*names) == []


def test_the_last_one_is_never_asked_to(fleet):
    fleet.beat("a", "b")
    fleet.decide(needed=0, kept=0)

    assert len(fleet.report_throughput("a", "b", "a", "b")) == 2, "the same one, twice"
    assert len(set(fleet.report_throughput("a", "b"))) == 1


def test_a_decision_that_is_out_of_date_sends_nobody_away(fleet):
    fleet.beat("a", "b", "c")
    fleet.decide(needed=1, kept=1, age_ms=FRESH_MS + 1_000)

    assert fleet.report_throughput("a", "b", "c") == []


def test_somebody_who_is_no_worker_is_not_counted(fleet):
    fleet.beat("a", "b")
    fleet.decide(needed=1, kept=1)

    assert fleet.report_throughput("stranger") == []


def test_each_is_reported_how_many_others_live_that_are_not_to_leave(fleet):
    def others(name: str) -> int:
        return fleet.targets.report_throughput(POOL, name, None, now()).others

    assert others("a") == 0
    fleet.beat("a", "b", "c")
    fleet.workers.beat("gone", now() - timedelta(seconds=30))
    assert [others(name) for name in ("a", "b", "c", "gone", "stranger")] == [2, 2, 2, 3, 3]

    fleet.decide(needed=1, kept=2)
    (going,) = fleet.report_throughput("a", "b", "c")
    staying = {"a", "b", "c"} - {going}
    assert others(going) == 2
    assert {others(name) for name in staying} == {1}


def test_whoever_is_leaving_counts_no_more_when_others_are_started(fleet):
    fleet.beat("a", "b", "c")
    fleet.decide(needed=1, kept=1)
    going = fleet.report_throughput("a", "b", "c")

    assert len(going) == 2
    assert fleet.workers.reserve_wake(now(), 3) == 2


def test_who_has_left_or_died_makes_no_other_leave(fleet):
    fleet.beat("a", "b", "c")
    fleet.decide(needed=2, kept=2)
    (going,) = fleet.report_throughput("a", "b", "c")

    fleet.workers.leave(going)
    rest = [name for name in "abc" if name != going]

    assert fleet.report_throughput(*rest) == []
    assert fleet.targets.read(POOL).leaving == 0
    assert fleet.workers.reserve_wake(now(), 2) == 0


def test_under_many_that_ask_at_once_no_more_are_asked_to_leave_than_are_too_many(fleet):
    names = [f"w{n}" for n in range(20)]
    fleet.beat(*names)
    fleet.decide(needed=5, kept=8)

    with ThreadPoolExecutor(8) as pool:
        reported = list(
            pool.map(
                lambda n: (
                    fleet.targets.report_throughput(
                        POOL, n, Throughput(per_second=1.0), now()
                    ).leaves
                ),
                names * 3,
            )
        )

    assert sum(reported[:20]) <= 12
    assert len({name for name, left in zip(names * 3, reported, strict=True) if left}) == 12


def test_a_worker_silent_for_too_long_is_no_worker_that_leaves(fleet):
    fleet.workers.beat("gone", now() - timedelta(seconds=30))
    fleet.beat("a", "b")
    fleet.decide(needed=1, kept=2)

    assert fleet.report_throughput("a", "b") == []


def test_what_is_no_decision_is_reported_as_a_part_that_cannot_be_used(redis_connection, tenant):
    targets = RedisScalingTargets(redis_connection, fleet=tenant)
    redis_connection.client.hset(fleet_keys(tenant).staff, POOL, "7 rubbish")

    with pytest.raises(StoreUnavailableError):
        targets.read(POOL)


def test_what_an_older_version_has_decided_stands(redis_connection, tenant):
    targets = RedisScalingTargets(redis_connection, fleet=tenant)
    redis_connection.client.hset(fleet_keys(tenant).staff, POOL, "7 3 5 1800000000000 0 4")

    found = targets.read(POOL)

    assert (found.version, found.target.needed, found.target.allowed) == (7, 3, None)


@pytest.mark.parametrize("rubbish", [b"", b"fast", b"\xff 1"])
def test_an_unusable_throughput_is_reported_as_an_unusable_part(redis_connection, tenant, rubbish):
    redis_connection.client.hset(fleet_keys(tenant).paces, f"{POOL} acme/docs", rubbish)

    with pytest.raises(StoreUnavailableError):
        RedisScalingTargets(redis_connection, fleet=tenant).throughputs(POOL)


# ---- pools ---------------------------------------------------------------------------------------


@pytest.fixture
def pools(backend):
    """The usual workers, those of the pool ``large``, the detector of both, and targets."""
    large = backend.make(RedisWorkers, pool="large")
    return backend[RedisWorkers], large, backend[RedisFailureDetector], backend[RedisScalingTargets]


def test_workers_of_a_pool_are_counted_and_started_by_themselves(pools):
    usual, large, detector, _ = pools
    usual.beat("a", now())
    large.beat("b", now(), WorkerStatus(pool="large"))

    assert (usual.live(now()), large.live(now())) == (["a"], ["b"])
    assert usual.reserve_wake(now(), 2) == 1
    assert large.reserve_wake(now(), 1) == 0
    assert not large.retire("b", now(), 1)
    assert large.retire("b", now(), 0)
    assert large.live(now()) == []
    assert {beats.worker for beats in detector.heartbeats()} == {"a"}


def test_the_detector_sees_all_pools_and_each_worker_is_reaped_in_its_own(pools):
    usual, large, detector, _ = pools
    usual.beat("a", now())
    large.beat("b", now(), WorkerStatus(pool="large", failed=2))

    seen = {beats.worker: beats.worker_status for beats in detector.heartbeats()}
    assert (seen["a"].pool, seen["b"].pool, seen["b"].failed) == ("main", "large", 2)
    assert detector.reap("b", "large")
    assert (usual.live(now()), large.live(now())) == (["a"], [])
    assert {beats.worker for beats in detector.heartbeats()} == {"a"}


def test_who_is_one_too_many_in_a_pool_leaves_that_pool_alone(pools):
    usual, large, _, targets = pools
    for name in ("a", "b"):
        usual.beat(name, now())
        large.beat(f"{name}-large", now())
    standing = targets.read("large")
    decision = ScalingTarget(needed=1, kept=1, at_ms=standing.now_ms)
    assert targets.settle("large", standing, decision)

    reported = [
        targets.report_throughput("large", f"{name}-large", None, now()).leaves
        for name in ("a", "b")
    ]
    assert sum(reported) == 1
    assert not targets.report_throughput(POOL, "a", None, now()).leaves
    assert (targets.read("large").leaving, targets.read(POOL).leaving) == (1, 0)
    gone = "a" if reported[0] else "b"
    staying = [f"{name}-large" for name in ("a", "b") if name != gone]
    assert (large.staying(now()), len(large.live(now()))) == (staying, 2)
    assert usual.staying(now()) == ["a", "b"]


def test_what_is_kept_available_is_reported_to_the_workers(pools):
    _, large, _, targets = pools
    large.beat("a", now())
    standing = targets.read("large")
    kept = ScalingTarget(needed=4, kept=4, at_ms=standing.now_ms, floor=3, stated=7)
    assert targets.settle("large", standing, kept)

    assert targets.read("large").target == kept
    assert targets.report_throughput("large", "a", None, now()).floor == 3
    # A decision that is out of date keeps nobody.
    standing = targets.read("large")
    old = replace(kept, at_ms=standing.now_ms - FRESH_MS - 1_000)
    assert targets.settle("large", standing, old)
    assert targets.report_throughput("large", "a", None, now()).floor == 0


def test_since_when_those_that_state_needs_are_idle_is_remembered(pools):
    targets = pools[3]

    assert targets.idle([], []) == {}
    assert targets.idle(["acme/a", "acme/b"], []) == {"acme/a": 0.0, "acme/b": 0.0}
    eventually(lambda: targets.idle(["acme/a", "acme/b"], [])["acme/a"] > 0)
    found = targets.idle(["acme/a", "acme/b"], ["acme/b"])
    assert found["acme/a"] > 0
    assert found["acme/b"] == 0.0
    # Who states none for a moment is new the next time.
    targets.idle(["acme/b"], [])
    assert targets.idle(["acme/a", "acme/b"], [])["acme/a"] == 0.0
