"""Learning from runs: a run's usage updates the demand of its spider once, whoever ends it."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace

from tests.fakes.job_ends import MemoryDemands
from tests.fakes.jobs import MemoryJobReopening, MemoryJobs
from tests.kit.jobs import (
    BATCH,
    GRACE,
    Job,
    JobState,
    RunFigures,
    RunPart,
    RunUsage,
)
from tests.kit.kernel import NotFoundError, StoreUnavailableError, UnknownBizError
from tests.kit.spiders import Start
from tests.kit.warned import Warned
from tests.kit.worlds.memory import make_tree

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LATER = NOW + GRACE + timedelta(seconds=1)
TREE = make_tree()


def a_job(name: str = "night", tenant: str = "default", **changes: object) -> Job:
    facts: dict = {
        "tenant": tenant,
        "biz": "docs",
        "name": name,
        "state": JobState.RUNNING,
        "rule": "page",
        "rule_version": "v1",
        "start": Start(urls=("https://a.example/",)),
        "size": 1,
        "created_at": NOW - timedelta(minutes=1),
        "by": "api",
    }
    return Job(**{**facts, **changes})


class Office:
    def __init__(self, demands: MemoryDemands | None = None) -> None:
        self.demands = demands or MemoryDemands()
        self.warned = Warned()
        self.jobs = MemoryJobs()
        self.ports = RunUsage(demands=self.demands, jobs=self.jobs)

    def measure(self, job: Job, memory: float = 100.0, seconds: float = 10.0, part: str = "w.1"):
        figures = RunFigures(
            seconds=seconds, memory_seconds=memory * seconds, memory_max=2 * memory, workers=1
        )
        tenant, biz, name = job.key
        one = RunPart(tenant=tenant, biz=biz, job=name, part=part, figures=figures)
        self.demands.add_run([one], NOW)

    def end(self, job: Job) -> None:
        self.ports.end_run(job, {"done": 1}, NOW)

    def learn(self, now: datetime = LATER, time_left=lambda: 60.0) -> int:
        return self.ports.learn_due(now, time_left)

    def known(self, spider: str = "page", tenant: str = "default"):
        return self.demands.get(tenant, "docs", spider)


@pytest.fixture
def office() -> Office:
    return Office()


def test_a_run_is_learnt_from_when_its_workers_have_had_time_to_report(office: Office) -> None:
    job = a_job()
    office.measure(job, 100)
    office.end(job)
    assert office.learn(NOW + GRACE) == 0
    office.measure(job, 300, part="w.2")  # comes after the end

    assert office.learn() == 1

    known = office.known()
    assert (known.runs, known.usage.memory, known.usage.memory_max) == (1, 200, 600)
    assert known.measured_at == LATER
    run = office.ports.get_run(TREE, *job.key)
    assert (run.closed, run.learnt_at, run.counts, run.figures.workers) == (
        True,
        LATER,
        {"done": 1},
        2,
    )


def test_a_job_that_is_ended_by_many_is_learnt_from_once(office: Office) -> None:
    job = a_job()
    office.measure(job)
    for _ in range(3):
        office.end(job)

    assert [office.learn() for _ in range(3)] == [1, 0, 0]
    office.end(job)
    assert office.learn() == 0
    assert office.known().runs == 1


def test_a_kept_spider_is_learnt_for_by_its_own_name(office: Office) -> None:
    job = a_job(spider="nightly")
    office.measure(job)
    office.end(job)
    office.learn()

    assert office.known() is None
    assert office.known("nightly").runs == 1


@pytest.mark.parametrize("state", [JobState.CANCELLING, JobState.CANCELLED, JobState.UNPLACED])
def test_from_a_run_that_was_cut_short_nothing_is_learnt_but_it_is_kept(
    office: Office, state: JobState
) -> None:
    job = a_job(state=state)
    office.measure(job)
    office.end(job)

    assert office.learn() == 1
    assert office.known() is None
    run = office.ports.get_run(TREE, *job.key)
    assert (run.is_whole, run.learnt_at, run.figures.seconds) == (False, None, 10)


def test_from_a_run_that_nobody_has_measured_nothing_is_learnt(office: Office) -> None:
    office.end(a_job())
    assert office.learn() == 1
    assert office.known() is None


def test_a_tenant_with_many_runs_does_not_keep_others_from_being_learnt_of(office: Office) -> None:
    for number in range(3 * BATCH):
        office.end(a_job(f"j{number:03}", "many"))
    job = a_job("one", "zoe")
    office.measure(job)
    office.end(job)
    steps = iter(range(2 * BATCH))

    closed = office.learn(time_left=lambda: BATCH + 10 - next(steps))

    assert BATCH < closed < 3 * BATCH
    assert office.known(tenant="zoe").runs == 1
    assert office.learn() == 3 * BATCH + 1 - closed


def test_others_that_learn_at_the_same_moment_are_learnt_beside() -> None:
    class Meanwhile(MemoryDemands):
        """A demand store that closes another run of the spider while it learns from this one."""

        def close_run(self, run, known, learnt):
            if run.job == "night" and learnt is not None and learnt.runs == 1:
                other = replace(run, job="other")
                self.end_run(replace(other, closed=False))
                super().close_run(other, known, learnt)
            return super().close_run(run, known, learnt)

    office = Office(Meanwhile())
    job = a_job()
    office.measure(job)
    office.end(job)

    assert office.learn() == 1
    assert office.known().runs == 2


def test_one_run_that_cannot_be_learnt_from_does_not_keep_the_others() -> None:
    class Broken(MemoryDemands):
        def measured(self, tenant, biz, job):
            if job == "bad":
                raise StoreUnavailableError("mongodb", "gone")
            return super().measured(tenant, biz, job)

    office = Office(Broken())
    for name in ("bad", "good"):
        office.measure(a_job(name))
        office.end(a_job(name))

    assert office.learn() == 1
    [warning] = office.warned.texts
    assert " bad " in warning


def test_others_win_each_time_and_the_run_is_left_to_the_next_call() -> None:
    class Contested(MemoryDemands):
        def close_run(self, run, known, learnt):
            return False

    office = Office(Contested())
    office.measure(a_job())
    office.end(a_job())
    assert office.learn() == 0


def test_a_run_that_another_closes_meanwhile_is_not_counted_here() -> None:
    class Closed(MemoryDemands):
        def close_run(self, run, known, learnt):
            assert super().close_run(run, known, learnt)
            return False

    office = Office(Closed())
    office.measure(a_job())
    office.end(a_job())
    assert office.learn() == 0
    assert office.known().runs == 1


def test_a_run_that_goes_on_shows_what_was_reported_up_to_now(office: Office) -> None:
    job = a_job()
    office.measure(job)

    run = office.ports.get_run(TREE, *job.key)
    assert (run.figures.seconds, run.ended_at, run.closed) == (10, None, False)
    with pytest.raises(NotFoundError, match="nothing was measured"):
        office.ports.get_run(TREE, "default", "docs", "never")
    office.end(job)
    ended = office.ports.get_run(TREE, *job.key)
    assert (ended.figures.seconds, ended.ended_at, ended.spider) == (10, NOW, "page")


def test_demands_are_shown_one_by_one_and_all_and_only_of_bizs_that_there_are(
    office: Office,
) -> None:
    job = a_job()
    office.measure(job)
    office.end(job)
    office.learn()

    assert office.ports.get_demand(TREE, "default", "docs", "page").runs == 1
    assert [d.spider for d in office.ports.list_demands(TREE, "default", "docs", None, 9)] == [
        "page"
    ]
    with pytest.raises(NotFoundError, match="nothing was learnt"):
        office.ports.get_demand(TREE, "default", "docs", "other")
    with pytest.raises(UnknownBizError):
        office.ports.get_demand(TREE, "default", "nowhere", "page")
    with pytest.raises(UnknownBizError):
        office.ports.list_demands(TREE, "default", "nowhere", None, 9)
    with pytest.raises(UnknownBizError):
        office.ports.get_run(TREE, "default", "nowhere", "x")


# ---- ends that did not come, and second ones ---------------------------------------------------


def test_a_run_whose_job_was_cancelled_at_its_end_is_not_learnt_as_whole(office: Office) -> None:
    job = office.jobs.create(a_job())
    office.measure(job)
    cancelling = office.jobs.cancel(*job.key, NOW)
    office.ports.end_run(cancelling, {"cancelled": 5}, NOW)
    office.jobs.end(cancelling, JobState.CANCELLED, {"cancelled": 5}, NOW)
    office.end(job)  # by whoever had seen it run, and comes late

    assert office.learn() == 1
    assert office.known() is None
    assert office.ports.get_run(TREE, *job.key).is_whole is False


def test_the_last_end_that_was_written_down_counts(office: Office) -> None:
    job = office.jobs.create(a_job())
    office.measure(job)
    office.end(job)
    cancelling = office.jobs.cancel(*job.key, NOW)
    office.ports.end_run(cancelling, {"done": 1, "cancelled": 5}, NOW)
    office.jobs.end(cancelling, JobState.CANCELLED, {}, NOW)

    office.learn()
    run = office.ports.get_run(TREE, *job.key)
    assert (run.is_whole, run.counts) == (False, {"done": 1, "cancelled": 5})


def test_the_end_of_a_job_that_goes_on_is_forgotten(office: Office) -> None:
    job = office.jobs.create(a_job())
    office.measure(job)
    office.end(job)

    office.learn()
    assert office.known() is None
    run = office.ports.get_run(TREE, *job.key)
    assert (run.ended_at, run.figures.seconds) == (None, 10)
    office.end(job)
    office.jobs.end(job, JobState.DONE, {"done": 1}, NOW)
    office.learn()
    assert office.known().runs == 1


def test_what_a_retry_takes_is_added_to_the_run_that_was_learnt_once(office: Office) -> None:
    job = office.jobs.create(a_job())
    office.measure(job, 100)
    office.end(job)
    office.jobs.end(job, JobState.DONE, {"done": 1}, NOW)
    office.learn()
    reopening = MemoryJobReopening(office.jobs)
    reopening.begin_retry(*job.key)
    again = reopening.reopen(*job.key, LATER)
    office.measure(job, 900, seconds=5, part="w.2")
    assert office.ports.get_run(TREE, *job.key).figures.seconds == 15  # while it goes on

    office.ports.end_run(again, {"done": 2}, LATER)
    assert office.learn(LATER + 2 * GRACE) == 1  # it did not end then
    assert office.ports.get_run(TREE, *job.key).figures.seconds == 15
    office.ports.end_run(again, {"done": 3}, LATER)
    office.jobs.end(again, JobState.DONE, {"done": 3}, LATER)
    assert office.learn(LATER + 2 * GRACE) == 1

    run = office.ports.get_run(TREE, *job.key)
    assert (run.counts, run.figures.seconds, run.learnt_at) == ({"done": 3}, 15, LATER)
    assert run.closed is True
    assert (office.known().runs, office.known().usage.memory) == (1, 100)
