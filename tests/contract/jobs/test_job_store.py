"""ports.JobStore over memory and a real MongoDB: jobs, their batches, and who has them."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

from msgspec.structs import replace

from tests.contract.job_cases import (
    CANCELLED,
    CANCELLING,
    DONE,
    EXPANDING,
    RUNNING,
    SECOND,
    a_batch,
    a_job,
    expanded,
    names,
    of_biz,
)
from tests.contract.store_cases import NOW
from tests.kit.implementations import fixture_over
from tests.kit.jobs import (
    LONGEST_REFUSAL,
    MOST_REFUSALS,
    SUBMITTED,
    Job,
    JobState,
    MongoJobs,
    TaskBatch,
)
from tests.kit.spiders import LinkNeeds, Range, Start

jobs = fixture_over(MongoJobs)


def test_a_job_is_kept_with_all_that_it_has(jobs: MongoJobs, tenant: str) -> None:
    values = {"z": ("ü", "b"), "a": Range(first=0, last=2**53, step=2**40), "n": Range(last=9)}
    job = a_job(
        tenant,
        start=Start(pattern="https://site.example/{a}/{z}/{n}", values=values),
        spider="shop",
        spider_version=3,
        schedule="nightly",
        fire_at=NOW,
        values={"x": "1"},
        priority=9,
        link=LinkNeeds(test_url="https://site.example/", seconds_below=0.5),
        pool="far",
        created_at=NOW + timedelta(microseconds=1_500),
    )

    created = jobs.create(job)

    at = NOW + timedelta(milliseconds=1)
    assert created == replace(job, created_at=at, due_at=at)
    assert jobs.get(tenant, "docs", "june") == created
    assert list(jobs.get(tenant, "docs", "june").start.values) == ["z", "a", "n"]
    assert jobs.get(tenant, "docs", "july") is None


def test_jobs_of_submissions_are_adopted_and_run_again_when_more_comes(
    jobs: MongoJobs, tenant: str
) -> None:
    def of_submissions(name: str) -> Job:
        return a_job(tenant, name, state=RUNNING, by=SUBMITTED, size=0, submitted_at=NOW)

    started = jobs.create(a_job(tenant, "started"))
    jobs.adopt([of_submissions("june"), of_submissions("started")], NOW)
    june = jobs.get(tenant, "docs", "june")
    assert (june.state, june.by, june.submitted_at) == (RUNNING, SUBMITTED, NOW)
    assert jobs.get(tenant, "docs", "started") == started
    assert names(jobs.watched(9, NOW)) == ["june"]

    jobs.adopt([of_submissions("june")], NOW + SECOND)
    assert jobs.get(tenant, "docs", "june") == replace(june, submitted_at=NOW + SECOND)
    assert jobs.end(june, DONE, {"done": 1}, NOW) is True
    jobs.adopt([of_submissions("june")], NOW)

    again = jobs.get(tenant, "docs", "june")
    assert (again.state, again.counts, again.ended_at) == (RUNNING, {}, None)
    # Whoever read its ledger before that does not end it now.
    assert jobs.end(june, DONE, {"done": 1}, NOW) is False
    assert jobs.count_open(tenant, "docs") == 1


def test_the_schedules_of_which_a_job_goes_on_are_known(jobs: MongoJobs, tenant: str) -> None:
    jobs.create(a_job(tenant, "june"))
    jobs.create(a_job(tenant, "n1", schedule="nightly"))
    jobs.create(a_job(tenant, "n2", schedule="nightly"))
    ended = expanded(jobs, jobs.create(a_job(tenant, "w1", schedule="weekly")), 2_500)
    jobs.end(ended, DONE, {}, NOW)

    assert jobs.running_schedules(tenant, "docs") == {"nightly"}
    assert jobs.running_schedules(tenant, "other") == set()


def test_links_that_others_made_known_are_counted_in_the_jobs_that_there_are(
    jobs: MongoJobs, tenant: str
) -> None:
    jobs.create(a_job(tenant, segment="day"))
    jobs.create(a_job(tenant, "july"))

    jobs.note_known(tenant, "docs", {})
    jobs.note_known(tenant, "docs", {"june": {"2026-W09": 2, "2026-W08": 1}, "gone": {"x": 1}})
    jobs.note_known(tenant, "docs", {"june": {"2026-W10": 4}})

    june, july = (jobs.get(tenant, "docs", name) for name in ("june", "july"))
    assert (june.segment, june.known_links, june.known_in) == ("day", 7, "2026-W10")
    assert (july.segment, july.known_links, july.known_in) == (None, 0, None)
    assert jobs.get(tenant, "docs", "gone") is None


def test_a_job_of_one_name_is_created_once_whoever_comes(jobs: MongoJobs, tenant: str) -> None:
    start = Barrier(6)

    def create(number: int) -> Job:
        start.wait()
        return jobs.create(a_job(tenant, priority=number))

    with ThreadPoolExecutor(6) as pool:
        created = list(pool.map(create, range(6)))

    assert len({job.priority for job in created}) == 1
    assert jobs.create(a_job(tenant, priority=9)) == created[0]
    assert jobs.create(a_job(f"{tenant}b", priority=9)).priority == 9


def test_a_thousand_urls_of_eight_thousand_letters_fit(jobs: MongoJobs, tenant: str) -> None:
    urls = tuple(f"https://site.example/{n:04}/".ljust(8_000, "x") for n in range(1_000))
    job = jobs.create(a_job(tenant, start=Start(urls=urls)))

    assert job.size == 1_000
    assert jobs.get(tenant, "docs", "june").start.urls == urls
    assert jobs.expandable(5)[0].start == Start()
    opened = jobs.open_batch(job, a_batch(count=1_000))
    assert opened.start.urls == urls
    assert jobs.close_batch(opened, opened.batch, NOW).state is RUNNING
    assert jobs.watched(5)[0].start == Start()
    assert jobs.of_biz(
        tenant, "docs", states=(), spider=None, schedule=None, after=None, limit=1
    ) == [replace(jobs.get(tenant, "docs", "june"), start=Start())]


def test_a_pattern_longer_than_a_url_is_read_back(jobs: MongoJobs, tenant: str) -> None:
    """A filled-in pattern may be longer than the pattern that a client may submit."""
    start = Start(pattern="https://site.example/{n}".ljust(9_000, "x"), values={"n": Range(last=2)})
    jobs.create(a_job(tenant, start=start))

    assert jobs.get(tenant, "docs", "june").start == start


def test_jobs_of_a_biz_are_listed_the_newest_first(jobs: MongoJobs, tenant: str) -> None:
    for number in range(6):
        spider, schedule = ("s", None) if number % 2 else (None, "nightly")
        at = NOW + (number // 2) * SECOND
        job = a_job(tenant, f"j{number}", created_at=at, spider=spider, schedule=schedule)
        jobs.create(job)
    jobs.create(a_job(tenant, "other", biz="other"))
    jobs.cancel(tenant, "docs", "j3", NOW)

    assert of_biz(jobs, tenant) == ["j5", "j4", "j3", "j2", "j1", "j0"]
    assert of_biz(jobs, tenant, limit=2) == ["j5", "j4"]
    assert of_biz(jobs, tenant, after=(NOW + 2 * SECOND, "j4"), limit=2) == ["j3", "j2"]
    assert of_biz(jobs, tenant, after=(NOW + SECOND, "j3")) == ["j2", "j1", "j0"]
    assert of_biz(jobs, tenant, states=(CANCELLING, DONE)) == ["j3"]
    assert of_biz(jobs, tenant, spider="s") == ["j5", "j3", "j1"]
    assert of_biz(jobs, tenant, schedule="nightly", states=(EXPANDING,)) == ["j4", "j2", "j0"]
    assert of_biz(jobs, f"{tenant}b") == []
    assert of_biz(jobs, tenant, limit=0) == []


def test_the_versions_that_open_jobs_name_are_reported(jobs: MongoJobs, tenant: str) -> None:
    for number, (spider, version) in enumerate([("s", 3), ("s", 1), ("s", 3), ("t", 7), ("s", 9)]):
        jobs.create(a_job(tenant, f"j{number}", spider=spider, spider_version=version))
    jobs.create(a_job(tenant, "mine", spider="s", spider_version=None))
    jobs.create(a_job(tenant, "other", biz="other", spider="s", spider_version=8))
    jobs.create(a_job(f"{tenant}b", spider="s", spider_version=8))
    ending = jobs.cancel(tenant, "docs", "j4", NOW)
    assert jobs.open_versions(tenant, "docs", "s") == {1, 3, 9}

    assert jobs.end(ending, CANCELLED, {}, NOW)

    assert jobs.open_versions(tenant, "docs", "s") == {1, 3}
    assert jobs.open_versions(tenant, "docs", "none") == set()


def test_open_jobs_are_counted_until_they_end(jobs: MongoJobs, tenant: str) -> None:
    job = jobs.create(a_job(tenant, schedule="nightly"))
    jobs.create(a_job(tenant, "july"))
    jobs.create(a_job(f"{tenant}b"))

    assert jobs.count_open(tenant, "docs") == 2
    assert jobs.count_open(tenant, "docs", "nightly") == 1
    running = expanded(jobs, job, 2_500)
    assert jobs.count_open(tenant, "docs", "nightly") == 1
    jobs.end(running, DONE, {"done": 2_500}, NOW)
    assert (jobs.count_open(tenant, "docs"), jobs.count_open(tenant, "docs", "nightly")) == (1, 0)


# ---- batches -----------------------------------------------------------------------------------


def test_a_batch_is_opened_once_and_whoever_comes_goes_on_with_it(
    jobs: MongoJobs, tenant: str
) -> None:
    job = jobs.create(a_job(tenant))
    start = Barrier(6)

    def open_one(number: int) -> TaskBatch | None:
        start.wait()
        return jobs.open_batch(job, a_batch(salt=number)).batch

    with ThreadPoolExecutor(6) as pool:
        opened = list(pool.map(open_one, range(6)))

    assert len(set(opened)) == 1
    assert jobs.get(tenant, "docs", "june").batch == opened[0]
    assert {type(one) for one in opened[0].ids} == {int}


def test_ids_of_every_kind_come_back_as_they_were(jobs: MongoJobs, tenant: str) -> None:
    job = jobs.create(a_job(tenant))
    batch = TaskBatch(first=0, ids=(7, 2**62, "0198c0de" * 4, "65f0aa11" * 3), queued_at=NOW)

    assert jobs.open_batch(job, batch).batch == batch


def test_a_batch_closes_once_and_the_last_one_lets_the_job_run(
    jobs: MongoJobs, tenant: str
) -> None:
    job = expanded(jobs, jobs.create(a_job(tenant)), 2_000)
    assert (job.state, job.expanded, job.batch) == (EXPANDING, 2_000, None)
    last = a_batch(2_000, 500)
    opened = jobs.open_batch(job, last)

    closed = jobs.close_batch(opened, last, NOW + SECOND, 2, ["no host", "$no"])

    assert (closed.state, closed.expanded, closed.batch) == (RUNNING, 2_500, None)
    assert closed.expanded_at == NOW + SECOND
    assert (closed.refused, closed.refusals) == (2, ("no host", "$no"))
    assert jobs.close_batch(opened, last, NOW + 9 * SECOND, 2, ["again"]) == closed
    assert jobs.open_batch(closed, a_batch(2_500)) == closed
    assert jobs.get(tenant, "docs", "june") == closed


def test_a_batch_that_was_closed_is_neither_opened_nor_closed_again(
    jobs: MongoJobs, tenant: str
) -> None:
    job = jobs.create(a_job(tenant))
    first = a_batch(0, 10)
    opened = jobs.open_batch(job, first)
    jobs.close_batch(opened, first, NOW)
    second = a_batch(10, 10)
    standing = jobs.open_batch(opened, second)

    assert jobs.open_batch(job, first) == standing
    assert jobs.close_batch(opened, first, NOW, 5, ["late"]) == standing
    assert (standing.expanded, standing.batch, standing.refused) == (10, second, 0)


def test_some_reasons_are_kept_whatever_is_refused(jobs: MongoJobs, tenant: str) -> None:
    job = jobs.create(a_job(tenant))
    for first in (0, 8, 16):
        batch = a_batch(first, 8)
        opened = jobs.open_batch(job, batch)
        reasons = [f"{first + n} is wrong" + "!" * 1_000 for n in range(8)]
        job = jobs.close_batch(opened, batch, NOW, 8, reasons)

    assert job.refused == 24
    assert len(job.refusals) == MOST_REFUSALS
    assert [reason.split()[0] for reason in job.refusals] == [str(n) for n in range(10)]
    assert {len(reason) for reason in job.refusals} == {LONGEST_REFUSAL}


def test_what_is_gone_can_be_neither_opened_nor_closed(jobs: MongoJobs, tenant: str) -> None:
    job = a_job(tenant)

    assert jobs.open_batch(job, a_batch()) is None
    assert jobs.close_batch(job, a_batch(), NOW) is None
    assert jobs.cancel(tenant, "docs", "june", NOW) is None
    assert jobs.end(job, DONE, {}, NOW) is False
    jobs.reschedule(job, NOW, "no effect")
    assert jobs.get(tenant, "docs", "june") is None


# ---- placed ------------------------------------------------------------------------------------


def test_a_job_that_waits_is_placed_once_and_by_whom_is_known(jobs: MongoJobs, tenant: str) -> None:
    job = jobs.create(a_job(tenant, state=JobState.PLACING))
    jobs.reschedule(job, NOW, "no worker has looked at it yet", NOW + SECOND)
    assert names(jobs.placing(5)) == ["june"]
    assert jobs.placing(5, NOW) == []
    assert jobs.expandable(5) == []

    placed = jobs.place(job, "far", "w1", 7, NOW + SECOND)

    assert placed is not None
    assert (placed.state, placed.pool, placed.worker, placed.award) == (EXPANDING, "far", "w1", 7)
    assert (placed.trouble, placed.start, placed.placed_at) == (None, job.start, NOW + SECOND)
    assert jobs.placing(5) == []
    assert names(jobs.expandable(5)) == ["june"]
    # An answer that was lost may be asked for again; another's award counts for nothing.
    assert jobs.place(job, "far", "w1", 7, NOW + 2 * SECOND) == placed
    for worker, number in (("w2", 7), ("w1", 8), (None, None)):
        assert jobs.place(job, None, worker, number, NOW + 2 * SECOND) is None
    assert jobs.get(*job.key) == placed


def test_a_job_for_which_nobody_is_waited_any_more_is_anybodys(
    jobs: MongoJobs, tenant: str
) -> None:
    job = jobs.create(a_job(tenant, state=JobState.PLACING, pool="far"))

    placed = jobs.place(job, None, None, None, NOW)

    assert placed is not None
    assert (placed.state, placed.pool, placed.worker) == (EXPANDING, None, None)
    assert jobs.place(job, None, None, None, NOW) is None


def test_many_place_a_job_at_once_and_one_of_them_has_it(jobs: MongoJobs, tenant: str) -> None:
    job = jobs.create(a_job(tenant, state=JobState.PLACING))
    together = Barrier(6)

    def place(number: int) -> Job | None:
        together.wait()
        return jobs.place(job, None, f"w{number}", number, NOW)

    with ThreadPoolExecutor(6) as pool:
        found = [one for one in pool.map(place, range(6)) if one is not None]

    assert len(found) == 1
    assert jobs.get(*job.key) == found[0]


def test_a_job_that_suits_nobody_ends_and_says_why(jobs: MongoJobs, tenant: str) -> None:
    job = jobs.create(a_job(tenant, state=JobState.PLACING))
    other = jobs.create(a_job(tenant, "july", state=JobState.PLACING))
    jobs.note_lowered(job, 3)
    jobs.note_lowered(job, 2)
    assert jobs.get(*job.key).lowered == 3

    assert jobs.unplace(job, "memory: 1 GB left, 9 GB wanted", NOW)

    found = jobs.get(*job.key)
    assert (found.state, found.ended_at) == (JobState.UNPLACED, NOW)
    assert found.trouble == "memory: 1 GB left, 9 GB wanted"
    assert jobs.place(job, None, "w1", 1, NOW) is None
    assert not jobs.unplace(job, "again", NOW)
    jobs.note_lowered(job, 9)
    assert jobs.get(*job.key) == found
    assert names(jobs.unplaced(NOW, 5)) == ["june"]
    assert jobs.unplaced(NOW + SECOND, 5) == []
    assert jobs.unplaced(NOW, 0) == []
    assert jobs.count_open(tenant, "docs") == 1
    assert names(jobs.placing(5)) == ["july"]
    assert jobs.cancel(*other.key, NOW).state is CANCELLING
    assert jobs.placing(5) == []
    assert not jobs.unplace(other, "too late", NOW)
