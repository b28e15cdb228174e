"""The six functions in one process: real handlers on real Redis and MongoDB, AWS in memory.

``a_world`` makes a :class:`World` on servers that a test names: a stage with two tenants (``acme``
and ``rival``), a tree of configuration in an SSM of moto's, and the six functions' handlers as
Lambda would load them. What an environment takes from outside is handed in: the clock of each
function (``world.clocks``), boto3's clients (``world.stand_ins``; Lambda's is ``world.lambdas``:
what one function asks of another goes to that one's handler, as bytes), and a control database of
the world's own.

    world.call(names.ROUTER, event)          # a handler, JSON in and JSON out
    world.clocks[names.SCHEDULER] = clock    # until the next ``fresh``
    world.end_environments()                 # the next call of each function is a cold start
    world.own.nodes                          # the stage's stores, for what a test looks after
"""

import io
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from typing import Any

import boto3
import pymongo
import pymongo.database
import pytest
import redis
from aws_lambda_powertools import Logger
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID
from moto.ssm.models import ssm_backends

import functions.consumer.handler
import functions.id_issuer.handler
import functions.monitor.handler
import functions.router.handler
import functions.scheduler.handler
import functions.trials.handler
from infra.local.aws_server import CREDENTIALS
from tests.config_documents import texts
from tests.kit.apps import (
    Outside,
    Parts,
    RouterContext,
    consumer,
    id_issuer,
    monitor,
    now,
    router,
    scheduler,
    trials,
)
from tests.kit.config import write_tree
from tests.kit.kernel import CONTROL_DATABASE, Need, Settings, names
from tests.kit.patience import PATIENT
from tests.kit.redis import RedisConnection

_HANDLERS: dict[str, Callable[..., Any]] = {
    names.ID_ISSUER: functions.id_issuer.handler.lambda_handler,
    names.ROUTER: functions.router.handler.lambda_handler,
    names.CONSUMER: functions.consumer.handler.lambda_handler,
    names.SCHEDULER: functions.scheduler.handler.lambda_handler,
    names.MONITOR: functions.monitor.handler.lambda_handler,
    names.TRIALS: functions.trials.handler.lambda_handler,
    names.OPERATORS: functions.router.handler.lambda_handler,
}
#: What an environment of each function keeps; each is opened once, until it is forgotten.
_APPLICATIONS: dict[str, Any] = {
    names.ID_ISSUER: id_issuer,
    names.ROUTER: router,
    names.CONSUMER: consumer,
    names.SCHEDULER: scheduler,
    names.MONITOR: monitor,
    names.TRIALS: trials,
    names.OPERATORS: router,
}
STAGE = "test"
CEILING = 6

#: What of the control database is stored because somebody asked for it.
_KEPT = ("schedules", "spiders", "jobs")

#: Ids of the API keys that events carry; whose they are is what a tree says.
KEYS = {"acme": "key-acme", "rival": "key-rival"}

PAGE_RULE = {"fields": {"title": {"css": "title"}}}
DETAIL_RULE = {"fields": {"heading": {"css": "h1"}}}


class Context:
    """An invocation as Lambda tells a handler of it."""

    function_name = memory_limit_in_mb = invoked_function_arn = "test"

    def __init__(self, seconds: float = 60.0) -> None:
        self.aws_request_id = str(uuid.uuid4())
        self._seconds = seconds

    def get_remaining_time_in_millis(self) -> int:
        return int(self._seconds * 1000)


def biz(rules: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A biz's document; two bizs of one tenant need a ``collection`` each."""
    generation = {
        "starts_at": "2026-01-01T00:00:00Z",
        "nodes": ["main"],
        "databases": ["db"],
        **changes.pop("generation", {}),
    }
    return {"generations": [generation], "rules": rules or {"page": PAGE_RULE}, **changes}


def default_bizs() -> dict[str, dict[str, dict[str, Any]]]:
    """The tree that the payloads in ``events/`` are written for; tenants by their first names."""
    two_rules = {"page": PAGE_RULE, "detail": DETAIL_RULE}
    return {
        "acme": {
            "docs": biz(),
            "shop": biz(
                two_rules,
                collection="shop",
                states={"reviewed": 100},
                transitions={"pending": ["reviewed"], "reviewed": ["pending"]},
            ),
        },
        "rival": {"docs": biz(), "secret": biz(collection="secret")},
    }


class LambdaService:
    """boto3's Lambda client, as far as ours use it; asynchronous invocations wait in ``woken``.

    Args:
        call: Has a function answer an event.
    """

    def __init__(self, call: Callable[[str, Any], Any]) -> None:
        self._call = call
        self.woken: list[str] = []
        self.calls: list[str] = []
        #: What happens instead of an invocation, by function.
        self.faults: dict[str, Exception | bytes] = {}
        #: The consumer's reserved concurrency, and what happens instead of telling or changing it.
        self.reserved: int | None = None
        #: That of the consumers of other pools, by their function.
        self.reserved_elsewhere: dict[str, int] = {}
        self.refusal: Exception | None = None

    def get_function_concurrency(self, *, FunctionName: str) -> Any:  # noqa: N803
        if self.refusal is not None:
            raise self.refusal
        reserved = self.reserved if _is_main(FunctionName) else None
        reserved = self.reserved_elsewhere.get(FunctionName, reserved)
        return {} if reserved is None else {"ReservedConcurrentExecutions": reserved}

    def put_function_concurrency(
        self,
        *,
        FunctionName: str,  # noqa: N803
        ReservedConcurrentExecutions: int,  # noqa: N803
    ) -> Any:
        if self.refusal is not None:
            raise self.refusal
        if _is_main(FunctionName):
            self.reserved = ReservedConcurrentExecutions
        else:
            self.reserved_elsewhere[FunctionName] = ReservedConcurrentExecutions
        return {"ReservedConcurrentExecutions": ReservedConcurrentExecutions}

    def invoke(self, *, FunctionName: str, InvocationType: str, Payload: bytes) -> Any:  # noqa: N803
        name = FunctionName.removeprefix(f"crawlfleet-{STAGE}-")
        self.calls.append(name)
        fault = self.faults.get(name)
        if isinstance(fault, Exception):
            raise fault
        if isinstance(fault, bytes):
            return {"StatusCode": 200, "FunctionError": "Unhandled", "Payload": io.BytesIO(fault)}
        if InvocationType == "Event":
            self.woken.append(name)
            return {"StatusCode": 202, "Payload": io.BytesIO()}
        try:
            answer = self._call(name, json.loads(Payload))
        except Exception as error:  # noqa: BLE001  Lambda reports any
            document = {"errorType": type(error).__name__, "errorMessage": str(error)}
            payload = io.BytesIO(json.dumps(document).encode())
            return {"StatusCode": 200, "FunctionError": "Unhandled", "Payload": payload}
        return {"StatusCode": 200, "Payload": io.BytesIO(json.dumps(answer).encode())}


def _is_main(function: str) -> bool:
    """Tell the usual consumer from one of another pool, which has the pool's name behind it."""
    main = names.function_name(STAGE, names.CONSUMER)
    assert function == main or function.startswith(f"{main}-")
    return function == main


def throttled() -> ClientError:
    error = {"Code": "TooManyRequestsException", "Message": "Rate exceeded"}
    return ClientError({"Error": error}, "Invoke")


class AwsClient:
    """A boto3 client over moto that counts its calls, and that can be cut off."""

    def __init__(self, world: "World", service: str, client: Any) -> None:
        self._world, self._service, self._client = world, service, client

    def __getattr__(self, name: str) -> Any:
        method = _in_memory(self._client, name) or getattr(self._client, name)

        def call(**arguments: Any) -> Any:
            self._world.aws_calls.append(f"{self._service}.{name}")
            if self._service in self._world.dead:
                raise EndpointConnectionError(endpoint_url=f"https://{self._service}.test")
            return method(**arguments)

        return call


def _in_memory(client: Any, name: str) -> Callable[..., Any] | None:
    """Return SSM's reading of parameters without the HTTP that moto pretends; None for others.

    Each event has a function look whether its configuration is current, and to write and read that
    request takes longer than most events do.
    """
    if name != "get_parameters" or client.meta.service_model.service_name != "ssm":
        return None
    backend = ssm_backends[DEFAULT_ACCOUNT_ID][client.meta.region_name]

    def get_parameters(*, Names: list[str], WithDecryption: bool) -> Any:  # noqa: N803
        found = backend.get_parameters(Names).values()
        return {"Parameters": [each.response_object(WithDecryption) for each in found]}

    return get_parameters


class World:
    """One stage. ``fresh`` empties Redis and gives every tenant an unused name."""

    def __init__(self, redis_url: str, mongo_uri: str, poll_seconds: float = 0.0) -> None:
        #: Handlers by function, as Lambda calls them.
        self.handlers: dict[str, Callable[[Any, Any], Any]] = {
            name: partial(handler, opened=partial(self.application, name))
            for name, handler in _HANDLERS.items()
        }
        #: The clock of a function where it has one of its own.
        self.clocks: dict[str, Callable[[], datetime]] = {}
        #: Clients of AWS in the place of moto's, by service.
        self.stand_ins: dict[str, Any] = {}
        self.lambdas = LambdaService(lambda name, event: self.handlers[name](event, Context()))
        #: How long MongoDB is waited for, by environments that are opened from now on.
        self.node_waits = PATIENT
        self._poll_seconds = poll_seconds
        # Other worlds on the same MongoDB would make tasks of this one's jobs, or try to.
        self._control_database = f"{CONTROL_DATABASE}_{uuid.uuid4().hex[:10]}"
        self.ssm = boto3.client("ssm")
        self.secrets = boto3.client("secretsmanager")
        is_cluster = "+cluster" in redis_url
        self.redis = (
            RedisConnection(redis_url).client if is_cluster else redis.Redis.from_url(redis_url)
        )
        self.mongo: pymongo.MongoClient[Any] = pymongo.MongoClient(mongo_uri, tz_aware=True)
        self.parts: list[Parts] = []
        self.tenants: dict[str, str] = {}
        #: AWS services that do not answer, and every call to any of them.
        self.dead: set[str] = set()
        self.aws_calls: list[str] = []

    def fresh(
        self,
        bizs: dict[str, dict[str, dict[str, Any]]] | None = None,
        *,
        stage: dict[str, Any] | None = None,
    ) -> None:
        """Empty Redis; push a tree for new tenants, in force with the next call."""
        self.redis.flushall()
        self.lambdas.woken.clear()
        self.lambdas.calls.clear()
        self.lambdas.faults.clear()
        self.lambdas.reserved = self.lambdas.refusal = None
        self.dead.clear()
        self.clocks.clear()
        self.node_waits = PATIENT
        self.stand_ins.clear()
        self.tenants = {first: f"{first}-{uuid.uuid4().hex[:10]}" for first in KEYS}
        self.push(default_bizs() if bizs is None else bizs, stage=stage, anew=True)

    def push(
        self,
        bizs: dict[str, dict[str, dict[str, Any]]],
        *,
        stage: dict[str, Any] | None = None,
        tenants: dict[str, dict[str, Any]] | None = None,
        anew: bool = False,
    ) -> None:
        """Push a whole tree over what stands; ``anew`` without the tenants that are managed."""
        documents: dict[str, Any] = {
            f"tenants__{self.tenants[first]}": {"api_keys": [key], **(tenants or {}).get(first, {})}
            for first, key in KEYS.items()
        }
        for first, each in bizs.items():
            for name, document in each.items():
                documents[f"bizs__{self.tenants[first]}__{name}"] = document
        documents["stage"] = {
            "home_node": "main",
            "nodes": ["main"],
            "allow_private_addresses": True,
            "hosts": {"per_second": 100_000, "concurrency": 10_000},
            "fleet": {"idle_seconds": 0.0, "concurrency": 8, "max_consumers": 4},
            **(stage or {}),
        }
        # How full the disk is that the tests run on is no matter of theirs.
        thresholds = {"storage_ratio": 1.0, **documents["stage"].get("thresholds", {})}
        documents["stage"]["thresholds"] = thresholds
        options: dict[str, Any] = {}
        if anew:
            options["wanted_of"] = lambda _standing, given, **_: dict(given)
        write_tree(self.ssm, STAGE, texts(**documents), delete=True, **options)

    def call(self, function: str, event: Any, context: Context | None = None) -> Any:
        """Call a handler as Lambda does: JSON in, JSON out."""
        answer = self.handlers[function](json.loads(json.dumps(event)), context or Context())
        return json.loads(json.dumps(answer))

    def work(self) -> Any:
        """Run a consumer as its wake-up does."""
        return self.call(names.CONSUMER, {})

    # ---- environments --------------------------------------------------------------------------

    def open(self, settings: Settings, service: str, *check_reader: Any) -> Parts:
        """Open parts as an environment of the function does; ``end_environments`` closes them."""

        def clock() -> datetime:
            return self.clocks.get(service, now)()

        outside = Outside(
            clock=clock,
            client=self._client,
            lambda_client=lambda *_, **__: self.lambdas,
            poll_seconds=self._poll_seconds,
            control_database=self._control_database,
            node_waits=self.node_waits,
        )
        parts = Parts(settings, service, *check_reader, outside=outside)
        self.parts.append(parts)
        return parts

    def _client(self, service: str, *, region: str | None = None, **_: object) -> Any:
        if service in self.stand_ins:
            return self.stand_ins[service]
        return AwsClient(self, service, boto3.client(service, region_name=region))

    @property
    def own(self) -> Parts:
        """Parts of the test's own, for what it stores and looks after below the functions."""
        return self.open(Settings.from_environment(needs=(Need.REDIS, Need.NODES)), "test")

    def context(self) -> RouterContext:
        """The router's context, below the HTTP of which there is one event a process."""
        needs = (Need.REDIS, Need.NODES)
        return RouterContext(self.open(Settings.from_environment(needs=needs), names.ROUTER))

    def application(self, function: str) -> Any:
        """The function's warm environment, or a new one where there is none."""
        files = (functions.router.handler.SITE,) if _APPLICATIONS[function] is router else ()
        return _APPLICATIONS[function](self.open, *files)

    def environments(self, function: str, number: int = 2) -> list[Any]:
        """Cold environments of one function."""
        made = []
        for _ in range(number):
            _APPLICATIONS[function].cache_clear()
            made.append(self.application(function))
        return made

    def end_environments(self) -> None:
        """Close what is open, and forget it: the next call of each function is a cold start."""
        for parts in self.parts:
            opened = vars(parts)
            for name in ("redis", "nodes"):
                if name in opened:
                    opened[name].close()
        self.parts.clear()
        for application in _APPLICATIONS.values():
            application.cache_clear()

    @contextmanager
    def node_at(self, uri: str) -> Iterator[None]:
        """Have new environments find the node elsewhere."""
        secret = names.node_secret(STAGE, "main")
        before = self.secrets.get_secret_value(SecretId=secret)["SecretString"]
        self.secrets.put_secret_value(SecretId=secret, SecretString=uri)
        self.end_environments()
        try:
            yield
        finally:
            self.secrets.put_secret_value(SecretId=secret, SecretString=before)
            self.end_environments()

    @contextmanager
    def refusing(self, collection: str) -> Iterator[None]:
        """Have MongoDB refuse whatever is put into a collection of the control database."""
        self.control.command("collMod", collection, validator={"$expr": False})
        try:
            yield
        finally:
            self.control.command("collMod", collection, validator={})

    # ---- what is stored ------------------------------------------------------------------------

    def stored(self, first: str = "acme") -> int:
        """Requests, schedules, spiders, subscriptions and records of a tenant in MongoDB."""
        tenant = self.tenants[first]
        found = 0
        for name in self.mongo.list_database_names():
            if name.startswith(f"cf_{tenant}_"):
                database = self.mongo[name]
                for collection in database.list_collection_names():
                    found += database[collection].count_documents({"flag": {"$exists": True}})
        # A spider that was deleted stays for the jobs that name it; jobs of what was submitted
        # under a name are counted by their requests.
        there = {"tenant": tenant, "gone_at": {"$exists": False}, "by": {"$ne": "submission"}}
        kept = (self.control[name].count_documents(there) for name in _KEPT)
        stands = {"tenant": tenant, "ended_at": None}
        return found + sum(kept) + self.control["subscriptions"].count_documents(stands)

    @property
    def control(self) -> pymongo.database.Database[Any]:
        """The control database, this world's own."""
        return self.mongo[self._control_database]

    def queued(self, first: str = "acme", biz_name: str = "docs") -> int:
        """Entries in the queue of a biz."""
        key = f"cf:{{{self.tenants[first]}:{biz_name}}}:queue:main"
        return int(self.redis.llen(key))  # type: ignore[arg-type]

    def redis_keys(self) -> list[bytes]:
        """Every key of a queue in Redis; the fleet's own have no colon in their tag."""
        return [
            key for key in self.redis.scan_iter() if b":" in key[key.find(b"{") : key.find(b"}")]
        ]

    def drop(self) -> None:
        """Remove the databases of this world's tenants."""
        for name in self.mongo.list_database_names():
            if any(name.startswith(f"cf_{tenant}_") for tenant in self.tenants.values()):
                self.mongo.drop_database(name)
        for name in (*_KEPT, "spider_versions"):
            self.control[name].delete_many({"tenant": {"$in": list(self.tenants.values())}})


@contextmanager
def a_world(
    redis_url: str, mongo_uri: str, *, poll_seconds: float = 0.0, own_mongo: bool = False
) -> Iterator[World]:
    """The stage on these servers; every call sees the newest configuration unless told not to.

    There is one world at a time: a module uses the fixture ``world`` or makes worlds of its own.
    """
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        for name, value in {
            names.ENV_STAGE: STAGE,
            names.ENV_REDIS_URL: redis_url,
            names.ENV_NODE_SECRET: names.node_secret(STAGE, "{node}"),
            names.ENV_CONSUMER_FUNCTION: names.function_name(STAGE, names.CONSUMER),
            names.ENV_CONSUMER_CEILING: str(CEILING),
            names.ENV_ID_ISSUER_FUNCTION: names.function_name(STAGE, names.ID_ISSUER),
            names.ENV_TRIALS_FUNCTION: names.function_name(STAGE, names.TRIALS),
        }.items():
            patch.setenv(name, value)
        stack.enter_context(mock_aws())
        world = World(redis_url, mongo_uri, poll_seconds)
        stack.callback(world.mongo.close)
        stack.callback(world.redis.close)
        world.secrets.create_secret(Name=names.node_secret(STAGE, "main"), SecretString=mongo_uri)
        for function in names.FUNCTIONS:
            Logger(service=function)  # here, so that it does not keep the output of a single test
        stack.callback(world.end_environments)
        if not own_mongo:
            stack.callback(lambda: world.mongo.drop_database(world.control.name))
            stack.callback(world.drop)
        world.fresh()
        yield world
