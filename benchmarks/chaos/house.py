"""Crawlfleet over the run's own Redis and MongoDB: the real parts, without an AWS in between.

Only what a cloud would give is replaced: the config centre stands still, secrets are at hand, the
id-issuer is called in this process as its function would call it, and waking a consumer is whatever
the run makes of it.
"""

import io
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, cast

import msgspec

from benchmarks.stand_ins import FixedConfig, FixedSecret, UnboundLimit
from crawlfleet.apps.context import Parts, now
from crawlfleet.apps.id_issuer import IdIssuer
from crawlfleet.config.documents.biz import (
    Biz,
    FleetLimits,
    Generation,
    RetryLimits,
    Stage,
    Tenant,
    Tree,
)
from crawlfleet.config.documents.policies import HostLimits
from crawlfleet.config.documents.rule import Field, Rule, Selector
from crawlfleet.config.in_force import SsmConfig
from crawlfleet.fleet.lambda_functions import LambdaIds, LambdaWaker
from crawlfleet.fleet.scaling import ConcurrencyLimit
from crawlfleet.kernel.aws.clients import Secrets
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.settings import Settings
from crawlfleet.requests.ids.issuer import Issuer
from crawlfleet.requests.ids.mongo import FIRST_NUMBER, MongoCounter, MongoWorkerNumbers
from crawlfleet.requests.ids.redis import RedisWorkerNumbers

BIZ: Final = "docs"
RULE: Final = "items"

#: One record for each item of a page.
ITEMS: Final = Rule(items=Selector(css="li"), fields={"name": Field(css="b")})


class World(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses of a run's servers, and the configuration of all of its processes."""

    redis: str
    mongo: str
    tree: Tree

    @property
    def tenant(self) -> str:
        """The run's tenant, which keeps it apart from others on the same servers."""
        return next(iter(self.tree.tenants))

    @property
    def queue_key(self) -> QueueKey:
        """The run's queue key."""
        return QueueKey(self.tenant, BIZ, self.biz.queue)

    @property
    def biz(self) -> Biz:
        """The run's biz."""
        return self.tree.bizs[self.tenant][BIZ]


#: Politeness that is at work and keeps nobody waiting: there is one site, and it is ours.
UNBOUND: Final = HostLimits(per_second=100_000, concurrency=10_000)


def tree_of(tenant: str, fleet: FleetLimits) -> Tree:
    """A configuration of one tenant with one biz over two databases of two shards each.

    Attempts are not what is tried here: a request may be in the hands of many that die.
    """
    generation = Generation(
        starts_at=datetime(2025, 1, 1, tzinfo=UTC),
        nodes=("main",),
        databases=("one", "two"),
        shards=2,
    )
    biz = Biz(
        generations=(generation,),
        rules={RULE: ITEMS},
        retry=RetryLimits(max_attempts=100, base_seconds=1, max_seconds=5),
    )
    return Tree(
        revision="1",
        stage=Stage(allow_private_addresses=True, fleet=fleet, hosts=UNBOUND),
        tenants={tenant: Tenant()},
        bizs={tenant: {BIZ: biz}},
    )


def _nowhere(_: object) -> None:
    """Notify nobody."""


class ChaosParts(Parts):
    """The parts of one function.

    Args:
        world: Where everything is.
        service: The function.
        wake: Starts so many consumers; without it a wake-up goes nowhere.
        announce: Gets what goes wrong without being fatal: there is much of that here.
    """

    def __init__(
        self,
        world: World,
        service: str,
        wake: Callable[[int], None] = _nowhere,
        announce: Callable[[str], None] = _nowhere,
    ) -> None:
        settings = Settings(
            stage="chaos",
            log_level="ERROR",
            redis_url=world.redis,
            node_secret_template="{node}",
            consumer_function="consumer",
            id_issuer_function="id-issuer",
        )
        super().__init__(settings, service)
        self.world = world
        self._wake = wake
        self._announce = announce

    def warn(self, message: str, error: Exception) -> None:
        """Tell the run."""
        self._announce(f"{message}: {type(error).__name__}: {error}")

    @cached_property
    def config(self) -> SsmConfig:
        """The configuration stands still."""
        return cast("SsmConfig", FixedConfig(self.world.tree))

    @cached_property
    def secrets(self) -> Secrets:
        """The one secret is MongoDB's address."""
        return FixedSecret(self.world.mongo)

    @cached_property
    def ids(self) -> LambdaIds:
        """Ids as the id-issuer's function gives them."""
        authorities = (
            RedisWorkerNumbers(self.redis, numbers=range(FIRST_NUMBER)),
            MongoWorkerNumbers(self.nodes),
        )
        issuer = IdIssuer(Issuer(authorities, "chaos", now, time.sleep), MongoCounter(self.nodes))
        return LambdaIds("id-issuer", now, _Lambda(issuer, self._wake))

    @cached_property
    def waker(self) -> LambdaWaker:
        """Waking is the run's."""
        return LambdaWaker("consumer", _Lambda(None, self._wake))

    @cached_property
    def limit(self) -> ConcurrencyLimit:
        """Ignore Lambda's limit: the run throttles by itself."""
        return UnboundLimit(self.world.tree.stage.fleet.max_consumers)

    def close(self) -> None:
        """Close what was opened."""
        if "redis" in vars(self):
            self.redis.close()
        if "nodes" in vars(self):
            self.nodes.close()


class _Lambda:
    """Lambda's Invoke: the id-issuer in this process; a wake-up goes to the run's fleet."""

    def __init__(self, issuer: IdIssuer | None, wake: Callable[[int], None]) -> None:
        self._issuer = issuer
        self._wake = wake

    def invoke(self, **arguments: Any) -> Any:
        if self._issuer is None:
            self._wake(1)
            return {"StatusCode": 202}
        answer = self._issuer.issue(msgspec.json.decode(arguments["Payload"]))
        return {"StatusCode": 200, "Payload": io.BytesIO(msgspec.json.encode(answer))}
