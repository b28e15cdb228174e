"""Values of feeds: what is known of a feed between two rounds, and what a reading of it gives."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from crawlfleet.requests.visits import Validators
from crawlfleet.streams.silence import Gaps

#: Entries of a reading, and characters of one text of an entry; readers cut off what is beyond.
ENTRIES_MAX: Final = 5_000
TEXT_MAX: Final = 100_000
_LIST_MAX: Final = 100

_Text = Annotated[str, Meta(max_length=TEXT_MAX)]
_Short = Annotated[str, Meta(max_length=8_000)]
_Shorts = Annotated[tuple[_Short, ...], Meta(max_length=_LIST_MAX)]


class Hub(msgspec.Struct, frozen=True, kw_only=True):
    """The hub that a feed offers, and the topic by which the hub knows the feed."""

    url: _Short
    topic: _Short


class About(msgspec.Struct, frozen=True, kw_only=True):
    """The feed as it describes itself.

    ``ttl_seconds`` is how long it may be kept, by RSS's ``ttl`` or syndication's ``updatePeriod``.
    ``hubs`` and ``topic`` are its links of WebSub.
    """

    title: _Short = ""
    language: _Short = ""
    ttl_seconds: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    hubs: _Shorts = ()
    topic: _Short = ""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a feed, its texts without markup; "" is what it does not say.

    ``replies_to`` is the id of the entry that it answers (RFC 4685).
    """

    id: _Short = ""
    link: _Short = ""
    title: _Text = ""
    summary: _Text = ""
    content: _Text = ""
    authors: _Shorts = ()
    categories: _Shorts = ()
    language: _Short = ""
    published_at: datetime | None = None
    updated_at: datetime | None = None
    replies_to: _Short = ""


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription at a hub.

    ``secret`` signs what the hub pushes. ``until`` is when the hub ends it; None until the hub has
    asked whether it is meant. ``trusted`` says that a push came, and none was missed since.
    """

    hub: Hub
    secret: str
    asked_at: datetime
    until: datetime | None = None
    trusted: bool = False


class Feed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A feed between two rounds.

    ``place`` is where permanent redirects have led, "" for the URL itself. ``validators`` and
    ``digest`` are those of the body that ``validated`` gave last, the place where redirects ended;
    ``full_at`` is when a body came last. ``answers`` counts those since it is known. ``rate`` is
    how many items a second it has. ``level`` and ``seen`` are identity's. ``failures`` counts those
    in a row, ``trouble`` says the last one; ``gone`` is what its server says of it (410).
    ``offers`` is the hub that its last body named, ``hub`` the lease there, which the store keeps
    apart. ``woken`` says that a push has it be asked now, ``awaited`` that one had, and nothing new
    was there yet.
    """

    url: str
    next_at: datetime
    place: str = ""
    validators: Validators = Validators()
    validated: str = ""
    in_vain: bool = False
    digest: str = ""
    full_at: datetime | None = None
    answers: int = 0
    rate: float = 0.0
    read_at: datetime | None = None
    level: int = 0
    seen: bytes = b""
    failures: int = 0
    trouble: str = ""
    gone: bool = False
    gaps: Gaps = Gaps()
    offers: Hub | None = None
    hub: Lease | None = None
    woken: bool = False
    awaited: bool = False


class Download(msgspec.Struct, frozen=True, kw_only=True):
    """A download of a feed: ``body`` is None where it has not changed (304).

    ``url`` is where redirects ended, ``moved`` where permanent ones led before the first of another
    kind, "" for nowhere. ``headers`` have lower-case names.
    """

    url: str
    headers: Mapping[str, str]
    body: bytes | None
    moved: str = ""
