"""Jobs as clients see them: one under a name, bounded a biz, listed, their failed tasks retried."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.fakes.dead_letters import MemoryDeadLetters
from tests.fakes.jobs import MemoryJobReopening
from tests.fakes.spiders import MemorySpiders
from tests.kit.dead_letters import DeadLetters
from tests.kit.jobs import (
    JobOrder,
    JobService,
    JobStarter,
    JobState,
    SubmittedJobs,
    TaskBatch,
    jobs,
)
from tests.kit.kernel import (
    ConflictError,
    InvalidRequestError,
    KeyReusedError,
    NotFoundError,
    QuotaExceededError,
    UnknownBizError,
)
from tests.kit.requests import Dead, Submission
from tests.kit.spiders import Range, SpiderPlan, Start
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.memory import DOCS, World, make_biz, make_tree

URLS = Start(urls=("https://a.example/1", "https://a.example/2"))
PAGES = Start(pattern="https://a.example/{kind}/{n}", values={"n": Range(last=3)})


def ports(world: World, **changes: object) -> JobService:
    if not hasattr(world, "spiders"):
        world.spiders = MemorySpiders()
    starter = JobStarter(jobs=world.jobs, spiders=world.spiders, rules=world.rules)
    facts: dict = {
        "starter": starter,
        "submitted": SubmittedJobs(
            jobs=world.jobs, seeds=world.seeds, store=world.store, ledgers=world.ledgers
        ),
        "ledgers": world.ledgers,
        "workers": world.workers,
        "waker": world,
    }
    return JobService(**(facts | changes))


def order(**changes: object) -> JobOrder:
    facts: dict = {"tenant": "default", "biz": "docs", "by": "api", "start": URLS}
    return JobOrder(**(facts | changes))


def start(world: World, key: str | None = None, **changes: object) -> jobs.Started:
    return ports(world).start(world.tree, order(**changes), key, world.now)


def test_a_job_is_started_and_somebody_woken_to_make_its_tasks(world):
    started = start(world, name="june")

    assert started.is_new
    assert (started.job.name, started.job.state, started.job.size) == (
        "june",
        JobState.EXPANDING,
        2,
    )
    assert world.jobs.get("default", "docs", "june") == started.job
    assert world.woken == [1]


def test_the_same_order_under_the_same_name_is_one_job(world):
    first = start(world, name="june", priority=7)
    world.now += timedelta(hours=1)

    again = start(world, name="june", priority=7)

    assert again == jobs.Started(first.job, is_new=False)
    assert start(world, name="june").job == first.job  # what it leaves open may be anything


@pytest.mark.parametrize(
    "other",
    [
        {"start": PAGES, "values": {"kind": "x"}},
        {"priority": 9},
        {"start": Start(urls=("https://a.example/1",))},
    ],
)
def test_a_name_that_stands_for_another_order_is_refused(world, other):
    start(world, name="june")

    with pytest.raises(ConflictError, match="june"):
        start(world, name="june", **other)


def test_what_a_schedule_has_started_is_not_the_clients(world):
    start(world, name="june", by="schedule", schedule="nightly", fire_at=world.now)

    with pytest.raises(ConflictError, match="june"):
        start(world, name="june")


def test_an_idempotency_key_gives_one_job(world):
    first = start(world, key="order-1")

    assert start(world, key="order-1") == jobs.Started(first.job, is_new=False)
    assert first.job.name.startswith("key.")
    assert start(world, key="order-2").job.name != first.job.name
    with pytest.raises(KeyReusedError):
        start(world, key="order-1", start=Start(urls=("https://a.example/9",)))


def test_a_name_counts_more_than_a_key(world):
    assert start(world, key="order-1", name="june").job.name == "june"
    assert start(world, key="order-2", name="june").is_new is False


def test_a_name_that_requests_were_submitted_under_is_refused(world):
    page = Submission(url="https://a.example/", job="june")
    world.submission().submit(world.tree, "default", "docs", [page], world.now)

    with pytest.raises(ConflictError, match="submitted under"):
        start(world, name="june")
    assert world.jobs.get("default", "docs", "june") is None


def test_a_biz_has_so_many_open_jobs_and_ended_ones_make_room(world):
    world.tree = make_tree(make_biz(open_jobs=2))
    first, _ = start(world, name="a"), start(world, name="b")

    with pytest.raises(QuotaExceededError, match="2 open jobs"):
        start(world, name="c")
    assert start(world, name="a").is_new is False
    assert start(world, name="c", tenant="acme").is_new

    assert world.jobs.end(first.job, JobState.DONE, {}, world.now)
    assert start(world, name="c").is_new


def test_a_run_of_a_spider_carries_its_version_and_its_values(world):
    tools = ports(world)
    plan = SpiderPlan(rule="page", start=PAGES, priority=2)
    world.spiders.put("default", "docs", "shop", plan, world.now)

    job = tools.start(
        world.tree,
        order(spider="shop", start=None, values={"kind": "new"}, name="june"),
        None,
        world.now,
    ).job

    assert (job.spider, job.spider_version, job.priority, job.size) == ("shop", 1, 2, 3)
    again = order(spider="shop", start=None, values={"kind": "new"}, name="june", version=1)
    assert tools.start(world.tree, again, None, world.now).job == job
    other = replace(again, version=2)
    with pytest.raises(ConflictError):
        tools.start(world.tree, other, None, world.now)
    with pytest.raises(ConflictError):
        tools.start(world.tree, replace(again, values={"kind": "old"}), None, world.now)


def test_what_is_wrong_is_named_and_nothing_kept(world):
    with pytest.raises(InvalidRequestError, match=r"values\.kind"):
        start(world, start=PAGES, name="june")
    with pytest.raises(UnknownBizError):
        start(world, biz="nope", name="june")
    with pytest.raises(NotFoundError, match="shop"):
        start(world, spider="shop", start=None, name="june")
    assert world.jobs.get("default", "docs", "june") is None
    assert world.woken == []


def test_a_job_is_kept_though_nobody_can_be_woken(world):
    found = ports(world, workers=Broken()).start(world.tree, order(name="june"), None, world.now)

    assert found.is_new
    assert any("next tick" in warning for warning in world.warnings)


# ---- looking -----------------------------------------------------------------------------------


def test_a_job_is_looked_at_with_its_ledger(world):
    start(world, name="june")

    seen = ports(world).get(world.tree, ("default", "docs", "june"), world.now)

    assert (seen.job.name, seen.ledger.submitted) == ("june", 0)
    for key in (("acme", "docs", "june"), ("default", "docs", "july")):
        with pytest.raises(NotFoundError):
            ports(world).get(world.tree, key, world.now)


def listed(world: World, cursor: str | None = None, limit: int = 2, **changes: object):
    facts: dict = {"states": (), "spider": None, "schedule": None, "now": world.now}
    return ports(world).list_jobs(
        world.tree, "default", "docs", cursor=cursor, limit=limit, **(facts | changes)
    )


def test_jobs_are_listed_in_pages_the_newest_first(world):
    for name in ("a", "b", "c"):
        start(world, name=name)
        world.now += timedelta(seconds=1)
    start(world, name="z", tenant="acme")

    first = listed(world)
    second = listed(world, first.cursor)

    assert [one.job.name for one in (*first.items, *second.items)] == ["c", "b", "a"]
    assert (first.more, second.more, second.cursor) == (True, False, None)
    assert listed(world, states=(JobState.DONE,)).items == []


@pytest.mark.parametrize("cursor", ["", "x", "eA", "MTIz", "é", "=" * 9])
def test_a_cursor_of_nobodys_is_refused(world, cursor):
    with pytest.raises(InvalidRequestError, match="cursor"):
        listed(world, cursor)


# ---- retrying ----------------------------------------------------------------------------------


def failed(world: World, count: int, state: JobState = JobState.DONE) -> None:
    """A job of which so many tasks are dead."""
    job = start(world, name="june").job
    pages = [Submission(url=f"https://a.example/{n}", job="june") for n in range(count)]
    receipts = world.submission().submit(world.tree, "default", "docs", pages, world.now)
    entries = world.queue.lease(DOCS, "w:1", count, world.now, world.now + timedelta(minutes=1))
    until = world.now + timedelta(minutes=1)
    claims = world.store.claim(DOCS, world.biz, entries, "w", world.now, until, "w:1")
    assert len(claims) == len(receipts)
    outcomes = [(claim, Dead("gone", "PageGone")) for claim in claims]
    world.store.settle(DOCS, world.biz, outcomes, "w", world.now)
    if state is JobState.CANCELLING:
        world.jobs.cancel("default", "docs", "june", world.now)
    elif state is not JobState.EXPANDING:
        world.jobs.end(job, state, {"dead": count}, world.now)


def retry(
    world: World, tools: JobService | None = None, search_seconds: float = 5.0
) -> jobs.Retried:
    dead_letters = DeadLetters(
        dead_letters=MemoryDeadLetters(world.store.state),
        store=world.store,
        queue=world.queue,
        workers=world.workers,
        waker=world,
        rules=world.rules,
        journal=world.journal,
        search_seconds=search_seconds,
    )
    return (tools or ports(world)).retry_failed(
        dead_letters,
        MemoryJobReopening(world.jobs),
        world.tree,
        ("default", "docs", "june"),
        current_rule=False,
        by="api:default",
        now=world.now,
    )


def test_failed_tasks_are_worked_on_again_and_the_job_runs(world):
    failed(world, 3)

    done = retry(world)

    assert (done.count, done.skipped, done.more) == (3, 0, False)
    assert (done.job.state, done.job.ended_at, done.job.counts) == (JobState.RUNNING, None, {})
    ledger = world.ledgers.audit(DOCS, world.biz, world.now, "june")
    assert (ledger.dead, ledger.pending, ledger.difference) == (0, 3, 0)


def test_a_job_of_which_nothing_has_failed_stays_done(world):
    failed(world, 0)

    assert retry(world).job.state is JobState.DONE


def test_a_job_that_is_still_made_stays_so(world):
    failed(world, 2, JobState.EXPANDING)

    done = retry(world)
    assert (done.count, done.job.state) == (2, JobState.EXPANDING)


def test_whoever_died_after_the_replay_has_the_job_run_by_calling_again(world):
    failed(world, 2)

    class Dying:
        def __getattr__(self, name):
            raise RuntimeError(name)

    with pytest.raises(RuntimeError):
        retry(world, ports(world, ledgers=Dying()))
    assert world.jobs.get("default", "docs", "june").state is JobState.DONE

    done = retry(world)
    assert (done.count, done.job.state) == (0, JobState.RUNNING)


@pytest.mark.parametrize("state", [JobState.CANCELLING, JobState.CANCELLED, JobState.UNPLACED])
def test_of_what_was_cancelled_nothing_is_retried(world, state):
    failed(world, 2, state)

    with pytest.raises(ConflictError, match=state.value):
        retry(world)
    assert world.ledgers.audit(DOCS, world.biz, world.now, "june").dead == 2


def test_a_retry_that_takes_long_says_that_there_is_more(world):
    failed(world, 5)
    tools = ports(world, retries=2, retry_seconds=-1.0)

    done = retry(world, tools)
    assert (done.count, done.more) == (2, True)
    assert (retry(world, tools).count, retry(world, tools).count) == (2, 1)


def test_many_are_retried_in_one_call(world):
    failed(world, 5)

    assert retry(world, ports(world, retries=2), search_seconds=0.0).count == 5


def test_a_job_that_ends_while_it_is_retried_runs_again(world):
    failed(world, 3, JobState.EXPANDING)
    making = world.jobs.get("default", "docs", "june")
    batch = TaskBatch(first=0, ids=tuple(range(1, making.size + 1)), queued_at=world.now)
    running = world.jobs.close_batch(world.jobs.open_batch(making, batch), batch, world.now)
    assert running.state is JobState.RUNNING

    class Ends:
        """A ledger store that lets another caller end the job by the ledger before the replay."""

        def __getattr__(self, name):
            return getattr(world.ledgers, name)

        def totals(self, *asked):
            job = world.jobs.get("default", "docs", "june")
            assert not world.jobs.end(running, JobState.DONE, {"dead": 3}, world.now)
            assert world.jobs.end(job, JobState.DONE, {"dead": 3}, world.now)
            return world.ledgers.totals(*asked)

    done = retry(world, ports(world, ledgers=Ends()))

    assert (done.count, done.job.state, done.job.counts) == (3, JobState.RUNNING, {})


def test_a_retry_of_no_job_is_reported_so(world):
    with pytest.raises(NotFoundError):
        retry(world)
