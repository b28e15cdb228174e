"""One table from each port to its implementations, and fixtures that run a suite over all of them.

A port's twin is ``memory``; the real one keeps things on ``redis`` (one server), on a Redis
``cluster`` of three nodes, or on ``mongo`` (a replica set). A row of the table says how each is
made; what reads another port's state is made over the same backend.

    queue = fixture_over(RequestQueue)
    both = fixture_over(RequestQueue, LeaseBook)  # of one backend
    backend = backend_over(Sessions)  # for those that a test makes with options of its own
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import pytest

from tests.kit import (
    bidding,
    dead_letters,
    fakes,
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
    """One place that keeps things for one test. ``backend[port]`` is its implementation of a port.

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
        """One more implementation; over a server it shares what is kept there with all others."""
        row = TABLE[port]
        if self.connection is None:
            return row.twin(self, **options)
        own = {"fleet": self.tenant} if row.of_fleet else {}
        return row.real(self.connection, **(own | options))

    def use(self, port: type[P], **options: Any) -> P:
        """Make the implementation with these options the backend's own from now on."""
        self._made[port] = self.make(port, **options)
        return self._made[port]

    def another(self, port: type[P]) -> P:
        """The implementation as one more process opens it: a twin in memory is one for all."""
        return self[port] if self.connection is None else self.make(port)


class Row(NamedTuple):
    """Makers of a port: its twin of a backend, and the real one of its connection."""

    twin: Callable[..., Any]
    real: Callable[..., Any]
    of_fleet: bool = False


def _twin(made: Callable[..., Any], *ports: type) -> Callable[..., Any]:
    """Make a twin that stands on the twins of those ports."""
    return lambda at, **options: made(*(at[port] for port in ports), **options)


def _kept(made: Callable[..., Any]) -> Callable[..., Any]:
    """Make a twin that stands on what the store of requests keeps."""
    return lambda at, **options: made(at[requests.RequestStore].state, **options)


def _workers(at: Backend, pool: str | None = None, **options: Any) -> Any:
    return at[fleet.Workers].pool(pool) if pool else fakes.MemoryWorkers(**options)


_ON_REDIS: Mapping[type, Row] = {
    queue.RequestQueue: Row(_twin(fakes.MemoryQueue), queue.RedisQueue),
    queue.LeaseBook: Row(_twin(fakes.MemoryLeaseBook, queue.RequestQueue), queue.RedisLeaseBook),
    queue.QueueFilling: Row(_twin(fakes.MemoryFilling, queue.RequestQueue), queue.RedisFilling),
    queue.Outlook: Row(_twin(fakes.MemoryOutlook, queue.RequestQueue), queue.RedisOutlook),
    queue.Overview: Row(_twin(fakes.MemoryOverview, queue.RequestQueue), queue.RedisOverview),
    submission.Intake: Row(_twin(fakes.MemoryIntake, queue.RequestQueue), submission.RedisIntake),
    ids.WorkerNumbers: Row(_twin(fakes.MemoryWorkerNumbers), ids.RedisWorkerNumbers, of_fleet=True),
    frontier.SeedFilter: Row(_twin(fakes.MemorySeedFilter), frontier.RedisSeedFilter),
    fetching.Sessions: Row(_twin(fakes.MemorySessions), fetching.RedisSessions),
    politeness.Hosts: Row(_twin(fakes.MemoryHosts), politeness.RedisHosts),
    politeness.RobotsCache: Row(_twin(fakes.MemoryRobotsCache), politeness.RedisRobotsCache),
    records.Coverages: Row(_twin(fakes.MemoryCoverages), records.RedisCoverages),
    records.DataQueue: Row(_twin(fakes.MemoryDataQueue), records.RedisDataQueue),
    recovery.Bizs: Row(_twin(fakes.MemoryBizs), recovery.RedisBizs),
    fleet.Workers: Row(_workers, fleet.RedisWorkers, of_fleet=True),
    fleet.Watch: Row(_twin(fakes.MemoryWatch, fleet.Workers), fleet.RedisWatch, of_fleet=True),
    fleet.Staffing: Row(
        _twin(fakes.MemoryStaffing, fleet.Workers), fleet.RedisStaffing, of_fleet=True
    ),
    fleet.Ticks: Row(_twin(fakes.MemoryTicks), fleet.RedisTicks, of_fleet=True),
    jobs.Cancellations: Row(
        _twin(fakes.MemoryCancellations), jobs.RedisCancellations, of_fleet=True
    ),
    bidding.JobBoard: Row(_twin(fakes.MemoryBoard), bidding.RedisBoard, of_fleet=True),
    bidding.ProbeBook: Row(_twin(fakes.MemoryProbes), bidding.RedisProbes),
}

_ON_MONGO: Mapping[type, Row] = {
    requests.RequestStore: Row(_twin(fakes.MemoryRequestStore), mongo.MongoRequestStore),
    requests.Ledgers: Row(_kept(fakes.MemoryLedgers), mongo.MongoLedgers),
    requests.Disowning: Row(_kept(fakes.MemoryDisowning), mongo.MongoDisowning),
    requests.Journal: Row(_twin(fakes.MemoryJournal), mongo.MongoJournal),
    requests.RuleStore: Row(_twin(fakes.MemoryRules), mongo.MongoRules),
    dead_letters.DeadLetters: Row(_kept(fakes.MemoryDeadLetters), dead_letters.MongoDeadLetters),
    submission.SubmissionKeys: Row(
        _twin(fakes.MemorySubmissionKeys), submission.MongoSubmissionKeys
    ),
    frontier.SeedStore: Row(_twin(fakes.MemorySeeds), frontier.MongoSeeds),
    recrawl.Visits: Row(_twin(fakes.MemoryVisits), recrawl.MongoVisits),
    spiders.SpiderStore: Row(_twin(fakes.MemorySpiders), spiders.MongoSpiders),
    schedules.ScheduleStore: Row(_twin(fakes.MemorySchedules), schedules.MongoSchedules),
    jobs.JobStore: Row(_twin(fakes.MemoryJobs), jobs.MongoJobs),
    jobs.JobReopening: Row(_twin(fakes.MemoryJobReopening, jobs.JobStore), jobs.MongoJobReopening),
    jobs.JobStates: Row(_twin(fakes.MemoryJobStates, jobs.JobStore), jobs.MongoJobStates),
    jobs.LostJobs: Row(_twin(fakes.MemoryLostJobs, jobs.JobStore), jobs.MongoLostJobs),
    jobs.DemandStore: Row(_twin(fakes.MemoryDemands), jobs.MongoDemands),
    fleet.PoolBook: Row(_twin(fakes.MemoryPoolBook), fleet.MongoPoolBook),
    incidents.IncidentBook: Row(_twin(fakes.MemoryIncidentBook), incidents.MongoIncidentBook),
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
