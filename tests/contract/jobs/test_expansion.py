"""Expansion on a real MongoDB and a real Redis: several at once make each task once."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from threading import Barrier, Lock

from tests.contract.job_cases import a_job
from tests.contract.store_cases import NOW, a_biz, a_generation, snowflakes
from tests.fakes.fleet import MemoryWorkers
from tests.fakes.requests import MemoryRules
from tests.fakes.submission import MemorySubmissionKeys
from tests.kit.ceilings import ceilings_at
from tests.kit.config import Biz, IntakeLimits, Stage, Tenant, Tree
from tests.kit.jobs import Job, JobExpansion, JobState, MongoJobs
from tests.kit.kernel import QueueKey, to_ms
from tests.kit.mongo import MongoLedgers, MongoNodes, MongoRequestStore
from tests.kit.mongo_nodes import NodesOnOneServer, nodes_at, own_control_at
from tests.kit.queue import RedisQueue
from tests.kit.redis import RedisConnection
from tests.kit.requests import RequestFilter, State
from tests.kit.spiders import Range, Start, url_at
from tests.kit.submission import RedisIntake, Submissions


class Ids:
    """Snowflakes from one place, whoever asks."""

    def __init__(self) -> None:
        self._given, self._lock = 0, Lock()

    def take(self, queue_key: QueueKey, kind: object, count: int) -> list[int | str]:
        with self._lock:
            at, self._given = self._given, self._given + count
        return list(snowflakes(at + count)[at:])


class Nobody:
    """There is nobody to wake."""

    def wake(self, count: int) -> None:
        pass


class Site:
    """A queue, its jobs, and an expander for each who asks."""

    def __init__(self, control: MongoNodes, redis: RedisConnection, tenant: str) -> None:
        self.jobs = MongoJobs(control)
        self.queue_key = QueueKey(tenant, "docs", "main")
        self.biz: Biz = a_biz(generations=(a_generation(nodes=("east",)),))
        self.redis, self.ids = redis, Ids()
        self.tree = Tree(
            revision="1",
            stage=Stage(),
            tenants={tenant: Tenant()},
            bizs={tenant: {"docs": self.biz}},
        )

    def expander(self, store: object, nodes: MongoNodes) -> JobExpansion:
        return JobExpansion(
            jobs=self.jobs,
            ledgers=MongoLedgers(nodes),
            submission=Submissions(
                ids=self.ids,
                store=store,  # type: ignore[arg-type]
                queue=RedisQueue(self.redis),
                rules=MemoryRules(),
                keys=MemorySubmissionKeys(),
                intake=RedisIntake(self.redis),
                ceilings=ceilings_at(self.redis, nodes),
                workers=MemoryWorkers(),
                waker=Nobody(),
            ),
        )

    def job(self) -> Job:
        found = self.jobs.get(self.queue_key.tenant, "docs", "june")
        assert found is not None
        return found


@contextmanager
def a_site(uri: str, redis: RedisConnection, tenant: str) -> Iterator[Site]:
    with own_control_at(uri) as control:
        yield Site(control, redis, tenant)


def test_several_expanders_at_once_make_each_task_once(
    mongo_uri: str, redis_connection: RedisConnection, tenant: str
) -> None:
    with nodes_at(mongo_uri) as nodes, a_site(mongo_uri, redis_connection, tenant) as site:
        start = Start(pattern="https://site.example/{n}", values={"n": Range(last=5_500)})
        site.jobs.create(a_job(tenant, start=start))
        together = Barrier(3)

        def work(_: int) -> None:
            ports = site.expander(MongoRequestStore(nodes), nodes)
            together.wait()
            until = iter(range(10_000, 0, -1))
            ports.expand(site.tree, lambda: NOW, lambda: float(next(until)))

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(work, range(3)))
        # Whoever met another on the way waits a little, and none may be left to go on.
        later = NOW + timedelta(minutes=10)
        left = iter([60.0] * 99 + [0.0] * 9)
        site.expander(MongoRequestStore(nodes), nodes).expand(
            site.tree, lambda: later, left.__next__
        )

        job = site.job()
        assert (job.state, job.expanded, job.batch) == (JobState.RUNNING, 5_500, None)
        ledger = MongoLedgers(nodes).audit(site.queue_key, site.biz, NOW, "june")
        assert (ledger.submitted, ledger.pending, ledger.difference) == (5_500, 5_500, 0)
        assert made(nodes, site) == Counter(url_at(start, index) for index in range(5_500))


def made(nodes: NodesOnOneServer, site: Site) -> Counter[str]:
    found: Counter[str] = Counter()
    after = None
    store = MongoRequestStore(nodes)
    pending = RequestFilter(state=State.PENDING)
    while page := store.find(site.queue_key, site.biz, pending, after=after, limit=1_000, now=NOW):
        found.update(one.request.body.url for one in page)
        last = page[-1].request
        after = (to_ms(last.queued_at), str(last.id))
    return found


def test_a_biz_with_little_room_in_redis_gets_its_tasks_as_there_is_room(
    mongo_uri: str, redis_connection: RedisConnection, tenant: str
) -> None:
    with nodes_at(mongo_uri) as nodes, a_site(mongo_uri, redis_connection, tenant) as site:
        limited = a_biz(
            generations=(a_generation(nodes=("east",)),), intake=IntakeLimits(max_backlog=100)
        )
        site.tree = Tree(
            revision="1",
            stage=Stage(),
            tenants={tenant: Tenant()},
            bizs={tenant: {"docs": limited}},
        )
        start = Start(pattern="https://site.example/{n}", values={"n": Range(last=250)})
        site.jobs.create(a_job(tenant, start=start))
        queue, ports = RedisQueue(redis_connection), site.expander(MongoRequestStore(nodes), nodes)
        seen = []
        for minute in range(5):
            at = NOW + timedelta(minutes=minute)
            ports.expand(site.tree, lambda at=at: at, lambda: 60.0)
            seen.append((site.job().expanded, site.job().trouble is not None))
            entries = queue.lease(site.queue_key, "w:1", 1_000, at, at + timedelta(minutes=1))
            queue.finish(site.queue_key, "w:1", entries, len(entries), at)

        # Half of what it takes is left to clients.
        assert seen == [(50, False), (100, False), (150, False), (200, False), (250, False)]
        assert site.job().state is JobState.RUNNING
