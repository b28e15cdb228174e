"""The fleet, described once: functions, clocks, routes and vendor groups, as plain values.

The CDK app (``infra/app.py``) and the local cloud (``infra/local``) both read this file and
nothing else about the fleet's shape, so what runs on one machine is what is deployed. It imports
the standard library and ``crawlfleet.kernel.names`` only; what differs between stages is in
``stages.py``.

Every journey begins at a door that is described here: a route, a clock, or another function's call.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from crawlfleet.kernel import names

#: Python version of the Lambda runtime, the one the layers' wheels are chosen for.
PYTHON_VERSION: Final = "3.13"

#: The environment variable that tells a function where to find a function which it may invoke.
INVOKE_VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        names.CONSUMER: names.ENV_CONSUMER_FUNCTION,
        names.ID_ISSUER: names.ENV_ID_ISSUER_FUNCTION,
        names.TRIALS: names.ENV_TRIALS_FUNCTION,
        names.STREAMS: names.ENV_STREAMS_FUNCTION,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorGroup:
    """A Lambda layer of third-party packages.

    A group holds its packages and whatever they require, less what ``base`` groups already hold, so
    that no file is carried twice.

    Attributes:
        name: Folder below ``layers/vendor/<architecture>/``.
        packages: Distribution names as ``pyproject.toml`` spells them.
        base: Names of groups that every function with this group has too.
    """

    name: str
    packages: tuple[str, ...]
    base: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AsynchronousInvocation:
    """The treatment of an event that no caller waits for.

    Attributes:
        retry_attempts: Further tries after a failed one, 0 to 2.
        max_event_age_seconds: Age at which an event that could not be started is given up.
        dead_letters_kept_hours: How long what was given up on can be looked at; SQS knows 14 days
            at most. While there is one, an alarm rings.
        keeps_dead_letters: Whether what is given up on is worth being looked at.
    """

    retry_attempts: int
    max_event_age_seconds: int
    dead_letters_kept_hours: int = 14 * 24
    keeps_dead_letters: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    """The resources that a function may reach. Anything that is not named here is denied.

    Attributes:
        reads_config: Parameters below ``names.config_root(stage)``.
        reads_redis_secret: The Redis AUTH token.
        reads_node_secrets: MongoDB URIs, named by ``names.node_secret``.
        reads_page_secrets: Lists of proxies, named by ``names.proxy_secret``, and what tenants'
            documents refer to, named by ``names.tenant_secret``.
        reads_collector_secrets: What the collector of traces is told by whoever submits or works,
            named by ``names.collector_secret``.
        invokes: Functions it calls, by name.
        limits: Functions whose reserved concurrency it reads and changes, by name.
        notifies: Whether it tells people and machines through SNS.
        knows_pools: Whether it is told which pools there are beside the usual one.
        reads_stream_secrets: What the channels of streams are asked with, named by
            ``names.stream_secret``.
        delivers: ARNs of the queues, topics and buses that it sends items of streams to; ``*`` at
            the end is any that begin so.
        takes_starts: Whether it puts events into the stage's queue where they wait for their start,
            and takes them.
        manages_tenants: Whether it makes and removes keys of tenants in API Gateway, writes
            tenants' documents, and removes what a tenant had.
    """

    reads_config: bool = True
    reads_redis_secret: bool = True
    reads_node_secrets: bool = True
    reads_page_secrets: bool = False
    reads_collector_secrets: bool = False
    invokes: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    notifies: bool = False
    knows_pools: bool = False
    reads_stream_secrets: bool = False
    delivers: tuple[str, ...] = ()
    takes_starts: bool = False
    manages_tenants: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSpec:
    """The specification of a Lambda function.

    Attributes:
        name: One of ``names.FUNCTIONS``, or ``names.consumer`` of a pool; ``names.function_name``
            makes the deployed name.
        purpose: One sentence for the console.
        memory_mb: Memory; CPU comes with it (1,769 MB is one virtual CPU).
        timeout_seconds: When Lambda ends an invocation.
        reserved_concurrency: Invocations that are kept for it, and its most at once; None means no
            reservation. The consumer's and the trials' are stage settings and override this.
        vendor: Names of the vendor groups whose packages it imports.
        grants: What it may reach.
        asynchronous: How events without a waiting caller are treated; None when all callers wait.
        serves_api: Whether API Gateway proxies to it.
        runs_spiders: Whether it calls the Scrapy spiders that a stage carries.
        finds_extras: Whether it looks for executors and resolvers of the operator's own.
        code: The function whose code it runs; its own where it is empty.
        pool: Of which pool it is, beside the usual one (``pools.py``).
        ipv6: Whether it may leave by IPv6 where its subnets have that.
        region: Where it runs, if not where the stage does.
        in_network: Whether it stands in the stage's network, where there is one; outside of it
            nothing inside can be reached.
    """

    name: str
    purpose: str
    memory_mb: int
    timeout_seconds: int
    vendor: tuple[str, ...]
    grants: Grants
    reserved_concurrency: int | None = None
    asynchronous: AsynchronousInvocation | None = None
    serves_api: bool = False
    runs_spiders: bool = False
    finds_extras: bool = False
    code: str = ""
    pool: str = ""
    ipv6: bool = True
    region: str = ""
    in_network: bool = True

    @property
    def code_of(self) -> str:
        """The function whose code it runs."""
        return self.code or self.name

    @property
    def is_worker(self) -> bool:
        """Return whether it is a consumer, of whichever pool."""
        return self.code_of == names.CONSUMER

    @property
    def package(self) -> str:
        """Folder name below ``functions/``, and the module's name.

        >>> FLEET.function("id-issuer").package
        'id_issuer'
        """
        return self.code_of.replace("-", "_")

    @property
    def folder(self) -> str:
        """Folder of the code, relative to the repository."""
        return f"functions/{self.package}"

    @property
    def handler(self) -> str:
        """Module and function, the same here, in a Lambda and in a test.

        >>> FLEET.function("id-issuer").handler
        'functions.id_issuer.handler.lambda_handler'
        """
        return f"functions.{self.package}.handler.lambda_handler"

    @property
    def environment(self) -> tuple[str, ...]:
        """Names of the environment variables it receives, derived from its grants."""
        return tuple(self._environment())

    @property
    def keeps_dead_letters(self) -> bool:
        """Return whether events that it gave up on are kept."""
        return self.asynchronous is not None and self.asynchronous.keeps_dead_letters

    @property
    def invokes_itself(self) -> bool:
        """Return whether its invocations make others of its own."""
        return self.name in self.grants.invokes

    def _environment(self) -> Iterator[str]:
        yield names.ENV_STAGE
        yield names.ENV_LOG_LEVEL
        if self.grants.reads_redis_secret:
            yield names.ENV_REDIS_URL
            yield names.ENV_REDIS_SECRET
        if self.grants.reads_node_secrets:
            yield names.ENV_NODE_SECRET
        if self.grants.reads_redis_secret or self.grants.reads_node_secrets:
            yield names.ENV_PLAIN_STORES
        for invoked in self.grants.invokes:
            # Those of the pools are said with the pools.
            if invoked in INVOKE_VARIABLES:
                yield INVOKE_VARIABLES[invoked]
        told = {
            names.ENV_STREAM_READERS: names.STREAMS in self.grants.invokes,
            names.ENV_POOLS: self.grants.knows_pools,
            names.ENV_POOL: self.pool,
            names.ENV_HOME_REGION: self.region,
            names.ENV_CONSUMER_CEILING: self.grants.limits,
            names.ENV_PEOPLE_TOPIC: self.grants.notifies,
            names.ENV_PHONES_TOPIC: self.grants.notifies,
            names.ENV_MACHINES_TOPIC: self.grants.notifies,
            names.ENV_STARTS_QUEUE: self.grants.takes_starts,
            names.ENV_DEFAULT_API_KEY_ID: self.serves_api,
            names.ENV_KEYS_REGION: self.grants.manages_tenants,
            names.ENV_SCRAPY_PACKAGES: self.runs_spiders,
        }
        yield from (variable for variable, is_told in told.items() if is_told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """An EventBridge rule that invokes a function at a fixed rate, asynchronously.

    Attributes:
        name: Name of the rule.
        function: Name of the function it invokes.
        every_seconds: Period; EventBridge knows whole minutes.
        again_seconds: Delay after which the same event comes once more, 0 where it does not: less
            than a minute is for a queue, which gets the event from the rule itself.
    """

    name: str
    function: str
    every_seconds: int
    again_seconds: int = 0


#: Headers by which a caller with a session is known: without one of them nobody is asked.
AUTHORIZED_BY: Final = ("Cookie", "X-Crawlfleet-Console")


#: Answers of this size and above are compressed for who takes them so.
COMPRESSED_FROM_BYTES: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A path of the REST API, proxied whole to a function, which sees the request's true ``path``.

    Attributes:
        path: API Gateway resource path; ``{proxy+}`` is any further path.
        method: HTTP method, or ``ANY``.
        function: Name of the function behind it.
        api_key_required: Whether API Gateway refuses callers without a key (403).
        leads_to: Where callers have a session of the console instead (401 without one): the path
            of the API that the call is passed on to, with the session's key. The function says
            which key that is.
    """

    path: str
    function: str
    method: str = "ANY"
    api_key_required: bool = True
    leads_to: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The whole description; ``FLEET`` is the one value of it.

    Functions stand in an order in which each is preceded by those it invokes, itself excepted, and
    the workers of other pools, which invoke one another.
    """

    functions: tuple[FunctionSpec, ...]
    clocks: tuple[Clock, ...]
    routes: tuple[Route, ...]
    vendor_groups: tuple[VendorGroup, ...]
    _by_name: Mapping[str, FunctionSpec] = field(init=False, repr=False, compare=False)
    _groups: Mapping[str, VendorGroup] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {spec.name: spec for spec in self.functions})
        object.__setattr__(self, "_groups", {group.name: group for group in self.vendor_groups})

    @property
    def at_home(self) -> tuple[FunctionSpec, ...]:
        """The functions that stand in the stage's own region."""
        return tuple(spec for spec in self.functions if not spec.region)

    def function(self, name: str) -> FunctionSpec:
        """The function of that name; KeyError if there is none."""
        return self._by_name[name]

    def vendor_group(self, name: str) -> VendorGroup:
        """The vendor group of that name; KeyError if there is none."""
        return self._groups[name]


#: What every function imports: logs and metrics, the two stores' clients, documents as structs.
_CORE: Final = VendorGroup(
    name="core", packages=("aws-lambda-powertools", "msgspec", "pymongo", "redis")
)
#: Kinds of id that the standard library of the runtime does not make.
_IDS: Final = VendorGroup(name="ids", packages=("uuid-utils",), base=("core",))
#: What schedules and seeds are made by, and explained: cron lines, time zones, URLs, robots.txt,
#: the patterns of links.
#: The Lambda image is not promised to carry the zone database. One layer, as a function may have
#: five.
_PLANS: Final = VendorGroup(
    name="plans",
    packages=("cronsim", "google-re2", "idna", "protego", "publicsuffixlist", "tzdata", "w3lib"),
    base=("core",),
)
#: Fetching: the worker's loop, and what executors written by hand use.
_WEB: Final = VendorGroup(
    name="web",
    packages=(
        "aiohttp",
        "backports.zstd",
        "brotli",
        "certifi",
        "multidict",
        "requests",
        "urllib3",
        "yarl",
    ),
    base=("core", "plans"),
)
#: Pages to records, and items to the subscribers who want them.
_EXTRACT: Final = VendorGroup(
    name="extract",
    packages=(
        "ahocorasick-rs",
        "beautifulsoup4",
        "extruct",
        "feedparser",
        "jsonschema-rs",
        "lxml",
        "python-jsonpath",
        "resiliparse",
        "selectolax",
    ),
    base=("core", "plans", "web"),
)
#: Scrapy and what it requires. No layer: a function has five already, and drivers would import what
#: they find of it (PyMongo does with pyOpenSSL). A stage with spiders has it in the consumer's own
#: package, in a folder that Python looks into when the first spider is made.
SCRAPY: Final = VendorGroup(
    name="scrapy", packages=("itemadapter", "scrapy"), base=("core", "plans", "web", "extract")
)

#: The next tick does the work of one that failed, and the log has its reason: the alarm is to end
#: by itself when the cause is mended, and nobody has to purge a queue of ticks for that.
_TICK: Final = AsynchronousInvocation(
    retry_attempts=0, max_event_age_seconds=60, dead_letters_kept_hours=1
)

FLEET: Final = Fleet(
    functions=(
        FunctionSpec(
            name=names.ID_ISSUER,
            purpose="Issues blocks of ids.",
            memory_mb=512,
            timeout_seconds=10,
            vendor=("core", "ids"),
            grants=Grants(),
            # Each router asks for a block in ten seconds or for a thousand ids, for milliseconds.
            reserved_concurrency=20,
        ),
        FunctionSpec(
            name=names.CONSUMER,
            purpose="Leases requests, fetches their pages, stores their records.",
            memory_mb=1024,
            timeout_seconds=900,
            vendor=("core", "plans", "web", "extract"),
            # It calls itself where another one has died, or its own time is up.
            grants=Grants(
                reads_page_secrets=True,
                reads_collector_secrets=True,
                invokes=(names.ID_ISSUER, names.CONSUMER),
            ),
            # The event is a wake-up call, which an account without room refuses to start; the next
            # tick calls again. An old one is worth nothing, and nobody is to be called for it: that
            # workers fail or are throttled has alarms of its own.
            asynchronous=AsynchronousInvocation(
                retry_attempts=0, max_event_age_seconds=120, keeps_dead_letters=False
            ),
            runs_spiders=True,
            finds_extras=True,
        ),
        FunctionSpec(
            name=names.TRIALS,
            purpose="Tries rules on pages that anybody names; reaches no store and no secret.",
            memory_mb=1024,
            # Whoever asks waits for 26 s at most.
            timeout_seconds=30,
            vendor=("core", "plans", "web", "extract"),
            grants=Grants(reads_config=False, reads_redis_secret=False, reads_node_secrets=False),
            runs_spiders=True,
            finds_extras=True,
            in_network=False,
        ),
        FunctionSpec(
            name=names.ROUTER,
            purpose="Answers the HTTP API: persists and queues requests, reads them back.",
            memory_mb=1024,
            timeout_seconds=28,  # API Gateway waits for 29
            vendor=("core", "plans"),
            # It reads what a trial needs of a tenant's secrets, and hands on that alone.
            grants=Grants(
                reads_page_secrets=True,
                reads_collector_secrets=True,
                invokes=(names.ID_ISSUER, names.CONSUMER, names.TRIALS),
            ),
            serves_api=True,
            finds_extras=True,
        ),
        FunctionSpec(
            name=names.OPERATORS,
            purpose="Answers operators about tenants: makes their keys, removes what they had.",
            memory_mb=1024,
            timeout_seconds=28,
            vendor=("core", "plans"),
            # What every tenant's calls reach makes no keys: this is reached by paths that answer
            # operators alone, reads no tenant's body, and invokes nothing.
            grants=Grants(manages_tenants=True),
            serves_api=True,
            code=names.ROUTER,
        ),
        FunctionSpec(
            name=names.SCHEDULER,
            purpose="Fires due schedules, requeues what is lost, keeps consumers running.",
            memory_mb=512,
            timeout_seconds=120,
            vendor=("core", "plans"),
            finds_extras=True,
            # A tick that is slow and the next one, an alarm, events; these wait in their queue.
            reserved_concurrency=5,
            grants=Grants(
                reads_collector_secrets=True,
                invokes=(names.ID_ISSUER, names.CONSUMER),
                limits=(names.CONSUMER,),
                takes_starts=True,
            ),
            # An event that starts a spider is in the stage's queue besides: a tick takes it there.
            asynchronous=_TICK,
        ),
        FunctionSpec(
            name=names.MONITOR,
            purpose="Samples rates, backlog and the stores' health; tells what is wrong.",
            memory_mb=512,
            timeout_seconds=60,
            vendor=("core",),
            # An evaluation that is slow, and the next one.
            reserved_concurrency=2,
            grants=Grants(notifies=True),
            asynchronous=_TICK,
        ),
    ),
    clocks=(
        # Twice a minute: what all of a fleet was lost with is not to wait for a whole one.
        Clock(name="scheduler-tick", function=names.SCHEDULER, every_seconds=60, again_seconds=30),
        Clock(name="monitor-tick", function=names.MONITOR, every_seconds=60),
    ),
    routes=(
        Route(path="/health", method="GET", function=names.ROUTER, api_key_required=False),
        Route(path="/openapi.json", method="GET", function=names.ROUTER, api_key_required=False),
        Route(path="/hubs/{proxy+}", function=names.ROUTER, api_key_required=False),
        # The console: its files, its sessions, and the API for who has one.
        Route(path="/console", method="GET", function=names.ROUTER, api_key_required=False),
        Route(
            path="/console/{proxy+}", method="GET", function=names.ROUTER, api_key_required=False
        ),
        Route(path="/console/session", method="POST", function=names.ROUTER),
        Route(path="/console/session", method="GET", function=names.ROUTER, api_key_required=False),
        Route(
            path="/console/session", method="DELETE", function=names.ROUTER, api_key_required=False
        ),
        Route(
            path="/console/api/{proxy+}",
            function=names.ROUTER,
            api_key_required=False,
            leads_to="/v1/{proxy+}",
        ),
        Route(path="/v1/fleet/tenants", function=names.OPERATORS),
        Route(path="/v1/fleet/tenants/{proxy+}", function=names.OPERATORS),
        Route(path="/", function=names.ROUTER),
        Route(path="/{proxy+}", function=names.ROUTER),
    ),
    vendor_groups=(_CORE, _IDS, _PLANS, _WEB, _EXTRACT),
)
