"""Identity: which entries of a feed are new, whatever the feed does with its ids.

An entry is known by its id, else by its link, then link and date, then title, then its content. A
feed is judged by its entries: on a level by which more than a twentieth of them have no key, or one
that another one has, they are not told apart, and the next one counts (as FreshRSS does). A level
is only ever left for a finer one, so that keys do not waver. An entry without a key on its feed's
level, or with one that is not its own, is known by its content.

Keys are kept while they are in the feed, and for a month after: what leaves a feed and comes back
is no new item. That an entry was edited makes it no new one either, but on the last level.
"""

import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import IntEnum
from hashlib import blake2b
from typing import Final, NamedTuple

from crawlfleet.kernel.urls import problem_with
from crawlfleet.streams.feeds.models import Entry
from crawlfleet.streams.subscriptions.models import canonical_feed

#: The part of a feed's entries that may lack a key of their own.
UNTOLD: Final = 0.05
#: Keys are forgotten so long after they left the feed; no more than so many are kept.
KEPT: Final = timedelta(days=30)
KEYS_MAX: Final = 10_000
#: Ids that begin so are nobody else's (RFC 4151, RFC 8141).
_URIS: Final = ("tag:", "urn:")
#: A key, and the minute since 1970 at which it was last in the feed.
_KEPT: Final = struct.Struct("!8sI")


class Level(IntEnum):
    """The facts by which entries of a feed are known."""

    ID = 0
    LINK = 1
    DATE = 2
    TITLE = 3
    CONTENT = 4


class Told(NamedTuple):
    """Entries with their ids, in the feed's order, each once; what is kept for the next reading."""

    new: tuple[tuple[str, Entry], ...]
    level: Level
    seen: bytes


def item_id(level: Level, key: str) -> str:
    """Return the id of the item that is known by a key: 32 hexadecimal digits."""
    return blake2b(f"{level.name}\n{key}".encode("utf-8", "replace"), digest_size=16).hexdigest()


def same_of(one: str, entry: Entry) -> str:
    """Return what an entry is known by in whichever feed has it; "" where only its feed tells.

    That is its id if it is a URI, which it is given so that nobody else has it, or its link in a
    feed without ids. Numbers are a feed's own. Spelling and the scheme of a URL tell nothing apart.

    >>> entry = Entry(id="7", link="https://News.example/a#top")
    >>> same_of(item_id(Level.ID, "7"), entry), same_of(item_id(Level.LINK, entry.link), entry)
    ('', '//news.example/a')
    """
    if entry.id and one == item_id(Level.ID, entry.id):
        key = entry.id.strip()
    elif entry.link and one == item_id(Level.LINK, entry.link):
        key = entry.link
    else:
        return ""
    if problem_with(key) is None:
        return canonical_feed(key).partition(":")[2]
    return key if key.startswith(_URIS) else ""


def key_of(entry: Entry, level: Level) -> str:
    """Return what an entry is known by on a level; "" where it has none of it."""
    if level is Level.ID:
        return entry.id
    if level is Level.CONTENT:
        return "\n".join((entry.link, _date(entry), entry.title, entry.summary, entry.content))
    if not entry.link and level is not Level.TITLE:
        return ""
    parts = [entry.link]
    if level >= Level.DATE:
        parts.append(_date(entry))
    if level >= Level.TITLE:
        parts.append(entry.title)
    return "\n".join(parts) if any(parts) else ""


def _date(entry: Entry) -> str:
    return "" if entry.published_at is None else entry.published_at.isoformat()


def level_of(entries: Sequence[Entry], least: Level = Level.ID) -> Level:
    """Return the first level, from ``least`` on, that tells these entries apart."""
    entries = list(dict.fromkeys(entries))  # the same one twice is one
    for level in Level:
        if level < least or level is Level.CONTENT:
            continue
        counts = Counter(key_of(one, level) for one in entries)
        told = sum(1 for key, count in counts.items() if key and count == 1)
        if len(entries) - told <= UNTOLD * len(entries):
            return level
    return Level.CONTENT if entries else least


def ids_of(entries: Sequence[Entry], level: Level) -> list[str]:
    """Return the id of each entry; one that its key does not tell apart has that of its content."""
    keys = [key_of(one, level) for one in entries]
    having: dict[str, set[Entry]] = {}
    for key, one in zip(keys, entries, strict=True):
        having.setdefault(key, set()).add(one)
    return [
        item_id(level, key)
        if key and len(having[key]) == 1
        else item_id(Level.CONTENT, key_of(one, Level.CONTENT))
        for key, one in zip(keys, entries, strict=True)
    ]


def told(entries: Sequence[Entry], level: Level, seen: bytes, now: datetime) -> Told:
    """Tell new entries from those that were seen, by the level and keys of the last reading."""
    known = _opened(seen)
    finer = level_of(entries, level)
    ids = ids_of(entries, finer)
    # Where the level changes no key is known: what the former one still tells apart goes by that.
    former = ids_of(entries, level) if finer != level else ids
    new: dict[str, Entry] = {}
    for one, before, entry in zip(ids, former, entries, strict=True):
        if _short(one) not in known and _short(before) not in known:
            new.setdefault(one, entry)
    return Told(tuple(new.items()), finer, _closed(known, ids, now))


def _short(one: str) -> bytes:
    return bytes.fromhex(one[:16])


def _opened(seen: bytes) -> dict[bytes, int]:
    whole = seen[: len(seen) // _KEPT.size * _KEPT.size]
    return dict(_KEPT.iter_unpack(whole))


def _closed(known: dict[bytes, int], ids: Iterable[str], now: datetime) -> bytes:
    """Write the keys that are kept: those of this reading, and others, the latest first."""
    minute = int(now.timestamp() // 60)
    least = int((now - KEPT).timestamp() // 60)
    kept = dict.fromkeys(map(_short, ids), minute)
    others = [(at, key) for key, at in known.items() if key not in kept and at >= least]
    others.sort(reverse=True)
    kept.update((key, at) for at, key in others)
    return b"".join(_KEPT.pack(key, at) for key, at in list(kept.items())[:KEYS_MAX])
