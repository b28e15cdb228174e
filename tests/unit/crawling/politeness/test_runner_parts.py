"""A worker's runners: each tenant has its part of them, however long its pages take."""

import asyncio
from collections import Counter
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.examples import examples
from tests.kit.politeness import LocalScheduler
from tests.kit.worker import SteadyTime


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A leased request whose slot has come."""

    tenant: str
    slot_at: float | None = None
    permits: int = 100
    interval_seconds: float = 0.0

    @property
    def host(self):
        return f"{self.tenant}.example", self.tenant


class Stand:
    """Eight runners, by a clock of their own, of which those of ``greedy`` do not end."""

    def __init__(self):
        self.now = 0.0
        self.scheduler = LocalScheduler(SteadyTime(lambda: self.now))
        self.scheduler.ready.runners = 8
        self.running = []
        self.add(greedy=16, small=4)

    def add(self, **many):
        for tenant, count in many.items():
            for _ in range(count):
                self.scheduler.add(Request(tenant))

    def taken(self):
        """Let runners take all that they may; of whom that is."""
        found = []
        while not self.scheduler.ready.empty():
            found.append(self.scheduler.ready.get_nowait())
        self.running += found
        return Counter(one.tenant for one in found if one is not None)

    def end(self, tenant, count):
        ended = [one for one in self.running if one.tenant == tenant][:count]
        for one in ended:
            self.running.remove(one)
            self.scheduler.end(one)


def test_who_holds_its_runners_for_long_has_no_more_than_its_part_of_them():
    """What others leave for a moment is theirs again."""
    stand = Stand()
    assert stand.taken() == {"greedy": 4, "small": 4}

    stand.end("small", 4)

    assert stand.scheduler.waiting() == {"greedy": 12}
    assert stand.taken() == {}
    stand.add(small=4)
    assert stand.taken() == {"small": 4}


def test_runners_are_kept_for_nobody_who_wants_none_any_more():
    stand = Stand()
    stand.taken()
    stand.end("small", 4)
    stand.now += 60.0

    assert stand.taken() == {"greedy": 4}


def test_where_runners_are_not_counted_nobody_is_kept_waiting():
    stand = Stand()
    stand.scheduler.ready.runners = 0

    assert stand.taken() == {"greedy": 16, "small": 4}


def test_a_runner_that_waits_goes_on_once_none_is_kept_any_more():
    async def run():
        stand = Stand()
        stand.taken()
        stand.end("small", 4)
        waiting = asyncio.create_task(stand.scheduler.ready.get())
        await asyncio.sleep(0)
        assert not waiting.done()
        stand.now += 60.0
        stand.end("greedy", 1)
        return (await waiting).tenant

    assert asyncio.run(run()) == "greedy"


def test_a_runner_that_is_cancelled_as_it_is_called_has_another_one_called():
    async def run():
        stand = Stand()
        stand.taken()
        stand.end("small", 4)
        first, second = (asyncio.create_task(stand.scheduler.ready.get()) for _ in range(2))
        await asyncio.sleep(0)
        stand.add(small=1)
        first.cancel()
        return (await second).tenant, await asyncio.wait((first,)) and first.cancelled()

    assert asyncio.run(run()) == ("small", True)


def test_a_runner_that_is_cancelled_while_it_waits_leaves_nothing_behind():
    async def run():
        stand = Stand()
        stand.taken()
        stand.end("small", 4)
        first = asyncio.create_task(stand.scheduler.ready.get())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait((first,))
        second = asyncio.create_task(stand.scheduler.ready.get())
        await asyncio.sleep(0)
        stand.add(small=1)
        return (await second).tenant

    assert asyncio.run(run()) == "small"


def test_at_its_end_a_worker_keeps_runners_for_nobody():
    stand = Stand()
    stand.taken()
    stand.end("small", 4)

    stand.scheduler.retire(8)

    assert stand.taken() == {"greedy": 12}


class Simulated:
    """Runners by a clock that goes from one end to the next; ``seconds`` draws what one takes."""

    def __init__(self, runners, shares, first, seconds):
        self.now, self.seconds = 0.0, seconds
        self.scheduler = LocalScheduler(
            SteadyTime(lambda: self.now), first=first, share=shares.__getitem__
        )
        self.scheduler.ready.runners = self.runners = runners
        self.backlogged = set()
        self.ends = []
        self.had = Counter()

    def go_on(self, until):
        """Have runners take what they may and end it; the backlogged always have more."""
        while True:
            for tenant in sorted(self.backlogged):
                missing = self.runners - self.scheduler.waiting().get(tenant, 0)
                for _ in range(missing):
                    self.scheduler.add(Request(tenant))
            while not self.scheduler.ready.empty():
                one = self.scheduler.ready.get_nowait()
                self.ends.append((self.now + self.seconds(one.tenant), one))
            at = min((end for end, _ in self.ends), default=until)
            passed = min(at, until) - self.now
            for _, one in self.ends:
                self.had[one.tenant] += passed
            self.now = min(at, until)
            if at >= until:
                return
            over = [each for each in self.ends if each[0] <= at]
            self.ends = [each for each in self.ends if each[0] > at]
            for _, one in over:
                self.scheduler.end(one)


@examples(0.2)
@given(
    st.data(),
    st.integers(4, 8),
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 4), min_size=1),
    st.integers(1, 4),
)
def test_who_has_work_all_the_time_has_its_share_of_runners_within_one_largest_request(
    data, runners, others, share
):
    """Whatever the others' requests take, and whoever is served first; it came the last."""
    largest = 50.0
    shares = {**others, "v": share}

    def seconds(tenant):
        if tenant == "v":
            return data.draw(st.sampled_from([3.0, 9.0]))
        return data.draw(st.sampled_from([5.0, 20.0, largest]))

    def first(tenants):
        return data.draw(st.sampled_from(sorted(tenants)))

    simulated = Simulated(runners, shares, first, seconds)
    simulated.backlogged = set(others)
    simulated.go_on(10.0)
    simulated.backlogged = set(shares)
    simulated.go_on(10.0 + largest)
    before = simulated.had["v"]
    simulated.go_on(10.0 + 2 * largest)

    part = int(runners * share / sum(shares.values()))
    assert simulated.had["v"] - before >= part * largest - 1e-6
