"""Read the settings of a Scrapy project, with all problems at once, and log our errors in one line.

Scrapy leaves an error of a scheduler or a pipeline that is being opened to the event loop, which
logs its traceback above the sentence that says what is to be done.
"""

import logging
import math
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from crawlfleet.crawling.executors.scrapy_wire import MOST_BYTES
from crawlfleet.kernel.errors import ConfigError, Problem, StoreError
from crawlfleet.kernel.names import (
    DEFAULT_TENANT,
    ENV_PLAIN_STORES,
    ENV_REDIS_URL,
    NEEDS_TLS,
    needs_tls,
)
from crawlfleet.kernel.validation import named
from crawlfleet.scrapy import scrapy_redis
from crawlfleet.scrapy.redis import ATTEMPTS, Forget, Order

if TYPE_CHECKING:
    from scrapy import Spider
    from scrapy.settings import BaseSettings
_log = logging.getLogger(__name__)

#: Loggers of what Scrapy did not catch, and of what failed while it closed.
_LOOPS: Final = ("asyncio", "twisted")
_CLOSING: Final = ("scrapy.core.engine", "scrapy.utils.signal")

#: Every setting of ours; :mod:`crawlfleet.scrapy.settings` says what they mean.
SETTINGS: Final = (
    *("CRAWLFLEET_API_KEY", "CRAWLFLEET_API_URL"),
    *("CRAWLFLEET_ATTEMPTS", "CRAWLFLEET_BATCH", "CRAWLFLEET_BIZ", "CRAWLFLEET_CRAWL"),
    *(
        "CRAWLFLEET_JOURNAL",
        "CRAWLFLEET_LEASE_SECONDS",
        "CRAWLFLEET_MAX_REQUEST_BYTES",
        "CRAWLFLEET_ORDER",
    ),
    *("CRAWLFLEET_PLAIN_STORES", "CRAWLFLEET_QUEUE"),
    *("CRAWLFLEET_REDIS_PASSWORD", "CRAWLFLEET_REDIS_URL"),
    *("CRAWLFLEET_RULE", "CRAWLFLEET_START_ONCE", "CRAWLFLEET_TENANT"),
)
_OURS: Final = "CRAWLFLEET_"


class _InOneLine(logging.Filter):
    """Removes the traceback from records of our own errors.

    Parts of Scrapy that were not opened fail when they are closed because of such an error. Until
    the event loop has logged it, their records are in one line, too.
    """

    def __init__(self) -> None:
        super().__init__()
        self._closing = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, such ones in one line."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return True
        ours = _ours_in(error)
        if record.name in _LOOPS:
            if ours is error:
                self._closing = False
                _shorten(record, "the crawl cannot go on", error)
        elif ours is not None or self._closing:
            self._closing = True
            _shorten(record, record.getMessage(), error)
        return True


def _ours_in(error: BaseException) -> BaseException | None:
    """Find the first of our errors that this one was raised while handling."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, ConfigError | StoreError):
        seen = seen.__context__
    return seen


def _shorten(record: logging.LogRecord, said: str, error: BaseException) -> None:
    record.msg, record.args = "%s: %s", (said, str(error) or type(error).__name__)
    record.exc_info = record.exc_text = None


_IN_ONE_LINE: Final = _InOneLine()


def log_errors_in_one_line() -> None:
    """Add the filter to Scrapy's loggers; repeating it does nothing."""
    for name in (*_LOOPS, *_CLOSING):
        logging.getLogger(name).addFilter(_IN_ONE_LINE)


def unknown(given: Iterable[str]) -> Iterator[str]:
    """Describe settings that look like ours and are none.

    >>> list(unknown(["CRAWLFLEET_BATCHES", "BOT_NAME", "CRAWLFLEET_BIZ"]))[0][:66]
    'CRAWLFLEET_BATCHES is no setting: there are CRAWLFLEET_BATCH, CRAW'
    """
    for name in given:
        if name.startswith(_OURS) and name not in SETTINGS:
            yield f"{name[:80]} is no setting: there are {named(SETTINGS, name)}"


def warn_of_unknown(given: "BaseSettings") -> None:
    """Log a warning for each, and for each setting of scrapy-redis that is not obeyed."""
    overruled = scrapy_redis.overruled(given) if _own(given, ENV_REDIS_URL) else ()
    for line in (*unknown(given), *scrapy_redis.warnings(given), *overruled):
        _log.warning("%s", line)


#: The password of Redis, where the address carries none: settings are committed, this is not.
ENV_REDIS_PASSWORD: Final = "CRAWLFLEET_REDIS_PASSWORD"  # noqa: S105  the variable's name
#: The default key of start URLs, that of scrapy-redis.
START_URLS_KEY: Final = "%(name)s:start_urls"

_SLUG: Final = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
_CRAWL: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
#: What a key of scrapy-redis may name: as above, with the colons that such keys have.
_SHARED: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}\Z")
_RULE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")


class ProjectSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a project, each as ``CRAWLFLEET_`` and the name in capitals.

    ``redis_url`` may also be in the environment; or ``REDIS_URL``, ``REDIS_HOST``, ``REDIS_PORT``,
    ``REDIS_DB`` and ``REDIS_PARAMS`` say it, as with scrapy-redis. Another machine needs TLS by the
    former, unless ``CRAWLFLEET_PLAIN_STORES`` has its host. ``biz`` is where items go; only
    the pipeline needs it, where ``items_key`` (``REDIS_ITEMS_KEY``) names no list of JSON that they
    go to. ``crawl`` is what processes share, by default what ``SCHEDULER_QUEUE_KEY`` names, which
    is the spider's name by default; ``known_by`` names the crawl whose fingerprints are shared, by
    ``SCHEDULER_DUPEFILTER_KEY``. ``rule`` is what records are filed under, by default the spider's
    name.
    ``lease_seconds`` after a process has died its requests are done by another. ``batch`` requests
    are leased at once, by default as many as ``CONCURRENT_REQUESTS``. A request whose processes end
    while they have it is begun ``attempts`` times, then it is dead. Of equal priority the
    ``oldest`` is served first, or the ``newest`` by ``order``; ``SCHEDULER_QUEUE_CLASS`` may say so
    for all of whatever priority (``by_priority``). With ``start_once`` a start request
    is queued once a run, however many processes take part and however often they are started.

    ``journal`` is the folder of what is put into Redis again when that has lost it, by default in
    the project's ``.scrapy``; ``memory`` keeps it no longer than the process.

    ``forget``, from ``SCHEDULER_PERSIST``: unset, a crawl that has come to its end is forgotten and
    one that was interrupted goes on; true, nothing ever is; false, everything is when the last
    process ends, for whatever reason. ``flush`` is ``SCHEDULER_FLUSH_ON_START``. ``idle_seconds``
    is how long a spider with nothing to do waits for more: ``SCHEDULER_IDLE_BEFORE_CLOSE``, and
    ``MAX_IDLE_TIME_BEFORE_CLOSE`` for one that reads start URLs from Redis, where 0 is forever.
    """

    redis_url: str
    password: str | None = None
    tenant: str = DEFAULT_TENANT
    biz: str = ""
    queue: str = "main"
    crawl: str
    known_by: str
    rule: str
    lease_seconds: float = 60.0
    batch: int = 16
    attempts: int = ATTEMPTS
    order: Order = Order.OLDEST
    by_priority: bool = True
    start_once: bool = True
    max_request_bytes: int = MOST_BYTES
    forget: Forget = Forget.FINISHED
    flush: bool = False
    idle_seconds: float = 0.0
    start_urls_key: str | None = None
    start_urls_batch: int | None = None
    items_key: str | None = None
    stats_key: str
    journal: str | None = None


def read_settings(given: "BaseSettings", spider: "Spider") -> ProjectSettings:
    """Read the settings of a project for a spider; ConfigError names every wrong one."""
    problems = list(_problems(given, spider))
    if problems:
        raise ConfigError(problems)
    reads_starts = hasattr(spider, "make_request_from_data")
    order, by_priority = scrapy_redis.queue(given)
    items_key = given.get("REDIS_ITEMS_KEY")
    stats_key = given.get("STATS_KEY") or scrapy_redis.STATS_KEY
    return ProjectSettings(
        redis_url=_address(given),
        password=_own(given, ENV_REDIS_PASSWORD) or scrapy_redis.password(given),
        tenant=given.get("CRAWLFLEET_TENANT", DEFAULT_TENANT),
        biz=given.get("CRAWLFLEET_BIZ", ""),
        queue=given.get("CRAWLFLEET_QUEUE", "main"),
        crawl=_crawl(given, spider),
        known_by=_known_by(given, spider),
        rule=given.get("CRAWLFLEET_RULE") or spider.name,
        lease_seconds=given.getfloat("CRAWLFLEET_LEASE_SECONDS", 60.0),
        batch=given.getint("CRAWLFLEET_BATCH") or given.getint("CONCURRENT_REQUESTS", 16),
        attempts=given.getint("CRAWLFLEET_ATTEMPTS", ATTEMPTS),
        order=Order(given.get("CRAWLFLEET_ORDER") or order),
        by_priority=by_priority,
        start_once=given.getbool("CRAWLFLEET_START_ONCE", default=True),
        max_request_bytes=given.getint("CRAWLFLEET_MAX_REQUEST_BYTES", MOST_BYTES),
        forget=_forget(given),
        flush=given.getbool("SCHEDULER_FLUSH_ON_START"),
        idle_seconds=_idle_seconds(given, spider, reads_starts=reads_starts),
        start_urls_key=_start_urls_key(given, spider) if reads_starts else None,
        start_urls_batch=_start_urls_batch(given, spider),
        items_key=scrapy_redis.spider_key(items_key, spider.name) if items_key else None,
        stats_key=scrapy_redis.spider_key(stats_key, spider.name),
        journal=given.get("CRAWLFLEET_JOURNAL"),
    )


def _address(given: "BaseSettings") -> str:
    return _own(given, ENV_REDIS_URL) or scrapy_redis.address(given)


def _own(given: "BaseSettings", name: str) -> str:
    """Return a setting of ours that may also be in the environment; "" where it is in neither."""
    return str(given.get(name) or os.environ.get(name) or "")


def _is_plain(given: "BaseSettings") -> bool:
    """Tell whether the fleet's Redis is another machine and would be reached without TLS."""
    plain = [host.strip() for host in _own(given, ENV_PLAIN_STORES).split(",")]
    with suppress(ValueError):  # the driver says what is wrong with it
        url = urlsplit(_own(given, ENV_REDIS_URL))
        return url.scheme in {"redis", "redis+cluster"} and needs_tls(
            url.hostname or "localhost", plain
        )
    return False


def _crawl(given: "BaseSettings", spider: "Spider") -> str:
    named = given.get("CRAWLFLEET_CRAWL")
    return str(
        named or scrapy_redis.shared_name(given, "SCHEDULER_QUEUE_KEY", ":requests", spider.name)
    )


def _known_by(given: "BaseSettings", spider: "Spider") -> str:
    """Name the crawl whose fingerprints this one shares: its own, unless a key says another."""
    if not given.get("SCHEDULER_DUPEFILTER_KEY") and not given.get("SCHEDULER_QUEUE_KEY"):
        return _crawl(given, spider)
    return scrapy_redis.shared_name(given, "SCHEDULER_DUPEFILTER_KEY", ":dupefilter", spider.name)


def _forget(given: "BaseSettings") -> Forget:
    if given.get("SCHEDULER_PERSIST") is None:
        return Forget.FINISHED
    return Forget.NEVER if given.getbool("SCHEDULER_PERSIST") else Forget.ALWAYS


def _idle_seconds(given: "BaseSettings", spider: "Spider", *, reads_starts: bool) -> float:
    if not reads_starts:
        return given.getfloat("SCHEDULER_IDLE_BEFORE_CLOSE")
    own = getattr(spider, "max_idle_time", None)
    longest = float(own) if own is not None else given.getfloat("MAX_IDLE_TIME_BEFORE_CLOSE")
    return longest or math.inf


def _start_urls_key(given: "BaseSettings", spider: "Spider") -> str:
    key = getattr(spider, "redis_key", None) or given.get("REDIS_START_URLS_KEY", START_URLS_KEY)
    return str(key) % {"name": spider.name}


def _start_urls_batch(given: "BaseSettings", spider: "Spider") -> int | None:
    """Return how many start URLs are taken at once: the class says it, or the setting.

    The spiders of scrapy-redis overwrite what they are not given by ``CONCURRENT_REQUESTS``.
    """
    own = getattr(
        type(spider) if scrapy_redis.is_peer(spider) else spider, "redis_batch_size", None
    )
    return int(own or given.getint("REDIS_START_URLS_BATCH_SIZE")) or None


def _problems(given: "BaseSettings", spider: "Spider") -> Iterator[Problem]:
    wrong = list(scrapy_redis.problems(given))
    yield from wrong
    if wrong:
        return  # what they would make is no better
    if not _address(given):
        yield Problem(ENV_REDIS_URL, "must be the address of the fleet's Redis: redis://...")
    if _is_plain(given):
        yield Problem(ENV_REDIS_URL, NEEDS_TLS)
    names = (
        ("CRAWLFLEET_TENANT", given.get("CRAWLFLEET_TENANT", DEFAULT_TENANT), _SLUG),
        ("CRAWLFLEET_BIZ", given.get("CRAWLFLEET_BIZ") or "unset", _SLUG),
        _crawl_setting(given, spider),
        ("SCHEDULER_DUPEFILTER_KEY", _known_by(given, spider), _SHARED),
        ("CRAWLFLEET_RULE", given.get("CRAWLFLEET_RULE") or spider.name, _RULE),
    )
    for name, value, pattern in names:
        if not isinstance(value, str) or not pattern.match(value):
            yield Problem(name, f"must match {pattern.pattern[:-2]}, not {value!r}")
    if given.get("CRAWLFLEET_ORDER", Order.OLDEST) not in set(Order):
        yield Problem("CRAWLFLEET_ORDER", f"must be one of {', '.join(Order)}")
    if given.get("CRAWLFLEET_ORDER") and not scrapy_redis.queue(given)[1]:
        yield Problem("CRAWLFLEET_ORDER", "SCHEDULER_QUEUE_CLASS says the order: remove one")
    numbers = {
        "CRAWLFLEET_LEASE_SECONDS": (1.0, 86_400.0),
        "CRAWLFLEET_BATCH": (0, 10_000),
        "CRAWLFLEET_ATTEMPTS": (2, 1_000),
        "CRAWLFLEET_MAX_REQUEST_BYTES": (1_000, 50_000_000),
        "SCHEDULER_IDLE_BEFORE_CLOSE": (0, math.inf),
        "MAX_IDLE_TIME_BEFORE_CLOSE": (0, math.inf),
    }
    for name, (least, most) in numbers.items():
        if (value := given.get(name)) is None:
            continue
        try:
            fits = least <= float(value) <= most
        except (TypeError, ValueError):
            fits = False
        if not fits:
            yield Problem(name, f"must be a number from {least:g} to {most:g}, not {value!r}")


def _crawl_setting(given: "BaseSettings", spider: "Spider") -> "tuple[str, str, re.Pattern[str]]":
    """Return the setting that names the crawl, the name, and what it must match."""
    key = given.get("SCHEDULER_QUEUE_KEY") and not given.get("CRAWLFLEET_CRAWL")
    name, pattern = ("SCHEDULER_QUEUE_KEY", _SHARED) if key else ("CRAWLFLEET_CRAWL", _CRAWL)
    return name, _crawl(given, spider), pattern
