"""The stores and functions that an application works on, opened at first use."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools import Logger

from crawlfleet.kernel import names
from crawlfleet.kernel.aws.clients import Secrets, client, lambda_client
from crawlfleet.kernel.errors import ConfigError, CrawlfleetError, Problem
from crawlfleet.kernel.names import CONTROL_DATABASE, PRODUCT, collector_secret
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.settings import Settings

if TYPE_CHECKING:
    from crawlfleet.config.in_force import SsmConfig
    from crawlfleet.config.redis import RedisRevisions
    from crawlfleet.config.validation import ReaderCheck
    from crawlfleet.fleet.lambda_functions import LambdaIds, LambdaTrials, LambdaWaker
    from crawlfleet.fleet.redis.registry import RedisWorkers
    from crawlfleet.fleet.redis.scheduler import RedisScalingTargets
    from crawlfleet.fleet.scaling import ConcurrencyLimit
    from crawlfleet.kernel.mongo.connection import MongoNodes, Waits
    from crawlfleet.kernel.redis.connection import RedisConnection
    from crawlfleet.kernel.tracing import Tracer
    from crawlfleet.requests.mongo.ledger import MongoLedgers
    from crawlfleet.requests.mongo.store import MongoRequestStore
    from crawlfleet.requests.queue.redis.queue import RedisQueue

#: How long a function waits for its first configuration while SSM throttles: hundreds may start
#: together, 40 of them a second are answered. Well below what each has (infra.fleet).
START_SECONDS: Final = {
    names.ID_ISSUER: 5.0,
    names.ROUTER: 15.0,
    names.CONSUMER: 120.0,
    names.SCHEDULER: 60.0,
    names.MONITOR: 30.0,
    # It has no configuration: what it goes by comes with each question.
    names.TRIALS: 0.0,
    names.STREAMS: 60.0,
}


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
        poll_seconds: Time between two looks at the configuration's revision; without it the usual.
        control_database: The name of the control database.
        node_waits: How long MongoDB nodes are waited for; without it as long as their own default.
    """

    clock: Callable[[], datetime] = now
    client: Callable[..., Any] = client
    lambda_client: Callable[..., Any] = lambda_client
    poll_seconds: float | None = None
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
        check_reader: "ReaderCheck | None" = None,
        outside: Outside = Outside(),
    ) -> None:
        self.settings = settings
        self.outside = outside
        self.now = outside.clock
        self._check_reader = check_reader
        self._service = service
        self.log = Logger(service=service, level=settings.log_level)
        # What adapters log comes under the package's name; without a formatter of ours Lambda would
        # print the sentence and drop the fields, the reasons among them.
        Logger(service=PRODUCT, level=settings.log_level).append_keys(service=service)

    @cached_property
    def secrets(self) -> Secrets:
        """Open Secrets Manager."""
        return Secrets(self.outside.client("secretsmanager", region=self.settings.home_region))

    def read_secret(self, name: str) -> str:
        """Read a secret anew, as it may have changed; raises as Secrets.read."""
        self.secrets.forget(name)
        return self.secrets.read(name)

    def read_tenant_secret(self, tenant: str, name: str) -> str:
        """Read a secret that a tenant's documents refer to, anew."""
        return self.read_secret(names.tenant_secret(self.settings.stage, tenant, name))

    def store_places(self) -> Iterator[tuple[str, int]]:
        """Yield host and port of each store, as far as they are known now."""
        yield from self.redis.places()
        for node in self.config.current().stage.nodes:
            with suppress(CrawlfleetError):
                yield from self.nodes.places(node)

    @cached_property
    def tracer(self) -> "Tracer":
        """Open what receives traces; the environment's collector goes before the stage's."""
        from crawlfleet.kernel.tracing import Tracer

        own = self.settings.otlp_endpoint
        return Tracer(
            self.settings.xray_daemon,
            lambda: own or self.config.current().stage.otlp_endpoint,
            self._collector_headers,
        )

    def _collector_headers(self, collector: str, *, renew: bool) -> dict[str, str]:
        """Read what the stage's collector is told besides spans; nobody else is told it.

        Raises:
            ConfigError: a secret is missing, may not be read, or is no header's value.
            StoreUnavailableError: Secrets Manager does not answer.
        """
        stage = self.config.current().stage
        if collector != stage.otlp_endpoint:
            return {}
        headers = {}
        for header, value in stage.otlp_headers.items():
            if isinstance(value, str):
                headers[header] = value
                continue
            secret = collector_secret(self.settings.stage, value.secret)
            if renew:
                self.secrets.forget(secret)
            headers[header] = text = self.secrets.read(secret).strip()
            if not (text.isascii() and text.isprintable()):
                self.secrets.forget(secret)
                problem = Problem(f"secret {secret}", "is no header's value: it has more lines")
                raise ConfigError([problem])
        return headers

    @cached_property
    def config(self) -> "SsmConfig":
        """Open the config centre; the id-issuer hands out most blocks without it."""
        from crawlfleet.config.in_force import POLL_SECONDS, SsmConfig
        from crawlfleet.config.validation import unchecked

        poll_seconds = self.outside.poll_seconds
        return SsmConfig(
            self.outside.client("ssm", region=self.settings.home_region),
            self.settings.stage,
            check_reader=self._check_reader or unchecked,
            poll_seconds=POLL_SECONDS if poll_seconds is None else poll_seconds,
            pools=[pool.name for pool in self.settings.pools],
            revisions=lambda: self._revisions,
            start_seconds=START_SECONDS.get(self._service, 0.0),
        )

    @cached_property
    def _revisions(self) -> "RedisRevisions":
        """Open what other environments have announced."""
        from crawlfleet.config.redis import RedisRevisions

        return RedisRevisions(self.redis)

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
        from crawlfleet.kernel.mongo.refusals import plain_hosts

        template, plain = self.settings.node_secret_template, self.settings.plain_stores

        def uri_of(node: str) -> str:
            secret = template.format(node=node)
            uri = self.secrets.read(secret)
            if apart := [host for host in plain_hosts(uri) if names.needs_tls(host, plain)]:
                why = (
                    f"is the URI of {apart[0]}, another machine, without TLS: add tls=true; in a "
                    f"network of your own {names.ENV_PLAIN_STORES} may name the host"
                )
                raise ConfigError([Problem(secret, why)])
            return uri

        def renew(node: str) -> str:
            self.secrets.forget(template.format(node=node))
            return uri_of(node)

        return MongoNodes(
            uri_of,
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
        """Reach the function that tries rules."""
        from crawlfleet.fleet.lambda_functions import LambdaTrials

        connect = self.outside.lambda_client
        return LambdaTrials(self.settings.trials_function, connect=connect)

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
