"""Decide when a feed is asked again: by how often it has items, and by what it asks for.

An item waits for half an interval on average, so a feed is asked twice for each item that it is
expected to have: one of ten items an hour every three minutes but for the bounds, one of an item a
day every twelve hours. What the feed and its server say makes that longer, never shorter, and no
longer than a day, as many a server says a year; only Retry-After may be longer. A feed without
validators costs all of its body each time, and is asked less often. Failures double the interval.
A feed whose hub pushes is still asked, rarely: no hub is trusted alone.

The rate is a mean over the last week, older items fading: ``rate * e**(-t/week)`` is what is left
of it after ``t``, and each new item adds one to a week. Dates that a feed says of its items are
used for the first reading alone: many are wrong.
"""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from typing import Final

import msgspec

from crawlfleet.crawling.fetching.models import MAX_RETRY_AFTER_SECONDS

WEEK_SECONDS: Final = 604_800.0
#: A feed is asked so many times for each item that it is expected to have.
ASKED_PER_ITEM: Final = 2.0
#: The part of its interval that a feed may be asked later, so that feeds spread.
SPREAD: Final = 0.1
#: A feed with a hub that pushes is asked so much more rarely.
PUSHED: Final = 12.0
_FAILURES_MAX: Final = 30
_SECONDS: Final = re.compile(r"[0-9]{1,10}", re.ASCII)
_MAX_AGE: Final = re.compile(r"(?:^|[,\s])max-age\s*=\s*\"?([0-9]{1,10})", re.ASCII | re.IGNORECASE)


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of intervals, in seconds.

    ``least`` is that of feeds that have validators, ``least_in_full`` that of others; ``idle`` the
    longest by rate alone, ``most`` the longest by what is said, by failures and by pushes.
    """

    least: float = 300.0
    least_in_full: float = 1_800.0
    idle: float = 21_600.0
    most: float = 86_400.0


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """The seconds that a feed asks to be left alone: ``kept`` by ttl, max-age or Expires."""

    kept: float = 0.0
    retry_after: float = 0.0


USUAL: Final = Bounds()
NO_WISHES: Final = Wishes()


def kept_seconds(headers: Mapping[str, str], now: datetime) -> float:
    """Return how long an answer stays fresh by its server (RFC 9111, 4.2.1); 0 where it is not.

    >>> kept_seconds({"cache-control": "public, max-age=900", "age": "300"}, datetime.now(UTC))
    600.0
    """
    if (said := _MAX_AGE.search(headers.get("cache-control", ""))) is not None:
        age = headers.get("age", "").strip()
        passed = float(age) if _SECONDS.fullmatch(age) else 0.0
        return max(0.0, float(said[1]) - passed)
    expires = _date(headers.get("expires", ""))
    if expires is None:
        return 0.0
    # By the server's own clock, which may be another one than ours.
    return max(0.0, (expires - (_date(headers.get("date", "")) or now)).total_seconds())


def _date(text: str) -> datetime | None:
    if not 10 <= len(text) <= 64:
        return None
    try:
        at = parsedate_to_datetime(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def first_rate(published: Iterable[datetime | None], now: datetime) -> float:
    """Estimate the items a second of a feed that was read for the first time."""
    since = now - timedelta(seconds=WEEK_SECONDS)
    return sum(1 for at in published if at is not None and since < at <= now) / WEEK_SECONDS


def learnt_rate(rate: float, items: int, seconds: float) -> float:
    """Return the rate after so many new items in so many seconds."""
    passed = max(1.0, seconds)
    part = -math.expm1(-passed / WEEK_SECONDS)
    return rate * (1.0 - part) + part * items / passed


def interval(
    rate: float,
    wishes: Wishes = NO_WISHES,
    bounds: Bounds = USUAL,
    *,
    conditional: bool = True,
    failures: int = 0,
    pushed: bool = False,
) -> float:
    """Return the seconds until a feed is asked again, in ``bounds`` but for a Retry-After.

    >>> interval(10 / 3600), interval(1 / 86_400), interval(0.0)
    (300.0, 21600.0, 21600.0)
    """
    least = bounds.least if conditional else bounds.least_in_full
    seconds = bounds.idle if rate <= 0 else min(bounds.idle, 1.0 / (ASKED_PER_ITEM * rate))
    seconds = max(least, seconds, min(wishes.kept, bounds.most))
    seconds *= 2.0 ** min(failures, _FAILURES_MAX)
    if pushed and not failures:
        seconds *= PUSHED
    wait = min(wishes.retry_after, MAX_RETRY_AFTER_SECONDS)
    return max(least, min(seconds, bounds.most), wait)


def next_at(url: str, now: datetime, seconds: float) -> datetime:
    """Return when a feed is due after so many seconds, a little later than others."""
    place = int.from_bytes(blake2b(url.encode(), digest_size=4).digest(), "big") / 2**32
    return now + timedelta(seconds=seconds * (1.0 + SPREAD * place))
