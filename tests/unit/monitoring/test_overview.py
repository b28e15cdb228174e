"""The overview: a glance for all viewers, and what each of them may see of it."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.api import (
    BIZS_SHOWN,
    INCIDENTS_SHOWN,
    LATE_SHOWN,
    etag_of,
    overview_view,
)
from tests.kit.config import Stage, Tree
from tests.kit.jobs import RunFigures
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.monitoring import (
    FailedFire,
    Glance,
    Glancing,
    LateKind,
    PoolSample,
    Sample,
    UnplacedJob,
    Unread,
    WorkersSample,
    overview_of,
)
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.incidents import REDIS, START, an_incident
from tests.kit.worlds.monitoring import put, sampler
from tests.steady import SteadyClock
from tests.unit.monitoring.samples_seen import queue_key

OPS, ACME = "ops", "acme"
TREE = Tree(revision="r1", stage=Stage(operators=(OPS,)), tenants={}, bizs={})
POOL = PoolSample(name="main", alive=2, busy=1, idle=1, present=2, wanted=3, done=9, failed=1)
WORKERS = WorkersSample(alive=2, present=2, wanted=3, allowed=5, pools=(POOL,))


def of_tenant(tenant: str, **changes: object):
    return queue_key(queue_key=QueueKey(tenant, "docs", "main"), **changes)


def a_glance(**changes: object) -> Glance:
    sample = Sample(
        at=START,
        revision="r1",
        queues=(of_tenant(ACME), of_tenant("rival", late=True)),
        workers=WORKERS,
        config_refused="bizs/rival/docs: is wrong",
        unplaced=(UnplacedJob(tenant=ACME, biz="docs", job="night", why="none suits"),),
        failed_fires=(
            FailedFire(tenant="rival", biz="docs", schedule="s", fire_at=START, why="away"),
        ),
        unread=(Unread(what="workers", why="10.0.0.7 is away"),),
    )
    facts: dict = {
        "sample": sample,
        "incidents": (
            an_incident(1, "rival"),
            an_incident(2, ACME),
            an_incident(3, place=REDIS),
        ),
        "money": {ACME: RunFigures(requests=4), "rival": RunFigures(requests=5)},
    }
    return Glance(**(facts | changes))


def test_an_operator_sees_everything():
    seen = overview_of(a_glance(), TREE, OPS)

    assert (seen.of_fleet, seen.totals.queues, seen.totals.queued, seen.totals.late) == (
        True,
        2,
        14,
        1,
    )
    assert seen.workers == WORKERS
    assert seen.config_refused is not None
    assert [(one.kind, one.tenant) for one in seen.late] == [
        (LateKind.BIZ, "rival"),
        (LateKind.SCHEDULE, "rival"),
        (LateKind.JOB, ACME),
    ]
    assert (len(seen.incidents), seen.money.requests) == (3, 9)
    assert seen.unread[0].why == "10.0.0.7 is away"


def test_any_other_tenant_sees_its_own_and_how_workers_are():
    seen = overview_of(a_glance(), TREE, ACME)

    assert (seen.of_fleet, seen.totals.queues, seen.totals.queued, seen.totals.late) == (
        False,
        1,
        7,
        0,
    )
    assert [one.queue_key.tenant for one in seen.queues] == [ACME]
    assert [one.tenant for one in seen.late] == [ACME]
    assert [one.place.tenant for one in seen.incidents] == [ACME]
    assert seen.money.requests == 4
    assert (seen.workers.alive, seen.workers.wanted, seen.workers.allowed) == (2, None, None)
    [pool] = seen.workers.pools
    assert (pool.alive, pool.present) == (2, 2)
    assert (pool.busy, pool.idle, pool.done, pool.failed, pool.wanted) == (0, 0, 0, 0, None)
    assert seen.config_refused is None
    assert [(one.what, one.why) for one in seen.unread] == [("workers", "")]
    assert b"rival" not in str(overview_view(seen, TREE)).encode()


def test_a_tenant_without_work_has_cost_nothing():
    assert overview_of(a_glance(), TREE, "newcomer").money == RunFigures()


def test_what_could_not_be_read_is_null_and_never_nothing():
    glance = a_glance(incidents=None, money=None)
    glance = replace(glance, sample=replace(glance.sample, workers=None, failed_fires=None))

    for tenant in (OPS, ACME):
        view = overview_view(overview_of(glance, TREE, tenant), TREE)

        assert (view.incidents, view.incident_counts, view.cost) == (None, None, None)
        assert (view.late, view.late_count, view.workers, view.pools) == (None, None, None, ())


def test_lists_are_short_and_their_counts_are_whole():
    many = 150
    queues = tuple(
        queue_key(n, late=n >= many - 3, depth=None if n == 0 else queue_key(n).depth)
        for n in range(many)
    )
    fires = tuple(
        FailedFire(tenant=ACME, biz="docs", schedule=f"s{n}", fire_at=START, why="w" * 9_000)
        for n in range(many)
    )
    sample = replace(a_glance().sample, queues=queues, failed_fires=fires, unplaced=())
    incidents = tuple(an_incident(n) for n in range(many))

    view = overview_view(overview_of(a_glance(sample=sample, incidents=incidents), TREE, OPS), TREE)

    assert (len(view.bizs), len(view.late), len(view.incidents)) == (
        BIZS_SHOWN,
        LATE_SHOWN,
        INCIDENTS_SHOWN,
    )
    assert [one.late for one in view.bizs[:4]] == [True, True, True, False]
    assert (view.totals.bizs, view.late_count) == (many, many + 3)
    assert sum(view.incident_counts.values()) == many
    assert set(view.incident_counts) == {"warning", "critical"}
    assert max(len(one.why) for one in view.late) <= 500


def test_no_reason_carries_a_password():
    fire = FailedFire(
        tenant=ACME, biz="docs", schedule="s", fire_at=START, why="mongodb://root:hunter2@db: x"
    )
    sample = replace(a_glance().sample, failed_fires=(fire,))

    view = overview_view(overview_of(a_glance(sample=sample), TREE, OPS), TREE)

    assert "hunter2" not in str(view)


@given(seconds=st.integers(0, 10**6))
def test_the_tag_is_the_same_while_nothing_but_the_moment_changes(seconds):
    def tag(glance: Glance) -> str:
        return etag_of(overview_view(overview_of(glance, TREE, OPS), TREE))

    glance = a_glance()
    later = replace(glance.sample, at=START + timedelta(seconds=seconds))

    assert tag(replace(glance, sample=later)) == tag(glance)
    assert tag(replace(glance, incidents=glance.incidents[:2])) != tag(glance)
    other = replace(later, queues=(of_tenant(ACME, oldest_seconds=5.0), *later.queues[1:]))
    assert tag(replace(glance, sample=other)) != tag(glance)


def test_tags_differ_by_who_asks():
    tags = {
        etag_of(overview_view(overview_of(a_glance(), TREE, tenant), TREE))
        for tenant in (OPS, ACME, "rival", "newcomer")
    }

    assert len(tags) == 4


class Book:
    """A book of incidents, or days of costs, that is away or not."""

    def __init__(self, found: object, *, away: bool = False) -> None:
        self._found, self._away = found, away

    def find(self, *_: object, **__: object) -> object:
        return self._answer()

    def handlings(self, _: object) -> dict[str, object]:
        return {}

    def of_day(self, *_: object) -> object:
        return self._answer()

    def _answer(self) -> object:
        if self._away:
            raise StoreUnavailableError("mongodb:main", "is away")
        return self._found


def glance_at(world, *, away: bool = False, **changes: object) -> Glance:
    with SteadyClock() as clock:
        glancing = Glancing(
            sampler=sampler(world, clock=clock, **changes),
            incidents=Book([an_incident(1)], away=away),
            costs=Book({"default": RunFigures(requests=4)}, away=away),
        )
        return glancing.glance(world.tree, world.now, "is refused")


def test_a_glance_reads_queues_workers_incidents_and_money_and_asks_no_ledger(world):
    put(world, 6)

    found = glance_at(world, ledgers=Broken(), health=Broken(), hosts=Broken(), store=Broken())

    assert (found.sample.fleet.queued, found.sample.unread) == (6, ())
    assert found.sample.workers is not None
    assert (found.sample.config_refused, found.sample.revision) == ("is refused", "1")
    assert [one.id for one in found.incidents] == [an_incident(1).id]
    assert found.money["default"].requests == 4


def test_a_home_node_that_is_away_is_named_and_the_rest_is_seen(world):
    put(world, 6)

    found = glance_at(world, away=True)

    assert found.sample.fleet.queued == 6
    assert (found.incidents, found.money) == (None, None)
    assert [one.what for one in found.sample.unread] == ["incidents", "money"]


def test_redis_that_is_away_is_named_and_the_rest_is_seen(world):
    found = glance_at(world, queue=Broken(), detector=Broken())

    assert {"queues", "workers"} <= {one.what for one in found.sample.unread}
    assert all(one.depth is None for one in found.sample.queues)
    assert found.sample.workers is None
    assert len(found.incidents) == 1
