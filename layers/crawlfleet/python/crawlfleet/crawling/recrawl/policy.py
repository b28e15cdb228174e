"""Decide whether a page has changed, when it is read again, and on what condition (SPEC.md H7).

People collect records: where a rule or a spider gives any, these are the page, in their order, but
for facts of the fetch that are of the moment. A page that gives none is its text: what HTML and XML
have of scripts, styles, comments and tags changes with every download on many sites (tokens, build
numbers, advertisements) and means nothing. Anything else is its bytes.

The interval between two visits follows how often a page was seen to change. Of all ways to spend
the same number of downloads, the one that makes copies least old on average visits a page that
changes at rate r about as often as the cube root of r (for pages that change less often than they
are read; Cho and Garcia-Molina 2003 derive the condition, and that visits in proportion to r, as
simple rules of doubling and halving make them, leave copies older than one interval for all
would). So an interval I stands for the rate ``first_seconds**2 / I**3``: a page that changes about
once in ``first_seconds`` keeps that interval. Nothing is ever taken for certain: a page that always
has changed comes to the least interval in the end, one that never has to the longest.

The rate is learnt from each visit alone (Robbins and Monro 1951): it says how likely a change was
in the time that has passed; what came otherwise than expected moves the logarithm of the interval.
Nothing but the interval itself has to be remembered, old visits fade, and a visit that comes early
or late counts for the time that it stands for.
"""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from hashlib import blake2b
from re import compile as pattern
from typing import Any, Final, TypeVar

import msgspec

from crawlfleet.config.documents.policies import RecrawlPolicy
from crawlfleet.config.documents.rule import Field, PageFact, Rule, Spider
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.models import Body
from crawlfleet.requests.visits import Validators, Visit

_DIGEST_BYTES: Final = 16
_MARKUP: Final = ("text/html", "application/xhtml+xml", "text/xml", "application/xml", "+xml")
#: Where text begins that nobody reads, and what ends it.
_UNREAD_START: Final = pattern(rb"<script\b|<style\b|<!--")
_UNREAD_END: Final = {
    b"<script": pattern(rb"</script[\s/>]"),
    b"<style": pattern(rb"</style[\s/>]"),
    b"<!--": pattern(rb"-->"),
}
#: A tag ends before the next one begins: what is never closed costs no second search.
_TAG: Final = pattern(rb"<[^<>]*>")


class PageContent:
    """The hash of a page's content, taken record by record, as the ``reader`` finds them."""

    def __init__(self, reader: Rule | Spider | None = None) -> None:
        self._passing = _passing(reader.fields) if isinstance(reader, Rule) else {}
        self._hash = blake2b(digest_size=_DIGEST_BYTES)
        self._any = False

    def add(self, fields: Mapping[str, object]) -> None:
        """Add the next record."""
        self._any = True
        kept = _without(dict(fields), self._passing) if self._passing else fields
        self._hash.update(msgspec.json.encode(kept, enc_hook=str, order="sorted"))
        self._hash.update(b"\n")

    def digest(self, page: Page) -> str:
        """Return the hash of all records, or of the page if there are none; in hex."""
        if self._any:
            return self._hash.hexdigest()
        return blake2b(_text(page), digest_size=_DIGEST_BYTES).hexdigest()


def _text(page: Page) -> bytes:
    kind = page.content_type.partition(";")[0].strip()
    if not kind.endswith(_MARKUP) and not (kind == "" and page.body.lstrip()[:1] == b"<"):
        return page.body
    return b" ".join(_TAG.sub(b" ", _read_part(page.body)).split())


def _read_part(body: bytes) -> bytes:
    """Drop what nobody reads of a body; what is not ended goes on to the end, as in browsers."""
    lower = body.lower()
    parts, at = [], 0
    while (start := _UNREAD_START.search(lower, at)) is not None:
        parts.append(body[at : start.start()])
        end = _UNREAD_END[start.group()].search(lower, start.end())
        if end is None:
            return b" ".join(parts)
        # What is left of an end tag is a tag still.
        at = end.end() if start.group() == b"<!--" else end.start()
    parts.append(body[at:])
    return b" ".join(parts)


#: By field, what of it is of the moment: all of it (None), or fields inside.
_Passing = dict[str, "_Passing | None"]


def _passing(fields: Mapping[str, Field]) -> _Passing:
    found: _Passing = {}
    for name, field in fields.items():
        if field.fact is PageFact.FETCHED_AT:
            found[name] = None
        elif inner := _passing(field.fields):
            found[name] = inner
    return found


def _without(value: Any, passing: _Passing) -> Any:
    if isinstance(value, list | tuple):
        return [_without(one, passing) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: inner if name not in passing else _without(inner, passing[name] or {})
        for name, inner in value.items()
        if passing.get(name, {}) is not None
    }


#: How far one visit moves the logarithm of the interval: less learns more slowly, more wavers. Up
#: to e/3 a step keeps the order of intervals, so that more changes never come to a longer one.
STEP: Final = 0.4
#: No change is taken to be less or more likely than this. Within, the law above holds; beyond,
#: intervals go on towards their bounds, if slowly.
LEAST_LIKELY: Final = 0.1
MOST_LIKELY: Final = 0.97
#: The part of its interval that a page may be visited later than it is due, so that pages spread.
SPREAD: Final = 0.1
#: One visit in so many is made in full: a site whose validators lie is not believed for ever.
FULL_EVERY: Final = 20
NOT_MODIFIED: Final = 304
#: Bytes of ``meta`` that pages which are submitted in one step have together.
META_ROOM: Final = 8_000_000

T = TypeVar("T")

_LONGEST_ETAG: Final = 512
_LONGEST_DATE: Final = 64
#: As RFC 9110 writes them, and without quotes, as some sites do. Neither ``*``, which every page
#: matches, nor a list of several.
_ETAG: Final = re.compile(r'(?:W/)?(?:"[\x21\x23-\x7e]*"|[A-Za-z0-9._:+/=-]+)\Z')
#: A clock that is a little ahead is forgiven.
_FUTURE: Final = timedelta(days=1)


def validators_of(headers: Mapping[str, str], now: datetime) -> Validators:
    """Read the validators of this state of a page; ``headers`` are in lower case.

    Both are kept as they were sent, as they are compared character by character.

    >>> validators_of({"etag": 'W/"7"', "last-modified": "yesterday"}, datetime.now(UTC))
    Validators(etag='W/"7"', last_modified=None)
    """
    etag = headers.get("etag", "").strip(" \t")
    modified = headers.get("last-modified", "").strip(" \t")
    return Validators(
        etag=etag if len(etag) <= _LONGEST_ETAG and _ETAG.match(etag) else None,
        last_modified=modified if _is_past(modified, now) else None,
    )


def _is_past(text: str, now: datetime) -> bool:
    if not text or len(text) > _LONGEST_DATE or not text.isascii() or not text.isprintable():
        return False
    try:
        moment = parsedate_to_datetime(text)
        if moment.tzinfo is None:  # as in asctime's form, which means GMT
            moment = moment.replace(tzinfo=UTC)
        return moment <= now + _FUTURE
    except (ValueError, OverflowError):
        return False


def condition(policy: RecrawlPolicy, previous: Visit | None, body: Body) -> Validators | None:
    """Return the validators to send, or None to read the page in full.

    Another rule, or another version of it, has to see the page: it was not read by it yet.
    """
    if previous is None or not policy.conditional or not previous.validators:
        return None
    if not _is_same_rule(previous, body) or previous.visits % FULL_EVERY == 0:
        return None
    return previous.validators


def next_visit(
    policy: RecrawlPolicy,
    previous: Visit | None,
    key: str,
    body: Body,
    status: int,
    validators: Validators,
    content: str,
    now: datetime,
) -> Visit:
    """Make what is known of a page now that it has been visited, and when it is due again.

    ``key`` is its seed key in hex, ``previous`` what was known before. Status and validators are
    the answer's: 304 says that nothing has changed, and spares a download; a site may leave out the
    validators then, and the former stand. ``content`` is the hash of what was read, not of a 304.
    """
    now = from_ms(to_ms(now))
    same = status == NOT_MODIFIED
    compared = previous is not None and _is_same_rule(previous, body)
    former = previous.content if previous is not None and compared else ""
    changed = not same and former not in {"", content}
    interval = _next_interval(policy, previous, now, changed=changed, compared=compared)
    due_at = now + timedelta(seconds=interval * (1 + SPREAD * _place(key)))
    if same and previous is not None:
        content = previous.content
        validators = Validators(
            etag=validators.etag or previous.validators.etag,
            last_modified=validators.last_modified or previous.validators.last_modified,
        )
    return Visit(
        key=key,
        url=body.url,
        rule=body.rule,
        rule_version=body.rule_version,
        depth=body.depth,
        meta=body.meta,
        visited_at=now,
        changed_at=now if changed or previous is None else previous.changed_at,
        next_at=from_ms(to_ms(due_at)) if policy.schedule else None,
        interval_seconds=interval,
        validators=validators,
        content="" if same and previous is None else content,
        visits=1 + (previous.visits if previous else 0),
        changes=changed + (previous.changes if previous else 0),
        saved=same + (previous.saved if previous else 0),
        spared=previous.spared if previous else 0,
    )


def is_undue(visit: Visit, rule: str, rule_version: str, at: datetime) -> bool:
    """Tell whether a page need not be fetched then: this rule has read it, and it is not due."""
    return (visit.rule, visit.rule_version) == (rule, rule_version) and at < due_at(visit)


def due_at(visit: Visit) -> datetime:
    """Return when a page is due by its interval, whether or not it is read again by itself."""
    return visit.next_at or visit.visited_at + timedelta(seconds=visit.interval_seconds)


def with_room(sized: Iterable[tuple[T, int]], room: int = META_ROOM) -> list[T]:
    """Take the first ones, while their bytes of ``meta`` are ``room`` at most; always one.

    >>> with_room([("a", META_ROOM - 1), ("b", 1), ("c", 1)])
    ['a', 'b']
    """
    taken: list[T] = []
    for one, size in sized:
        room -= size
        if room < 0 and taken:
            break
        taken.append(one)
    return taken


def put_off(policy: RecrawlPolicy, visit: Visit, now: datetime) -> datetime:
    """Compute when a page that is submitted now is due again if nothing is heard of it.

    After as long as nothing has been heard of it: a page that is gone, or waits in a long queue, is
    submitted ever more rarely, and never so often that it piles up.
    """
    silent = (now - visit.visited_at).total_seconds()
    return now + timedelta(seconds=_bounded(policy, max(visit.interval_seconds, silent)))


def _next_interval(
    policy: RecrawlPolicy, previous: Visit | None, now: datetime, *, changed: bool, compared: bool
) -> float:
    first = _bounded(policy, policy.first_seconds)
    if previous is None or not previous.interval_seconds:
        return first
    interval = _bounded(policy, previous.interval_seconds)
    if not compared:
        return interval
    passed = max(0.0, (now - previous.visited_at).total_seconds())
    likely = -math.expm1(-((first / interval) ** 2) * passed / interval)
    # Who comes back in a moment has seen next to nothing; the least likely is of a whole interval.
    least = LEAST_LIKELY * min(1.0, passed / interval)
    expected = min(max(likely, least), MOST_LIKELY)
    return _bounded(policy, interval * math.exp(STEP * (expected - changed)))


def _bounded(policy: RecrawlPolicy, seconds: float) -> float:
    return min(max(seconds, policy.min_seconds), policy.max_seconds)


def _is_same_rule(previous: Visit, body: Body) -> bool:
    return (previous.rule, previous.rule_version) == (body.rule, body.rule_version)


def _place(key: str) -> float:
    """Return a number from 0 to 1 that is the key's own."""
    return int.from_bytes(blake2b(key.encode(), digest_size=4).digest(), "big") / 2**32
