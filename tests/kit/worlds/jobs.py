"""Jobs in the world in memory, and what is to be true of them however they were expanded."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace as with_changes
from datetime import timedelta

from msgspec.structs import replace

from tests.kit.jobs import Expanded, Job, JobOrder, JobStarter
from tests.kit.kernel import QueueKey
from tests.kit.requests import BATCH_LIMIT, Request
from tests.kit.spiders import Range, Start, url_at
from tests.kit.worker import SteadyTime
from tests.kit.worlds.memory import DOCS, World, make_biz, make_tree


class NoSpiders:
    """A spider store without spiders."""

    def get(self, *_: object) -> None:
        return None


def numbers(count: int) -> Start:
    return Start(pattern="https://example.org/{n}", values={"n": Range(last=count)})


def begin(world: World, start: Start | int = 3, name: str = "june", tenant: str = "default") -> Job:
    ports = JobStarter(jobs=world.jobs, spiders=NoSpiders(), rules=world.rules)  # type: ignore[arg-type]
    start = numbers(start) if isinstance(start, int) else start
    order = JobOrder(tenant=tenant, biz="docs", by="api", name=name, start=start)
    return ports.start(world.tree, order, world.now)


def run(
    world: World,
    *,
    rounds: int = 1,
    jobs: object = None,
    time_left: Callable[[], float] | None = None,
    batch: int = BATCH_LIMIT,
    steady: SteadyTime | None = None,
    **changes: object,
) -> Expanded:
    """Expand until nothing is due; again after the longest wait for each further round."""
    done = Expanded()
    ports = with_changes(world.expanding(jobs, **changes), batch=batch)
    ports = ports if steady is None else with_changes(ports, steady=steady)
    for number in range(rounds):
        if number:
            world.now += timedelta(minutes=5)
        left = time_left or (lambda: 60.0)
        made = ports.expand(world.tree, world.clock, left)
        done.batches += made.batches
        done.tasks += made.tasks
    return done


def job_of(world: World, name: str = "june", tenant: str = "default") -> Job:
    found = world.jobs.get(tenant, "docs", name)
    assert found is not None
    return found


def tasks(world: World, name: str = "june", queue_key: QueueKey = DOCS) -> list[Request]:
    kept = world.store.state.of(queue_key).requests.values()
    return [one.request for one in kept if one.request.job == name]


def assert_exact(world: World, name: str = "june", queue_key: QueueKey = DOCS) -> None:
    """Every task of the start exists once, and the ledger knows as many."""
    job = job_of(world, name, queue_key.tenant)
    made = Counter(request.body.url for request in tasks(world, name, queue_key))
    assert made == Counter(url_at(job.start, index) for index in range(job.size))
    assert job.expanded == job.size
    assert job.batch is None
    ledger = world.ledgers.audit(queue_key, world.biz, world.now, name)
    assert (ledger.submitted, ledger.difference) == (job.size, 0)


def bounded(world: World, **intake: object) -> None:
    """Give the biz of both tenants limits."""
    world.tree = make_tree(make_biz(intake=replace(world.biz.intake, **intake)))
