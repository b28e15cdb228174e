"""Jobs of what is submitted under a name: what that costs a submission, and what nobody learns."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.kit.jobs import (
    GRACE,
    MOST_A_CALL,
    NOTED_SECONDS,
    REST,
    JobState,
    SubmittedJobs,
)
from tests.kit.kernel import QueueKey, StoreError, StoreUnavailableError
from tests.kit.requests import OWN, OWN_FINAL, State, Submission, Transition
from tests.kit.warned import Warned
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.memory import DOCS, World
from tests.kit.worlds.worker import Spy


class Steady:
    """A steady clock that the test sets."""

    def __init__(self) -> None:
        self.at = 5.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def steady() -> Steady:
    return Steady()


def submitted_jobs(world: World, steady: Steady, jobs: object = None) -> SubmittedJobs:
    return SubmittedJobs(
        jobs=jobs or world.jobs,
        seeds=world.seeds,
        store=world.store,
        ledgers=world.ledgers,
        steady=steady,
    )


def submit(world: World, *names: str, queue_key: QueueKey = DOCS) -> None:
    pages = [Submission(url="https://a.example/", job=name) for name in names]
    world.submission().submit(world.tree, queue_key.tenant, "docs", pages, world.now)


def test_submissions_under_a_name_cost_one_write_in_half_a_minute(world, steady):
    spy = Spy(world.jobs)
    ours = submitted_jobs(world, steady, spy)

    for _ in range(50):
        ours.note("default", "docs", {"june", "july"}, world.now)
    assert [len(jobs) for jobs, _ in spy.of("adopt")] == [2]

    steady.at += NOTED_SECONDS
    ours.note("default", "docs", {"june"}, world.now)
    ours.note("other", "docs", {"june"}, world.now)
    assert [len(jobs) for jobs, _ in spy.of("adopt")] == [2, 1, 1]


def test_of_very_many_names_those_that_were_noted_are_forgotten_and_noted_again(
    world, steady, monkeypatch
):
    spy = Spy(world.jobs)
    ours = submitted_jobs(world, steady, spy)
    monkeypatch.setattr(f"{type(ours).__module__}.MOST_NOTED", 2)

    for name in ("a", "b", "c", "d", "a", "d"):
        ours.note("default", "docs", {name}, world.now)

    assert [jobs[0].name for jobs, _ in spy.of("adopt")] == ["a", "b", "c", "d", "a"]


def test_of_very_many_names_a_call_notes_some_and_the_ledger_knows_the_others(world, steady):
    ours = submitted_jobs(world, steady)
    submit(world, "z")

    ours.note("default", "docs", {*(f"a{n}" for n in range(MOST_A_CALL)), "z"}, world.now)

    assert world.jobs.get("default", "docs", "z") is None
    found = ours.find(DOCS, world.biz, "z", world.now)
    assert (found.job.state, found.ledger.open) == (JobState.RUNNING, 1)
    assert world.jobs.get("default", "docs", "z") == found.job


def test_a_name_that_could_not_be_noted_is_noted_by_the_next_submission(world, steady):
    ours = submitted_jobs(world, steady, Failing(world.jobs, adopt=1))
    warned = Warned()

    ours.note("default", "docs", {"june"}, world.now)
    assert (len(warned.texts), world.jobs.get("default", "docs", "june")) == (1, None)
    ours.note("default", "docs", {"june"}, world.now)

    assert world.jobs.get("default", "docs", "june").state is JobState.RUNNING


def test_of_a_list_the_jobs_that_go_on_are_counted_and_it_does_without_where_that_fails(
    world, steady
):
    ours = submitted_jobs(world, steady)
    ours.note("default", "docs", {"june", "july"}, world.now)
    submit(world, "june", "june")
    july = world.jobs.get("default", "docs", "july")
    world.jobs.end(july, JobState.DONE, {}, world.now)
    jobs = [world.jobs.get("default", "docs", name) for name in ("june", "july")]
    warned = Warned()

    june, ended = ours.counted(DOCS, world.biz, jobs, (), world.now)
    away = replace(ours, ledgers=Broken()).counted(DOCS, world.biz, jobs, (), world.now)

    assert (june.ledger.submitted, june.ledger.open, ended.ledger) == (2, 2, None)
    assert [(one.job.name, one.ledger) for one in away] == [("june", None), ("july", None)]
    assert len(warned.texts) == 1


def test_a_job_of_submissions_that_is_done_is_done_in_a_list_as_by_itself(world, steady):
    ours = submitted_jobs(world, steady)
    submit(world, "june")
    ours.note("default", "docs", {"june", "july"}, world.now)
    submit(world, "july")
    june = world.jobs.get("default", "docs", "june")
    [page] = [
        one
        for one in world.store.find(DOCS, world.biz, limit=9, now=world.now)
        if one.request.job == "june"
    ]
    gone = Transition(before=State.PENDING, after=State.CANCELLED, by="api:acme", why="")
    world.store.transition(DOCS, world.biz, [page.request.id], gone, world.now)
    jobs = [world.jobs.get("default", "docs", name) for name in ("june", "july")]

    def states(service: SubmittedJobs, *asked: JobState) -> list[JobState]:
        counted = service.counted(DOCS, world.biz, jobs, asked, world.now)
        return [one.job.state for one in counted]

    assert june.state is JobState.RUNNING
    assert states(ours) == [JobState.DONE, JobState.RUNNING]
    assert states(ours, JobState.RUNNING) == [JobState.RUNNING]

    class Many:
        def open_of_job(self, *_):
            raise StoreError("too many open seeds to look through")

    assert states(replace(ours, seeds=Broken())) == [JobState.RUNNING] * 2
    assert states(replace(ours, seeds=Many())) == [JobState.RUNNING] * 2


def test_a_job_whose_seeds_are_too_many_to_look_through_is_not_said_to_have_ended(world, steady):
    ours = submitted_jobs(world, steady)
    ours.note("default", "docs", {"june"}, world.now)
    assert ours.find(DOCS, world.biz, "june", world.now).job.state is JobState.DONE

    class Many:
        def open_of_job(self, *_):
            raise StoreError("too many open seeds to look through")

    found = replace(ours, seeds=Many()).find(DOCS, world.biz, "june", world.now)
    assert found.job.state is JobState.RUNNING
    with pytest.raises(StoreUnavailableError):
        replace(ours, seeds=Broken()).find(DOCS, world.biz, "june", world.now)


def test_a_job_goes_on_while_a_page_of_it_is_held_by_its_biz_and_ends_with_a_final_state(
    world, steady
):
    ours = submitted_jobs(world, steady)
    submit(world, "june")
    [page] = world.store.find(DOCS, world.biz, limit=9, now=world.now)

    def changed(before: int, after: int) -> JobState:
        asked = Transition(before=before, after=after, by="api:acme", why="held")
        world.store.transition(DOCS, world.biz, [page.request.id], asked, world.now)
        return ours.find(DOCS, world.biz, "june", world.now).job.state

    assert changed(State.PENDING, OWN) is JobState.RUNNING
    assert changed(OWN, OWN_FINAL) is JobState.DONE
    assert ours.find(DOCS, world.biz, "june", world.now).job.counts["others"] == 1


def test_more_may_be_submitted_before_a_name_is_noted_again_than_a_job_rests(world):
    assert timedelta(seconds=NOTED_SECONDS) < REST


def test_nothing_is_learnt_of_what_is_submitted(world, steady):
    submitted_jobs(world, steady).note("default", "docs", {"june"}, world.now)
    job = world.jobs.get("default", "docs", "june")
    world.usage().end_run(job, {"done": 1}, world.now)
    world.jobs.end(job, JobState.DONE, {"done": 1}, world.now)

    assert world.usage().learn_due(world.now + 2 * GRACE, lambda: 9.0) == 1

    assert world.demands.of_biz("default", "docs", None, 9) == []


def test_open_jobs_of_a_biz_are_those_that_were_started(world, steady):
    submitted_jobs(world, steady).note("default", "docs", {"june", "july"}, world.now)

    assert world.jobs.count_open("default", "docs") == 0
