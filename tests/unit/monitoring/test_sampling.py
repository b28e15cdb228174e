from datetime import timedelta
from threading import Event

import msgspec
import pytest

from tests.kit.config import BizThresholds
from tests.kit.fleet import WorkerStatus
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.monitoring import Bounds, QueueSample, Sample
from tests.kit.politeness import HostReport
from tests.kit.queue import NodeHealth, Rates
from tests.kit.requests import Coverage
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.memory import DOCS, OTHER, World, make_biz, make_tree
from tests.kit.worlds.monitoring import do, put, sample, sampler


def of(seen: Sample, queue_key: QueueKey) -> QueueSample:
    [found] = [one for one in seen.queues if one.queue_key == queue_key]
    return found


def whats(seen: Sample) -> list[str]:
    return [one.what for one in seen.unread]


def test_rates_backlog_and_age_are_those_of_each_biz_and_of_all(world):
    put(world, 6)
    put(world, 3, "acme")
    world.now += timedelta(seconds=10)

    seen = sample(world)

    docs = of(seen, DOCS)
    assert (docs.depth.queued, docs.oldest_seconds, docs.ledger.pending) == (6, 10.0, 6)
    assert docs.submitted == Rates(per_1s=0, per_5s=0, per_60s=0.1)
    assert sum(docs.submitted_seconds.values()) == 6
    assert (docs.retries, docs.difference, docs.records) == (0, 0, 0)
    fleet = seen.fleet
    assert (fleet.queues, fleet.queued, fleet.oldest_seconds) == (2, 9, 10.0)
    assert (fleet.submitted.per_60s, fleet.ledger.pending) == (pytest.approx(0.15), 9)
    assert (seen.unread, seen.revision) == ((), "1")


def test_what_is_held_and_what_waits_for_its_next_try_is_distinguished(world):
    put(world, 5)
    later = world.now + timedelta(seconds=60)
    leased = world.queue.lease(DOCS, "t", 3, world.now, later)
    world.queue.delay(DOCS, "t", [(leased[0], later)])

    seen = sample(world)

    docs = of(seen, DOCS)
    assert (docs.depth.queued, docs.depth.leased, docs.retries) == (2, 2, 1)
    assert (seen.fleet.queued, seen.fleet.leased, seen.fleet.delayed) == (2, 2, 1)
    assert (docs.load.ready, docs.load.leased) == (2, 2)


def test_how_long_a_backlog_lasts_is_known_once_there_is_a_rate(world):
    put(world, 30)
    assert of(sample(world), DOCS).finish_seconds is None
    do(world, DOCS, 10)
    world.now += timedelta(seconds=10)

    seen = sample(world)

    assert of(seen, DOCS).finish_seconds == pytest.approx(120)
    assert of(seen, OTHER).finish_seconds == 0.0
    assert seen.fleet.finish_seconds == pytest.approx(120)


def test_a_biz_that_will_not_keep_its_plan_is_late():
    world = World(tree=make_tree(make_biz(planned_seconds=60)))
    put(world, 30)
    do(world, DOCS, 10)
    world.now += timedelta(seconds=10)

    seen = sample(world)

    assert (of(seen, DOCS).late, of(seen, OTHER).late, seen.fleet.late) == (True, False, 1)
    assert of(seen, DOCS).planned_seconds == 60


def test_a_biz_may_bear_longer_waits_than_the_stage():
    world = World(tree=make_tree(make_biz(thresholds=BizThresholds(oldest_waiting_seconds=9_000))))
    put(world, 1)
    world.now += timedelta(hours=2)

    assert not of(sample(world), DOCS).late


# ---- workers, hosts ------------------------------------------------------------------------------


def test_workers_are_counted_by_what_the_detector_makes_of_them(world):
    for worker in ("a", "b", "c"):
        world.workers.beat(worker, world.now)
    for second in range(12):
        world.detector.heartbeats()
        world.now += timedelta(seconds=1)
        world.workers.beat("a", world.now)
        if second < 8:
            world.workers.beat("b", world.now)
    world.now += timedelta(seconds=0.3)

    workers = sample(world).workers

    assert (workers.alive, workers.suspected, workers.dead) == (1, 1, 1)
    assert (workers.present, workers.unwatched) == (3, 0)
    assert (workers.wanted, workers.allowed) == (3, 6)


def test_a_fleet_that_nobody_has_decided_on_wants_nothing_known(world):
    assert sample(world, decided=lambda: None).workers.wanted is None


def report(world: World, host: str, **seen: object) -> None:
    world.hosts.report(
        [HostReport(host=host, origin=f"https://{host}", tenant="default", running=1, **seen)], "w"
    )


def test_hosts_at_work_and_hosts_that_others_wait_for_are_shown_the_worst_first(world):
    world.workers.beat("w", world.now, WorkerStatus(hosts=(("busy.example", "default"),)))
    report(world, "busy.example", answered=8, failed=2, seconds=0.5)
    put(world, 2)
    leased = world.queue.lease(DOCS, "t", 2, world.now, world.now + timedelta(seconds=60))
    again = world.now + timedelta(seconds=30)
    world.queue.defer(DOCS, "t", [("bad.example", again, leased)])
    report(world, "bad.example", overloads=1)

    seen = sample(world)

    bad, busy = seen.hosts
    assert (bad.host, bad.throttled, bad.strained, bad.deferred) == ("bad.example", True, 1, 2)
    assert bad.backing_off_until is not None
    assert (busy.host, busy.success_share, busy.latency_seconds) == ("busy.example", 0.75, 0.5)
    assert (busy.throttled, seen.hosts_seen) == (False, 2)


def test_watched_hosts_are_looked_at_though_nobody_asks_for_them(world):
    report(world, "calm.example", answered=3)

    seen = sampler(world).sample(world.tree, world.now, watched=["calm.example", "new.example"])

    assert [one.host for one in seen.hosts] == ["calm.example", "new.example"]
    assert (seen.hosts_seen, seen.hosts_throttled) == (2, 0)


def test_throttled_hosts_are_counted_shown_or_not(world):
    names = [f"bad{number}.example" for number in range(60)]
    for name in names:
        report(world, name, overloads=1)

    seen = sample(world)

    assert (len(seen.hosts), seen.hosts_seen, seen.hosts_throttled) == (50, 50, 50)
    seen = sampler(world).sample(world.tree, world.now, watched=names)
    assert (len(seen.hosts), seen.hosts_throttled) == (60, 60)


def test_hosts_that_cannot_be_read_cost_nothing_else(world):
    world.workers.beat("w", world.now, WorkerStatus(hosts=(("busy.example", "default"),)))

    seen = sample(world, hosts=Broken())

    assert whats(seen) == ["hosts"]
    assert (seen.hosts, seen.workers.alive) == ((), 1)


# ---- parts ---------------------------------------------------------------------------------------


def test_parts_are_judged_by_the_thresholds_and_keep_their_figures(world):
    full = NodeHealth(part="redis", name="redis", up=True, figures={"MemoryRatio": 0.97})
    down = NodeHealth(part="mongodb", name="main", up=False, error="no answer")
    well = NodeHealth(
        part="mongodb", name="spare", up=True, figures={"StorageBytes": 5.0}, missing={"X": "why"}
    )

    parts = sample(world, well, full, down).parts

    assert [one.name for one in parts] == ["redis", "main", "spare"]
    assert "97% of its memory" in parts[0].error
    assert parts[1].error == "no answer"
    assert parts[2] == well


def test_keys_that_were_thrown_away_since_the_evaluation_before_are_a_problem(world):
    def seen(evicted: float, before: Sample | None) -> str | None:
        part = NodeHealth(part="redis", name="redis", up=True, figures={"EvictedKeys": evicted})
        return sampler(world, part).sample(world.tree, world.now, before=before).parts[0].error

    minute = timedelta(minutes=1)
    earlier = NodeHealth(part="redis", name="redis", up=True, figures={"EvictedKeys": 5.0})
    before = Sample(at=world.now - minute, parts=(earlier,))

    assert "2 keys" in seen(7.0, before)
    assert seen(5.0, before) is None
    assert seen(7.0, None) is None
    # Long ago says nothing of now.
    assert seen(7.0, msgspec.structs.replace(before, at=world.now - 60 * minute)) is None


def test_figures_that_could_not_be_read_are_named_among_what_was_not(world):
    blind = NodeHealth(
        part="mongodb",
        name="main",
        up=True,
        missing={"LagSeconds": "no right", "StorageBytes": "the server does not say"},
        unread=("LagSeconds",),
    )

    [unread] = sample(world, blind).unread

    assert unread.what.endswith("mongodb main: LagSeconds")
    assert unread.why == "no right"


def test_a_part_that_hangs_is_down_and_the_others_are_seen(world):
    stuck = Event()
    well = NodeHealth(part="redis", name="redis", up=True)

    class Hanging:
        def checks(self):
            return {("redis", "redis"): lambda: well, ("mongodb", "main"): stuck.wait}

    try:
        seen = sample(world, health=Hanging(), bounds=Bounds(sample_seconds=0.1))
    finally:
        stuck.set()

    assert seen.parts[0] == well
    assert seen.parts[1].up is False
    assert seen.parts[1].error == "not answered within 0.1 s"
    assert seen.unread == ()


# ---- what fails ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("port", "named"),
    [
        ("queue", ["queues"]),
        ("overview", ["queues"]),
        ("detector", ["workers"]),
        ("workers", ["workers"]),
        ("ledgers", ["ledger of acme/docs", "ledger of default/docs"]),
        ("store", ["records of acme/docs", "records of default/docs"]),
    ],
)
def test_each_part_that_fails_is_named_and_stops_no_other(world, port, named):
    put(world, 4)

    seen = sample(world, **{port: Broken()})

    assert whats(seen) == named
    assert all("no answer" in one.why for one in seen.unread)
    docs = of(seen, DOCS)
    assert (docs.depth is None) == (port in {"queue", "overview"})
    assert (docs.ledger is None) == (port == "ledgers")
    assert (docs.records is None) == (port in {"store", "ledgers"})
    assert (seen.workers is None) == (port in {"detector", "workers"})
    assert len(world.warnings) == len(named)


def test_an_audit_that_fails_leaves_the_totals(world):
    put(world, 2)

    seen = sample(world, ledgers=Failing(world.ledgers, audit=2))

    assert whats(seen) == ["audit of acme/docs", "audit of default/docs"]
    assert (of(seen, DOCS).ledger.pending, of(seen, DOCS).difference) == (2, None)
    assert seen.fleet.difference is None


def test_orphaned_queues_that_cannot_be_counted_are_unread_and_not_none(world):
    def broken(tree, now):
        raise ZeroDivisionError("odd")

    seen = sample(world, orphaned=broken)

    assert (seen.stray_items, whats(seen)) == (None, ["strays"])
    assert seen.unread[0].why == "ZeroDivisionError: odd"
    assert sample(world, orphaned=lambda tree, now: (2, 5)).stray_requests == 5


def test_everything_down_is_a_sample_too(world):
    down = NodeHealth(part="redis", name="redis", up=False, error="no answer")
    broken = {name: Broken() for name in ("queue", "overview", "store", "ledgers", "detector")}

    seen = sample(world, down, **broken)

    assert whats(seen) == ["workers", "queues", "ledger of acme/docs", "ledger of default/docs"]
    assert seen.parts == (down,)
    assert (seen.fleet.queued, seen.fleet.difference) == (0, None)


def test_without_any_configuration_the_parts_are_looked_at(world):
    up = NodeHealth(part="redis", name="redis", up=True)

    seen = sampler(world, up).sample(None, world.now, config_refused="there is none")

    assert (seen.parts, seen.queues, seen.workers) == ((up,), (), None)
    assert (seen.config_refused, seen.revision) == ("there is none", "")


def busy(world: World) -> None:
    """Let one biz, of two, process something."""
    put(world, 30)
    do(world, DOCS, 10)
    world.now += timedelta(seconds=10)


def test_the_coverage_of_bizs_at_work_is_read_and_of_no_others(world):
    busy(world)
    world.coverages.add(DOCS, "page", "v1", Coverage(records=3, fields={"title": 3}))
    asked = []

    def by_hour(queue_key):
        asked.append(queue_key)
        return world.coverages.by_hour(queue_key)

    seen = sample(world, coverages=by_hour)

    [covered] = seen.coverage
    assert (asked, covered.queue_key) == ([DOCS], DOCS)
    [hour] = covered.hours
    assert (hour.rule, hour.coverage.fields) == ("page", {"title": 3})


def test_coverage_that_cannot_be_read_is_left_out_and_costs_nothing_else(world):
    busy(world)

    def away(_):
        raise StoreUnavailableError("redis", "away")

    seen = sample(world, coverages=away)

    assert (seen.coverage, of(seen, DOCS).processed.per_60s > 0) == ((), True)
    assert "coverage of docs could not be read" in world.warnings[0]


def test_coverage_that_is_slow_to_come_is_named_as_unread(world):
    busy(world)
    waiting = Event()
    try:
        seen = sampler(world, coverages=lambda _: waiting.wait(5)).sample(
            world.tree, world.now, bounds=Bounds(coverage_seconds=0.05)
        )
    finally:
        waiting.set()

    assert (seen.coverage, whats(seen)) == ((), ["coverage"])
