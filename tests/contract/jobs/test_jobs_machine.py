"""The two job stores do the same: whatever is asked of both, in any order, both answer alike."""

from datetime import timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.contract.job_cases import a_batch, a_job
from tests.contract.store_cases import NOW
from tests.fakes.jobs import MemoryJobs
from tests.kit.examples import examples
from tests.kit.jobs import ENDED, Job, JobState, MongoJobs
from tests.kit.mongo_nodes import NodesOnOneServer
from tests.kit.spiders import Range, Start

TENANTS = st.sampled_from(["t1", "t2", "t3"])
NAMES = st.sampled_from(["a", "b", "c"])
SIZE = 7


class FakeAndReal(RuleBasedStateMachine):
    def __init__(self, real: MongoJobs, run: str) -> None:
        super().__init__()
        self.both = (MemoryJobs(), real)
        self.run = run
        self.now = NOW
        self.seen: list[Job] = []
        self.expanded: dict[tuple[str, str, str], int] = {}
        self.awards: dict[object, tuple[str | None, int | None]] = {}

    def ask(self, method: str, *arguments: object, **named: object) -> object:
        memory, real = (getattr(one, method)(*arguments, **named) for one in self.both)
        assert memory == real
        if isinstance(memory, Job):
            self.seen = [*self.seen[-20:], memory]
            # Tasks are never unmade, and no more are made than there are.
            assert self.expanded.get(memory.key, 0) <= memory.expanded <= memory.size
            self.expanded[memory.key] = memory.expanded
        return memory

    @rule(microseconds=st.integers(0, 5_000_000))
    def time_passes(self, microseconds: int) -> None:
        self.now += timedelta(microseconds=microseconds)

    @rule(
        tenant=TENANTS,
        name=NAMES,
        state=st.sampled_from([JobState.EXPANDING, JobState.EXPANDING, JobState.PLACING]),
        spider=st.sampled_from([None, "s"]),
        schedule=st.sampled_from([None, "f"]),
    )
    def create(
        self, tenant: str, name: str, state: JobState, spider: str | None, schedule: str | None
    ) -> None:
        start = Start(pattern="https://site.example/{n}", values={"n": Range(last=SIZE)})
        job = a_job(f"{self.run}{tenant}", name, state=state, start=start, created_at=self.now)
        facts = {"spider": spider, "schedule": schedule}
        self.ask("create", Job(**{f: getattr(job, f) for f in job.__struct_fields__} | facts))

    @rule(
        tenant=TENANTS,
        name=NAMES,
        state=st.sampled_from([JobState.EXPANDING, JobState.PLACING]),
        most=st.integers(1, 3),
        instead=st.booleans(),
        fire_at=st.none() | st.integers(0, 3),
    )
    def create_limited(
        self,
        tenant: str,
        name: str,
        state: JobState,
        most: int,
        instead: bool,
        fire_at: int | None,
    ) -> None:
        start = Start(pattern="https://site.example/{n}", values={"n": Range(last=SIZE)})
        fires = None if fire_at is None else NOW + timedelta(hours=fire_at)
        facts = {"schedule": "f", "fire_at": fires, "created_at": self.now}
        job = a_job(f"{self.run}{tenant}", name, state=state, start=start, **facts)
        self.ask("create_limited", job, most, instead=instead)

    @precondition(lambda self: self.seen)
    @rule(which=st.integers(0, 20), count=st.integers(0, SIZE), salt=st.integers(0, 3))
    def open_batch(self, which: int, count: int, salt: int) -> None:
        job = self.seen[which % len(self.seen)]
        batch = a_batch(job.expanded, min(count, job.size - job.expanded), self.now, salt)
        self.ask("open_batch", job, batch)

    @precondition(lambda self: any(job.batch for job in self.seen))
    @rule(which=st.integers(0, 20), refused=st.integers(0, 2))
    def close_batch(self, which: int, refused: int) -> None:
        opened = [job for job in self.seen if job.batch]
        job = opened[which % len(opened)]
        reasons = [f"{n} is wrong" for n in range(refused)]
        self.ask("close_batch", job, job.batch, self.now, refused, reasons)

    @rule(tenant=TENANTS, name=NAMES)
    def cancel(self, tenant: str, name: str) -> None:
        self.ask("cancel", f"{self.run}{tenant}", "docs", name, self.now)

    @precondition(lambda self: self.seen)
    @rule(
        which=st.integers(0, 20),
        trouble=st.sampled_from([None, "full", "away"]),
        seconds=st.sampled_from([None, 1, 30]),
    )
    def reschedule(self, which: int, trouble: str | None, seconds: int | None) -> None:
        again_at = None if seconds is None else self.now + timedelta(seconds=seconds)
        self.ask("reschedule", self.seen[which % len(self.seen)], self.now, trouble, again_at)

    @precondition(lambda self: self.seen)
    @rule(which=st.integers(0, 20), state=st.sampled_from(sorted(ENDED)))
    def end(self, which: int, state: JobState) -> None:
        job = self.seen[which % len(self.seen)]
        ended = self.ask("end", job, state, {"done": 1}, self.now)
        assert not (ended and job.state in ENDED)

    @precondition(lambda self: self.seen)
    @rule(
        which=st.integers(0, 20),
        pool=st.sampled_from([None, "far"]),
        won=st.sampled_from([(None, None), ("w1", 1), ("w1", 2), ("w2", 1)]),
    )
    def place(self, which: int, pool: str | None, won: tuple[str | None, int | None]) -> None:
        job = self.seen[which % len(self.seen)]
        placed = self.ask("place", job, pool, *won, self.now)
        if won[0] is not None and isinstance(placed, Job):
            # One award at most is the one that counts.
            assert self.awards.setdefault((*job.key, job.created_at), won) == won

    @precondition(lambda self: self.seen)
    @rule(which=st.integers(0, 20), lowered=st.integers(0, 9))
    def note_lowered(self, which: int, lowered: int) -> None:
        self.ask("note_lowered", self.seen[which % len(self.seen)], lowered)

    @precondition(lambda self: self.seen)
    @rule(which=st.integers(0, 20))
    def unplace(self, which: int) -> None:
        job = self.seen[which % len(self.seen)]
        self.ask("unplace", job, "no worker has as much", self.now)

    @rule(tenant=TENANTS, name=NAMES)
    def get(self, tenant: str, name: str) -> None:
        self.ask("get", f"{self.run}{tenant}", "docs", name)

    @rule(
        tenant=TENANTS,
        states=st.lists(st.sampled_from(JobState), max_size=2),
        spider=st.sampled_from([None, "s"]),
        schedule=st.sampled_from([None, "f"]),
        which=st.none() | st.integers(0, 20),
        limit=st.integers(0, 4),
    )
    def of_biz(
        self,
        tenant: str,
        states: list[JobState],
        spider: str | None,
        schedule: str | None,
        which: int | None,
        limit: int,
    ) -> None:
        after = None
        if which is not None and self.seen:
            job = self.seen[which % len(self.seen)]
            after = (job.created_at, job.name)
        self.ask(
            "of_biz",
            f"{self.run}{tenant}",
            "docs",
            states=states,
            spider=spider,
            schedule=schedule,
            after=after,
            limit=limit,
        )

    @rule(tenant=TENANTS, schedule=st.sampled_from([None, "f"]))
    def count_open(self, tenant: str, schedule: str | None) -> None:
        self.ask("count_open", f"{self.run}{tenant}", "docs", schedule)
        self.ask("open_versions", f"{self.run}{tenant}", "docs", "s")

    @invariant()
    def lists_agree(self) -> None:
        self.ask("expandable", 5, self.now)
        self.ask("watched", 4)
        self.ask("placing", 4, self.now)
        self.ask("waiting", self.now - timedelta(seconds=5), 4)
        self.ask("unplaced", NOW + timedelta(seconds=2), 4)


@pytest.mark.hypothesis
def test_the_fake_and_the_real_store_answer_alike(mongo_connection: NodesOnOneServer) -> None:
    runs = iter(range(1_000_000))
    jobs = MongoJobs(mongo_connection)

    def twins() -> FakeAndReal:
        # Lists are of all tenants: what another run left would be in them.
        mongo_connection.empty_control()
        return FakeAndReal(jobs, f"r{next(runs)}")

    run_state_machine_as_test(twins, settings=examples(0.4, steps=30, most=200))
