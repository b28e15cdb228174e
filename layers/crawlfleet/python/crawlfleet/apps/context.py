"""The stores and functions that an application works on, opened at first use."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger

from crawlfleet.config.ssm import POLL_SECONDS, SsmConfig
from crawlfleet.config.validation import ReaderCheck, unchecked
from crawlfleet.kernel.aws.clients import Secrets, client, lambda_client
from crawlfleet.kernel.names import CONTROL_DATABASE, PRODUCT
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.settings import Settings

if TYPE_CHECKING:
    from crawlfleet.fleet.lambda_functions import LambdaIds, LambdaTrials, LambdaWaker
    from crawlfleet.fleet.redis.registry import RedisWorkers
    from crawlfleet.fleet.redis.scheduler import RedisScalingTargets
    from crawlfleet.fleet.scaling import ConcurrencyLimit
    from crawlfleet.kernel.mongo.connection import MongoNodes, Waits
    from crawlfleet.kernel.redis.connection import RedisConnection
    from crawlfleet.requests.mongo.ledger import MongoLedgers
    from crawlfleet.requests.mongo.store import MongoRequestStore
    from crawlfleet.requests.queue.redis.queue import RedisQueue


def now() -> datetime:
    """Return the time by the clock of every function."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """The outside of an environment, as far as no setting names it.

    Attributes:
        clock: The time by which things are due.
        client: Makes a client of AWS (kernel.aws.clients.client).
        lambda_client: Makes one that reaches a function (kernel.aws.clients.lambda_client).
        poll_seconds: Time between two looks at the configuration's revision.
        control_database: The name of the control database.
        node_waits: How long MongoDB nodes are waited for; without it as long as their own default.
    """

    clock: Callable[[], datetime] = now
    client: Callable[..., Any] = client
    lambda_client: Callable[..., Any] = lambda_client
    poll_seconds: float = POLL_SECONDS
    control_database: str = CONTROL_DATABASE
    node_waits: "Waits | None" = None


class Parts:
    """The stores and functions of one environment, imported and opened at first use.

    ``check_reader`` compiles rules when a new configuration arrives. Only a function that carries
    the parsers can do that; the others trust `crawlfleet config push`, which does it too.
    """

    def __init__(
        self,
        settings: Settings,
        service: str,
        check_reader: ReaderCheck = unchecked,
        outside: Outside = Outside(),
    ) -> None:
        self.settings = settings
        self.outside = outside
        self.now = outside.clock
        self._check_reader = check_reader
        self.log = Logger(service=service, level=settings.log_level)
        # What adapters log comes under the package's name; without a formatter of ours Lambda would
        # print the sentence and drop the fields, the reasons among them.
        Logger(service=PRODUCT, level=settings.log_level).append_keys(service=service)

    @cached_property
    def secrets(self) -> Secrets:
        """Open Secrets Manager."""
        return Secrets(self.outside.client("secretsmanager", region=self.settings.home_region))

    @cached_property
    def config(self) -> SsmConfig:
        """Open the config centre."""
        return SsmConfig(
            self.outside.client("ssm", region=self.settings.home_region),
            self.settings.stage,
            check_reader=self._check_reader,
            poll_seconds=self.outside.poll_seconds,
            pools=[pool.name for pool in self.settings.pools],
        )

    @cached_property
    def redis(self) -> "RedisConnection":
        """Open the stage's Redis."""
        from crawlfleet.kernel.redis.connection import RedisConnection

        secret = self.settings.redis_secret
        if secret is None:
            return RedisConnection(self.settings.redis_url)

        def renew() -> str:
            self.secrets.forget(secret)
            return self.secrets.read(secret)

        return RedisConnection(
            self.settings.redis_url, password=self.secrets.read(secret), renew=renew
        )

    @cached_property
    def queue(self) -> "RedisQueue":
        """Open the request queue."""
        from crawlfleet.requests.queue.redis.queue import RedisQueue

        return RedisQueue(self.redis)

    @cached_property
    def workers(self) -> "RedisWorkers":
        """Open the registry of workers of the usual pool."""
        return self.workers_of(MAIN_POOL)

    def workers_of(self, pool: str) -> "RedisWorkers":
        """Open the registry of workers of a pool."""
        from crawlfleet.fleet.redis.registry import RedisWorkers

        return RedisWorkers(self.redis, pool=pool)

    @cached_property
    def targets(self) -> "RedisScalingTargets":
        """Open the autoscaler's targets."""
        from crawlfleet.fleet.redis.scheduler import RedisScalingTargets

        return RedisScalingTargets(self.redis)

    @cached_property
    def nodes(self) -> "MongoNodes":
        """Open the MongoDB nodes."""
        from crawlfleet.kernel.mongo.connection import MongoNodes, Waits

        template = self.settings.node_secret_template

        def renew(node: str) -> str:
            self.secrets.forget(template.format(node=node))
            return self.secrets.read(template.format(node=node))

        return MongoNodes(
            lambda node: self.secrets.read(template.format(node=node)),
            lambda: self.config.current().stage.home_node,
            renew,
            control_database=self.outside.control_database,
            waits=self.outside.node_waits or Waits(),
        )

    @cached_property
    def store(self) -> "MongoRequestStore":
        """Open the store of requests and records."""
        from crawlfleet.requests.mongo.store import MongoRequestStore

        return MongoRequestStore(self.nodes)

    @cached_property
    def ledgers(self) -> "MongoLedgers":
        """Open the ledgers."""
        from crawlfleet.requests.mongo.ledger import MongoLedgers

        return MongoLedgers(self.nodes)

    @cached_property
    def ids(self) -> "LambdaIds":
        """Reach the id-issuer."""
        from crawlfleet.fleet.lambda_functions import LambdaIds

        # Blocks end by the id-issuer's clock, which is the machines' own.
        connect = self.outside.lambda_client
        return LambdaIds(self.settings.id_issuer_function, now, connect=connect)

    @cached_property
    def trials(self) -> "LambdaTrials":
        """Reach consumers of the usual pool, which try rules."""
        from crawlfleet.fleet.lambda_functions import LambdaTrials

        connect = self.outside.lambda_client
        return LambdaTrials(self.settings.consumer_function, connect=connect)

    @cached_property
    def waker(self) -> "LambdaWaker":
        """Reach the consumer of the usual pool, to start it."""
        return self.waker_of(self.settings.consumer_function)

    def waker_of(self, function: str) -> "LambdaWaker":
        """Reach the consumer of a pool, to start it."""
        from crawlfleet.fleet.lambda_functions import LambdaWaker

        return LambdaWaker(function, connect=self.outside.lambda_client)

    @cached_property
    def limit(self) -> "ConcurrencyLimit":
        """Reach the concurrency limit of the usual pool's consumer."""
        settings = self.settings
        return self.limit_of(settings.consumer_function, settings.consumer_ceiling)

    def limit_of(self, function: str, ceiling: int) -> "ConcurrencyLimit":
        """Reach the concurrency limit of a pool's consumer."""
        from crawlfleet.fleet.lambda_functions import LambdaConcurrency

        return LambdaConcurrency(function, ceiling, connect=self.outside.lambda_client)
