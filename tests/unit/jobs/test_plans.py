"""The planned end, by queues that are simulated second by second."""

from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from math import inf
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.kit.config import FleetLimits
from tests.kit.fleet import (
    LEAST_SECONDS,
    MARGIN,
    Demand,
    QueueDemand,
    finish_seconds,
    is_late,
    latest_first,
    latest_seconds,
    needed_workers,
    seconds_left,
)
from tests.kit.incidents import Kind, evaluate
from tests.kit.monitoring import QueueSample
from tests.kit.queue import Depth, before, rates
from tests.kit.worlds.samples import QUEUE_KEY, a_queue_key, a_sample, a_tree

START = 1_000_000


class Seen(NamedTuple):
    """A sample of the queue, with what was submitted first of its requests."""

    second: int
    queued: int
    oldest: float
    first: int
    submitted: dict[int, int]
    processed: dict[int, int]

    def is_late(self, planned: float) -> bool:
        return is_late(
            oldest_seconds=self.oldest,
            longest_seconds=inf,
            queued=self.queued,
            per_second=rates(self.processed, self.second).per_60s,
            planned_seconds=planned,
            submitted=latest_first(self.submitted, self.second),
        )

    def sample(self) -> QueueSample:
        processed = rates(self.processed, self.second)
        return a_queue_key(
            queue_key=QUEUE_KEY,
            depth=Depth(queued=self.queued, leased=0, delayed=0),
            oldest_seconds=self.oldest,
            processed=processed,
            submitted_seconds=before(self.submitted, self.second),
            finish_seconds=finish_seconds(self.queued, processed.per_60s),
        )


def simulated(
    comes: Callable[[int], int], goes: int, seconds: int, waiting: deque[list[int]] | None = None
) -> Iterator[Seen]:
    """A queue that so many come to in each second and that so many leave, at its end."""
    queue = deque() if waiting is None else waiting
    submitted = {START + second: count for second, count in queue if second >= -90}
    processed = dict.fromkeys(range(START - 90, START), goes) if waiting else {}
    for second in range(seconds):
        if count := comes(second):
            queue.append([second, count])
            submitted[START + second] = count
        left = goes
        while queue and left:
            taken = min(left, queue[0][1])
            left, queue[0][1] = left - taken, queue[0][1] - taken
            if not queue[0][1]:
                queue.popleft()
        processed[START + second] = goes - left
        for counts in (submitted, processed):  # no more is kept than the last 90 seconds
            counts.pop(START + second - 90, None)
        if queue:
            now = second + 1
            yield Seen(
                START + now,
                sum(count for _, count in queue),
                float(now - queue[0][0]),
                queue[0][0],
                dict(submitted),
                dict(processed),
            )


def test_a_burst_of_20_000_that_takes_667_of_its_600_seconds_is_late_to_its_end():
    looks = list(simulated(lambda second: 20_000 * (not second), 30, 1_000))

    assert len(looks) == 666
    assert all(seen.is_late(600.0) for seen in looks)


def test_the_alarm_says_what_the_evaluation_says():
    tree = a_tree({"planned_seconds": 600.0})
    for seen in list(simulated(lambda second: 20_000 * (not second), 30, 700))[::30]:
        at = datetime.fromtimestamp(seen.second, UTC)
        found = evaluate(a_sample(seen.sample(), at=at), None, tree).findings
        [finding] = [one for one in found if one.kind is Kind.WILL_BE_LATE]
        if seen.second - START > 60:
            assert finding.value == pytest.approx(667, abs=1)


@pytest.mark.untraced
@given(
    st.integers(100, 20_000),
    st.integers(1, 60),
    st.integers(0, 30),
    st.floats(1.01, 4.0),
)
def test_a_burst_that_will_miss_its_plan_is_late_until_it_is_done(burst, goes, comes, over):
    assume(burst <= goes * 900)
    planned = burst / goes / over
    trickle = min(comes, goes)  # that goes on behind it

    for seen in simulated(lambda second: trickle if second else burst, goes, burst // goes + 1):
        if seen.first == 0:
            assert seen.is_late(planned)


@pytest.mark.untraced
@given(
    st.integers(1, 50),
    st.integers(1, 800),
    st.integers(3, 1_000),
    st.integers(1, 400),
)
def test_a_steady_stream_within_its_plan_is_never_late(each, waits, spare, seconds):
    waiting = deque([second, each] for second in range(-waits, 0))

    for seen in simulated(lambda _: each, each, seconds, waiting):
        assert seen.oldest <= waits + 1
        assert not seen.is_late(waits + spare)


@pytest.mark.untraced
@given(st.integers(1, 50), st.integers(0, 400), st.integers(200, 20_000), st.floats(1.02, 3.0))
def test_a_burst_behind_a_steady_stream_is_late_while_it_waits(each, waits, burst, over):
    planned = (waits + burst / each) / over
    assume(waits + 3 < planned)
    assume(burst <= each * 600)
    waiting = deque([second, each] for second in range(-waits, 0))

    ends = waits + burst // each
    for seen in simulated(lambda second: each + burst * (not second), each, ends, waiting):
        if seen.second > START + 1:
            assert seen.is_late(planned)


def test_the_oldest_that_has_had_its_time_leaves_none():
    assert seconds_left(600, 600, 5) == 0
    assert seconds_left(600, 640, 5, [1] * 90) == -40
    assert seconds_left(600, 0, 0) == 600


histories = st.lists(st.integers(0, 1_000), max_size=90)


@given(st.floats(1, 1e5), st.floats(0, 2e5), st.integers(1, 10**7), histories)
def test_the_end_is_never_before_the_oldests_nor_after_a_whole_plan(
    planned, oldest, waiting, submitted
):
    left = seconds_left(planned, oldest, waiting, submitted)

    assert left <= planned * 1.000001
    assert left >= (planned - oldest) * (1 if oldest > planned else 0.999999)


@given(
    st.floats(60, 1e5),
    st.floats(0, 1),
    st.integers(1, 10**6),
    histories,
    st.integers(1, 500),
    st.floats(1.001, 50),
)
def test_what_will_be_late_has_fewer_workers_than_it_needs(
    planned, share, waiting, submitted, workers, over
):
    oldest = share * (planned - LEAST_SECONDS / MARGIN - 1)
    left = seconds_left(planned, oldest, waiting, submitted)
    bare = seconds_left(planned, oldest, waiting)  # as the look ahead knows of no seconds
    forecast = over * left
    throughput = waiting / forecast / workers
    assert latest_seconds(planned, left, oldest, forecast) > planned

    demand = Demand(queues=(QueueDemand(backlog=waiting, seconds_left=bare),))
    assert needed_workers(demand, throughput, FleetLimits(), 10**9) > workers
