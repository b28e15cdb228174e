"""Overlap policies as a state machine: whatever ticks, ends, dies or is run by hand, they hold."""

from datetime import datetime, timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.kit.examples import examples
from tests.kit.jobs import JobState
from tests.kit.kernel import ConflictError
from tests.kit.schedules import OPEN_JOBS, Missed, OutcomeKind, Overlap, due_at, next_fire
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.schedules import URLS, Clocked

ALONE = (Overlap.SKIP, Overlap.QUEUE)


class Late:
    """Schedules as another scheduler has listed them some time ago."""

    def __init__(self, world: Clocked, listed: list) -> None:
        self._kept, self._listed = world.schedules, listed

    def due(self, now, limit):
        return self._listed

    def __getattr__(self, name):
        return getattr(self._kept, name)


class Overlaps(RuleBasedStateMachine):
    """A state machine of one schedule that fires every ten minutes."""

    def __init__(self) -> None:
        super().__init__()
        self.world = Clocked()
        self.listed: list = []
        self.fire_at: datetime | None = None

    @initialize(
        overlap=st.sampled_from(list(Overlap)),
        missed=st.sampled_from(list(Missed)),
        jitter=st.sampled_from([0, 0, 300]),
    )
    def put(self, overlap: Overlap, missed: Missed, jitter: int) -> None:
        changes = {"overlap": overlap, "missed": missed, "jitter_seconds": jitter}
        planned = self.world.put(cron="*/10 * * * *", urls=URLS[:1], **changes)
        self.overlap, self.missed, self.fire_at = overlap, missed, planned.fire_at

    @rule(minutes=st.integers(0, 45))
    def time_goes_by(self, minutes: int) -> None:
        self.world.now += timedelta(minutes=minutes)

    @rule()
    def tick(self) -> None:
        self.world.tick()

    @rule()
    def list_what_is_due(self) -> None:
        self.listed = self.world.schedules.due(self.world.now, 9)

    @rule()
    def another_ticks_with_an_old_list(self) -> None:
        kept, self.world.schedules = self.world.schedules, Late(self.world, self.listed)
        self.world.tick()
        self.world.schedules = kept

    @rule(port=st.sampled_from(["create", "create_limited", "get", "count_open"]))
    def a_part_fails(self, port: str) -> None:
        kept, self.world.jobs = self.world.jobs, Failing(self.world.jobs, **{port: 1})
        self.world.tick()
        self.world.jobs = kept

    @rule()
    def a_scheduler_dies_before_it_goes_on(self) -> None:
        kept, self.world.schedules = self.world.schedules, Failing(self.world.schedules, advance=1)
        self.world.tick()
        self.world.schedules = kept

    @rule(data=st.data())
    def a_job_ends(self, data: st.DataObject) -> None:
        if self.world.jobs.open():
            self.world.jobs.finish(data.draw(st.sampled_from(self.world.jobs.open())))

    @rule(key=st.sampled_from([None, "a", "b"]))
    def somebody_runs_it(self, key: str | None) -> None:
        before = len(self.world.jobs.open())
        try:
            job = self.world.run(key)
        except ConflictError:
            assert before >= (1 if self.overlap in ALONE else OPEN_JOBS)
        else:
            assert self.world.jobs.kept[job.key] == job

    @rule()
    def it_is_paused_and_resumed(self) -> None:
        self.world.enable(enabled=False)
        self.world.tick()
        resumed = self.world.enable(enabled=True)
        assert resumed.fire_at > self.world.now

    @precondition(lambda self: self.overlap is Overlap.ALLOW and self.missed is Missed.ALL)
    @rule()
    def ticks_that_are_enough_start_all_that_is_due(self) -> None:
        self.world.now += timedelta(minutes=10)  # what has been put off is looked at again
        self.world.tick()
        kept = self.world.get()
        waits = kept.last_outcome and kept.last_outcome.kind is OutcomeKind.WAITING
        assert waits or due_at(kept, kept.fire_at) > self.world.now

    @invariant()
    def those_that_run_alone_do(self) -> None:
        jobs = self.world.jobs.open()
        if self.overlap in ALONE:
            assert len(jobs) <= 1
        if self.overlap is Overlap.REPLACE:
            assert sum(job.state is not JobState.CANCELLING for job in jobs) <= 1
        assert len(jobs) <= OPEN_JOBS

    @invariant()
    def a_fire_time_has_one_job_and_they_come_in_their_order(self) -> None:
        fires = [job.fire_at for job in self.world.jobs.kept.values() if job.fire_at is not None]
        assert fires == sorted(set(fires))

    @invariant()
    def the_schedule_never_goes_back_and_reports_the_truth(self) -> None:
        kept = self.world.get()
        assert kept.fire_at >= self.fire_at
        self.fire_at = kept.fire_at
        last = kept.last_outcome
        assert kept.next_at >= kept.fire_at
        if last is None:
            return
        if last.kind is OutcomeKind.STARTED:
            assert ("default", "docs", last.job) in self.world.jobs.kept
            assert kept.last_fired_at == last.fire_at
        else:
            assert last.job is None
            assert last.why
        if last.kind is OutcomeKind.SKIPPED:
            assert Overlap.SKIP is self.overlap or Missed.SKIP is self.missed
            assert next_fire(kept, last.fire_at) <= kept.fire_at


TestOverlaps = pytest.mark.hypothesis(Overlaps.TestCase)
TestOverlaps.settings = examples(1.2, steps=30)
