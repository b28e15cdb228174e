"""The serving process: starts the parts, the functions and the doors, and stops them in order.

It runs in the foreground of whoever starts it. When it dies in whatever way, its parts and the
functions' processes end too (``guard.py``, ``environment.py``).
"""

import asyncio
import importlib.util
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import boto3
import pymongo
from aiohttp import web

from crawlfleet.kernel import names
from infra.fleet import FLEET, INVOKE_VARIABLES, FunctionSpec
from infra.local.aws_server import CREDENTIALS, REGION, AwsServer
from infra.local.clocks import Clocks
from infra.local.events import make_starts_queue
from infra.local.extra_packages import link_extras
from infra.local.gateway import Gateway
from infra.local.invoke_api import InvokeApi
from infra.local.keys import DEFAULT_KEY_ID, ApiKeys
from infra.local.lambda_process import LocalFunction
from infra.local.lambda_service import LambdaService
from infra.local.mongo_server import MongoServer
from infra.local.notifications import Inbox, make_topics
from infra.local.parts import LOOPBACK, PartError, python_environment
from infra.local.pools import LocalPool, local_fleet, parse_pools, pools_json
from infra.local.redis_server import RedisServer
from infra.local.seeding import seed_config
from infra.local.state import STAGE, Addresses, Lock, StateFolder
from infra.local.stream_readers import StreamReaders, wants_readers
from infra.redis_users import AclFile, tenant_errors
from infra.spiders import SpiderPackage, SpidersError, find_packages

#: Environments of a function that reserves no concurrency: more would only share the processors.
_PROCESS_LIMIT: Final = 4
#: Time that running invocations get at the end.
_GRACE_SECONDS: Final = 2.0
#: How long a look at what is subscribed to waits for MongoDB.
_LOOK_MS: Final = 2_000
#: The node that the samples name.
_NODE: Final = "main"

#: The checkout.
_ROOT: Final = Path(__file__).resolve().parents[2]

#: What a function's process may know of this machine; everything else is said explicitly.
_INHERITED: Final = ("PATH", "HOME", "LANG", "TMPDIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a local cloud.

    Attributes:
        state: The state folder.
        consumers: Most consumers at once: what scaling may reserve for them, and has to begin with.
        ticking: Whether the clocks tick by themselves.
        seed: Whether an empty config centre gets the samples.
        api_port: Port of the REST API; 0 is the last one, or a free one.
        variables: Added to every function's environment.
        scrapy: Folders of the packages whose Scrapy spiders consumers run, relative to the
            checkout, as ``scrapy_packages`` of a stage names them.
        extra: Folders of packages with code of one's own, as ``extra_packages`` names them.
        pools: Further kinds of worker, see ``pools.py``.
        scrapy_users: Tenants whose Scrapy processes have a Redis user, see ``redis_users.py``.
        stream_readers: Processes that read streams while somebody subscribes to one.
    """

    state: Path
    consumers: int = 2
    ticking: bool = True
    seed: bool = True
    api_port: int = 0
    variables: Mapping[str, str] = field(default_factory=dict)
    scrapy: Sequence[str] = ()
    extra: Sequence[str] = ()
    pools: Sequence[str] = ()
    scrapy_users: Sequence[str] = ()
    stream_readers: int = 1


def redis_access(acl_file: Path, tenants: Sequence[str]) -> tuple[str, ...]:
    """Write the Redis users of tenants; return the server's options, none where there are none.

    Raises PartError (a tenant can have none).
    """
    if errors := tenant_errors(tenants):
        raise PartError("; ".join(errors))
    if not tenants:
        return ()
    AclFile(acl_file).write(tenants)
    return ("--aclfile", str(acl_file.resolve()))


def local_function(
    spec: FunctionSpec,
    options: Options,
    addresses: Mapping[str, str],
    pools: Sequence[LocalPool] = (),
) -> LocalFunction:
    """A function of the fleet as this machine runs it."""
    pool = next((one for one in pools if one.kind.name == spec.pool), None)
    addresses = {**addresses, names.ENV_POOL: spec.pool, names.ENV_POOLS: pools_json(pools, REGION)}
    leaving = {names.ENV_SOURCE_ADDRESS: pool.address} if pool and pool.address else {}
    makes_keys = spec.grants.manages_tenants and "keys" in addresses
    keys = {names.ENV_KEYS_FILE: addresses["keys"]} if makes_keys else {}
    # What AWS keeps for the others against a flood no other function takes here: each has its own.
    reserved = options.consumers if spec.name == names.CONSUMER else None
    if spec.pool:
        reserved = spec.reserved_concurrency
    asynchronous = spec.asynchronous
    name = names.function_name(STAGE, spec.name)
    wanted = {variable: addresses[variable] for variable in spec.environment if addresses[variable]}
    return LocalFunction(
        name=name,
        handler=spec.handler,
        timeout_seconds=spec.timeout_seconds,
        memory_mb=spec.memory_mb,
        limit=reserved or _PROCESS_LIMIT,
        throttles=reserved is not None,
        ceiling=reserved,
        retry_attempts=2 if asynchronous is None else asynchronous.retry_attempts,
        holds_memory=pool is not None,
        max_event_age_seconds=(
            6 * 3600 if asynchronous is None else asynchronous.max_event_age_seconds
        ),
        variables={
            **{variable: os.environ[variable] for variable in _INHERITED if variable in os.environ},
            "PYTHONPATH": _python_path(spec, addresses),
            "PYTHONUNBUFFERED": "1",
            **CREDENTIALS,
            "AWS_ENDPOINT_URL": addresses["aws"],
            "AWS_ENDPOINT_URL_LAMBDA": addresses["lambda"],
            "AWS_LAMBDA_FUNCTION_NAME": name,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(spec.memory_mb),
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{name}",
            "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
            "POWERTOOLS_TRACE_DISABLED": "true",
            "POWERTOOLS_SERVICE_NAME": spec.name,
            **({names.ENV_WRITES_CONFIG: "yes"} if spec.name == names.ROUTER else {}),
            "TZ": "UTC",
            **wanted,
            **leaving,
            **keys,
            **options.variables,
        },
    )


def _python_path(spec: FunctionSpec, addresses: Mapping[str, str]) -> str:
    """Return a function's module path; the operator's spiders come last, as in a bundle."""
    extra = addresses.get("extra", "") if spec.finds_extras else ""
    spiders = addresses["spiders"] if spec.runs_spiders else ""
    return os.pathsep.join(filter(None, (python_environment()["PYTHONPATH"], extra, spiders)))


def link_spiders(places: Sequence[str], folder: Path) -> tuple[SpiderPackage, ...]:
    """Make a folder hold the packages, and nothing that lies beside them where they are.

    Raises:
        PartError: a place is no package, or Scrapy is not installed.
    """
    try:
        packages = find_packages(places, _ROOT, "--scrapy")
    except SpidersError as error:
        raise PartError(str(error)) from error
    if packages and importlib.util.find_spec("scrapy") is None:
        raise PartError(
            "--scrapy: Scrapy is not installed; `make up SCRAPY=...` does it, "
            "and so does `pip install -r requirements/scrapy.txt`"
        )
    folder.mkdir(exist_ok=True)
    for link in folder.iterdir():
        if link.is_symlink():
            link.unlink()
    for package in packages:
        (folder / package.name).symlink_to(package.folder, target_is_directory=True)
    return packages


def _variables(
    redis_url: str,
    aws_url: str,
    lambda_url: str,
    packages: Sequence[SpiderPackage],
    folder: Path,
    queues: Mapping[str, str],
    consumers: int,
) -> dict[str, str]:
    """Values of every variable that ``fleet.py`` may give a function; empty ones are left out."""
    return {
        "aws": aws_url,
        "lambda": lambda_url,
        "spiders": str(folder) if packages else "",
        names.ENV_SCRAPY_PACKAGES: ",".join(package.name for package in packages),
        names.ENV_STAGE: STAGE,
        names.ENV_LOG_LEVEL: os.environ.get(names.ENV_LOG_LEVEL, "INFO"),
        names.ENV_REDIS_URL: redis_url,
        names.ENV_REDIS_SECRET: "",
        names.ENV_PLAIN_STORES: "",
        names.ENV_NODE_SECRET: names.node_secret(STAGE, "{node}"),
        names.ENV_CONSUMER_CEILING: str(consumers),
        names.ENV_DEFAULT_API_KEY_ID: DEFAULT_KEY_ID,
        names.ENV_KEYS_REGION: "",  # keys are in a file here
        **queues,
        **{
            variable: names.function_name(STAGE, function)
            for function, variable in INVOKE_VARIABLES.items()
        },
    }


def _keep_node_secret(endpoint_url: str, uri: str) -> None:
    """Put the node's address where the functions look for it."""
    secrets = boto3.client(
        "secretsmanager",
        endpoint_url=endpoint_url,
        region_name=REGION,
        aws_access_key_id="local",
        aws_secret_access_key="local",  # noqa: S106  moto asks for no secret
    )
    name = names.node_secret(STAGE, _NODE)
    try:
        secrets.put_secret_value(SecretId=name, SecretString=uri)
    except secrets.exceptions.ResourceNotFoundException:
        secrets.create_secret(Name=name, SecretString=uri)


async def _listen(stack: AsyncExitStack, application: web.Application, port: int) -> None:
    # A client that goes away does not end the invocation it started, as at AWS.
    runner = web.AppRunner(application, access_log=None, handler_cancellation=False)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    try:
        await web.TCPSite(runner, LOOPBACK, port, shutdown_timeout=_GRACE_SECONDS).start()
    except OSError as error:
        raise PartError(f"port {port} cannot be listened on: {error.strerror}") from error


async def _serve(options: Options, folder: StateFolder) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    last, logs = folder.read(), folder.log_dir
    spiders = folder.path / "spiders"
    packages = link_spiders(options.scrapy, spiders)
    extra = folder.path / "extra"
    extras = link_extras(options.extra, _ROOT, extra)
    pools = parse_pools(options.pools)
    fleet = local_fleet(pools)
    before = {} if last is None else asdict(last)
    async with AsyncExitStack() as stack:
        parts = stack.enter_context(ExitStack())
        redis = parts.enter_context(
            RedisServer(
                folder.path / "redis",
                port=folder.port_of(before.get("redis_url")),
                log_path=logs / "redis.log",
                options=redis_access(folder.path / "redis-users.acl", options.scrapy_users),
            )
        )
        mongo = parts.enter_context(
            MongoServer(
                folder.path / "mongo",
                ports=[folder.port_of(before.get("mongo_uri"))],
                log_dir=logs,
            )
        )
        aws = parts.enter_context(
            AwsServer(
                port=folder.port_of(before.get("aws_endpoint_url")),
                keep=folder.config_path,
                log_path=logs / "aws.log",
            )
        )
        _keep_node_secret(aws.endpoint_url, mongo.uri)
        if options.seed:
            seed_config(aws.endpoint_url, REGION, pools=pools)

        keys = ApiKeys(folder.keys_path)
        api_port = options.api_port or folder.port_of(before.get("api_url"))
        lambda_port = folder.port_of(before.get("lambda_endpoint_url"))
        lambda_url = f"http://{LOOPBACK}:{lambda_port}"
        topics = make_topics(aws.endpoint_url, REGION, lambda_url)
        queue = {names.ENV_STARTS_QUEUE: make_starts_queue(aws.endpoint_url)}
        variables = _variables(
            redis.url,
            aws.endpoint_url,
            lambda_url,
            packages,
            spiders,
            {
                **topics,
                **queue,
                "keys": str(folder.keys_path.resolve()),
                "extra": str(extra) if extras else "",
            },
            options.consumers,
        )
        service = LambdaService(
            [local_function(spec, options, variables, pools) for spec in fleet.functions],
            folder.path,
        )
        stack.push_async_callback(service.stop, _GRACE_SECONDS)
        function_names = {
            spec.name: names.function_name(STAGE, spec.name) for spec in fleet.functions
        }
        rule_names = {clock.name: names.function_name(STAGE, clock.name) for clock in FLEET.clocks}
        clocks = Clocks(FLEET.clocks, rule_names, function_names, service)
        stack.push_async_callback(clocks.stop)
        store: pymongo.MongoClient[dict[str, Any]] = parts.enter_context(
            pymongo.MongoClient(mongo.uri, connect=False, serverSelectionTimeoutMS=_LOOK_MS)
        )
        readers = StreamReaders(
            # Readers have what a worker has: the stores, their secrets, AWS.
            local_function(fleet.function(names.CONSUMER), options, variables, pools).variables,
            logs / "streams.log",
            wants_readers(store),
            count=options.stream_readers,
        )
        parts.callback(readers.stop)
        gateway = Gateway(FLEET.routes, function_names, service, keys, STAGE)
        doors = InvokeApi(service, clocks).application()
        Inbox(folder.notifications_dir).join(doors)
        await _listen(stack, doors, lambda_port)
        await _listen(stack, gateway.application(), api_port)
        readers.start()
        if options.ticking:
            clocks.start()
        folder.write(
            Addresses(
                pid=os.getpid(),
                stage=STAGE,
                api_url=f"http://{LOOPBACK}:{api_port}",
                api_key=keys.default_key,
                redis_url=redis.url,
                mongo_uri=mongo.uri,
                aws_endpoint_url=aws.endpoint_url,
                lambda_endpoint_url=lambda_url,
                region=REGION,
                log_dir=str(logs),
                pools=tuple(str(pool) for pool in pools),
            )
        )
        await ended.wait()


def serve(options: Options) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        PartError: the folder is served already, or a part did not start.
    """
    folder = StateFolder(options.state)
    folder.make()
    with Lock(folder):
        folder.set_long_logs_aside()
        asyncio.run(_serve(options, folder))
