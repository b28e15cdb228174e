"""Fires as a state machine: puts, edits and ticks meet, and no minute has two jobs of a line."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.kit.examples import examples
from tests.kit.schedules import Missed
from tests.kit.worlds.schedules import URLS, Clocked, at

#: Lines of which none fires twice in a minute.
LINES = ("* * * * *", "*/2 * * * *", "1-59/2 * * * *", "* 12 * * *")
SECOND = timedelta(seconds=1)


class Meeting:
    """Jobs, whose next look-up is met by what somebody else does."""

    def __init__(self, world: Clocked, meets: Callable[[], object]) -> None:
        self._kept, self._meets = world.jobs, [meets]

    def get(self, *key: str) -> Any:
        found = self._kept.get(*key)
        while self._meets:
            self._meets.pop()()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)


class Late:
    """Schedules as another scheduler has listed them some time ago."""

    def __init__(self, world: Clocked, listed: list) -> None:
        self._kept, self._listed = world.schedules, listed

    def due(self, now, limit):
        return self._listed

    def __getattr__(self, name):
        return getattr(self._kept, name)


class Fires(RuleBasedStateMachine):
    """A state machine of one schedule whose ticks come each half minute at the latest."""

    @initialize(second=st.sampled_from([0, 20, 40, 47, 59]))
    def begin(self, second: int) -> None:
        self.world = Clocked()
        self.world.now += second * SECOND
        self.listed: list = []
        self.puts = 0
        self.of_put: dict[str, int] = {}

    @rule(
        line=st.sampled_from(LINES),
        missed=st.sampled_from(list(Missed)),
        ahead=st.integers(-2, 2),
    )
    def put(self, line: str, missed: Missed, ahead: int) -> None:
        """By a clock that is not quite the scheduler's."""
        self.world.now += ahead * SECOND
        self.world.put(cron=line, missed=missed, urls=URLS[:1])
        self.world.now -= ahead * SECOND
        self.puts += 1

    @rule(line=st.sampled_from(LINES), seconds=st.sampled_from([13, 15, 30]))
    def a_new_one_is_put_and_a_tick_comes(self, line: str, seconds: int) -> None:
        self.delete()
        self.put(line, Missed.ALL, 0)
        self.time_goes_by_and_a_tick_comes(seconds)

    @rule(enabled=st.booleans())
    def pause_or_resume(self, *, enabled: bool) -> None:
        if self.world.planning.of_biz(self.world.tree, "default", "docs"):
            self.world.enable(enabled=enabled)

    @rule()
    def delete(self) -> None:
        self.world.schedules.delete("default", "docs", "hourly")

    @rule(seconds=st.sampled_from([0, 1, 13, 15, 30]))
    def time_goes_by_and_a_tick_comes(self, seconds: int) -> None:
        self.world.now += seconds * SECOND
        self.tick()

    @rule()
    def tick(self) -> None:
        put = self.puts
        self.world.tick()
        for name in self.world.names():
            self.of_put.setdefault(name, put)
        for job in self.world.jobs.open():
            self.world.jobs.finish(job)

    @rule()
    def two_tick_at_once(self) -> None:
        self._tick_and_meanwhile(self.world.tick)

    @rule(line=st.sampled_from(LINES), missed=st.sampled_from(list(Missed)))
    def it_is_edited_during_a_tick(self, line: str, missed: Missed) -> None:
        self._tick_and_meanwhile(lambda: self.put(line, missed, 0))

    def _tick_and_meanwhile(self, meets: Callable[[], object]) -> None:
        kept = self.world.jobs

        def met() -> None:
            self.world.jobs = kept
            meets()

        self.world.jobs = Meeting(self.world, met)
        self.tick()
        self.world.jobs = kept

    @rule()
    def list_what_is_due(self) -> None:
        self.listed = self.world.schedules.due(self.world.now, 9)

    @rule()
    def another_ticks_with_an_old_list(self) -> None:
        kept, self.world.schedules = self.world.schedules, Late(self.world, self.listed)
        self.tick()
        self.world.schedules = kept

    @invariant()
    def no_minute_has_two_jobs_of_a_line(self) -> None:
        kept = self.world.jobs.kept.values()
        started = Counter((self.of_put[job.name], job.created_at.replace(second=0)) for job in kept)
        assert all(count == 1 for count in started.values()), self.world.names()

    @invariant()
    def jobs_come_in_the_order_of_their_times_and_none_before_it(self) -> None:
        kept = self.world.jobs.kept.values()
        assert all(job.fire_at <= job.created_at for job in kept)
        fires = [job.fire_at for job in kept]
        assert fires == sorted(set(fires))


@pytest.mark.parametrize("line", ["* * * * *", "* 12 * * *"])
def test_a_schedule_that_is_put_shortly_before_its_minute_fires_once_in_it(line):
    world = Clocked()
    world.now += 47 * SECOND
    world.put(cron=line)
    world.now += 15 * SECOND

    assert (world.tick(), world.names()) == (1, ["hourly.20260301T120100Z"])
    assert world.get().fire_at == at(12, 2)


TestFires = pytest.mark.hypothesis(Fires.TestCase)
TestFires.settings = examples(1.5, steps=20)
