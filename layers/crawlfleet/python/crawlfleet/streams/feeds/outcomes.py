"""Decide what follows from asking for a feed: its next state, and what is new of it.

1. Unchanged (304, or the same body): its interval goes on.
2. Read: entries are told apart (``identity``), the new ones become items (``entries``). A permanent
   redirect counts now, as what it led to is a feed; a temporary one never does.
3. Failed: a little longer each time. A feed that was moved is asked for at its own URL again.
4. Gone (410): it is asked for once a month, as some are gone by mistake.
5. Put off: no host slot was free, or the stores were away; nobody failed.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from msgspec.structs import replace

from crawlfleet.kernel import errors
from crawlfleet.requests.visits import Validators
from crawlfleet.streams.feeds import conditions, websub
from crawlfleet.streams.feeds.entries import is_fresh, items_of
from crawlfleet.streams.feeds.identity import Level, told
from crawlfleet.streams.feeds.interval import (
    USUAL,
    Bounds,
    Wishes,
    first_rate,
    interval,
    kept_seconds,
    learnt_rate,
    next_at,
)
from crawlfleet.streams.feeds.models import About, Download, Entry, Feed
from crawlfleet.streams.items import StreamItem
from crawlfleet.streams.silence import after_items

#: A feed that nobody could ask for is due again after this, where nothing says another time.
PUT_OFF: Final = timedelta(seconds=60)
#: A feed that is gone is asked for again after this.
GONE: Final = timedelta(days=30)
#: A push that is faster than the copies of a feed: it is asked once more after this.
AWAITED: Final = timedelta(seconds=60)
_GONE_STATUS: Final = 410
_TROUBLE_MAX: Final = 300
_NOT_ASKED: Final = (errors.StoreError, errors.NotReadyError, errors.RobotsUnknownError)


class Outcome(NamedTuple):
    """A feed as it is kept once its items are accepted."""

    feed: Feed
    items: tuple[StreamItem, ...] = ()


def unchanged(
    feed: Feed, download: Download, sent: Validators | None, now: datetime, bounds: Bounds = USUAL
) -> Outcome:
    """Return what follows from an answer that says nothing new."""
    state = replace(conditions.kept(feed, download, now, sent=sent), awaited=feed.woken)
    rate = feed.rate if feed.read_at is None else _rate(feed, 0, now)
    return Outcome(_answered(state, download, rate, 0.0, now, bounds))


def read(
    feed: Feed,
    download: Download,
    sent: Validators | None,
    about: About,
    entries: Sequence[Entry],
    now: datetime,
    bounds: Bounds = USUAL,
) -> Outcome:
    """Return what follows from a feed that was read."""
    found = told(entries, Level(feed.level), feed.seen, now)
    if feed.read_at is None:
        new = tuple((one, entry) for one, entry in found.new if is_fresh(entry, now))
        rate = first_rate((entry.published_at for entry in entries), now)
    else:
        new, rate = found.new, _rate(feed, len(found.new), now)
    hub = feed.hub
    by_push = feed.woken or feed.awaited
    if hub is not None and new and not by_push and websub.is_pushing(hub, now):
        hub = websub.missed(hub)
    state = replace(
        conditions.kept(feed, download, now, sent=sent),
        level=int(found.level),
        seen=found.seen,
        place=download.moved or feed.place,
        hub=hub,
        offers=websub.hub_of(download.headers, about, download.url),
        awaited=feed.woken and not new,
        gaps=after_items(feed.gaps, now) if new else feed.gaps,
    )
    items = tuple(items_of(feed.url, about, new, now))
    return Outcome(_answered(state, download, rate, about.ttl_seconds, now, bounds), items)


def failed(
    feed: Feed, error: errors.CrawlfleetError, now: datetime, bounds: Bounds = USUAL
) -> Outcome:
    """Return what follows from an error: the feed's, its site's, or our own."""
    retry_after = getattr(error, "retry_after_seconds", None) or 0.0
    status = getattr(error, "status", 0)
    no_slot = isinstance(error, errors.ThrottledError) and not status
    if no_slot or isinstance(error, _NOT_ASKED):
        again = retry_after or getattr(error, "again_seconds", 0.0)
        return Outcome(replace(feed, next_at=now + (timedelta(seconds=again) or PUT_OFF)))
    feed = replace(feed, woken=False)
    trouble = f"{type(error).__name__.removesuffix('Error')}: {error}"[:_TROUBLE_MAX]
    if feed.place:
        # Where it was moved to is no feed any more: perhaps its own URL is one again.
        again = replace(feed, place="", trouble=trouble, next_at=now + PUT_OFF)
        return Outcome(again)
    if status == _GONE_STATUS:
        return Outcome(replace(feed, gone=True, trouble=trouble, next_at=now + GONE))
    failures = feed.failures + 1
    wishes = Wishes(retry_after=retry_after)
    seconds = interval(
        feed.rate, wishes, bounds, conditional=bool(feed.validators), failures=failures
    )
    due_at = next_at(feed.url, now, seconds)
    return Outcome(replace(feed, failures=failures, trouble=trouble, next_at=due_at))


def _rate(feed: Feed, items: int, now: datetime) -> float:
    passed = (now - feed.read_at).total_seconds() if feed.read_at is not None else 0.0
    return learnt_rate(feed.rate, items, passed)


def _answered(
    feed: Feed, download: Download, rate: float, ttl: float, now: datetime, bounds: Bounds
) -> Feed:
    wishes = Wishes(kept=max(ttl, kept_seconds(download.headers, now)))
    seconds = interval(
        rate,
        wishes,
        bounds,
        conditional=bool(feed.validators),
        pushed=websub.is_pushing(feed.hub, now),
    )
    due_at = next_at(feed.url, now, seconds)
    if feed.awaited:
        due_at = min(due_at, now + AWAITED)
    if (lease := feed.hub) is not None and lease.until is not None:
        renewed_at = websub.renewed_at(lease)
        if lease.hub == feed.offers and renewed_at > now:
            # Hubs are asked when their feeds are.
            due_at = min(due_at, renewed_at)
    return replace(
        feed,
        woken=False,
        rate=rate,
        read_at=now,
        answers=feed.answers + 1,
        failures=0,
        gone=False,
        trouble="",
        next_at=due_at,
    )
