"""Subscriptions as values: what a client says of one, what is kept, and what readers ask for.

A subscription is content that a client put, and a ``number`` that it got then. Numbers rise over
all subscriptions of a home node: a reader that knows all changes up to one asks for those since.
What has ended stays for a day with the number of its end, so that the reader hears of it.
"""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Annotated, Final, NamedTuple
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from crawlfleet.config.documents.quota import Quotas, UserName
from crawlfleet.kernel.validation import Document, StoreName, Words
from crawlfleet.streams import parsing
from crawlfleet.streams.filters import Filter
from crawlfleet.streams.targets import Target, target_of

#: A subscription that has ended is known for so long.
TOMBSTONE: Final = timedelta(days=1)
#: For each subscription that a tenant may have, so many that are there or ended within a day.
ENDED_FOR_EACH: Final = 10
MOST_FEEDS: Final = 100
_MOST_HOURS: Final = 21
#: Bytes of a content's digest.
_DIGEST: Final = 8

Feed = Annotated[str, Meta(min_length=1, max_length=2_000)]
FilterText = Annotated[str, Meta(min_length=1, max_length=parsing.MOST_CHARACTERS)]
Zone = Annotated[str, Meta(min_length=1, max_length=64)]
Minute = Annotated[
    str,
    Meta(pattern=r"^(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]|24:00)\Z"),
    Words("a time of day such as 08:30, at most 24:00"),
]
Receiver = Annotated[
    str,
    Meta(pattern=r"^[\x21-\x7e]{1,500}\Z"),
    Words("up to 500 visible ASCII signs, without spaces"),
]


class StreamKind(StrEnum):
    """The kind of stream that a subscription is to."""

    #: Feeds, by their URLs.
    RSS = "rss"
    #: A channel of the stage that is X's filtered stream.
    X_STREAM = "x_stream"
    #: A channel of the stage that is lines of JSON over HTTP.
    NDJSON_STREAM = "ndjson_stream"


class Day(StrEnum):
    """A day of the week."""

    MON = "mon"
    TUE = "tue"
    WED = "wed"
    THU = "thu"
    FRI = "fri"
    SAT = "sat"
    SUN = "sun"


_DAYS: Final = tuple(Day)


class Hours(Document, frozen=True, kw_only=True):
    """Hours of some days: from one time of day until before another, past midnight if earlier."""

    days: Annotated[tuple[Day, ...], Meta(min_length=1, max_length=7)] = _DAYS
    begins: Minute = "00:00"
    ends: Minute = "24:00"


class Active(Document, frozen=True, kw_only=True):
    """The times at which a subscription takes items; clocks are those of ``time_zone``."""

    hours: Annotated[tuple[Hours, ...], Meta(min_length=1, max_length=_MOST_HOURS)]
    time_zone: Zone = "UTC"


class Deliver(Document, frozen=True, kw_only=True):
    """The target that items are delivered to: one of these."""

    sqs: Receiver | None = None
    sns: Receiver | None = None
    eventbridge: Receiver | None = None
    redis_stream: Receiver | None = None

    @property
    def named(self) -> dict[str, str]:
        """Return the targets that are named, by their kind; there is to be one."""
        return {kind: to for kind, to in msgspec.structs.asdict(self).items() if to is not None}


class Content(Document, frozen=True, kw_only=True):
    """A subscription as clients write it.

    ``filter`` is text of the language of filters. ``feeds`` are of the kind ``rss``, ``channel`` is
    of the other kinds. ``user`` is whom the tenant has it for. Without ``deliver`` items are kept
    as records and pushed nowhere; without ``active`` they are taken at any time. ``quotas`` are the
    most that it takes, in items or US dollars: then it takes none until the next day or month.
    """

    kind: StreamKind
    filter: FilterText
    feeds: Annotated[tuple[Feed, ...], Meta(max_length=MOST_FEEDS)] = ()
    channel: StoreName | None = None
    user: UserName | None = None
    deliver: Deliver | None = None
    active: Active | None = None
    quotas: Quotas = ()

    @property
    def digest(self) -> str:
        """Name the content: another one has another digest."""
        written = msgspec.json.encode(self, order="sorted")
        return blake2b(written, digest_size=_DIGEST).hexdigest()

    @property
    def channels(self) -> tuple[str, ...]:
        """Return the channels that are read for it: a feed is one by its URL."""
        if self.kind is StreamKind.RSS:
            return self.feeds
        return () if self.channel is None else (self.channel,)

    def target(self) -> Target | None:
        """Read the target; None where items are delivered nowhere."""
        return None if self.deliver is None else target_of(self.deliver.named)

    def parsed(self) -> Filter:
        """Read the filter.

        Raises:
            InvalidRequestError: it is none, in this release.
        """
        return parsing.parse(self.filter)


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription as it is kept."""

    tenant: str
    biz: str
    name: str
    content: Content
    #: The number of its last change, greater than that of any earlier change of any subscription.
    number: int
    created_at: datetime
    changed_at: datetime

    @property
    def id(self) -> str:
        """Return the name by which it is one of all subscriptions."""
        return subscription_id(self.tenant, self.biz, self.name)

    @property
    def revision(self) -> str:
        """Name its content, which a change may be made for."""
        return self.content.digest


class Seen(NamedTuple):
    """A reader's position in the changes; opaque to it."""

    #: Names the store, for one that was lost begins to count again.
    store: str
    number: int
    #: The last number when it began to read all.
    began_at: int

    @property
    def known(self) -> int:
        """Return the number up to which it needs to hear of no end."""
        return max(self.number, self.began_at)


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """Changes that a reader has asked for, in the order of their numbers.

    Of a subscription that changed several times the last one is given. Where the answer begins
    ``afresh`` the reader forgets all that it knew before it takes these.
    """

    standing: tuple[Subscription, ...] = ()
    #: Ids of those that have ended.
    ended: tuple[str, ...] = ()
    seen: Seen
    afresh: bool = False
    #: There are further changes; until they are read what is known is of no one moment.
    more: bool = False


def subscription_id(tenant: str, biz: str, name: str) -> str:
    """Make the id of a subscription.

    >>> subscription_id("acme", "news", "climate")
    'acme/news/climate'
    """
    return f"{tenant}/{biz}/{name}"


def canonical_feed(url: str) -> str:
    """Return the form that URLs of a feed share which only their spelling tells apart.

    What a site may tell apart stays as it is: what is asked for is this form.

    >>> canonical_feed("HTTPS://News.example:443?B=2&a#top")
    'https://news.example/?B=2&a'

    Raises:
        ValueError: it is no URL.
    """
    parts = urlsplit(url.strip())
    host, port = parts.netloc.lower(), {"http": ":80", "https": ":443"}.get(parts.scheme, ":")
    at = parts._replace(netloc=host.removesuffix(port), path=parts.path or "/", fragment="")
    return at.geturl()


def after(known: Mapping[str, Subscription], changes: Changes) -> dict[str, Subscription]:
    """Return what a reader knows by their ids, once it has heard of changes."""
    found = {} if changes.afresh else dict(known)
    for gone in changes.ended:
        found.pop(gone, None)
    found.update((one.id, one) for one in changes.standing)
    return found


def is_active(active: Active | None, now: datetime) -> bool:
    """Tell whether items are taken at a moment.

    >>> from datetime import UTC
    >>> nights = Active(hours=(Hours(days=(Day.MON,), begins="22:00", ends="06:00"),))
    >>> [is_active(nights, datetime(2026, 11, day, 5, 59, tzinfo=UTC)) for day in (23, 24)]
    [False, True]
    """
    if active is None:
        return True
    local = now.astimezone(ZoneInfo(active.time_zone))
    today, minute = _DAYS[local.weekday()], f"{local.hour:02}:{local.minute:02}"
    yesterday = _DAYS[local.weekday() - 1]
    for hours in active.hours:
        if hours.begins < hours.ends:
            if today in hours.days and hours.begins <= minute < hours.ends:
                return True
        elif (today in hours.days and minute >= hours.begins) or (
            yesterday in hours.days and minute < hours.ends
        ):
            return True
    return False


def is_zone(name: str) -> bool:
    """Tell whether a text names a time zone.

    >>> is_zone("Europe/Berlin"), is_zone("../etc/passwd"), is_zone("Berlin")
    (True, False, False)
    """
    if not re.fullmatch(r"[A-Za-z0-9_+-]{1,32}(/[A-Za-z0-9_+-]{1,32}){0,2}", name):
        return False
    try:
        ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        return False
    return True
