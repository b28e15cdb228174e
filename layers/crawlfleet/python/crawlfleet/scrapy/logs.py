"""What a crawl that cannot begin says: one line, not the way that the error took through Scrapy.

Scrapy leaves an error of a scheduler or a pipeline that is being opened to the event loop, which
logs all of its traceback; the sentence that says what is to be done stands below it.
"""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from crawlfleet.errors import ConfigError, StoreError
from crawlfleet.policy.mistakes import named

_log = logging.getLogger(__name__)

#: Who logs what Scrapy did not catch, and what failed while it closed.
_LOOPS: Final = ("asyncio", "twisted")
_CLOSING: Final = ("scrapy.core.engine", "scrapy.utils.signal")

#: Every setting of ours; :mod:`crawlfleet.scrapy.settings` says what they mean.
SETTINGS: Final = (
    "CRAWLFLEET_ATTEMPTS",
    "CRAWLFLEET_BATCH",
    "CRAWLFLEET_BIZ",
    "CRAWLFLEET_CRAWL",
    "CRAWLFLEET_LEASE_SECONDS",
    "CRAWLFLEET_MAX_REQUEST_BYTES",
    "CRAWLFLEET_ORDER",
    "CRAWLFLEET_QUEUE",
    "CRAWLFLEET_REDIS_PASSWORD",
    "CRAWLFLEET_REDIS_URL",
    "CRAWLFLEET_RULE",
    "CRAWLFLEET_START_ONCE",
    "CRAWLFLEET_TENANT",
)
_OURS: Final = "CRAWLFLEET_"


class _InOneLine(logging.Filter):
    """Takes the traceback off records of our own errors that say what is to be done.

    Parts of Scrapy that were not opened fail when they are closed because of such an error. Until
    the event loop has told it, what they say is in one line too.
    """

    def __init__(self) -> None:
        super().__init__()
        self._closing = False

    def filter(self, record: logging.LogRecord) -> bool:
        """Let everything pass, such records in one line."""
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
    """The error, or what it was raised while handling, if it is one of ours."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, ConfigError | StoreError):
        seen = seen.__context__
    return seen


def _shorten(record: logging.LogRecord, said: str, error: BaseException) -> None:
    record.msg, record.args = "%s: %s", (said, str(error) or type(error).__name__)
    record.exc_info = record.exc_text = None


_IN_ONE_LINE: Final = _InOneLine()


def tell_in_one_line() -> None:
    """From now on our errors are told so in Scrapy's log; done again it does nothing."""
    for name in (*_LOOPS, *_CLOSING):
        logging.getLogger(name).addFilter(_IN_ONE_LINE)


def unknown(given: Iterable[str]) -> Iterator[str]:
    """What to say of settings that look like ours and are none.

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
