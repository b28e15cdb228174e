"""Every name that the runtime and the infrastructure must spell alike.

No journey passes through here; all of them quote it. Nothing in this file imports anything of ours.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

PRODUCT: Final = "crawlfleet"

#: The six functions. The folder of each is its name with ``_`` for ``-``.
ID_ISSUER: Final = "id-issuer"
ROUTER: Final = "router"
CONSUMER: Final = "consumer"
SCHEDULER: Final = "scheduler"
MONITOR: Final = "monitor"
#: Tries rules, on pages that anybody names.
TRIALS: Final = "trials"
FUNCTIONS: Final = (ID_ISSUER, ROUTER, CONSUMER, SCHEDULER, MONITOR, TRIALS)
#: Reads streams and delivers what subscriptions want; of stages that have streams alone.
STREAMS: Final = "streams"
#: The router's code once more, with the rights to make keys and write tenants' documents: it alone
#: answers what operators ask of tenants.
OPERATORS: Final = "operators"

#: Tag of the API keys that calls make for tenants: the stage, by which alone they may be removed.
KEYS_TAG: Final = "crawlfleet-keys-of"

#: The tenant of an API key that no tenant document names.
DEFAULT_TENANT: Final = "default"

#: The database for what belongs to no biz's shards, on the stage's home node.
CONTROL_DATABASE: Final = "cf_control"

#: CloudWatch namespace of every metric, and the dimensions that a metric of a biz carries.
METRIC_NAMESPACE: Final = "Crawlfleet"
METRIC_DIMENSIONS: Final = ("stage", "tenant", "biz")

# ---- environment variables: they say where things are, never how they behave ------------------

#: Stage name, such as ``local`` or ``aws-large``.
ENV_STAGE: Final = "CRAWLFLEET_STAGE"
#: State folder of a local cloud; for the command line.
ENV_STATE: Final = "CRAWLFLEET_STATE"
#: ``redis://`` or ``rediss://`` address without a password; of a Redis or Valkey in cluster mode
#: ``redis+cluster://`` or ``rediss+cluster://`` and a node, or the configuration endpoint.
ENV_REDIS_URL: Final = "CRAWLFLEET_REDIS_URL"
#: Hosts of Redis and MongoDB that are reached without TLS though they are other machines, with
#: commas between; ``*`` is any.
ENV_PLAIN_STORES: Final = "CRAWLFLEET_PLAIN_STORES"
#: Secrets Manager id of the Redis AUTH token; unset where Redis asks for none.
ENV_REDIS_SECRET: Final = "CRAWLFLEET_REDIS_SECRET"  # noqa: S105  the variable's name, not a secret
#: Secrets Manager id of the MongoDB URI of a node, with ``{node}`` in it.
ENV_NODE_SECRET: Final = "CRAWLFLEET_NODE_SECRET"  # noqa: S105
#: API key id that belongs to the default tenant.
ENV_DEFAULT_API_KEY_ID: Final = "CRAWLFLEET_DEFAULT_API_KEY_ID"
#: File with the API keys of a local cloud, where those of tenants are made; unset on AWS.
ENV_KEYS_FILE: Final = "CRAWLFLEET_KEYS_FILE"
#: The region in whose API Gateway a function makes keys of tenants; unset where it may make none.
ENV_KEYS_REGION: Final = "CRAWLFLEET_KEYS_REGION"
#: Function name or ARN of a function that another one invokes.
ENV_CONSUMER_FUNCTION: Final = "CRAWLFLEET_CONSUMER_FUNCTION"
ENV_ID_ISSUER_FUNCTION: Final = "CRAWLFLEET_ID_ISSUER_FUNCTION"
ENV_TRIALS_FUNCTION: Final = "CRAWLFLEET_TRIALS_FUNCTION"
#: Most invocations of the consumer at once that the stage may be given.
ENV_CONSUMER_CEILING: Final = "CRAWLFLEET_CONSUMER_CEILING"
#: The function that reads streams, and how many of its invocations read at once, for the scheduler;
#: unset in a stage without streams.
ENV_STREAMS_FUNCTION: Final = "CRAWLFLEET_STREAMS_FUNCTION"
ENV_STREAM_READERS: Final = "CRAWLFLEET_STREAM_READERS"
#: The pools of workers beside the usual one, as a JSON list of kernel.queue_key.Pool; for every
#: function that wakes or scales workers. Unset where there are none.
ENV_POOLS: Final = "CRAWLFLEET_POOLS"
#: The pool that a consumer belongs to; unset in the usual one.
ENV_POOL: Final = "CRAWLFLEET_POOL"
#: The region of the stage's parameters and secrets, for a consumer that runs in another one; unset
#: where it is the function's own.
ENV_HOME_REGION: Final = "CRAWLFLEET_HOME_REGION"
#: Where X-Ray's daemon listens, which Lambda says, and a collector of OpenTelemetry: both have the
#: names that AWS and OpenTelemetry gave them.
ENV_XRAY_DAEMON: Final = "AWS_XRAY_DAEMON_ADDRESS"
ENV_OTLP_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
#: Address of the machine by which a consumer's downloads leave; unset where the system chooses.
ENV_SOURCE_ADDRESS: Final = "CRAWLFLEET_SOURCE_ADDRESS"
#: ARNs of the SNS topics for people and for machines; unset where nobody is notified.
ENV_PEOPLE_TOPIC: Final = "CRAWLFLEET_PEOPLE_TOPIC"
ENV_PHONES_TOPIC: Final = "CRAWLFLEET_PHONES_TOPIC"
ENV_MACHINES_TOPIC: Final = "CRAWLFLEET_MACHINES_TOPIC"
#: Address of the queue of SQS with the events that start spiders; unset where no rule has any.
ENV_STARTS_QUEUE: Final = "CRAWLFLEET_STARTS_QUEUE"
#: Packages whose Scrapy spiders may be named by configurations: names, commas between them.
ENV_SCRAPY_PACKAGES: Final = "CRAWLFLEET_SCRAPY_PACKAGES"
#: Of commands alone: functions find what they carry.
ENV_EXTRA_PACKAGES: Final = "CRAWLFLEET_EXTRA_PACKAGES"
#: ``DEBUG``, ``INFO``, ``WARNING`` or ``ERROR``.
ENV_LOG_LEVEL: Final = "CRAWLFLEET_LOG_LEVEL"
#: Set where calls may change the configuration: of a local cloud's router; unset on AWS.
ENV_WRITES_CONFIG: Final = "CRAWLFLEET_WRITES_CONFIG"


def function_name(stage: str, function: str) -> str:
    """Deployed name of a function.

    >>> function_name("aws-large", ROUTER)
    'crawlfleet-aws-large-router'
    """
    return f"{PRODUCT}-{stage}-{function}"


def consumer(pool: str) -> str:
    """Return the consumer function of a pool other than the usual one.

    >>> function_name("aws-large", consumer("large"))
    'crawlfleet-aws-large-consumer-large'
    """
    return f"{CONSUMER}-{pool}"


def node_secret(stage: str, node: str) -> str:
    """Secrets Manager name that holds the MongoDB URI of a node (``{node}`` may be the value).

    >>> node_secret("aws-large", "main")
    'crawlfleet/aws-large/nodes/main'
    """
    return f"{PRODUCT}/{stage}/nodes/{node}"


def proxy_secret(stage: str, pool: str) -> str:
    """Secrets Manager name below which consumers may read lists of proxies.

    >>> proxy_secret("aws-large", "europe")
    'crawlfleet/aws-large/proxies/europe'
    """
    return f"{PRODUCT}/{stage}/proxies/{pool}"


def tenant_secrets(stage: str) -> str:
    """Secrets Manager name below which consumers may read the secrets of tenants.

    >>> tenant_secrets("aws-large")
    'crawlfleet/aws-large/tenants'
    """
    return f"{PRODUCT}/{stage}/tenants"


def tenant_secret(stage: str, tenant: str, name: str) -> str:
    """Secrets Manager name of a secret that a tenant's documents refer to.

    >>> tenant_secret("aws-large", "acme", "shop-token")
    'crawlfleet/aws-large/tenants/acme/shop-token'
    """
    return f"{tenant_secrets(stage)}/{tenant}/{name}"


def collector_secret(stage: str, name: str) -> str:
    """Secrets Manager name of a secret that the headers for a stage's trace collector refer to.

    >>> collector_secret("aws-large", "vendor")
    'crawlfleet/aws-large/otlp/vendor'
    """
    return f"{PRODUCT}/{stage}/otlp/{name}"


def stream_secret(stage: str, name: str) -> str:
    """Secrets Manager name of a secret that the channels of a stage refer to.

    >>> stream_secret("aws-large", "wire")
    'crawlfleet/aws-large/streams/wire'
    """
    return f"{PRODUCT}/{stage}/streams/{name}"


def topic_name(stage: str, listeners: str) -> str:
    """Name of the SNS topic for ``people`` or ``machines``.

    >>> topic_name("aws-large", "people")
    'crawlfleet-aws-large-people'
    """
    return f"{PRODUCT}-{stage}-{listeners}"


def starts_queue(stage: str) -> str:
    """Name of the SQS queue with the events that start spiders.

    >>> starts_queue("aws-large")
    'crawlfleet-aws-large-starts'
    """
    return f"{PRODUCT}-{stage}-starts"


def again_queue(stage: str, clock: str) -> str:
    """Name of the SQS queue that brings the events of a clock once more.

    >>> again_queue("aws-large", "scheduler-tick")
    'crawlfleet-aws-large-scheduler-tick-again'
    """
    return f"{PRODUCT}-{stage}-{clock}-again"


def config_root(stage: str) -> str:
    """Root of the stage's parameter tree in SSM.

    >>> config_root("aws-large")
    '/crawlfleet/aws-large'
    """
    return f"/{PRODUCT}/{stage}"


def config_key(root: str) -> str:
    """Name of the KMS key that the parameters below a root are encrypted with.

    >>> config_key(config_root("aws-large"))
    'alias/crawlfleet/aws-large'
    """
    return f"alias{root}"


# ---- the parameter tree below config_root ----------------------------------------------------
# {root}/revision          changes whenever anything else does; the one that is polled
# {root}/stage             the stage document
# {root}/tenants/{tenant}  a tenant document
# {root}/bizs/{tenant}/{biz}  a biz document
# A document larger than one parameter is cut into parts below {path}/parts/{digest}/{number};
# the parameter at {path} then holds the digest and the number of parts. All documents of a revision
# stand once more in {root}/stage/parts/snapshot/{number}, where versions that know of no snapshot
# take them for parts that are left over.

CONFIG_REVISION: Final = "revision"
CONFIG_STAGE: Final = "stage"
CONFIG_TENANTS: Final = "tenants"
CONFIG_BIZS: Final = "bizs"
CONFIG_PARTS: Final = "parts"
CONFIG_SNAPSHOT: Final = f"{CONFIG_STAGE}/{CONFIG_PARTS}/snapshot"

#: The error of an address of Redis that :func:`needs_tls`.
NEEDS_TLS: Final = (
    "needs TLS, as it is another machine: rediss:// or rediss+cluster://; in a network of your own "
    f"{ENV_PLAIN_STORES} may name its host"
)


def needs_tls(host: str, plain: Iterable[str]) -> bool:
    """Tell whether a store at this host is reached by TLS alone: one that is another machine.

    ``plain`` are hosts of a network of one's own that need none; ``*`` is any.

    >>> needs_tls("127.0.0.1", ()), needs_tls("10.0.0.7", ()), needs_tls("10.0.0.7", ["10.0.0.7"])
    (False, True, False)
    """
    if host == "localhost" or not {host, "*"}.isdisjoint(plain):
        return False
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return True
