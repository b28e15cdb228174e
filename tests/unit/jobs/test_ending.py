from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.fakes.jobs import MemoryJobReopening
from tests.kit.frontier import Seed, SeedSpec, SeedState, seed_key
from tests.kit.jobs import (
    KEPT,
    LOCK,
    TERM,
    JobState,
    ending,
)
from tests.kit.kernel import StoreUnavailableError, to_ms
from tests.kit.requests import (
    OWN,
    OWN_FINAL,
    Claim,
    Dead,
    Done,
    Entry,
    Request,
    State,
    Transition,
)
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.jobs import begin, job_of, run, tasks
from tests.kit.worlds.memory import DOCS, World

UNTIL = timedelta(minutes=1)


def look(world: World, **changes: object) -> int:
    return world.advancing(**changes).end_jobs(world.tree, world.clock, lambda: 60.0)


def later(world: World) -> None:
    """Whatever was looked at is due again."""
    world.now += timedelta(minutes=6)


def work_off(world: World, *requests: Request, dead: bool = False) -> None:
    """Have requests end as a worker does."""
    entries = [Entry(one.id, one.biz, to_ms(one.queued_at)) for one in requests]
    claims: list[Claim] = world.store.claim(
        DOCS, world.biz, entries, "w", world.now, world.now + UNTIL, "w:1"
    )
    assert len(claims) == len(requests)
    outcome = Dead(error="gone", reason="PageGone") if dead else Done(records=())
    world.store.settle(DOCS, world.biz, [(one, outcome) for one in claims], "w", world.now)


def test_a_job_is_done_when_its_ledger_has_nothing_open(world):
    begin(world, 3)
    run(world)
    first, second, third = tasks(world)

    assert look(world) == 0
    work_off(world, first, second)
    later(world)
    assert look(world) == 0
    assert job_of(world).state is JobState.RUNNING
    work_off(world, third, dead=True)
    later(world)

    assert look(world) == 1
    job = job_of(world)
    assert (job.state, job.ended_at) == (JobState.DONE, world.now)
    assert job.counts == {"done": 2, "dead": 1, "cancelled": 0, "expired": 0, "refused": 0}
    assert look(world) == 0


def test_a_job_waits_for_what_is_in_an_open_state_of_its_own_and_not_for_final_ones(world):
    begin(world, 3)
    run(world)
    held, reviewed, skipped = tasks(world)

    def change(one: Request, before: int, after: int) -> None:
        asked = Transition(before=before, after=after, by="api", why="")
        found = world.store.transition(DOCS, world.biz, [one.id], asked, world.now)
        assert found[one.id].changed

    work_off(world, reviewed)
    change(held, State.PENDING, OWN)
    change(reviewed, State.DONE, OWN_FINAL)
    change(skipped, State.PENDING, OWN_FINAL)
    later(world)
    assert look(world) == 0
    change(held, OWN, OWN_FINAL + 1)
    later(world)

    assert look(world) == 1
    assert job_of(world).counts == {
        "done": 0,
        "dead": 0,
        "cancelled": 0,
        "expired": 0,
        "refused": 0,
        "others": 3,
    }


def test_an_empty_queue_is_no_end(world):
    """Recovery finds what is stored and not queued; the job waits for it."""
    begin(world, 3)
    run(world, queue=Failing(world.queue, enqueue=9, rates=9))

    assert world.queue.depth(DOCS).queued == 0
    assert look(world) == 0


def test_a_job_that_still_makes_tasks_is_not_done_though_those_made_are(world):
    begin(world, 4)
    calls = iter([1.0, 1.0, 1.0, 0.0, 0.0])
    run(world, batch=2, time_left=lambda: next(calls))
    work_off(world, *tasks(world))

    later(world)
    assert look(world) == 0
    assert job_of(world).state is JobState.EXPANDING


def test_what_was_refused_is_counted(world):
    job = begin(world, 2)
    world.jobs.create(
        replace(job, name="odd", start=replace(job.start, pattern="ftp://a.example/{n}"))
    )
    run(world)

    assert look(world) == 1
    assert job_of(world, "odd").counts["refused"] == 2


def test_a_job_that_is_being_cancelled_is_left_to_others(world):
    begin(world, 2)
    run(world)
    work_off(world, *tasks(world))
    world.jobs.cancel("default", "docs", "june", world.now)

    later(world)
    assert look(world) == 0
    assert job_of(world).state is JobState.CANCELLING
    assert job_of(world).looked_at != world.now


# ---- what pages lead to ------------------------------------------------------------------------


def a_seed(world: World, **changes: object) -> Seed:
    url = "https://example.org/next"
    facts: dict = {
        "key": seed_key(url).hex(),
        "segment": "always",
        "spec": SeedSpec(url=url, rule="page", job="june"),
        "state": SeedState.READY,
        "offered_at": world.now,
        "due_at": world.now,
        "ends_at": None,
    }
    return Seed(**{**facts, **changes})


def all_done(world: World) -> None:
    begin(world, 2)
    run(world)
    work_off(world, *tasks(world))
    later(world)


def test_a_seed_that_waits_keeps_the_job_it_is_of(world):
    all_done(world)
    world.seeds.insert(DOCS, world.biz, [a_seed(world)])

    assert look(world) == 0
    world.seeds.forget(DOCS, world.biz, [a_seed(world).id])
    later(world)
    assert look(world) == 1


def test_a_seed_of_another_job_keeps_nobody(world):
    all_done(world)
    spec = SeedSpec(url="https://example.org/next", rule="page", job="july")
    world.seeds.insert(DOCS, world.biz, [a_seed(world, spec=spec)])

    assert look(world) == 1


def test_a_dispatched_seed_counts_as_open_until_its_request_has_ended(world):
    all_done(world)
    handed = a_seed(world, state=SeedState.HANDED, request=2**62, handed_at=world.now)
    world.seeds.insert(DOCS, world.biz, [handed])

    assert look(world) == 0  # its request is not stored yet
    first = tasks(world)[0]
    request = replace(first, id=2**62, queued_at=world.now)
    world.store.insert(DOCS, world.biz, [request], frozenset())
    later(world)
    assert look(world) == 0
    work_off(world, request)
    later(world)

    assert look(world) == 1  # though nobody has told the seed
    assert job_of(world).counts["done"] == 3


def test_a_job_with_more_open_seeds_than_are_read_has_not_ended(world):
    all_done(world)
    ended = tasks(world)[0]
    of_it = {"state": SeedState.HANDED, "request": ended.id, "handed_at": world.now}
    seeds = [a_seed(world, key=f"{n:032x}", **of_it) for n in range(ending.SEEDS)]
    world.seeds.insert(DOCS, world.biz, seeds)

    assert look(world) == 0


def test_seeds_that_became_tasks_during_the_poll_are_counted(world):
    all_done(world)
    first = tasks(world)[0]

    class Quick:
        def open_of_job(self, *_: object) -> list[Seed]:
            request = replace(first, id=2**62, queued_at=world.now)
            world.store.insert(DOCS, world.biz, [request], frozenset())
            return []

    assert look(world, seeds=Quick()) == 0
    assert job_of(world).state is JobState.RUNNING


# ---- trouble -----------------------------------------------------------------------------------


def test_an_unreadable_ledger_is_polled_again_and_stops_no_other_job(world):
    all_done(world)
    begin(world, 1, "theirs", tenant="acme")
    run(world)

    assert look(world, ledgers=Broken()) == 0
    job = job_of(world)
    assert "ledger" in job.trouble
    assert job.due_at - world.now == timedelta(seconds=2)
    assert len(world.warnings) == 2
    later(world)
    assert look(world) == 1
    assert job_of(world).trouble is None


def test_a_biz_that_is_gone_or_never_right_leaves_its_job_standing(world):
    all_done(world)
    tree = world.tree
    world.tree = replace(tree, bizs={})
    look(world)
    assert "no biz called 'docs'" in job_of(world).trouble
    world.tree = replace(tree, bizs={}, refused=frozenset({("default", "docs")}))
    later(world)
    look(world)
    assert "no valid document" in job_of(world).trouble

    world.tree = tree
    later(world)
    assert look(world) == 1


def test_more_jobs_than_a_round_reads_are_all_polled(world):
    names = [f"j{number}" for number in range(2 * ending.JOBS_A_ROUND + 1)]
    for name in names:
        begin(world, 1, name)
    run(world)
    kept = world.store.state.of(DOCS).requests.values()
    work_off(world, *(one.request for one in kept))

    assert look(world) == len(names)


def test_no_job_is_polled_without_time(world):
    all_done(world)

    assert world.advancing().end_jobs(world.tree, world.clock, lambda: 0.0) == 0
    times = iter([1.0, 0.0, 0.0])
    assert world.advancing().end_jobs(world.tree, world.clock, lambda: next(times)) == 0


# ---- rounds ------------------------------------------------------------------------------------


def test_a_round_that_has_the_lock_ends_jobs_and_makes_tasks(world):
    all_done(world)
    begin(world, 5, "july")

    done = world.advancing().advance(world.tree, "w1", world.clock, lambda: 60.0)

    assert (done.mine, done.batches, done.tasks, done.ended) == (True, 1, 5, 1)
    assert world.advancing().can_advance(world.now) is False
    begin(world, 5, "august")
    assert world.advancing().can_advance(world.now) is True


def test_one_round_at_a_time_runs_and_releases_its_lock(world):
    begin(world, 5)
    world.detector.acquire_lock(LOCK, "other", timedelta(), TERM)

    assert world.advancing().advance(world.tree, "w1", world.clock, lambda: 60.0).mine is False
    world.detector.release_lock(LOCK, "other")
    later(world)
    assert world.advancing().advance(world.tree, "w1", world.clock, lambda: 60.0).tasks == 5


def test_while_redis_is_away_there_is_no_round(world):
    begin(world, 5)
    ports = world.advancing(detector=Failing(world.detector, acquire_lock=1, release_lock=1))

    assert ports.advance(world.tree, "w1", world.clock, lambda: 60.0).mine is False
    assert ports.advance(world.tree, "w1", world.clock, lambda: 60.0).tasks == 5
    assert len(world.warnings) == 2


def test_an_unavailable_home_node_is_reported_and_leaves_the_lock_free(world):
    begin(world, 5)
    away = world.expanding(jobs=Failing(world.jobs, expandable=1))

    with pytest.raises(StoreUnavailableError):
        world.advancing(expansion=away).advance(world.tree, "w1", world.clock, lambda: 60.0)
    later(world)
    assert world.advancing().advance(world.tree, "w2", world.clock, lambda: 60.0).tasks == 5


# ---- turns of those that run -------------------------------------------------------------------


def test_a_stalled_job_is_polled_less_and_less_often(world):
    begin(world, 3)
    run(world)
    waits = []
    for _ in range(8):
        look(world)
        job = job_of(world)
        waits.append((job.due_at - job.looked_at).total_seconds())
        world.now = job.due_at

    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]
    work_off(world, tasks(world)[0])
    look(world)
    assert (job_of(world).due_at - world.now).total_seconds() == 2


def test_a_task_that_began_and_ended_while_homes_were_read_keeps_the_job(world):
    """A seed from this task may be stored where the check has looked already."""
    all_done(world)
    first = tasks(world)[0]

    class Quick:
        def open_of_job(self, *_: object) -> list[Seed]:
            request = replace(first, id=2**62, queued_at=world.now)
            world.store.insert(DOCS, world.biz, [request], frozenset())
            work_off(world, request)
            world.seeds.insert(DOCS, world.biz, [a_seed(world)])
            return []

    assert look(world, seeds=Quick()) == 0
    later(world)
    assert look(world) == 0
    assert job_of(world).state is JobState.RUNNING


def test_a_biz_that_does_not_answer_is_asked_once_a_round(world):
    for number in range(3):
        begin(world, 1, f"j{number}")
    run(world)
    later(world)
    ledgers = Failing(world.ledgers, totals=1)

    assert look(world, ledgers=ledgers) == 0
    assert [job_of(world, f"j{number}").troubles for number in range(3)] == [1, 1, 1]
    assert len(world.warnings) == 1


def test_a_tenant_with_slow_ledgers_goes_on_after_the_others(world):
    for number in range(4):
        begin(world, 1, f"j{number}")
    begin(world, 1, "theirs", tenant="acme")
    run(world)
    later(world)
    asked = []

    class Slow:
        def totals(self, queue_key, biz, now, job):
            asked.append(job)
            world.now += ending.SHARE if queue_key.tenant == "default" else timedelta()
            return world.ledgers.totals(queue_key, biz, now, job)

    look(world, ledgers=Slow())
    assert sorted(asked) == ["j0", "j1", "j2", "j3", "theirs"]
    assert "theirs" in asked[:2]


def test_a_job_retried_while_its_ledger_is_read_does_not_end(world):
    all_done(world)
    reopening = MemoryJobReopening(world.jobs)

    class Meanwhile:
        def totals(self, *asked: object) -> object:
            found = world.ledgers.totals(*asked)
            reopening.begin_retry("default", "docs", "june")
            return found

    assert look(world, ledgers=Meanwhile()) == 0
    assert (job_of(world).state, job_of(world).retries) == (JobState.RUNNING, 2)
    later(world)
    assert look(world) == 1


# ---- jobs of bizs that are no more -------------------------------------------------------------


def round_of(world: World) -> int:
    return world.advancing().advance(world.tree, "w1", world.clock, lambda: 60.0).ended


def test_jobs_of_a_biz_that_was_removed_end_after_a_week_and_not_before(world):
    all_done(world)
    begin(world, 5, "made")
    begin(world, 2, "theirs", tenant="acme")
    tree = world.tree
    world.tree = replace(tree, bizs={"acme": tree.bizs["acme"]})
    round_of(world)
    world.now += KEPT
    assert round_of(world) == 0
    world.now += timedelta(minutes=11)

    assert round_of(world) == 2
    for name in ("june", "made"):
        job = job_of(world, name)
        assert (job.state, job.ended_at, job.counts) == (
            JobState.CANCELLED,
            world.now,
            {"refused": 0},
        )
    assert job_of(world, "theirs", "acme").state is JobState.RUNNING
    world.tree = tree
    later(world)
    round_of(world)
    assert tasks(world, "made") == []


def test_a_biz_that_comes_back_or_is_not_valid_keeps_its_jobs(world):
    begin(world, 2)
    tree = world.tree
    world.tree = replace(tree, bizs={})
    round_of(world)
    world.now += KEPT - timedelta(hours=1)
    world.tree = replace(tree, bizs={}, refused=frozenset({("default", "docs")}))
    round_of(world)
    world.now += timedelta(days=1)
    world.tree = replace(tree, bizs={})
    round_of(world)
    world.now += timedelta(days=1)

    assert round_of(world) == 0
    assert job_of(world).state is JobState.EXPANDING


def test_orphaned_jobs_are_left_where_no_time_is(world):
    begin(world, 2)
    world.tree = replace(world.tree, bizs={})
    for _ in range(2):
        assert world.advancing().end_orphaned_jobs(world.tree, world.now, lambda: 0.0) == 0
        world.now += 2 * KEPT
    assert job_of(world).state is JobState.EXPANDING
