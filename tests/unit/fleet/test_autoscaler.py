"""Targets of the autoscaler: what always holds, and one burst from beginning to end."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.config import FleetLimits
from tests.kit.fleet import (
    BAND,
    FRESH_MS,
    LEAST_SECONDS,
    SPARE,
    Demand,
    QueueDemand,
    ScalingState,
    ScalingTarget,
    assumed_throughput,
    decide,
    is_fresh,
    needed_workers,
    reserved,
)
from tests.kit.worlds.fleet import (
    LIMITS,
    NOW,
    Decider,
    demands,
    limits,
    needed,
    of,
    queue_key,
    throughputs,
)

# ---- needed ------------------------------------------------------------------------------------


@given(demands, throughputs, limits, st.integers(0, 7), st.integers(1, 10**6))
def test_more_work_never_needs_fewer_workers(demand, throughput, limits, which, more):
    if not demand.queues:
        return
    changed = list(demand.queues)
    place = which % len(changed)
    changed[place] = replace(changed[place], backlog=changed[place].backlog + more)
    larger = replace(demand, queues=tuple(changed))

    assert needed(larger, throughput, limits) >= needed(demand, throughput, limits)


@given(demands, throughputs, limits)
def test_there_are_never_more_than_the_stage_bears_or_the_hosts_can_use(demand, throughput, limits):
    found = needed(demand, throughput, limits)

    assert found <= limits.max_consumers
    each = sum(queue.polite_per_second for queue in demand.queues if queue.backlog)
    usable = min(each, demand.polite_per_second) / throughput
    assert found <= max(1, usable + 1)


@given(demands, throughputs, limits, st.integers(0, 40))
def test_there_are_as_many_as_the_stage_wants_at_least(demand, throughput, limits, least):
    limits = replace(limits, min_consumers=min(least, limits.max_consumers))

    assert needed(demand, throughput, limits) >= limits.min_consumers


@given(demands, throughputs, limits)
def test_somebody_is_needed_exactly_when_there_is_work(demand, throughput, limits):
    assert (needed(demand, throughput, limits) > 0) == any(queue.backlog for queue in demand.queues)


@given(st.integers(1, 10**6), throughputs, st.floats(1, 10**6))
def test_a_plan_is_kept_by_those_who_are_needed(backlog, throughput, seconds):
    found = needed_workers(of(queue_key(backlog, seconds_left=seconds)), throughput, LIMITS, 10**9)

    assert backlog / (found * throughput) <= max(seconds, LEAST_SECONDS) * (1 + 1e-6)


def test_a_plan_that_is_over_wants_the_rest_at_once():
    late, soon = (of(queue_key(3_000, seconds_left=left)) for left in (-500.0, 30.0))

    assert needed(late) == needed(soon) == 10


def test_without_a_plan_there_is_one_for_every_so_many_requests():
    assert needed(of(queue_key(2_000))) == 1
    assert needed(of(queue_key(2_001))) == 2


def test_small_queues_share_a_worker():
    assert needed(of(*(queue_key(20) for _ in range(100)))) == 1


def test_hosts_that_several_queues_wait_for_count_once():
    both = (queue_key(10**6, polite_per_second=50.0), queue_key(10**6, polite_per_second=50.0))

    assert needed(Demand(queues=both)) == 10
    assert needed(Demand(queues=both, polite_per_second=50.0)) == 5


def test_a_queue_that_is_slow_by_itself_is_staffed_by_its_own_pace_and_the_others_by_theirs():
    slow, quick = (
        queue_key(800, seconds_left=100.0, throughput=1.0),
        queue_key(800, seconds_left=100.0),
    )

    assert needed(of(slow)) == 10
    assert needed(of(quick)) == 1
    assert needed(of(slow, quick)) == 11


def test_hosts_that_queues_of_different_paces_wait_for_bound_both():
    both = (
        queue_key(10**6, throughput=1.0, polite_per_second=20.0),
        queue_key(10**6, polite_per_second=20.0),
    )

    assert needed(Demand(queues=both)) == 22
    assert needed(Demand(queues=both, polite_per_second=20.0)) == 11


def late(backlog: int, drained: float, **more: float) -> QueueDemand:
    return queue_key(backlog, seconds_left=100.0, drained=drained, leased=10, **more)


def test_a_queue_that_will_not_end_in_time_keeps_whoever_works_for_it():
    """The estimate of the workers is too high: the measured rate counts."""
    slower = of(late(1_000, 5.0), queue_key(10, leased=30))

    assert needed_workers(slower, 400.0, LIMITS, 50) == 1
    assert needed_workers(slower, 400.0, LIMITS, 50, live=20) == 6
    in_time = of(late(1_000, 11.0), queue_key(10, leased=30))
    assert needed_workers(in_time, 400.0, LIMITS, 50, live=20) == 1


def test_a_queue_that_is_late_for_its_hosts_keeps_nobody_more_than_they_can_use():
    held_up = of(late(1_000, 5.0, polite_per_second=5.2))

    assert needed_workers(held_up, 400.0, LIMITS, 50, live=20) == 1


@given(demands, throughputs, limits, st.integers(0, 100), st.integers(0, 50))
def test_who_is_late_never_needs_fewer_than_work_for_it_now(
    demand, throughput, limits, live, leased
):
    one = late(10_000, 1.0) if leased else queue_key(10_000)
    demand = replace(demand, queues=(*demand.queues, one))

    found = needed_workers(demand, throughput, limits, limits.max_consumers, live=live)

    assert found >= min(limits.max_consumers, live if leased else 0)


def test_hosts_that_are_left_alone_keep_one_worker_and_no_more():
    assert needed(of(queue_key(10**6, polite_per_second=0.0))) == 1


def test_before_any_report_the_throughput_is_a_page_a_second_for_each_download():
    scaling_state = ScalingState(now_ms=NOW)
    demand = of(queue_key(25_600, seconds_left=500.0))

    assert assumed_throughput(FleetLimits(concurrency=32)) == 32
    assert (
        decide(scaling_state, demand, FleetLimits(concurrency=32, max_consumers=9), live=0).needed
        == 2
    )


# ---- decided -----------------------------------------------------------------------------------


def test_more_are_started_in_one_step():
    decider = Decider()

    assert decider.tick(of(queue_key(2_000))).needed == 1
    assert decider.tick(of(queue_key(60_000))).needed == 30


def test_fewer_are_kept_only_after_a_quiet_time_and_a_quarter_of_them_leaves_at_once():
    decider = Decider()
    decider.tick(of(queue_key(40_000)))

    found = [decider.tick(of(queue_key(2_000))).kept for _ in range(16)]

    fell = [place for place, (before, after) in enumerate(pairwise(found)) if after < before]
    assert found[:2] == [20, 20]
    assert sorted(found, reverse=True) == found
    assert all(before - after <= max(1, before // 4) for before, after in pairwise(found))
    assert all(later - earlier >= 2 for earlier, later in pairwise(fell))


def test_a_load_that_comes_back_within_the_quiet_time_finds_its_workers():
    decider = Decider()
    decider.tick(of(queue_key(20_000)))

    for _ in range(20):
        assert decider.tick(of(queue_key(2_000))).kept == 10
        assert decider.tick(of(queue_key(20_000))).kept == 10


def test_whoever_left_by_itself_is_not_replaced_while_fewer_are_needed():
    decider = Decider()
    decider.tick(of(queue_key(20_000)))

    target = decider.tick(of(queue_key(4_000)))

    assert (target.needed, target.kept) == (2, 10)


@given(
    st.integers(1, 90_000),
    st.lists(st.floats(1 - (BAND - 1) / 2.5, 1 + (BAND - 1) / 2.5), min_size=10, max_size=60),
)
def test_a_steady_load_changes_nothing_once_its_workers_are_there(backlog, noise):
    decider = Decider()
    found = [decider.tick(of(queue_key(max(1, round(backlog * part))))).kept for part in noise]

    assert found == sorted(found), "none leaves, so none is started anew"


@given(st.lists(st.integers(0, 100_000), max_size=20), st.integers(0, 60))
def test_an_idle_fleet_comes_down_to_none(before, live):
    decider = Decider()
    decider.live = live
    for backlog in before:
        decider.tick(of(queue_key(backlog)))

    for _ in range(200):
        target = decider.tick(of())

    assert (target.needed, target.kept) == (0, 0)


@given(demands, limits, st.integers(0, 2_000), st.one_of(st.none(), st.integers(1, 50)))
def test_what_is_decided_stays_within_the_bounds(demand, limits, live, ceiling):
    target = decide(
        ScalingState(now_ms=NOW, throughput=10.0), demand, limits, live=live, ceiling=ceiling
    )

    most = min(limits.max_consumers, ceiling or limits.max_consumers)
    assert 0 <= target.needed <= target.kept <= most


def test_a_decision_that_redis_has_lost_sends_nobody_away():
    target = decide(ScalingState(now_ms=NOW), of(queue_key(10)), LIMITS, live=7)

    assert (target.needed, target.kept) == (1, 7)


def test_a_decision_is_out_of_date_when_two_ticks_did_not_come():
    standing = ScalingState(
        target=ScalingTarget(kept=9, at_ms=NOW), version=3, now_ms=NOW + FRESH_MS
    )

    assert is_fresh(standing)
    assert not is_fresh(replace(standing, now_ms=NOW + FRESH_MS + 1))
    assert not is_fresh(replace(standing, now_ms=NOW - FRESH_MS - 1))
    assert not is_fresh(ScalingState(now_ms=NOW))


def test_a_lower_ceiling_counts_at_once():
    decider = Decider()
    decider.tick(of(queue_key(40_000)))

    target = decide(decider.standing, of(queue_key(40_000)), LIMITS, live=20, ceiling=5)

    assert (target.needed, target.kept) == (5, 5)


@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 100))
def test_some_invocations_are_always_allowed_and_never_more_than_the_ceiling(some, more, ceiling):
    found = reserved(ScalingTarget(needed=some, kept=some + more), ceiling)

    assert 1 <= found <= ceiling
    assert found == ceiling or found >= some + more + SPARE
