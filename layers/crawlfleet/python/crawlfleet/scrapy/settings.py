"""Read the settings of a Scrapy project, with all problems at once, and log our errors in one line.

Scrapy leaves an error of a scheduler or a pipeline that is being opened to the event loop, which
logs its traceback above the sentence that says what is to be done.
"""

import logging
import math
import os
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from crawlfleet.crawling.executors.scrapy_wire import MOST_BYTES
from crawlfleet.kernel.errors import ConfigError, Problem, StoreError
from crawlfleet.kernel.names import DEFAULT_TENANT, ENV_REDIS_URL
from crawlfleet.kernel.validation import named
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
    *("CRAWLFLEET_ATTEMPTS", "CRAWLFLEET_BATCH", "CRAWLFLEET_BIZ", "CRAWLFLEET_CRAWL"),
    *("CRAWLFLEET_LEASE_SECONDS", "CRAWLFLEET_MAX_REQUEST_BYTES", "CRAWLFLEET_ORDER"),
    *("CRAWLFLEET_QUEUE", "CRAWLFLEET_REDIS_PASSWORD", "CRAWLFLEET_REDIS_URL"),
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


def warn_of_unknown(given: Iterable[str]) -> None:
    """Log a warning for each."""
    for line in unknown(given):
        _log.warning("%s", line)


#: The password of Redis, where the address carries none: settings are committed, this is not.
ENV_REDIS_PASSWORD: Final = "CRAWLFLEET_REDIS_PASSWORD"  # noqa: S105  the variable's name
#: The default key of start URLs, that of scrapy-redis.
START_URLS_KEY: Final = "%(name)s:start_urls"

_SLUG: Final = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
_CRAWL: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_RULE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")


class ProjectSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a project, each as ``CRAWLFLEET_`` and the name in capitals.

    ``redis_url`` may also be in the environment; or ``REDIS_URL``, as with scrapy-redis. ``biz``
    is where items go; only the pipeline needs it. ``crawl`` is what processes share, by default
    the spider's name; ``rule`` is what records are filed under, by default that too.
    ``lease_seconds`` after a process has died its requests are done by another. ``batch`` requests
    are leased at once, by default as many as ``CONCURRENT_REQUESTS``. A request whose processes end
    while they have it is begun ``attempts`` times, then it is dead. Of equal priority the
    ``oldest`` is served first, or the ``newest`` by ``order``. With ``start_once`` a start request
    is queued once a run, however many processes take part and however often they are started.

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
    rule: str
    lease_seconds: float = 60.0
    batch: int = 16
    attempts: int = ATTEMPTS
    order: Order = Order.OLDEST
    start_once: bool = True
    max_request_bytes: int = MOST_BYTES
    forget: Forget = Forget.FINISHED
    flush: bool = False
    idle_seconds: float = 0.0
    start_urls_key: str | None = None


def read_settings(given: "BaseSettings", spider: "Spider") -> ProjectSettings:
    """Read the settings of a project for one of its spiders.

    Raises:
        ConfigError: names every setting that is wrong.
    """
    problems = list(_problems(given, spider))
    if problems:
        raise ConfigError(problems)
    reads_starts = hasattr(spider, "make_request_from_data")
    return ProjectSettings(
        redis_url=_address(given),
        password=given.get(ENV_REDIS_PASSWORD) or os.environ.get(ENV_REDIS_PASSWORD) or None,
        tenant=given.get("CRAWLFLEET_TENANT", DEFAULT_TENANT),
        biz=given.get("CRAWLFLEET_BIZ", ""),
        queue=given.get("CRAWLFLEET_QUEUE", "main"),
        crawl=_crawl(given, spider),
        rule=given.get("CRAWLFLEET_RULE") or spider.name,
        lease_seconds=given.getfloat("CRAWLFLEET_LEASE_SECONDS", 60.0),
        batch=given.getint("CRAWLFLEET_BATCH") or given.getint("CONCURRENT_REQUESTS", 16),
        attempts=given.getint("CRAWLFLEET_ATTEMPTS", ATTEMPTS),
        order=Order(given.get("CRAWLFLEET_ORDER", Order.OLDEST)),
        start_once=given.getbool("CRAWLFLEET_START_ONCE", default=True),
        max_request_bytes=given.getint("CRAWLFLEET_MAX_REQUEST_BYTES", MOST_BYTES),
        forget=_forget(given),
        flush=given.getbool("SCHEDULER_FLUSH_ON_START"),
        idle_seconds=_idle_seconds(given, spider, reads_starts=reads_starts),
        start_urls_key=_start_urls_key(given, spider) if reads_starts else None,
    )


def _address(given: "BaseSettings") -> str:
    for found in (given.get(ENV_REDIS_URL), os.environ.get(ENV_REDIS_URL), given.get("REDIS_URL")):
        if found:
            return str(found)
    return ""


def _crawl(given: "BaseSettings", spider: "Spider") -> str:
    return str(given.get("CRAWLFLEET_CRAWL") or spider.name)


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


def _problems(given: "BaseSettings", spider: "Spider") -> Iterator[Problem]:
    if not _address(given):
        yield Problem(ENV_REDIS_URL, "must be the address of the fleet's Redis: redis://...")
    names = (
        ("CRAWLFLEET_TENANT", given.get("CRAWLFLEET_TENANT", DEFAULT_TENANT), _SLUG),
        ("CRAWLFLEET_BIZ", given.get("CRAWLFLEET_BIZ") or "unset", _SLUG),
        ("CRAWLFLEET_CRAWL", _crawl(given, spider), _CRAWL),
        ("CRAWLFLEET_RULE", given.get("CRAWLFLEET_RULE") or spider.name, _RULE),
    )
    for name, value, pattern in names:
        if not isinstance(value, str) or not pattern.match(value):
            yield Problem(name, f"must match {pattern.pattern[:-2]}, not {value!r}")
    if given.get("CRAWLFLEET_ORDER", Order.OLDEST) not in set(Order):
        yield Problem("CRAWLFLEET_ORDER", f"must be one of {', '.join(Order)}")
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
