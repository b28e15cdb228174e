from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.examples import examples
from tests.kit.fakes import MemoryIntake
from tests.kit.jobs import MOST_REFUSALS, JobState, end_jobs, expanding
from tests.kit.kernel import BacklogFullError, IdsError, StoreError, StoreUnavailableError
from tests.kit.queue import Rates
from tests.kit.requests import Accepted, Entry, Submission
from tests.kit.spiders import Range, Start
from tests.kit.submission import submit
from tests.unit.flows.job_world import (
    assert_exact,
    begin,
    bounded,
    job_of,
    run,
    tasks,
)
from tests.unit.flows.sending import DiedError
from tests.unit.flows.test_submission_crashes import Trouble
from tests.unit.flows.world import DOCS, OTHER, Failing, World, make_biz, make_tree


class KilledError(BaseException):
    """The process is gone: nothing catches that."""


class Kill(Trouble):
    """Ports of which one call is the process' last."""

    def call(self, function, *args, **named):
        try:
            return super().call(function, *args, **named)
        except DiedError:
            raise KilledError from None


@pytest.fixture
def small(monkeypatch) -> None:
    """Batches of four tasks."""
    monkeypatch.setattr(expanding, "BATCH_LIMIT", 4)


def test_a_job_becomes_as_many_tasks_as_it_has_each_once(world):
    begin(world, 2_345)

    done = run(world)

    assert (done.batches, done.tasks) == (3, 2_345)
    assert job_of(world).state is JobState.RUNNING
    assert job_of(world).expanded_at == world.now
    assert_exact(world)
    assert world.queue.depth(DOCS).queued == 2_345
    assert run(world).batches == 0


def test_tasks_have_the_rule_and_the_version_that_the_job_froze(world):
    job = begin(world, 2)
    edited = replace(world.biz.rules["page"], fields={})
    world.tree = make_tree(make_biz(rules={"page": edited}))

    run(world)

    assert edited.version != job.rule_version
    assert {one.body.rule_version for one in tasks(world)} == {job.rule_version}
    assert world.rules.frozen(DOCS, "page", job.rule_version) is not None


def test_a_thousand_urls_become_a_thousand_tasks(world):
    urls = tuple(f"https://example.org/{n}" for n in range(1_000))
    begin(world, Start(urls=urls))

    assert run(world).batches == 1
    assert_exact(world)


def test_somebody_is_woken_to_work_on_them(world):
    begin(world, 5)

    run(world)

    assert world.woken == [1]


def test_a_url_that_may_not_be_asked_for_is_counted_and_keeps_no_other_from_it(world):
    words = tuple("x" * length for length in (1, 3, 400, 2))
    long = f"https://example.org/{'y' * 7_700}"
    begin(world, Start(pattern=long + "/{n}/{w}", values={"w": words, "n": Range(last=20)}))

    run(world)

    job = job_of(world)
    assert (job.state, job.expanded, job.refused) == (JobState.RUNNING, 80, 20)
    assert len(tasks(world)) == 60
    assert len(job.refusals) == MOST_REFUSALS
    assert all(one.endswith("must not be longer than 8,000 characters") for one in job.refusals)


def test_a_job_of_which_every_url_is_refused_runs_with_nothing_to_do(world):
    job = replace(begin(world), name="odd", start=Start(urls=("ftp://a.example/",)), size=1)
    world.jobs.create(job)

    run(world)

    odd = job_of(world, "odd")
    assert (odd.state, odd.refused) == (JobState.RUNNING, 1)
    assert odd.refusals == ("ftp://a.example/: must be an http or https URL",)
    assert tasks(world, "odd") == []


# ---- kills -------------------------------------------------------------------------------------


@examples(1.5)
@given(
    at=st.integers(1, 60),
    what=st.sampled_from(["dies before", "dies after", "away", "unanswered", "another meanwhile"]),
    size=st.sampled_from([1, 4, 9, 12]),
    minutes=st.sampled_from([0, 10, 600]),
)
def test_whoever_dies_wherever_the_job_has_its_tasks_once(at, what, size, minutes):
    world = World()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expanding, "BATCH_LIMIT", 4)
        begin(world, size)
        trouble = Kill(at, what, lambda: run(world) and None)
        ports = {name: trouble.around(getattr(world, name)) for name in PORTS}
        with suppress(KilledError, StoreUnavailableError):
            run(world, jobs=trouble.around(world.jobs), **ports)
        before = {one.body.url: one.id for one in tasks(world)}

        world.now += timedelta(minutes=minutes)
        run(world, rounds=3)

        assert before.items() <= {one.body.url: one.id for one in tasks(world)}.items()
        assert_exact(world)
        assert job_of(world).state is JobState.RUNNING
        end_jobs(world.ending(), world.tree, world.clock, lambda: 60.0)
        assert job_of(world).trouble is None


#: What an expander calls, beside the jobs.
PORTS = ("ids", "store", "queue", "rules", "intake", "workers")


def test_a_batch_that_stood_for_an_hour_keeps_its_ids_and_its_time(world, small):
    begin(world, 9)
    with pytest.raises(KilledError):
        run(world, store=Kill(1, "dies before", lambda: None).around(world.store))
    standing = job_of(world).batch
    world.now += timedelta(hours=1)

    run(world)

    first = [one for one in tasks(world) if one.id in standing.ids]
    assert len(first) == 4
    assert {one.queued_at for one in first} == {standing.queued_at}
    assert_exact(world)


def test_what_may_have_been_done_and_gone_is_not_made_again(world, small):
    begin(world, 4)
    died = Kill(1, "dies after", lambda: None)
    with pytest.raises(KilledError):
        run(world, queue=died.around(world.queue))
    kept = world.store.state.of(DOCS).requests
    assert len(kept) == 4
    for gone in list(kept)[:3]:
        del kept[gone]
    world.now += timedelta(seconds=world.biz.ttl_seconds)

    run(world)

    job = job_of(world)
    assert len(tasks(world)) == 1
    assert (job.state, job.refused) == (JobState.RUNNING, 3)
    assert "stood open for longer than the biz's ttl_seconds" in job.refusals[0]


def test_another_expander_between_two_steps_does_no_harm(world, small):
    """Both open, store and close the same batches, in turns."""
    begin(world, 10)
    other = Trouble(0, "", lambda: None)

    class Both:
        def __getattr__(self, name):
            def call(*arguments, **named):
                answer = getattr(world.jobs, name)(*arguments, **named)
                if name in {"open_batch", "close_batch"} and other.at == 0:
                    other.at = 1
                    run(world, time_left=iter([1.0, 1.0, 1.0, 1.0, *[0.0] * 99]).__next__)
                    other.at = 0
                return answer

            return call

    run(world, jobs=Both())

    assert_exact(world)


# ---- turns -------------------------------------------------------------------------------------


def test_a_large_job_does_not_keep_others_waiting(world, small):
    begin(world, 1_000, "large")
    begin(world, 4, "small")
    calls = iter([1.0] * 12 + [0.0] * 99)

    run(world, time_left=lambda: next(calls))

    assert job_of(world, "small").state is JobState.RUNNING
    assert 0 < job_of(world, "large").expanded < 1_000


def test_tenants_take_turns_however_many_jobs_one_has(world, small):
    for number in range(30):
        begin(world, 1_000, f"j{number}")
    begin(world, 4, "mine", tenant="acme")
    calls = iter([1.0] * 16 + [0.0] * 99)

    run(world, time_left=lambda: next(calls))

    assert_exact(world, "mine", OTHER)


def test_nothing_is_made_when_no_time_is_left(world):
    begin(world)

    assert run(world, time_left=lambda: 0.0).batches == 0
    assert tasks(world) == []


def test_a_cancelled_job_makes_no_more_and_closes_the_batch_that_stands(world, small):
    begin(world, 12)
    died = Kill(1, "dies after", lambda: None)
    with pytest.raises(KilledError):
        run(world, store=died.around(world.store))
    world.jobs.cancel("default", "docs", "june", world.now)
    begin(world, 12, "other")
    world.jobs.cancel("default", "docs", "other", world.now)

    run(world)

    job = job_of(world)
    assert (job.state, job.batch, job.expanded) == (JobState.CANCELLING, None, 4)
    assert len(tasks(world)) == 4
    assert job_of(world, "other").expanded == 0


def test_a_cancelled_job_closes_its_batch_also_where_its_rule_is_gone(world, small):
    begin(world, 12)
    with pytest.raises(KilledError):
        run(world, store=Kill(1, "dies before", lambda: None).around(world.store))
    world.jobs.cancel("default", "docs", "june", world.now)
    world.tree = make_tree(make_biz(rules={"other": world.biz.rules["page"]}))

    run(world)

    assert (job_of(world).batch, job_of(world).expanded) == (None, 4)


def test_a_cancelled_job_of_a_biz_that_is_gone_stores_nothing(world, small):
    begin(world, 12)
    with pytest.raises(KilledError):
        run(world, store=Kill(1, "dies before", lambda: None).around(world.store))
    world.jobs.cancel("default", "docs", "june", world.now)
    del world.tree.bizs["default"]["docs"]

    run(world)

    assert job_of(world).batch is None
    assert tasks(world) == []


# ---- trouble -----------------------------------------------------------------------------------


def test_a_crowded_biz_pauses_its_job_and_no_other(world):
    bounded(world, max_backlog=1_500)
    begin(world, 2_000)
    begin(world, 1_200, "theirs", tenant="acme")

    run(world)

    job = job_of(world)
    assert (job.expanded, job.state) == (750, JobState.EXPANDING)
    assert job.trouble is None  # it is as it should be
    assert job.due_at - world.now <= timedelta(seconds=30)
    assert world.warnings == []
    theirs = job_of(world, "theirs", "acme")
    assert (theirs.expanded, theirs.trouble) == (750, None)
    bounded(world, max_backlog=5_000)
    world.now += timedelta(seconds=30)
    run(world)
    assert_exact(world)
    assert job_of(world).trouble is None


def test_a_biz_that_takes_little_at_once_gets_little_at_once(world):
    bounded(world, max_backlog=300)
    begin(world, 1_000)

    run(world)

    assert job_of(world).expanded == 150


def clients_submit(world: World, count: int) -> None:
    """Queued by others before."""
    entries = [Entry(10**9 + number, "docs", 1) for number in range(count)]
    world.queue.enqueue(DOCS, entries, world.now)


def test_clients_of_a_biz_find_room_while_a_large_job_is_made(world):
    bounded(world, max_backlog=10_000)
    begin(world, 20_000)

    run(world, rounds=3)

    assert job_of(world).expanded == 5_000
    pages = [Submission(url=f"https://a.example/{n}") for n in range(1_000)]
    receipts = submit(world.submission(), world.tree, "default", "docs", pages, world.now)
    assert all(isinstance(one, Accepted) for one in receipts)


def test_a_job_is_made_ahead_as_far_as_its_biz_wants_and_further_as_that_is_worked_off(world):
    bounded(world, jobs_ahead=3_000)
    begin(world, 10_000)

    run(world, rounds=2)
    assert job_of(world).expanded == 3_000
    leased = world.queue.lease(DOCS, "t", 1_000, world.now, world.now + timedelta(hours=1))
    world.queue.finish(DOCS, "t", leased, len(leased), world.now)
    run(world, rounds=2)

    assert job_of(world).expanded == 4_000


def test_a_biz_that_works_off_much_has_a_minute_of_work_ahead(world):
    bounded(world, jobs_ahead=1_000)
    begin(world, 5_000)

    class Busy:
        def rates(self, *_):
            return None, Rates(per_1s=50.0, per_5s=50.0, per_60s=50.0)

        def __getattr__(self, name):
            return getattr(world.queue, name)

    run(world, queue=Busy(), rounds=2)

    assert job_of(world).expanded == 3_000


def test_a_job_has_some_tasks_however_many_of_others_are_queued(world):
    bounded(world, jobs_ahead=10_000)
    clients_submit(world, 50_000)
    begin(world, 5_000)

    run(world, rounds=3)

    assert (job_of(world).expanded, job_of(world).trouble) == (2_000, None)


def test_where_clients_have_filled_the_biz_that_is_told(world):
    bounded(world, max_backlog=2_000)
    clients_submit(world, 1_900)
    begin(world, 5_000)

    run(world)

    assert job_of(world).expanded == 0
    assert "intake.max_backlog is 2,000" in job_of(world).trouble


@pytest.mark.parametrize(("used", "made"), [(0.74, 500), (0.78, 0)])
def test_jobs_stop_before_the_memory_is_full_for_clients(world, used, made):
    begin(world, 500)
    intake = MemoryIntake(world.queue, memory=lambda: used)

    run(world, intake=intake)

    assert job_of(world).expanded == made
    pages = [Submission(url="https://a.example/")]
    ports = world.submission(intake=intake)
    assert isinstance(submit(ports, world.tree, "default", "docs", pages, world.now)[0], Accepted)
    if not made:
        assert "beyond 75% of its memory" in job_of(world).trouble


def test_the_rate_of_clients_does_not_hold_up_a_job(world):
    bounded(world, per_second=0.001, burst=1)
    begin(world, 3_000)

    run(world)

    assert_exact(world)


def test_a_batch_that_stands_waits_for_room_as_well(world):
    begin(world, 500)
    with pytest.raises(KilledError):
        run(world, store=Kill(1, "dies before", lambda: None).around(world.store))
    world.queue.enqueue(DOCS, [Entry(1, "docs", 1)], world.now)
    bounded(world, max_backlog=1)

    run(world)

    assert job_of(world).batch is not None
    assert "max_backlog is 1" in job_of(world).trouble
    # Less than the batch has: it goes when there is nothing else.
    world.queue.lease(DOCS, "t", 1, world.now, world.now)
    world.queue.finish(DOCS, "t", [Entry(1, "docs", 1)], 1, world.now)
    run(world, rounds=2)
    assert_exact(world)


def test_a_biz_that_is_gone_is_waited_for(world):
    begin(world)
    tree = world.tree
    world.tree = replace(tree, bizs={"default": {}, "acme": {}})

    run(world)

    assert job_of(world).trouble == "there is no biz called 'docs'"
    assert job_of(world).state is JobState.EXPANDING
    world.tree = tree
    run(world, rounds=2)
    assert_exact(world)


def test_a_biz_without_a_valid_document_is_waited_for(world):
    begin(world)
    world.tree = replace(world.tree, bizs={}, refused=frozenset({("default", "docs")}))

    run(world)

    assert job_of(world).trouble == "the biz has no valid document"


def test_a_rule_that_is_gone_is_waited_for(world):
    begin(world)
    tree = world.tree
    world.tree = make_tree(make_biz(rules={"other": world.biz.rules["page"]}))

    run(world)

    assert job_of(world).trouble == "this biz has no rule called 'page' any more"
    world.tree = tree
    run(world, rounds=2)
    assert_exact(world)


def test_a_node_that_is_away_keeps_the_batch_open_and_waits_longer_and_longer(world, small):
    begin(world, 6)
    begin(world, 6, "theirs", tenant="acme")
    away = Failing(world.store, insert=4)

    waits = []
    for _ in range(2):
        run(world, store=away)
        waits.append((job_of(world).due_at - world.now).total_seconds())
        world.now = job_of(world).due_at

    assert waits == [2.0, 4.0]
    run(world, rounds=3)
    assert_exact(world)
    assert_exact(world, "theirs", OTHER)
    assert any("job default/docs/june makes no tasks for now" in one for one in world.warnings)


def test_a_part_of_the_nodes_that_is_away_refuses_its_own_alone(world, small):
    """The others are stored, and those are stored later under the ids they were to have."""
    begin(world, 4)

    class Half:
        def insert(self, lane, biz, requests, repeatable=frozenset()):
            inserted = world.store.insert(lane, biz, requests[:2], repeatable)
            refused = {one.id: StoreUnavailableError("east", "10.0.0.7") for one in requests[2:]}
            return replace(inserted, refused=refused)

        def __getattr__(self, name):
            return getattr(world.store, name)

    run(world, store=Half())

    job = job_of(world)
    assert len(tasks(world)) == 2
    assert job.batch is not None
    assert job.trouble == "a part that stores its tasks does not answer; it is tried again"
    run(world, rounds=2)
    assert_exact(world)
    assert {one.id for one in tasks(world)} == set(job.batch.ids)


def test_what_can_never_be_stored_is_refused_alone(world, small):
    begin(world, 4)

    class Picky:
        def insert(self, lane, biz, requests, repeatable=frozenset()):
            if any(one.body.url.endswith("/3") for one in requests):
                raise StoreError("mongodb cannot hold it")
            return world.store.insert(lane, biz, requests, repeatable)

        def __getattr__(self, name):
            return getattr(world.store, name)

    run(world, store=Picky())

    job = job_of(world)
    assert (job.state, job.refused) == (JobState.RUNNING, 1)
    assert job.refusals == ("https://example.org/3: cannot be stored",)
    assert len(tasks(world)) == 3


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (IdsError("none"), "its tasks cannot be made now (IdsError); it is tried again"),
        (OverflowError("odd"), "its tasks cannot be made, for a reason that nobody foresaw"),
    ],
)
def test_no_fault_of_one_job_stops_another(world, error, said):
    begin(world)
    begin(world, 3, "theirs", tenant="acme")

    class Odd:
        def take(self, lane, kind, count):
            if lane == DOCS:
                raise error
            return world.ids.take(lane, kind, count)

    run(world, ids=Odd())

    assert job_of(world).trouble.startswith(said)
    assert_exact(world, "theirs", OTHER)


def test_a_full_redis_is_waited_for(world):
    begin(world)

    class Full:
        def admit(self, *_):
            raise BacklogFullError("the queues fill Redis", retry_after_seconds=30.0)

    run(world, intake=Full())

    assert job_of(world).trouble == "the queues fill Redis"


def test_while_redis_is_away_tasks_are_stored_for_recovery_to_queue(world):
    begin(world, 10)

    run(world, queue=Failing(world.queue, enqueue=1, rates=1))

    assert_exact(world)
    assert world.queue.depth(DOCS).queued == 0


def test_a_home_node_that_is_away_ends_the_round(world):
    begin(world)

    with pytest.raises(StoreUnavailableError):
        run(world, jobs=Failing(world.jobs, expandable=1))


def test_a_job_that_vanishes_is_let_go(world):
    job = begin(world)

    class Late:
        def expandable(self, limit, now):
            return [job] if world.jobs._jobs else []

        def get(self, *key):
            world.jobs._jobs.clear()

        def __getattr__(self, name):
            return getattr(world.jobs, name)

    assert run(world, jobs=Late()).batches == 0


def test_what_was_stored_before_counts_as_stored(world):
    begin(world, 4)
    with pytest.raises(KilledError):
        run(world, queue=Kill(1, "dies after", lambda: None).around(world.queue))

    assert run(world).tasks == 4
