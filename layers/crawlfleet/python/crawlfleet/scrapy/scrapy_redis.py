"""Read the settings of scrapy-redis as scrapy-redis 0.9 does, and replace its classes by ours.

A project that was joined to scrapy-redis keeps its settings. Its scheduler, dupefilter, pipeline
and stats collector become ours at their places (:func:`replace_classes`). What cannot be both, a
scheduler of the project's own beside ours, is refused; what is not obeyed is warned of by name.
"""

import codecs
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

from scrapy.utils.misc import load_object

from crawlfleet.kernel.errors import ConfigError, Problem
from crawlfleet.scrapy.redis import Order

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings, Settings

PIPELINE: Final = "crawlfleet.scrapy.Pipeline"
_SCHEDULER, _DUPEFILTER = "crawlfleet.scrapy.Scheduler", "crawlfleet.scrapy.DupeFilter"
#: Classes of scrapy-redis by the setting that names them, and ours for each.
_OURS: Final[Mapping[str, tuple[str, str]]] = {
    "SCHEDULER": ("scrapy_redis.scheduler.Scheduler", _SCHEDULER),
    "DUPEFILTER_CLASS": ("scrapy_redis.dupefilter.RFPDupeFilter", _DUPEFILTER),
    "STATS_CLASS": ("scrapy_redis.stats.RedisStatsCollector", "crawlfleet.scrapy.StatsCollector"),
}
_THEIR_PIPELINE: Final = "scrapy_redis.pipelines.RedisPipeline"
_PEER: Final = "scrapy_redis"
#: Keys of items and of stats, as scrapy-redis has them.
ITEMS_KEY: Final = "%(spider)s:items"
STATS_KEY: Final = "%(spider)s:stats"
#: The order of each queue class, and whether it looks at priorities; older names beside the newer.
QUEUES: Final[Mapping[str, tuple[Order, bool]]] = {
    **dict.fromkeys(("PriorityQueue", "SpiderPriorityQueue"), (Order.OLDEST, True)),
    **dict.fromkeys(("FifoQueue", "SpiderQueue"), (Order.OLDEST, False)),
    **dict.fromkeys(("LifoQueue", "SpiderStack"), (Order.NEWEST, False)),
}
_QUEUE_MODULE: Final = "scrapy_redis.queue."

#: Where Redis is; ``CRAWLFLEET_REDIS_URL`` overrules all of them.
ADDRESSES: Final = ("REDIS_URL", "REDIS_HOST", "REDIS_PORT", "REDIS_DB", "REDIS_PARAMS")
_OBEYED: Final = frozenset(
    (
        *ADDRESSES,
        *("REDIS_ENCODING", "REDIS_ITEMS_KEY", "REDIS_START_URLS_KEY"),
        # A list, a set and a sorted set are told apart by what is there.
        *("REDIS_START_URLS_AS_SET", "REDIS_START_URLS_AS_ZSET", "REDIS_START_URLS_BATCH_SIZE"),
    )
)
_PREFIX: Final = "REDIS_"
#: Settings of scrapy-redis that are not obeyed, and why.
_NOT_OBEYED: Final[Mapping[str, str]] = {
    "SCHEDULER_SERIALIZER": "requests are kept as JSON",
    "SCHEDULER_DUPEFILTER_CLASS": "scrapy-redis does not read it either; DUPEFILTER_CLASS is",
    "DUPEFILTER_KEY": "its name is SCHEDULER_DUPEFILTER_KEY",
    "REDIS_ITEMS_SERIALIZER": "items are kept as JSON",
    "REDIS_DECODE_RESPONSES": "REDIS_ENCODING is what start URLs are decoded by",
}
#: Parameters of the driver that an address may carry, others are part of it.
_OPTIONS: Final = frozenset(
    (
        *("socket_timeout", "socket_connect_timeout", "socket_keepalive"),
        *("health_check_interval", "max_connections", "client_name"),
        *("ssl_ca_certs", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_keyfile"),
        "ssl_check_hostname",
    )
)
_PARTS: Final = frozenset(
    ("url", "host", "port", "db", "username", "password", "ssl", "unix_socket_path", "encoding")
)
_MOST_PORT: Final = 65_535


def replace_classes(settings: "Settings") -> None:
    """Put ours where scrapy-redis' classes are, at whatever priority the project has set them.

    Raises ConfigError (names the settings whose classes are neither ours nor scrapy-redis' own).
    """
    problems: list[Problem] = []
    for name, (theirs, ours) in _OURS.items():
        priority = settings.getpriority(name) or 0
        if _path(settings.get(name)) == theirs:
            settings.set(name, ours, priority)
        elif name != "STATS_CLASS" and priority:
            problems += _refusals(name, settings.get(name), ours)
    if problems:
        raise ConfigError(problems)
    pipelines = settings["ITEM_PIPELINES"]
    for each in [each for each in pipelines if _path(each) == _THEIR_PIPELINE]:
        place = pipelines[each]
        del pipelines[each]
        # Disabled by None it stays so.
        if place is not None:
            pipelines[PIPELINE] = place
            if not settings.get("CRAWLFLEET_BIZ") and not settings.get("REDIS_ITEMS_KEY"):
                settings.set("REDIS_ITEMS_KEY", ITEMS_KEY, "addon")


def _path(value: object) -> str:
    """Return the path of a class that a setting names by its path or is."""
    return f"{value.__module__}.{value.__qualname__}" if isinstance(value, type) else str(value)


def _refusals(name: str, value: Any, ours: str) -> Iterator[Problem]:
    if _path(value) == ours:
        return
    try:
        found = load_object(value)
    except (ImportError, NameError, ValueError, TypeError) as error:
        yield Problem(name, f"cannot be imported: {error}")
        return
    # Not issubclass: Scrapy's schedulers are of one kind if their methods are.
    ancestors = getattr(found, "__mro__", ())
    lineage = {each.__module__.partition(".")[0] for each in ancestors}
    is_ours = load_object(ours) in ancestors
    # A dupefilter of the project's own may stand beside our scheduler; one of scrapy-redis would
    # have a key of its own in each process.
    if is_ours or (name == "DUPEFILTER_CLASS" and _PEER not in lineage):
        return
    yield Problem(name, f"is {_path(value)!r}, which does not go with the add-on's: remove one")


def warnings(given: "BaseSettings") -> Iterator[str]:
    """Describe each setting of scrapy-redis that is set and not obeyed."""
    for name in sorted(given):
        if given[name] is None:
            continue
        if name in _NOT_OBEYED:
            yield f"{name} is not obeyed: {_NOT_OBEYED[name]}"
        elif str(name).startswith(_PREFIX) and name not in _OBEYED:
            yield f"{name} is not obeyed: it is no setting that Crawlfleet knows of scrapy-redis"
    for name in _params(given):
        if name not in _OPTIONS | _PARTS:
            yield f"REDIS_PARAMS[{name!r}] is not obeyed: the connection is Crawlfleet's own"


def overruled(given: "BaseSettings") -> Iterator[str]:
    """Describe the settings of the address, where ``CRAWLFLEET_REDIS_URL`` says it."""
    for name in ADDRESSES:
        if given.get(name):
            yield f"{name} is not obeyed: CRAWLFLEET_REDIS_URL is set"


def address(given: "BaseSettings") -> str:
    """Return the address that the settings make, "" where they make none.

    As with scrapy-redis an URL comes before the host and what is missing is ``localhost:6379/0``.
    """
    params = _params(given)
    url = given.get("REDIS_URL") or params.get("url")
    if not url and not any(given.get(name) for name in ADDRESSES):
        return ""
    options = {name: params[name] for name in sorted(_OPTIONS & params.keys())}
    if url:
        parts = urlsplit(str(url))
        query = "&".join(part for part in (parts.query, urlencode(options)) if part)
        return parts._replace(query=query).geturl()
    user = f"{quote(str(params['username']), safe='')}@" if params.get("username") else ""
    db = given.get("REDIS_DB") or params.get("db") or 0
    if params.get("unix_socket_path") and not given.get("REDIS_HOST"):
        query = urlencode({"db": db, **options})
        return f"unix://{user}{params['unix_socket_path']}?{query}"
    host = str(given.get("REDIS_HOST") or params.get("host") or "localhost")
    port = given.get("REDIS_PORT") or params.get("port") or 6379
    scheme, place = "rediss" if params.get("ssl") else "redis", f"[{host}]" if ":" in host else host
    query = f"?{urlencode(options)}" if options else ""
    return f"{scheme}://{user}{place}:{port}/{db}{query}"


def password(given: "BaseSettings") -> str | None:
    """Return the password of ``REDIS_PARAMS``."""
    found = _params(given).get("password")
    return str(found) if found else None


def queue(given: "BaseSettings") -> tuple[Order, bool]:
    """Return the order of ``SCHEDULER_QUEUE_CLASS``, and whether priorities come before it."""
    return QUEUES.get(_queue_name(given), (Order.OLDEST, True))


def problems(given: "BaseSettings") -> Iterator[Problem]:
    """Find what is wrong with the settings that are obeyed."""
    named = given.get("SCHEDULER_QUEUE_CLASS")
    if named and _queue_name(given) not in QUEUES:
        known = ", ".join(name for name in QUEUES if not name.startswith("Spider"))
        yield Problem(
            "SCHEDULER_QUEUE_CLASS", f"must be {known} of scrapy_redis.queue, not {_path(named)!r}"
        )
    try:
        params = dict(given.getdict("REDIS_PARAMS"))
    except (TypeError, ValueError):
        yield Problem("REDIS_PARAMS", "must be an object of the driver's parameters")
        return
    numbers = (
        ("REDIS_PORT", given.get("REDIS_PORT"), 1, _MOST_PORT),
        ("REDIS_PARAMS['port']", params.get("port"), 1, _MOST_PORT),
        ("REDIS_DB", given.get("REDIS_DB"), 0, _MOST_PORT),
        ("REDIS_PARAMS['db']", params.get("db"), 0, _MOST_PORT),
        ("REDIS_START_URLS_BATCH_SIZE", given.get("REDIS_START_URLS_BATCH_SIZE"), 1, 10_000),
    )
    for name, value, least, most in numbers:
        if value is None:
            continue
        try:
            fits = least <= int(value) <= most
        except (TypeError, ValueError):
            fits = False
        if not fits:
            yield Problem(name, f"must be a whole number from {least} to {most}, not {value!r}")
    try:
        codecs.lookup(encoding(given))
    except LookupError:
        yield Problem("REDIS_ENCODING", f"is no encoding: {encoding(given)!r}")
    for name in ("SCHEDULER_QUEUE_KEY", "SCHEDULER_DUPEFILTER_KEY", "REDIS_ITEMS_KEY", "STATS_KEY"):
        try:
            spider_key(given.get(name) or "", "a")
        except (TypeError, ValueError, KeyError):
            yield Problem(name, "may have %(spider)s in it, and no other %; %% stands for one")


def is_peer(spider: object) -> bool:
    """Tell whether a spider is one of scrapy-redis', which pops start URLs by itself."""
    return any(each.__module__ == f"{_PEER}.spiders" for each in type(spider).__mro__)


def encoding(given: "BaseSettings | Mapping[str, Any]") -> str:
    """Return the encoding of start URLs."""
    return str(given.get("REDIS_ENCODING") or "utf-8")


def spider_key(template: str, spider: str) -> str:
    """Return the key of a spider.

    >>> spider_key("%(spider)s:items", "shop")
    'shop:items'
    """
    return str(template) % {"spider": spider}


def shared_name(given: "BaseSettings", setting: str, suffix: str, spider: str) -> str:
    """Return what those share that have the same key in a setting: its name without the suffix."""
    template = given.get(setting) or f"%(spider)s{suffix}"
    return spider_key(template, spider).removesuffix(suffix)


def _queue_name(given: "BaseSettings") -> str:
    named = given.get("SCHEDULER_QUEUE_CLASS")
    return _path(named).removeprefix(_QUEUE_MODULE) if named else "PriorityQueue"


def _params(given: "BaseSettings") -> dict[str, Any]:
    try:
        return dict(given.getdict("REDIS_PARAMS"))
    except (TypeError, ValueError):
        return {}
