"""The environment variables as typed settings, all errors at once.

The environment says where, the config centre says how. Each function names what it needs and is
refused at its first call, whole, when something of that is missing or wrong. This is the only file
that reads ``os.environ``.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import partial
from ipaddress import ip_address
from typing import Final, Self
from urllib.parse import urlsplit

import msgspec

from crawlfleet.kernel import names
from crawlfleet.kernel.errors import ConfigError, Problem
from crawlfleet.kernel.queue_key import MAIN_POOL, MOST_POOLS, TAKEN_NAMES, Pool

_REDIS_SCHEMES: Final = ("redis", "rediss", "redis+cluster", "rediss+cluster")
LOG_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")

_SLUG = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
_FUNCTION = re.compile(r"[A-Za-z0-9:_$-]{1,170}\Z")
_PACKAGE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}\Z")
_TOPIC = re.compile(r"arn:[a-z0-9-]+:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}\Z")
#: Concurrent executions that any account has, at most.
_MOST: Final = 100_000
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]{2,12}){1,3}-[0-9]{1,2}\Z")
_pools = msgspec.json.Decoder(tuple[Pool, ...])
_HOST = re.compile(r"(?:\*|[A-Za-z0-9.:_-]{1,253})\Z")
_PLACE = re.compile(r"[A-Za-z0-9.-]{1,253}:([0-9]{1,5})\Z")
_MOST_PORT: Final = 65_535
_WEB = re.compile(r"https?://[^\s@/?#]+(?:/[^\s?#]*)?\Z")
_SECRET = re.compile(r"[A-Za-z0-9/_+=.@:-]{1,512}\Z")


class Need(StrEnum):
    """The variables that a function needs beside the stage and the log level."""

    REDIS = "redis"
    NODES = "nodes"
    CONSUMER = "consumer"
    ID_ISSUER = "id-issuer"
    TRIALS = "trials"
    CEILING = "ceiling"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The environment of one function. What was not needed and not set is empty or None.

    ``redis_url`` has no password, and is ``redis+cluster://`` or ``rediss+cluster://`` in cluster
    mode. ``redis_secret`` and ``node_secret_template`` (with ``{node}`` in it) are ids of Secrets
    Manager. Functions are names or ARNs, ``consumer_ceiling`` is the most invocations of the
    consumer at once that the stage may be given. Where the stage has streams ``streams_function``
    reads them, in ``stream_readers`` invocations at most beside their successors. Topics are ARNs
    of SNS, or None. ``starts_queue`` is the URL of the queue of events that start spiders, or None.
    With ``writes_config`` calls change the configuration.
    ``scrapy_packages`` are the operator's, whose spiders may be named. ``pools`` are those beside
    the usual one, ``pool`` is this consumer's. Downloads leave by ``source_address``; None is any.
    ``home_region`` has parameters and secrets; None is the function's own. ``plain_stores`` are
    hosts that are reached without TLS (:func:`~crawlfleet.kernel.names.needs_tls`). ``keys_file``
    has the API keys of a local cloud; the API Gateway of ``keys_region`` has those of a stage.
    """

    stage: str
    log_level: str = "INFO"
    redis_url: str = ""
    redis_secret: str | None = None
    node_secret_template: str = ""
    consumer_function: str = ""
    consumer_ceiling: int = 0
    id_issuer_function: str = ""
    trials_function: str = ""
    streams_function: str = ""
    stream_readers: int = 0
    default_api_key_id: str | None = None
    keys_file: str | None = None
    keys_region: str | None = None
    people_topic: str | None = None
    phones_topic: str | None = None
    machines_topic: str | None = None
    starts_queue: str | None = None
    scrapy_packages: tuple[str, ...] = ()
    pools: tuple[Pool, ...] = ()
    pool: str = MAIN_POOL
    source_address: str | None = None
    home_region: str | None = None
    xray_daemon: str | None = None
    otlp_endpoint: str | None = None
    writes_config: bool = False
    plain_stores: tuple[str, ...] = ()

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] | None = None, needs: Iterable[Need] = ()
    ) -> Self:
        """Read the settings; ``environment`` is the process's own unless one is given.

        Raises:
            ConfigError: names every variable that is missing or wrong, needed or not.
        """
        reader = _Reader(os.environ if environment is None else environment)
        read, wanted = reader.read, frozenset(needs)
        plain = _listed(read(names.ENV_PLAIN_STORES, _hosts_error))
        region = _is(_REGION, "region of AWS")
        function, topic = _is(_FUNCTION, "function name or ARN"), _is(_TOPIC, "ARN of an SNS topic")
        settings = cls(
            stage=read(names.ENV_STAGE, _is(_SLUG, "stage name"), needed=True),
            log_level=read(names.ENV_LOG_LEVEL, _log_level_error) or "INFO",
            redis_url=read(
                names.ENV_REDIS_URL, partial(_redis_url_error, plain), needed=Need.REDIS in wanted
            ),
            plain_stores=plain,
            redis_secret=read(names.ENV_REDIS_SECRET, _secret_error) or None,
            node_secret_template=read(
                names.ENV_NODE_SECRET, _template_error, needed=Need.NODES in wanted
            ),
            consumer_function=read(
                names.ENV_CONSUMER_FUNCTION, function, needed=Need.CONSUMER in wanted
            ),
            consumer_ceiling=_count(
                read(names.ENV_CONSUMER_CEILING, _count_error, needed=Need.CEILING in wanted)
            ),
            id_issuer_function=read(
                names.ENV_ID_ISSUER_FUNCTION, function, needed=Need.ID_ISSUER in wanted
            ),
            trials_function=read(names.ENV_TRIALS_FUNCTION, function, needed=Need.TRIALS in wanted),
            streams_function=read(names.ENV_STREAMS_FUNCTION, function),
            stream_readers=_count(read(names.ENV_STREAM_READERS, _count_error)),
            default_api_key_id=read(names.ENV_DEFAULT_API_KEY_ID, lambda _: None) or None,
            keys_file=read(names.ENV_KEYS_FILE, lambda _: None) or None,
            keys_region=read(names.ENV_KEYS_REGION, region) or None,
            people_topic=read(names.ENV_PEOPLE_TOPIC, topic) or None,
            phones_topic=read(names.ENV_PHONES_TOPIC, topic) or None,
            machines_topic=read(names.ENV_MACHINES_TOPIC, topic) or None,
            starts_queue=read(names.ENV_STARTS_QUEUE, _queue_error) or None,
            scrapy_packages=_listed(read(names.ENV_SCRAPY_PACKAGES, _packages_error)),
            pools=_pools_in(read(names.ENV_POOLS, _pools_error)),
            pool=read(names.ENV_POOL, _pool_error) or MAIN_POOL,
            source_address=read(names.ENV_SOURCE_ADDRESS, _address_error) or None,
            home_region=read(names.ENV_HOME_REGION, region) or None,
            xray_daemon=read(names.ENV_XRAY_DAEMON, _place_error) or None,
            otlp_endpoint=read(names.ENV_OTLP_ENDPOINT, _is(_WEB, "http or https address")) or None,
            writes_config=bool(read(names.ENV_WRITES_CONFIG, lambda _: None)),
        )
        if reader.problems:
            raise ConfigError(reader.problems)
        return settings

    @property
    def every_pool(self) -> tuple[Pool, ...]:
        """Return all pools, first the usual one, whose function and ceiling have own variables.

        >>> [pool.name for pool in Settings(stage="local", pools=(Pool(name="far"),)).every_pool]
        ['main', 'far']
        """
        main = Pool(function=self.consumer_function, ceiling=max(1, self.consumer_ceiling))
        return (main, *self.pools)

    @property
    def makes_keys(self) -> bool:
        """Return whether this function makes the API keys of tenants."""
        return self.keys_file is not None or self.keys_region is not None

    def node_secret(self, node: str) -> str:
        """Return the Secrets Manager id of the MongoDB URI of a node."""
        return self.node_secret_template.replace("{node}", node)


def scrapy_packages(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Read the one variable that checks of a configuration need outside of functions.

    >>> scrapy_packages({"CRAWLFLEET_SCRAPY_PACKAGES": "shop, spiders"})
    ('shop', 'spiders')

    Raises:
        ConfigError: the variable names no packages.
    """
    reader = _Reader(os.environ if environment is None else environment)
    found = _listed(reader.read(names.ENV_SCRAPY_PACKAGES, _packages_error))
    if reader.problems:
        raise ConfigError(reader.problems)
    return found


def extra_packages(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Read the folders of packages whose executors and resolvers a command is to find.

    >>> extra_packages({"CRAWLFLEET_EXTRA_PACKAGES": "../acme/acme_crawl, more"})
    ('../acme/acme_crawl', 'more')
    """
    value = (os.environ if environment is None else environment).get(names.ENV_EXTRA_PACKAGES, "")
    return tuple(filter(None, _listed(value.strip())))


class _Reader:
    """Reads variables and collects what is wrong with them. An empty variable is an unset one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.problems: list[Problem] = []

    def read(self, name: str, check: Callable[[str], str | None], *, needed: bool = False) -> str:
        value = self._environment.get(name, "").strip()
        found = check(value) if value else "is not set" if needed else None
        if found is not None:
            self.problems.append(Problem(name, found))
        return value


def _is(pattern: re.Pattern[str], what: str) -> Callable[[str], str | None]:
    """Make a check that a value matches a pattern."""
    return lambda value: None if pattern.match(value) else f"is no {what}: {value[:60]!r}"


def _log_level_error(value: str) -> str | None:
    return None if value in LOG_LEVELS else f"is none of {', '.join(LOG_LEVELS)}: {value[:60]!r}"


def _redis_url_error(plain: Iterable[str], value: str) -> str | None:
    # Never quotes the value: it may hold a password in spite of the rule.
    try:
        parts = urlsplit(value)
        right = parts.scheme in _REDIS_SCHEMES and bool(parts.hostname)
        right = right and (parts.port is None or parts.port > 0)
    except ValueError:
        right = False
    if not right:
        return "is no redis://HOST:PORT, rediss://HOST:PORT or, of a cluster, rediss+cluster://..."
    if parts.password is not None:
        return f"holds a password; that belongs into the secret that {names.ENV_REDIS_SECRET} names"
    if not parts.scheme.startswith("rediss") and names.needs_tls(parts.hostname or "", plain):
        return names.NEEDS_TLS
    return None


def _hosts_error(value: str) -> str | None:
    wrong = [each for each in _listed(value) if not _HOST.match(each)]
    return f"is no list of hosts: {wrong[0][:60]!r}" if wrong else None


def _secret_error(value: str) -> str | None:
    return None if _SECRET.match(value) else "is no Secrets Manager name or ARN"


def _place_error(value: str) -> str | None:
    found = _PLACE.match(value)
    right = found is not None and int(found[1]) <= _MOST_PORT
    return None if right else f"is no host:port: {value[:60]!r}"


def _queue_error(value: str) -> str | None:
    right = value.startswith(("https://", "http://"))
    return None if right else f"is no URL of an SQS queue: {value[:60]!r}"


def _template_error(value: str) -> str | None:
    if "{node}" not in value:
        return "lacks {node}, which stands for the node's name"
    return _secret_error(value.replace("{node}", "node"))


def _count(value: str) -> int:
    """Return the number; 0 for what is none."""
    return int(value) if re.fullmatch("[0-9]{1,6}", value) else 0


def _count_error(value: str) -> str | None:
    right = 1 <= _count(value) <= _MOST
    return None if right else f"is no number from 1 to {_MOST:,}: {value[:20]!r}"


def _pools_in(value: str) -> tuple[Pool, ...]:
    """Return the pools; none where the value is no list of them."""
    try:
        return _pools.decode(value) if value else ()
    except msgspec.MsgspecError:
        return ()


def _pools_error(value: str) -> str | None:
    """Return everything that is wrong with the pools, in one sentence."""
    try:
        found = _pools.decode(value)
    except msgspec.MsgspecError as error:
        return f"is no JSON list of pools: {error}"
    wrong = []
    if len(found) > MOST_POOLS:
        wrong.append(f"has {len(found)} pools; the most is {MOST_POOLS}")
    for place, pool in enumerate(found):
        if pool.name in TAKEN_NAMES or not _SLUG.match(pool.name):
            wrong.append(f"[{place}].name is no name of a pool: {pool.name[:60]!r}")
        elif pool.name in {other.name for other in found[:place]}:
            wrong.append(f"[{place}].name is {pool.name} a second time")
        if not _FUNCTION.match(pool.function):
            wrong.append(f"[{place}].function is no function name or ARN: {pool.function[:60]!r}")
        if not 1 <= pool.ceiling <= _MOST:
            wrong.append(f"[{place}].ceiling is not within 1 to {_MOST:,}: {pool.ceiling}")
        if pool.memory_mb < 1:
            wrong.append(f"[{place}].memory_mb is below 1: {pool.memory_mb}")
    return "; ".join(wrong) or None


def _pool_error(value: str) -> str | None:
    right = value == MAIN_POOL or (_SLUG.match(value) and value not in TAKEN_NAMES)
    return None if right else f"is no name of a pool: {value[:60]!r}"


def _address_error(value: str) -> str | None:
    try:
        ip_address(value)
    except ValueError:
        return f"is no IP address: {value[:60]!r}"
    return None


def _listed(value: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in value.split(",")) if value else ()


def _packages_error(value: str) -> str | None:
    wrong = [each for each in _listed(value) if not _PACKAGE.match(each)]
    return f"is no package name: {wrong[0][:60]!r}" if wrong else None
