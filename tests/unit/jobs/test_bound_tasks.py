"""Tasks that are bound for a pool: where they are queued, filled, recovered, and given over."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.fakes.fleet import MemoryFailureDetector
from tests.fakes.queue import MemoryQueue
from tests.kit.config import PoolLimits, queue_key_of
from tests.kit.fleet import WorkerStatus
from tests.kit.jobs import JobExpansion, JobOrder, JobStarter
from tests.kit.kernel import InvalidRequestError, bound
from tests.kit.recovery import GONE_AFTER, RemovedPools
from tests.kit.requests import Body, Request
from tests.kit.spiders import Start
from tests.kit.submission import PoolStarter
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.jobs import NoSpiders, tasks
from tests.kit.worlds.memory import DOCS, World

FAR = bound(DOCS, "far")
URLS = tuple(f"https://example.org/{n}" for n in range(5))


@pytest.fixture(autouse=True)
def _pools(world: World) -> None:
    world.tree = replace(world.tree, pools=frozenset({"far"}))


def start(world: World, pool: str | None = "far", name: str = "june"):
    ports = JobStarter(jobs=world.jobs, spiders=NoSpiders(), rules=world.rules)  # type: ignore[arg-type]
    order = JobOrder(
        tenant="default", biz="docs", by="api", name=name, start=Start(urls=URLS), pool=pool
    )
    return ports.start(world.tree, order, world.now)


def expanded(world: World, **changes: object) -> None:
    ports = JobExpansion(
        jobs=world.jobs, submission=world.submission(**changes), ledgers=world.ledgers
    )
    ports.expand(world.tree, world.clock, lambda: 60.0)


def recovered(world: World):
    done = world.recovery().recover(world.tree, "scheduler", world.now, lambda: 120.0)
    world.detector = MemoryFailureDetector(world.workers)
    return done


def given_over(world: World, said: list[str] | None = None) -> int:
    ports = RemovedPools(recovery=world.recovery(), say=[].append if said is None else said.append)
    return ports.reassign(world.tree, "scheduler", world.now, lambda: 120.0)


def queued(world: World, queue_key) -> int:
    return world.queue.depth(queue_key).queued


class Crowd:
    """Workers of a pool, of whom none lives."""

    def __init__(self) -> None:
        self.woken: list[int] = []

    def reserve_wake(self, now, wanted, most=None) -> int:
        return wanted

    def wake(self, count: int) -> None:
        self.woken.append(count)


def test_a_job_of_a_pool_is_queued_in_its_queue_and_wakes_one_of_its_workers(world):
    crowd = Crowd()
    assert start(world).pool == "far"
    expanded(world, starters={"far": PoolStarter(crowd, crowd)})

    assert (queued(world, DOCS), queued(world, FAR)) == (0, 5)
    assert {one.pool for one in tasks(world)} == {"far"}
    assert crowd.woken == [1]
    assert world.woken == []


def test_a_pool_that_there_is_not_is_named_as_wrong(world):
    with pytest.raises(InvalidRequestError) as raised:
        start(world, "near")
    (problem,) = raised.value.problems
    assert problem.field == "pool"
    assert "main, far" in problem.message


def test_the_usual_pool_may_be_named_and_is_none(world):
    assert start(world, "main").pool is None


def test_a_pool_that_only_the_stage_document_knows_will_do(world):
    stage = replace(world.tree.stage, pools={"large": PoolLimits()})
    world.tree = replace(world.tree, stage=stage)
    assert start(world, "large").pool == "large"


def test_a_mixed_batch_is_parted_by_pool(world):
    requests = [
        Request(
            id=world.ids.take(DOCS, world.biz.id_kind, 1)[0],
            tenant="default",
            biz="docs",
            queued_at=world.now,
            body=Body(url="https://example.org/", rule="page", rule_version="v"),
            pool=pool,
        )
        for pool in ("far", None, "far", "large")
    ]
    world.submission().persist_and_enqueue(FAR, world.biz, requests, world.now)

    queues = [queue_key_of(FAR, pool) for pool in (None, "far", "large")]
    assert [queued(world, queue_key) for queue_key in queues] == [1, 2, 1]


def test_what_waits_in_all_queues_is_reported_together_and_counts_as_backlog(world):
    start(world)
    expanded(world)
    start(world, None, "july")
    expanded(world)

    assert world.tracking().stats(world.tree, "default", "docs", world.now).depth.queued == 10


def test_each_queue_is_filled_with_its_own_when_redis_has_lost_all(world):
    recovered(world)
    start(world)
    start(world, None, "july")
    expanded(world)
    assert (queued(world, DOCS), queued(world, FAR)) == (5, 5)
    recovered(world)
    world.queue.flush()
    world.now += timedelta(seconds=60)

    assert recovered(world).requeued == 10
    assert (queued(world, DOCS), queued(world, FAR)) == (5, 5)
    assert recovered(world).requeued == 0


def test_what_was_persisted_and_not_queued_goes_to_its_queue(world):
    recovered(world)
    start(world)
    expanded(world, queue=Broken())
    world.now += timedelta(seconds=30)

    assert recovered(world).requeued == 5
    assert (queued(world, DOCS), queued(world, FAR)) == (0, 5)


def test_what_a_worker_that_nobody_knows_holds_of_a_pool_goes_back_to_its_queue(world):
    recovered(world)
    start(world)
    expanded(world)
    recovered(world)
    until = world.now + timedelta(seconds=90)
    entries = world.queue.lease(FAR, "gone.1.1", 5, world.now, until)
    world.store.claim(FAR, world.biz, entries, "gone", world.now, until, "gone.1.1")
    for _ in range(40):
        world.now += timedelta(seconds=1)
        world.detector.observed_for()
    found = world.recovery().recover(world.tree, "scheduler", world.now, lambda: 120.0)

    assert found.orphans in {0, 5}  # zero where nobody has watched for long enough
    world.now += timedelta(seconds=120)
    recovered(world)
    assert queued(world, DOCS) == 0


def test_nothing_is_given_over_while_the_pool_is_known(world):
    start(world)
    expanded(world)
    for _ in range(4):
        assert given_over(world) == 0
        world.now += GONE_AFTER


def test_what_a_removed_pool_has_is_given_over_after_a_while_and_reported(world):
    start(world)
    expanded(world)
    given_over(world)
    world.tree = replace(world.tree, pools=frozenset())
    said: list[str] = []
    assert given_over(world, said) == 0
    world.now += GONE_AFTER - timedelta(seconds=1)
    assert given_over(world, said) == 0
    assert said == []
    world.now += timedelta(seconds=1)

    assert given_over(world, said) == 5

    assert (queued(world, DOCS), queued(world, FAR)) == (5, 0)
    assert {one.pool for one in tasks(world)} == {None}
    assert len(said) == 1
    assert "pool far" in said[0]
    lines = world.journal.lines(DOCS, world.now - timedelta(1), world.now + timedelta(1), 9)
    assert [(one.kind, one.count) for one in lines if one.kind == "given-over"] == [
        ("given-over", 5)
    ]
    ledger = world.ledgers.audit(DOCS, world.biz, world.now, "june")
    assert (ledger.submitted, ledger.open, ledger.difference) == (5, 5, 0)
    # Nothing is left: the next round forgets the pool.
    assert given_over(world) == 0
    assert world.pools.known() == {}


def test_a_pool_of_which_a_worker_lives_is_known(world):
    start(world)
    expanded(world)
    world.tree = replace(world.tree, pools=frozenset())
    world.workers.beat("far-1", world.now, WorkerStatus(pool="far"))
    given_over(world)
    assert world.pools.known() == {"far": world.now}


def test_two_configurations_side_by_side_empty_nothing(world):
    start(world)
    expanded(world)
    old, new = world.tree, replace(world.tree, pools=frozenset())
    for number in range(60):
        world.tree = (old, new)[number % 2]
        world.now += timedelta(minutes=1)
        assert given_over(world) == 0
    assert queued(world, FAR) == 5


def test_a_lost_queue_of_a_removed_pool_is_filled_until_it_is_given_over(world):
    recovered(world)
    start(world)
    expanded(world)
    given_over(world)
    world.tree = replace(world.tree, pools=frozenset())
    world.queue.flush()
    world.now += timedelta(minutes=1)
    recovered(world)
    assert queued(world, FAR) == 5

    world.now += GONE_AFTER
    assert given_over(world) == 5
    assert queued(world, DOCS) == 5


def test_whoever_dies_after_mongodb_was_changed_leaves_it_to_recovery(world):
    recovered(world)
    start(world)
    expanded(world)
    given_over(world)
    world.tree = replace(world.tree, pools=frozenset())
    world.now += GONE_AFTER

    class Dying(MemoryQueue):
        def requeue(self, queue_key, entries):
            raise KeyboardInterrupt

    queue, world.queue = world.queue, Dying()
    with pytest.raises(KeyboardInterrupt):
        given_over(world)
    world.queue = queue
    world.now += timedelta(seconds=30)

    assert recovered(world).requeued == 5
    assert queued(world, DOCS) == 5
