"""ports.JobStore over memory and a real MongoDB."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from msgspec.structs import replace

from tests.contract.job_cases import PATTERN, a_batch, a_job
from tests.contract.store_cases import NOW
from tests.kit.implementations import fixture_over
from tests.kit.jobs import (
    LONGEST_REFUSAL,
    MOST_REFUSALS,
    Job,
    JobState,
    JobStore,
    MongoJobs,
    TaskBatch,
)
from tests.kit.kernel import StoreUnavailableError
from tests.kit.mongo import UnstorableError
from tests.kit.mongo_nodes import NodesOnOneServer, nodes_at
from tests.kit.requests import JOB_LIFE
from tests.kit.spiders import LinkNeeds, Range, Start

SECOND = timedelta(seconds=1)
EXPANDING, RUNNING = JobState.EXPANDING, JobState.RUNNING
CANCELLING, CANCELLED, DONE = JobState.CANCELLING, JobState.CANCELLED, JobState.DONE


jobs = fixture_over(JobStore)


def names(found: list[Job]) -> list[str]:
    return [job.name for job in found]


def of_biz(jobs: JobStore, tenant: str, **changes: object) -> list[str]:
    asked: dict = {"states": (), "spider": None, "schedule": None, "after": None, "limit": 100}
    return names(jobs.of_biz(tenant, "docs", **{**asked, **changes}))


def expanded(jobs: JobStore, job: Job, upto: int) -> Job:
    """The job with so many of its tasks stored."""
    while job.expanded < upto:
        batch = a_batch(job.expanded, min(1_000, upto - job.expanded))
        opened = jobs.open_batch(job, batch)
        assert opened is not None
        assert opened.batch == batch
        closed = jobs.close_batch(opened, batch, NOW)
        assert closed is not None
        job = closed
    return job


def test_a_job_is_kept_with_all_that_it_has(jobs: JobStore, tenant: str) -> None:
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


def test_a_job_of_one_name_is_created_once_whoever_comes(jobs: JobStore, tenant: str) -> None:
    start = Barrier(6)

    def create(number: int) -> Job:
        start.wait()
        return jobs.create(a_job(tenant, priority=number))

    with ThreadPoolExecutor(6) as pool:
        created = list(pool.map(create, range(6)))

    assert len({job.priority for job in created}) == 1
    assert jobs.create(a_job(tenant, priority=9)) == created[0]
    assert jobs.create(a_job(f"{tenant}b", priority=9)).priority == 9


def test_a_thousand_urls_of_eight_thousand_letters_fit(jobs: JobStore, tenant: str) -> None:
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


def test_a_pattern_longer_than_a_url_is_read_back(jobs: JobStore, tenant: str) -> None:
    """What was filled in may have made it longer than what a client may give."""
    start = Start(pattern="https://site.example/{n}".ljust(9_000, "x"), values={"n": Range(last=2)})
    jobs.create(a_job(tenant, start=start))

    assert jobs.get(tenant, "docs", "june").start == start


def test_jobs_of_a_biz_are_listed_the_newest_first(jobs: JobStore, tenant: str) -> None:
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


def test_the_versions_that_open_jobs_name_are_told(jobs: JobStore, tenant: str) -> None:
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


def test_open_jobs_are_counted_until_they_end(jobs: JobStore, tenant: str) -> None:
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
    jobs: JobStore, tenant: str
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


def test_ids_of_every_kind_come_back_as_they_were(jobs: JobStore, tenant: str) -> None:
    job = jobs.create(a_job(tenant))
    batch = TaskBatch(first=0, ids=(7, 2**62, "0198c0de" * 4, "65f0aa11" * 3), queued_at=NOW)

    assert jobs.open_batch(job, batch).batch == batch


def test_a_batch_closes_once_and_the_last_one_lets_the_job_run(jobs: JobStore, tenant: str) -> None:
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
    jobs: JobStore, tenant: str
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


def test_some_reasons_are_kept_whatever_is_refused(jobs: JobStore, tenant: str) -> None:
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


def test_what_is_gone_can_be_neither_opened_nor_closed(jobs: JobStore, tenant: str) -> None:
    job = a_job(tenant)

    assert jobs.open_batch(job, a_batch()) is None
    assert jobs.close_batch(job, a_batch(), NOW) is None
    assert jobs.cancel(tenant, "docs", "june", NOW) is None
    assert jobs.end(job, DONE, {}, NOW) is False
    jobs.look(job, NOW, "no effect")
    assert jobs.get(tenant, "docs", "june") is None


# ---- cancelled and ended -----------------------------------------------------------------------


def test_a_cancelled_job_closes_its_batch_and_makes_no_other(jobs: JobStore, tenant: str) -> None:
    job = jobs.open_batch(jobs.create(a_job(tenant)), a_batch(0, 100))

    cancelled = jobs.cancel(tenant, "docs", "june", NOW + SECOND)

    assert (cancelled.state, cancelled.cancelled_at) == (CANCELLING, NOW + SECOND)
    assert jobs.cancel(tenant, "docs", "june", NOW + 9 * SECOND) == cancelled
    assert names(jobs.expandable(9)) == names(jobs.watched(9)) == ["june"]
    assert jobs.end(cancelled, CANCELLED, {}, NOW) is False  # tasks may not all be stored
    closed = jobs.close_batch(job, job.batch, NOW)
    assert (closed.state, closed.expanded, closed.batch) == (CANCELLING, 100, None)
    assert closed.expanded_at is None
    assert jobs.open_batch(closed, a_batch(100)) == closed
    assert (names(jobs.expandable(9)), names(jobs.watched(9))) == ([], ["june"])
    assert jobs.end(closed, CANCELLED, {"cancelled": 100}, NOW) is True
    assert jobs.watched(9) == []


def test_a_cancelled_job_is_swept_at_its_own_time(jobs: JobStore, tenant: str) -> None:
    job = jobs.open_batch(jobs.create(a_job(tenant)), a_batch(0, 100))
    later = NOW + 300 * SECOND
    assert jobs.sweepable(9) == []

    cancelled = jobs.cancel(tenant, "docs", "june", NOW)
    jobs.look(job, NOW, "as it expanded", later)
    assert jobs.get(tenant, "docs", "june") == cancelled
    jobs.look(cancelled, NOW, "cannot be stored", later)

    assert names(jobs.sweepable(9, NOW)) == ["june"]
    assert jobs.expandable(9, NOW) == []
    jobs.swept(cancelled, NOW, NOW + SECOND, "a node is away")
    found = jobs.get(tenant, "docs", "june")
    assert (found.sweep_at, found.due_at) == (NOW + SECOND, later)
    assert (found.trouble, found.troubles) == ("a node is away", 2)
    assert jobs.sweepable(9, NOW) == []
    assert names(jobs.sweepable(9)) == names(jobs.sweepable(9, NOW + SECOND)) == ["june"]

    closed = jobs.close_batch(job, job.batch, NOW)
    assert jobs.end(closed, CANCELLED, {}, NOW) is True
    jobs.swept(closed, NOW, NOW, "too late")
    found = jobs.get(tenant, "docs", "june")
    assert (found.state, found.sweep_at, found.trouble) == (CANCELLED, None, None)
    assert jobs.sweepable(9) == []


def test_the_last_batch_of_a_cancelled_job_does_not_let_it_run(jobs: JobStore, tenant: str) -> None:
    job = expanded(jobs, jobs.create(a_job(tenant)), 2_000)
    opened = jobs.open_batch(job, a_batch(2_000, 500))
    jobs.cancel(tenant, "docs", "june", NOW)

    closed = jobs.close_batch(opened, opened.batch, NOW)

    assert (closed.state, closed.expanded) == (CANCELLING, 2_500)


def test_a_job_ends_once_in_the_state_that_was_seen(jobs: JobStore, tenant: str) -> None:
    job = jobs.create(a_job(tenant))
    running = expanded(jobs, job, 2_500)
    jobs.look(running, NOW, "a node is away", NOW + SECOND)

    assert jobs.end(job, DONE, {}, NOW) is False
    start = Barrier(5)

    def end(number: int) -> bool:
        start.wait()
        return jobs.end(running, DONE, {"done": number}, NOW + SECOND)

    with ThreadPoolExecutor(5) as pool:
        assert sorted(pool.map(end, range(5))) == [False] * 4 + [True]

    ended = jobs.get(tenant, "docs", "june")
    assert (ended.state, ended.ended_at, ended.trouble) == (DONE, NOW + SECOND, None)
    assert list(ended.counts) == ["done"]
    assert jobs.cancel(tenant, "docs", "june", NOW) == ended
    jobs.look(ended, NOW, "too late")
    assert jobs.get(tenant, "docs", "june") == ended
    assert jobs.expandable(9) == jobs.watched(9) == []


def test_a_cancelled_job_does_not_end_as_one_that_runs(jobs: JobStore, tenant: str) -> None:
    running = expanded(jobs, jobs.create(a_job(tenant)), 2_500)
    cancelling = jobs.cancel(tenant, "docs", "june", NOW)

    assert jobs.end(running, DONE, {}, NOW) is False
    assert jobs.end(cancelling, CANCELLED, {}, NOW) is True


def test_a_job_that_waits_for_a_worker_makes_no_tasks(jobs: JobStore, tenant: str) -> None:
    placing = jobs.create(a_job(tenant, state=JobState.PLACING))

    assert jobs.expandable(9) == jobs.watched(9) == []
    assert jobs.open_batch(placing, a_batch()) == placing
    assert jobs.count_open(tenant, "docs") == 1
    assert jobs.end(placing, JobState.UNPLACED, {}, NOW) is True
    assert jobs.count_open(tenant, "docs") == 0


# ---- turns -------------------------------------------------------------------------------------


def test_whoever_was_looked_at_longest_ago_comes_first(jobs: JobStore, tenant: str) -> None:
    for number, name in enumerate("abc"):
        jobs.create(a_job(tenant, name, created_at=NOW + number * SECOND))
    assert names(jobs.expandable(9)) == ["a", "b", "c"]

    jobs.look(a_job(tenant, "a"), NOW + 9 * SECOND)

    assert names(jobs.expandable(9)) == ["b", "c", "a"]
    assert names(jobs.expandable(2)) == ["b", "c"]
    assert jobs.expandable(0) == []
    kept = jobs.get(tenant, "docs", "a")
    assert (kept.looked_at, kept.due_at) == (NOW + 9 * SECOND, NOW + 9 * SECOND)


def test_tenants_take_turns_however_many_jobs_one_has(jobs: JobStore, tenant: str) -> None:
    many, few = f"{tenant}a", f"{tenant}b"
    for number in range(20):
        jobs.create(a_job(many, f"m{number:02}"))
    jobs.create(a_job(few, "f0", created_at=NOW + SECOND))
    jobs.create(a_job(few, "f1", created_at=NOW + SECOND))

    assert names(jobs.expandable(6)) == ["m00", "f0", "m01", "f1", "m02", "m03"]
    assert names(jobs.expandable(1)) == ["m00"]
    for number in range(20):
        jobs.look(a_job(many, f"m{number:02}"), NOW + 2 * SECOND)
    assert names(jobs.expandable(3)) == ["f0", "m00", "f1"]


def test_a_job_in_trouble_says_why_and_is_due_later(jobs: JobStore, tenant: str) -> None:
    job = jobs.create(a_job(tenant))
    for number in (1, 2):
        jobs.look(job, NOW, "the biz is full", NOW + 30 * SECOND)
        kept = jobs.get(tenant, "docs", "june")
        assert (kept.trouble, kept.troubles) == ("the biz is full", number)

    assert jobs.expandable(9, NOW + 29 * SECOND) == []
    assert names(jobs.expandable(9, NOW + 30 * SECOND)) == ["june"]
    assert names(jobs.expandable(9)) == ["june"]
    jobs.look(job, NOW + 30 * SECOND)
    kept = jobs.get(tenant, "docs", "june")
    assert (kept.trouble, kept.troubles, kept.due_at) == (None, 0, NOW + 30 * SECOND)


def test_a_tenant_cannot_see_or_touch_the_jobs_of_another(jobs: JobStore, tenant: str) -> None:
    other = f"{tenant}b"
    mine = jobs.create(a_job(tenant))

    assert jobs.get(other, "docs", "june") is None
    assert jobs.cancel(other, "docs", "june", NOW) is None
    assert jobs.open_batch(replace(mine, tenant=other), a_batch()) is None
    assert jobs.end(replace(mine, tenant=other), EXPANDING, {}, NOW) is False
    jobs.look(replace(mine, tenant=other), NOW, "not yours")
    assert jobs.get(tenant, "docs", "june") == mine


# ---- placed ------------------------------------------------------------------------------------


def test_a_job_that_waits_is_placed_once_and_by_whom_is_known(jobs: JobStore, tenant: str) -> None:
    job = jobs.create(a_job(tenant, state=JobState.PLACING))
    jobs.look(job, NOW, "no worker has looked at it yet", NOW + SECOND)
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


def test_a_job_for_which_nobody_is_waited_any_more_is_anybodys(jobs: JobStore, tenant: str) -> None:
    job = jobs.create(a_job(tenant, state=JobState.PLACING, pool="far"))

    placed = jobs.place(job, None, None, None, NOW)

    assert placed is not None
    assert (placed.state, placed.pool, placed.worker) == (EXPANDING, None, None)
    assert jobs.place(job, None, None, None, NOW) is None


def test_many_place_a_job_at_once_and_one_of_them_has_it(jobs: JobStore, tenant: str) -> None:
    job = jobs.create(a_job(tenant, state=JobState.PLACING))
    together = Barrier(6)

    def place(number: int) -> Job | None:
        together.wait()
        return jobs.place(job, None, f"w{number}", number, NOW)

    with ThreadPoolExecutor(6) as pool:
        found = [one for one in pool.map(place, range(6)) if one is not None]

    assert len(found) == 1
    assert jobs.get(*job.key) == found[0]


def test_a_job_that_suits_nobody_ends_and_says_why(jobs: JobStore, tenant: str) -> None:
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


# ---- MongoDB alone -----------------------------------------------------------------------------


def test_mongodb_removes_what_has_ended_and_nothing_that_is_open(
    mongo_connection: NodesOnOneServer, tenant: str
) -> None:
    jobs = MongoJobs(mongo_connection)
    jobs.create(a_job(tenant))
    running = expanded(jobs, jobs.create(a_job(tenant, "ended")), 2_500)
    jobs.end(running, DONE, {}, NOW)

    collection = mongo_connection.control("jobs")
    indexes = collection.index_information()
    assert indexes["ttl"]["key"] == [("ended_at", 1)]
    assert indexes["ttl"]["expireAfterSeconds"] == JOB_LIFE.total_seconds()
    assert [one["name"] for one in collection.find({"ended_at": {"$exists": True}})] == ["ended"]


def test_lists_are_read_through_their_indexes_and_hold_no_urls(
    mongo_connection: NodesOnOneServer, tenant: str
) -> None:
    jobs = MongoJobs(mongo_connection)
    for number in range(30):
        state = (EXPANDING, RUNNING, DONE)[number % 3]
        jobs.create(a_job(tenant, f"j{number}", state=state))
    collection = mongo_connection.control("jobs")

    def examined(match: dict, hint: str) -> int:
        plan = collection.find(match).hint(hint).explain()
        return plan["executionStats"]["totalDocsExamined"]

    assert examined({"making": True, "tenant": tenant}, "making") == 10
    assert examined({"watched": True, "tenant": tenant}, "watched") == 10
    assert len(jobs.expandable(100)) == len(jobs.watched(100)) == 10


def test_a_job_that_mongodb_cannot_hold_is_refused_in_words(mongo_uri: str, tenant: str) -> None:
    urls = tuple(f"https://site.example/{n:04}/".ljust(8_000, "\N{SNAKE}") for n in range(1_000))
    with nodes_at(mongo_uri) as nodes, pytest.raises(UnstorableError):
        MongoJobs(nodes).create(a_job(tenant, start=Start(urls=urls)))


def test_a_node_that_is_away_is_said_to_be(tenant: str) -> None:
    with nodes_at("mongodb://127.0.0.1:9/?directConnection=false") as nodes:
        jobs = MongoJobs(nodes)
        with pytest.raises(StoreUnavailableError):
            jobs.create(a_job(tenant, start=PATTERN))
        with pytest.raises(StoreUnavailableError):
            jobs.expandable(1)


def test_a_job_that_cannot_be_read_hinders_none_and_is_put_off(
    mongo_connection: NodesOnOneServer, tenant: str
) -> None:
    jobs = MongoJobs(mongo_connection)
    for name in ("a-odd", "june"):
        jobs.create(a_job(tenant, name=name))
    odd = {"_id": f"{tenant}/docs/a-odd"}
    mongo_connection.control("jobs").update_one(odd, {"$set": {"state": "of_the_next_release"}})

    assert jobs.expandable(1, NOW + SECOND) == []
    assert names(jobs.expandable(1, NOW + SECOND)) == ["june"]
    assert names(jobs.expandable(9)) == ["june"]
