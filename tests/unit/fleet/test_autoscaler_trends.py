"""Targets of the autoscaler from decision to decision: under a steady demand, and in a burst."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.config import FleetLimits
from tests.kit.fleet import (
    BAND,
    Demand,
    QueueDemand,
    ScalingState,
    ScalingTarget,
    decide,
    needed_workers,
)
from tests.kit.worlds.fleet import MINUTE, NOW, Decider, limits, queue_key, throughputs

#: Queues of all kinds: with throughputs of their own, leased, late or not.
any_queues = st.builds(
    QueueDemand,
    backlog=st.integers(0, 50_000),
    seconds_left=st.one_of(st.none(), st.floats(-100, 3_000)),
    polite_per_second=st.one_of(st.just(math.inf), st.floats(0, 500)),
    throughput=st.one_of(st.none(), st.floats(0.5, 200)),
    leased=st.integers(0, 500),
    drained=st.one_of(st.none(), st.floats(0, 500)),
)
any_demands = st.builds(
    Demand,
    queues=st.lists(any_queues, max_size=4).map(tuple),
    polite_per_second=st.one_of(st.just(math.inf), st.floats(0, 500)),
)


@given(any_demands, limits, st.integers(0, 60), st.one_of(st.none(), throughputs))
def test_a_steady_demand_comes_to_rest(demand, limits, live, throughput):
    """No workers are stopped and started again for ever."""
    decider = Decider(limits, throughput)
    decider.live = live
    found: list[tuple[int, int]] = []
    # What is late for ever gets one worker more at each look, up to the most.
    for _ in range(150 + limits.max_consumers):
        decider.tick(demand, 11 * MINUTE // 10)
        found.append((decider.tick(demand).needed, decider.live))
        if len(set(found[-30:])) == 1 < len(found[29:]):
            return

    pytest.fail(f"{found[-30:]}")


def test_two_queues_that_share_the_turns_of_a_host_are_not_staffed_to_and_fro():
    slow = queue_key(5_000, throughput=1.0, polite_per_second=40.0)
    quick = queue_key(5_000, throughput=4.0, polite_per_second=400.0, seconds_left=100.0)
    shared = Demand(queues=(slow, quick), polite_per_second=80.0)
    limits = FleetLimits(max_consumers=100, requests_per_consumer=100)
    decider = Decider(limits)
    decider.tick(shared)

    lives = []
    for _ in range(60):
        decider.tick(shared)
        lives.append(decider.live)

    assert needed_workers(shared, 10.0, limits, 100, BAND) < needed_workers(
        shared, 10.0, limits, 100
    ), "more work, fewer workers"
    assert set(lives) == {lives[0]}


@given(
    any_demands,
    limits,
    st.builds(
        ScalingTarget,
        needed=st.integers(0, 50),
        kept=st.integers(0, 50),
        at_ms=st.sampled_from([0, NOW - MINUTE]),
        quiet_ms=st.sampled_from([0, NOW - 10 * MINUTE, NOW - 1]),
        peak=st.integers(0, 50),
    ),
    st.integers(0, 60),
    st.one_of(st.none(), st.integers(1, 60)),
)
def test_whatever_stood_before_nobody_needed_is_asked_to_leave(
    demand, limits, target, live, ceiling
):
    standing = ScalingState(target=target, version=1, now_ms=NOW)

    found = decide(standing, demand, limits, live=live, ceiling=ceiling)

    most = min(limits.max_consumers, ceiling or limits.max_consumers)
    assert 0 <= found.needed <= found.kept <= most


class Burst:
    """Requests that come at once, and workers that are as quick as they are; a tick a minute."""

    def __init__(
        self, requests: int, plan: float, throughput: float, polite: float = math.inf
    ) -> None:
        self.left = float(requests)
        self.plan, self.throughput, self.polite = plan, throughput, polite
        self.decider = Decider(FleetLimits(max_consumers=20, quiet_seconds=90), throughput=None)
        self.workers: list[int] = []
        self.seconds = 0

    def demand(self) -> Demand:
        backlog = math.ceil(self.left)
        found = queue_key(
            backlog, seconds_left=self.plan - self.seconds, polite_per_second=self.polite
        )
        return Demand(queues=(found,), polite_per_second=self.polite)

    def run(self) -> None:
        while self.left > 0 and self.seconds < 10 * self.plan:
            if self.seconds % 60 == 0:
                self.decider.tick(self.demand(), 60_000)
            rate = min(self.decider.live * self.throughput, self.polite)
            self.left = max(0.0, self.left - rate)
            self.seconds += 1
            self.workers.append(self.decider.live)
            if self.seconds % 5 == 0:
                self.decider.standing = replace(self.decider.standing, throughput=self.throughput)


def test_a_burst_is_done_within_its_plan_by_as_few_as_can_do_it():
    burst = Burst(20_000, plan=600, throughput=16)

    burst.run()

    assert burst.seconds <= 600
    assert max(burst.workers) <= 1 + math.ceil(20_000 / (16 * 600 * 0.8))
    falls = [at for at, (before, after) in enumerate(pairwise(burst.workers)) if after < before]
    rises = [at for at, (before, after) in enumerate(pairwise(burst.workers)) if after > before]
    assert not falls or not rises or max(rises) < min(falls), "up, then down, and that once"


@given(st.integers(1_000, 200_000), st.floats(300, 3_000), st.floats(4, 200))
def test_a_plan_is_kept_wherever_the_stage_has_the_workers_for_it(requests, plan, throughput):
    burst = Burst(requests, plan, throughput)
    # One tick passes before any throughput is known, and one worker is on its own until then.
    if requests > 20 * throughput * (plan * 0.8 - 60):
        return

    burst.run()

    assert burst.seconds <= plan


def test_a_polite_burst_takes_its_time_with_no_more_workers_than_its_host_can_use():
    burst = Burst(20_000, plan=600, throughput=16, polite=20)

    burst.run()

    assert burst.seconds == pytest.approx(20_000 / 20, rel=0.02)
    assert max(burst.workers[60:]) <= 2
