"""Every name that the runtime and the infrastructure must spell alike.

No journey passes through here; all of them quote it. Nothing in this file imports anything of ours.
"""

from typing import Final

PRODUCT: Final = "crawlfleet"

#: The five functions. The folder of each is its name with ``_`` for ``-``.
ID_ISSUER: Final = "id-issuer"
ROUTER: Final = "router"
CONSUMER: Final = "consumer"
SCHEDULER: Final = "scheduler"
MONITOR: Final = "monitor"
FUNCTIONS: Final = (ID_ISSUER, ROUTER, CONSUMER, SCHEDULER, MONITOR)

#: The tenant of an API key that no tenant document names.
DEFAULT_TENANT: Final = "default"

#: CloudWatch namespace of every metric, and the dimensions that a metric of a biz carries.
METRIC_NAMESPACE: Final = "Crawlfleet"
METRIC_DIMENSIONS: Final = ("stage", "tenant", "biz")
#: Requests that were submitted and are in no state; what an alarm watches, over all bizs.
METRIC_LEDGER_DIFFERENCE: Final = "LedgerDifference"

# ---- environment variables: they say where things are, never how they behave ------------------

#: Stage name, such as ``local`` or ``prod``.
ENV_STAGE: Final = "CRAWLFLEET_STAGE"
#: ``redis://`` or ``rediss://`` address without a password.
ENV_REDIS_URL: Final = "CRAWLFLEET_REDIS_URL"
#: Secrets Manager id of the Redis AUTH token; unset where Redis asks for none.
ENV_REDIS_SECRET: Final = "CRAWLFLEET_REDIS_SECRET"  # noqa: S105  the variable's name, not a secret
#: Secrets Manager id of the MongoDB URI of a node, with ``{node}`` in it.
ENV_NODE_SECRET: Final = "CRAWLFLEET_NODE_SECRET"  # noqa: S105
#: API key id that belongs to the default tenant.
ENV_DEFAULT_API_KEY_ID: Final = "CRAWLFLEET_DEFAULT_API_KEY_ID"
#: Function name or ARN of a function that another one invokes.
ENV_CONSUMER_FUNCTION: Final = "CRAWLFLEET_CONSUMER_FUNCTION"
ENV_ID_ISSUER_FUNCTION: Final = "CRAWLFLEET_ID_ISSUER_FUNCTION"
#: Packages whose Scrapy spiders may be named by configurations: names, commas between them.
ENV_SCRAPY_PACKAGES: Final = "CRAWLFLEET_SCRAPY_PACKAGES"
#: ``DEBUG``, ``INFO``, ``WARNING`` or ``ERROR``.
ENV_LOG_LEVEL: Final = "CRAWLFLEET_LOG_LEVEL"


def function_name(stage: str, function: str) -> str:
    """Deployed name of a function.

    >>> function_name("prod", ROUTER)
    'crawlfleet-prod-router'
    """
    return f"{PRODUCT}-{stage}-{function}"


def node_secret(stage: str, node: str) -> str:
    """Secrets Manager name that holds the MongoDB URI of a node (``{node}`` may be the value).

    >>> node_secret("prod", "main")
    'crawlfleet/prod/nodes/main'
    """
    return f"{PRODUCT}/{stage}/nodes/{node}"


def proxy_secret(stage: str, pool: str) -> str:
    """Secrets Manager name below which consumers may read lists of proxies.

    >>> proxy_secret("prod", "europe")
    'crawlfleet/prod/proxies/europe'
    """
    return f"{PRODUCT}/{stage}/proxies/{pool}"


def config_root(stage: str) -> str:
    """Root of the stage's parameter tree in SSM.

    >>> config_root("prod")
    '/crawlfleet/prod'
    """
    return f"/{PRODUCT}/{stage}"


# ---- the parameter tree below config_root ----------------------------------------------------
# {root}/revision                            changes whenever anything else does; the one that is
# polled {root}/stage                               the stage document
# {root}/tenants/{tenant}                    a tenant document
# {root}/bizs/{tenant}/{biz}                 a biz document
# A document larger than one parameter is cut into parts below {path}/parts/{digest}/{number};
# the parameter at {path} then holds the digest and the number of parts.

CONFIG_REVISION: Final = "revision"
CONFIG_STAGE: Final = "stage"
CONFIG_TENANTS: Final = "tenants"
CONFIG_BIZS: Final = "bizs"
CONFIG_PARTS: Final = "parts"
