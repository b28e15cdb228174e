"""Crawlfleet over the run's own Redis and MongoDB: the real parts, without an AWS in between.

Only what a cloud would give is replaced: the config centre stands still, secrets are at hand, and
the id-issuer is called in this process as its function would call it.
"""

import io
import os
import time
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, cast

import msgspec

from benchmarks.bench import Addresses
from benchmarks.stand_ins import FixedConfig, FixedSecret
from crawlfleet.apps.context import Parts, now
from crawlfleet.apps.id_issuer import IdIssuer
from crawlfleet.config.documents.biz import Biz, FetchLimits, Generation, Stage, Tenant, Tree
from crawlfleet.config.documents.policies import HostLimits
from crawlfleet.config.documents.rule import Field, PageFact, Rule
from crawlfleet.config.in_force import SsmConfig
from crawlfleet.fleet.lambda_functions import LambdaIds, LambdaWaker
from crawlfleet.kernel.aws.clients import Secrets
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.settings import Settings
from crawlfleet.requests.ids.issuer import Issuer
from crawlfleet.requests.ids.mongo import FIRST_NUMBER, MongoCounter
from crawlfleet.requests.ids.redis import RedisWorkerNumbers

TENANT: Final = "default"
BIZ: Final = "docs"
QUEUE_KEY: Final = QueueKey(TENANT, BIZ, "main")
API_KEY: Final = "bench"
#: Where the spans of what is traced go, as ``host:port``; without it nowhere.
ENV_XRAY: Final = "BENCH_XRAY"

#: Politeness that is at work and keeps nobody waiting: there is one site, and it is ours.
UNBOUND: Final = HostLimits(per_second=100_000, concurrency=10_000)
#: The work that every side of the crawl does.
PAGE_RULE: Final = Rule(
    fields={
        "url": Field(fact=PageFact.URL),
        "title": Field(css="title"),
        "h1": Field(css="h1"),
        "p": Field(css="p"),
        "h2": Field(css="h2", list=True),
        "links": Field(css="a[href]", count=True),
    }
)


def tree_of(
    *, shards: int = 1, databases: tuple[str, ...] = ("docs",), fetch: FetchLimits | None = None
) -> Tree:
    """A configuration with one biz, all limits as they are by default, ``fetch`` excepted."""
    generation = Generation(
        starts_at=datetime(2025, 1, 1, tzinfo=UTC),
        nodes=("main",),
        databases=databases,
        shards=shards,
    )
    biz = Biz(generations=(generation,), rules={"page": PAGE_RULE}, fetch=fetch or FetchLimits())
    return Tree(
        revision="1",
        stage=Stage(allow_private_addresses=True, hosts=UNBOUND),
        tenants={TENANT: Tenant()},
        bizs={TENANT: {BIZ: biz}},
    )


class BenchParts(Parts):
    """The parts of one function."""

    def __init__(self, addresses: Addresses, tree: Tree, service: str) -> None:
        settings = Settings(
            stage="bench",
            log_level="WARNING",
            redis_url=addresses.redis,
            node_secret_template="{node}",
            default_api_key_id=API_KEY,
            xray_daemon=os.environ.get(ENV_XRAY),
        )
        super().__init__(settings, service)
        self._mongo = addresses.mongo
        self._tree = tree

    @cached_property
    def config(self) -> SsmConfig:
        return cast("SsmConfig", FixedConfig(self._tree))

    @cached_property
    def secrets(self) -> Secrets:
        return FixedSecret(self._mongo)

    @cached_property
    def ids(self) -> LambdaIds:
        numbers = RedisWorkerNumbers(self.redis, numbers=range(FIRST_NUMBER))
        issuer = Issuer((numbers,), "bench", now, time.sleep)
        return LambdaIds("id-issuer", now, _Lambda(IdIssuer(issuer, MongoCounter(self.nodes))))

    @cached_property
    def waker(self) -> LambdaWaker:
        return LambdaWaker("consumer", _Lambda(None))


class _Lambda:
    """Lambda's Invoke: the id-issuer in this process; a wake-up is accepted and goes nowhere."""

    def __init__(self, issuer: IdIssuer | None) -> None:
        self._issuer = issuer

    def invoke(self, **arguments: Any) -> Any:
        if self._issuer is None:
            return {"StatusCode": 202}
        answer = self._issuer.issue(msgspec.json.decode(arguments["Payload"]))
        return {"StatusCode": 200, "Payload": io.BytesIO(msgspec.json.encode(answer))}
