"""One table from each port to its implementations, and fixtures that run a suite over all of them.

A port's fake is ``memory``; the real one keeps things on ``redis`` (one server), on a Redis
``cluster`` of three nodes, or on ``mongo`` (a replica set). A row of the table says how each is
made; what reads another port's state is made over the same backend.

    queue = fixture_over(RequestQueue)
    both = fixture_over(RequestQueue, LeaseBook)  # of one backend
    backend = backend_over(RedisSessions)  # for those that a test makes with options of its own
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import pytest

from tests.fakes.bidding import MemoryBoard, MemoryProbeCache
from tests.fakes.ceilings import MemoryCeilings
from tests.fakes.dead_letters import MemoryDeadLetters
from tests.fakes.fetching import MemorySessions
from tests.fakes.fleet import MemoryFailureDetector, MemoryPoolBook, MemoryTicks, MemoryWorkers
from tests.fakes.frontier import MemorySeedFilter, MemorySeeds
from tests.fakes.ids import MemoryWorkerNumbers
from tests.fakes.incidents import MemoryIncidentBook
from tests.fakes.job_ends import MemoryCancellations, MemoryDemands, MemoryOrphanedJobs
from tests.fakes.jobs import MemoryJobReopening, MemoryJobs
from tests.fakes.ledger import MemoryJournal, MemoryLedgers
from tests.fakes.politeness import MemoryHosts, MemoryRobotsCache
from tests.fakes.queue import MemoryOverview, MemoryQueue
from tests.fakes.records import MemoryCoverages, MemoryDataQueue
from tests.fakes.recovery import (
    MemoryBizs,
    MemoryLeaseBook,
    MemoryLeaseRevocation,
    MemoryQueueRebuild,
)
from tests.fakes.recrawl import MemoryVisits
from tests.fakes.requests import MemoryRequestStore, MemoryRules
from tests.fakes.scaling import MemoryQueueSampler, MemoryScalingTargets
from tests.fakes.schedules import MemorySchedules
from tests.fakes.spiders import MemorySpiders
from tests.fakes.submission import MemoryIntake, MemorySubmissionKeys
from tests.kit import (
    bidding,
    ceilings,
    dead_letters,
    fetching,
    fleet,
    frontier,
    ids,
    incidents,
    jobs,
    mongo,
    politeness,
    queue,
    records,
    recovery,
    recrawl,
    requests,
    schedules,
    spiders,
    submission,
)
from tests.kit.mongo_nodes import NodesOnOneServer
from tests.kit.redis import RedisConnection

P = TypeVar("P")


class Backend:
    """One backend for one test. ``backend[port]`` is its implementation of a port.

    Args:
        name: ``memory``, ``redis``, ``cluster`` or ``mongo``.
        connection: To the server, where there is one.
        tenant: The test's own, by which fleets on one server are kept apart.
    """

    def __init__(
        self, name: str, connection: RedisConnection | NodesOnOneServer | None, tenant: str
    ) -> None:
        self.name, self.connection, self.tenant = name, connection, tenant
        self._made: dict[type, Any] = {}

    def __getitem__(self, port: type[P]) -> P:
        """The backend's implementation, the same one each time."""
        if port not in self._made:
            self._made[port] = self.make(port)
        return self._made[port]

    def make(self, port: type[P], **options: Any) -> P:
        """Make another implementation; over a server it shares its state with all others."""
        row = TABLE[port]
        if self.connection is None:
            return row.fake(self, **options)
        own = {"fleet": self.tenant} if row.of_fleet else {}
        return row.real(self.connection, **(own | options))

    def use(self, port: type[P], **options: Any) -> P:
        """Make the implementation with these options the backend's own from now on."""
        self._made[port] = self.make(port, **options)
        return self._made[port]

    def another(self, port: type[P]) -> P:
        """The implementation as one more process opens it: an in-memory fake is one for all."""
        return self[port] if self.connection is None else self.make(port)


class Row(NamedTuple):
    """Makers of a port: its fake of a backend, and the real one of its connection."""

    fake: Callable[..., Any]
    real: Callable[..., Any]
    of_fleet: bool = False


def _fake(made: Callable[..., Any], *ports: type) -> Callable[..., Any]:
    """Make a fake that stands on the fakes of those ports."""
    return lambda at, **options: made(*(at[port] for port in ports), **options)


def _kept(made: Callable[..., Any]) -> Callable[..., Any]:
    """Make a fake that stands on what the store of requests keeps."""
    return lambda at, **options: made(at[mongo.MongoRequestStore].state, **options)


def _workers(at: Backend, pool: str | None = None, **options: Any) -> Any:
    return at[fleet.RedisWorkers].pool(pool) if pool else MemoryWorkers(**options)


_ON_REDIS: Mapping[type, Row] = {
    queue.RedisQueue: Row(_fake(MemoryQueue), queue.RedisQueue),
    queue.RedisLeaseBook: Row(_fake(MemoryLeaseBook, queue.RedisQueue), queue.RedisLeaseBook),
    queue.RedisQueueRebuild: Row(
        _fake(MemoryQueueRebuild, queue.RedisQueue), queue.RedisQueueRebuild
    ),
    queue.RedisQueueSampler: Row(
        _fake(MemoryQueueSampler, queue.RedisQueue), queue.RedisQueueSampler
    ),
    queue.RedisOverview: Row(_fake(MemoryOverview, queue.RedisQueue), queue.RedisOverview),
    ceilings.RedisCeilings: Row(_fake(MemoryCeilings), ceilings.RedisCeilings),
    submission.Intake: Row(_fake(MemoryIntake, queue.RedisQueue), submission.RedisIntake),
    ids.WorkerNumbers: Row(_fake(MemoryWorkerNumbers), ids.RedisWorkerNumbers, of_fleet=True),
    frontier.RedisSeedFilter: Row(_fake(MemorySeedFilter), frontier.RedisSeedFilter),
    fetching.RedisSessions: Row(_fake(MemorySessions), fetching.RedisSessions),
    politeness.RedisHosts: Row(_fake(MemoryHosts), politeness.RedisHosts),
    politeness.RedisRobotsCache: Row(_fake(MemoryRobotsCache), politeness.RedisRobotsCache),
    records.RedisCoverages: Row(_fake(MemoryCoverages), records.RedisCoverages),
    records.RedisDataQueue: Row(_fake(MemoryDataQueue), records.RedisDataQueue),
    recovery.RedisBizs: Row(_fake(MemoryBizs), recovery.RedisBizs),
    fleet.RedisWorkers: Row(_workers, fleet.RedisWorkers, of_fleet=True),
    fleet.RedisFailureDetector: Row(
        _fake(MemoryFailureDetector, fleet.RedisWorkers), fleet.RedisFailureDetector, of_fleet=True
    ),
    fleet.RedisScalingTargets: Row(
        _fake(MemoryScalingTargets, fleet.RedisWorkers), fleet.RedisScalingTargets, of_fleet=True
    ),
    fleet.RedisTicks: Row(_fake(MemoryTicks), fleet.RedisTicks, of_fleet=True),
    jobs.RedisCancellations: Row(
        _fake(MemoryCancellations), jobs.RedisCancellations, of_fleet=True
    ),
    bidding.RedisBoard: Row(_fake(MemoryBoard), bidding.RedisBoard, of_fleet=True),
    bidding.RedisProbeCache: Row(_fake(MemoryProbeCache), bidding.RedisProbeCache),
}

_ON_MONGO: Mapping[type, Row] = {
    mongo.MongoRequestStore: Row(_fake(MemoryRequestStore), mongo.MongoRequestStore),
    mongo.MongoLedgers: Row(_kept(MemoryLedgers), mongo.MongoLedgers),
    mongo.MongoLeaseRevocation: Row(_kept(MemoryLeaseRevocation), mongo.MongoLeaseRevocation),
    mongo.MongoJournal: Row(_fake(MemoryJournal), mongo.MongoJournal),
    mongo.MongoRules: Row(_fake(MemoryRules), mongo.MongoRules),
    dead_letters.MongoDeadLetters: Row(_kept(MemoryDeadLetters), dead_letters.MongoDeadLetters),
    submission.MongoSubmissionKeys: Row(
        _fake(MemorySubmissionKeys), submission.MongoSubmissionKeys
    ),
    frontier.MongoSeeds: Row(_fake(MemorySeeds), frontier.MongoSeeds),
    recrawl.MongoVisits: Row(_fake(MemoryVisits), recrawl.MongoVisits),
    spiders.MongoSpiders: Row(_fake(MemorySpiders), spiders.MongoSpiders),
    schedules.MongoSchedules: Row(_fake(MemorySchedules), schedules.MongoSchedules),
    jobs.MongoJobs: Row(_fake(MemoryJobs), jobs.MongoJobs),
    jobs.MongoJobReopening: Row(_fake(MemoryJobReopening, jobs.MongoJobs), jobs.MongoJobReopening),
    jobs.MongoOrphanedJobs: Row(_fake(MemoryOrphanedJobs, jobs.MongoJobs), jobs.MongoOrphanedJobs),
    jobs.MongoDemands: Row(_fake(MemoryDemands), jobs.MongoDemands),
    fleet.MongoPoolBook: Row(_fake(MemoryPoolBook), fleet.MongoPoolBook),
    incidents.MongoIncidentBook: Row(_fake(MemoryIncidentBook), incidents.MongoIncidentBook),
}

TABLE: Mapping[type, Row] = {**_ON_REDIS, **_ON_MONGO}


def backend_over(*ports: type) -> Any:
    """Make a fixture that is each backend in turn that implements these ports."""
    return _fixture(ports, lambda backend: backend)


def fixture_over(*ports: type) -> Any:
    """Make a fixture that is each implementation of the port in turn; of several ports a tuple."""
    if len(ports) == 1:
        return _fixture(ports, lambda backend: backend[ports[0]])
    return _fixture(ports, lambda backend: tuple(backend[port] for port in ports))


def _fixture(ports: tuple[type, ...], of: Callable[[Backend], Any]) -> Any:
    on_redis = all(port in _ON_REDIS for port in ports)

    @pytest.fixture(params=["memory", "redis", "cluster"] if on_redis else ["memory", "mongo"])
    def over(request: pytest.FixtureRequest, tenant: str) -> Any:
        name = request.param
        connection = None if name == "memory" else request.getfixturevalue(f"{name}_connection")
        return of(Backend(name, connection, tenant))

    return over
