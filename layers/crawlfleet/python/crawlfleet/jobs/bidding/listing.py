"""Decide in which order jobs wait for workers, how many may, and what follows refusals (B4, B6).

**Inside a tenant** jobs are ordered by rank, the least first: when the job came, less what its
priority is worth. As ranks stand still while time goes on, a job is overtaken only by those that
come within ``10 * GAIN_MS`` after it. One whose demand was lowered comes anew, without priority.

**Among tenants** each award moves its tenant on by ``SCALE / weight``, and the tenant that has
moved on least is read first. A tenant that comes anew begins where those are that are served now,
so staying away saves nothing up. This is start-time fair queueing (Goyal, Vin and Cheng, 1996) of
jobs of equal length.

**After refusals** a job's demand is lowered only where every deployed pool has examined it, as it
is by now, and some lack what it wants. A pool that has not may suit it; one that suits it and is
busy will; and a site without an answer is no lack of a worker's. That may last for as long as the
stage has patience, from the first refusal to the latest one: then a busy pool counts as one that
lacks, and a site without an answer ends the wait. A pool that was silent for as long, as its
workers cannot start or its network is cut, is waited for no more. Where no pool examines a job it
stays in line, and is reported (monitoring.incidents.capacity_checks).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from crawlfleet.config.documents.policies import BiddingTerms
from crawlfleet.jobs.bidding.models import Decline, JobListing, Note, WhyNot
from crawlfleet.jobs.bidding.selection import LOWERED_TO, lowered
from crawlfleet.jobs.models import JobKey
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.kernel.time import to_ms

#: 2020: ranks are below that by what priorities are worth, and never below 0.
_EARLIEST_MS: Final = 1_577_836_800_000
#: What a priority is worth above the one below it.
GAIN_MS: Final = 60_000
#: By how much an award moves on a tenant whose weight is 1.
SCALE: Final = 1_000_000
MOST_WEIGHT: Final = 1_000
HIGHEST_PRIORITY: Final = 10

LISTING_BYTES: Final = 8_192
APPLICATION_BYTES: Final = 2_048
#: Refusals: characters of a reason, jobs of one call.
WHY_CHARACTERS: Final = 200
MOST_WHYS: Final = 100
#: For so long after a busy worker that suits a job its pool counts as one that suits it, whatever
#: others of it lack.
SUITS: Final = timedelta(seconds=60)
#: Jobs that are read in one call, and how far from the head.
MOST_READ: Final = 100
DEEPEST: Final = 200
#: An acknowledged job is not listed again for so long: its winner stores that first.
BEGUN: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardBounds:
    """Bounds of a board. A job that does not fit is listed later.

    A tenant lists ``tenant_listings``, where there are many tenants fewer: it may add to its own
    while it has less than its part of ``most_listings``, or than ``least_listings``. Jobs are
    pinned to ``most_pools`` at once. A job keeps reasons of ``most_notes`` pools, the latest.
    """

    tenant_listings: int = 10_000
    most_listings: int = 100_000
    least_listings: int = 10
    most_pools: int = 64
    most_applications: int = 100
    most_notes: int = 33

    def room(self, tenants: int) -> int:
        """Count the jobs that a tenant may list where so many have any, itself included.

        >>> bounds = BoardBounds()
        >>> bounds.room(1), bounds.room(100), bounds.room(50_000)
        (10000, 1000, 10)
        """
        part = self.most_listings // max(1, tenants)
        return max(self.least_listings, min(self.tenant_listings, part))


def rank(now_ms: int, priority: int) -> int:
    """Compute the rank of a job that comes now; the least is first.

    >>> rank(1_000_000_000, 5) < rank(1_000_060_000, 5) == rank(1_000_120_000, 6)
    True
    """
    return now_ms - priority * GAIN_MS


def pass_step(weight: int) -> int:
    """Compute by how much an award moves its tenant on.

    >>> pass_step(1), pass_step(4)
    (1000000, 250000)
    """
    return SCALE // weight


def name_of(key: JobKey) -> str:
    """Write a job's key as one word.

    >>> name_of(("acme", "docs", "june.1"))
    'acme/docs/june.1'
    """
    return "/".join(key)


def key_of(name: str) -> JobKey:
    """Read the key that :func:`name_of` has written. Raises ValueError (it is none)."""
    tenant, biz, job = name.split("/", 2)
    return tenant, biz, job


def check_listing(listing: JobListing) -> None:
    """Refuse a listing that the board cannot keep, with an :class:`InvalidRequestError`."""
    check_bytes("document", listing.document, LISTING_BYTES)
    if listing.since is not None and to_ms(listing.since) < _EARLIEST_MS:
        raise InvalidRequestError.of("since", "lies before there were jobs")
    for field, value, least, most in (
        ("priority", listing.priority, 0, HIGHEST_PRIORITY),
        ("weight", listing.weight, 1, MOST_WEIGHT),
        ("lowered", listing.lowered, 0, 1_000),
    ):
        if not least <= value <= most:
            raise InvalidRequestError.of(field, f"is {value}, not from {least} to {most}")
    for field, text in (("tenant", listing.tenant), ("biz", listing.biz), ("job", listing.job)):
        if not is_word(text) or text == "*" or (field != "job" and "/" in text):
            raise InvalidRequestError.of(field, "is no name of one")
    if listing.pool is not None:
        check_pool(listing.pool)


def check_pool(pool: str) -> None:
    """Refuse what is no pool's name, with an :class:`InvalidRequestError`."""
    if not is_word(pool) or pool == "-":
        raise InvalidRequestError.of("pool", "is no name of one")


def check_worker(worker: str) -> None:
    """Refuse what is no worker's id, with an :class:`InvalidRequestError`."""
    if not is_word(worker):
        raise InvalidRequestError.of("worker", "is no worker's id")


def check_bytes(field: str, document: bytes, most: int) -> None:
    """Refuse a document that is too large, with an :class:`InvalidRequestError`."""
    if len(document) > most:
        raise InvalidRequestError.of(field, f"has {len(document):,} bytes, more than {most:,}")


def is_word(text: str) -> bool:
    """Tell whether it is a word of printable ASCII, as all names here are.

    >>> [is_word(text) for text in ("june.1", "", "a b", "x" * 300)]
    [True, False, False, False]
    """
    return 0 < len(text) <= 256 and all("!" <= letter <= "~" for letter in text)


def why(text: str) -> str:
    """Bound a reason, and put it into one line."""
    return " ".join(text.split())[:WHY_CHARACTERS]


def noted(decline: Decline, before: Note | None, now: datetime) -> Note:
    """Make the note of a refusal, with since when its pool says the same.

    A pool suits a job where any worker of it does, whatever others of it lack.
    """
    since = now
    if before is not None:
        is_less = (before.kind, decline.kind) == (WhyNot.BUSY, WhyNot.LACKS)
        if is_less and before.lowered == decline.lowered and now - before.at < SUITS:
            return before
        is_same = (before.kind, before.lowered) == (decline.kind, decline.lowered)
        if is_same or (before.kind.is_link_fault and decline.kind.is_link_fault):
            since = before.since
    return Note(
        kind=decline.kind, lowered=decline.lowered, why=why(decline.why), since=since, at=now
    )


#: The wait of a job whose site gives no answer doubles up to this.
LONGEST_WAIT: Final = timedelta(minutes=5)
#: Where some pools have examined a job, the others have so long to come as well, however long it
#: has waited: after an outage of them all, or of Redis, the first pool does not decide alone.
CATCH_UP: Final = timedelta(minutes=2)
_WORDS: Final = {
    WhyNot.LACKS: "at {part:.0f} % of its demand: ",
    WhyNot.BUSY: "at {part:.0f} % of its demand: busy now: ",
    WhyNot.AWAY: "the site is away: ",
    WhyNot.UNJUDGED: "not judged yet: ",
}
#: Characters of an explanation, and pools that are named in it.
_LONGEST: Final = 400
_NAMED: Final = 3


class Step(StrEnum):
    """The next step of a job for which nobody has applied in its wait.

    It waits on where it is, or at the tail; it wants less, at the tail; or it waits no more.
    """

    STAY = "stay"
    TAIL = "tail"
    LOWER = "lower"
    GIVE_UP = "give up"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A step, the wait after it, and for people why the job waits no more.

    ``silent`` pools have not examined it yet, or not for as long as the stage has patience.
    """

    step: Step
    wait: timedelta
    why: str = ""
    silent: tuple[str, ...] = ()


def decide(
    notes: Mapping[str, Note],
    times: int,
    pools: Collection[str],
    since: datetime,
    now: datetime,
    terms: BiddingTerms,
) -> Decision:
    """Decide on the next step of a job that came at ``since`` and was lowered so many ``times``.

    Of the last refusals by pool (``notes``) those of pools that are not deployed do not count.
    """
    wait = timedelta(seconds=terms.wait_seconds)
    patience = timedelta(seconds=terms.patience_seconds)
    heard = {pool: note for pool in pools if (note := notes.get(pool)) and now - note.at < patience}
    silent = tuple(sorted(set(pools) - heard.keys()))
    examined = {
        pool: note
        for pool, note in heard.items()
        if note.lowered == times or note.kind.is_link_fault
    }
    if not _is_enough(examined, heard, silent, patience, since, now):
        # It keeps its place until it is examined, yet blocks no other for ever.
        step = Step.STAY if now - since < patience else Step.TAIL
        return Decision(step=step, wait=wait, silent=silent)
    step, wait, why = _decided(examined, times, wait, patience)
    return Decision(step=step, wait=wait, why=why, silent=silent)


def _is_enough(
    examined: Mapping[str, Note],
    heard: Collection[str],
    silent: Collection[str],
    patience: timedelta,
    since: datetime,
    now: datetime,
) -> bool:
    """Tell whether the pools that have examined a job as it is by now may decide about it."""
    if not examined or len(examined) < len(heard):
        return False
    if not silent:
        return True
    first = min(note.since for note in examined.values())
    return now - since >= patience and now - first >= min(CATCH_UP, patience)


def _decided(
    examined: Mapping[str, Note], times: int, wait: timedelta, patience: timedelta
) -> tuple[Step, timedelta, str]:
    """Return the step that refusals lead to, the wait then, and why the job waits no more."""
    if is_link_fault(examined):
        seen = min(note.lasted for note in examined.values())
        if seen < patience:
            return Step.TAIL, max(wait, min(seen, LONGEST_WAIT)), ""
        why = f"its site gave no worker an answer for {seen.total_seconds() / 60:,.0f} min"
        return Step.GIVE_UP, wait, why
    busy = [note.lasted for note in examined.values() if note.kind is WhyNot.BUSY]
    if busy and min(busy) < patience:
        return Step.TAIL, wait, ""
    if lowered(times + 1) is not None:
        return Step.LOWER, wait, ""
    why = "no worker suits it"
    if busy:
        why = f"those that suit it were busy for {min(busy).total_seconds() / 60:,.0f} min"
    return Step.GIVE_UP, wait, why


def is_link_fault(notes: Mapping[str, Note]) -> bool:
    """Tell whether the link to its site keeps all pools that have examined it from a job."""
    return bool(notes) and all(note.kind.is_link_fault for note in notes.values())


def explain_declines(notes: Mapping[str, Note], silent: Collection[str] = ()) -> str:
    """Explain why nobody has applied, by pool, for people; ``silent`` pools' notes are outdated.

    >>> from datetime import UTC, datetime
    >>> at = datetime(2026, 3, 1, tzinfo=UTC)
    >>> lacks = Note(kind=WhyNot.LACKS, lowered=1, why="memory", since=at, at=at)
    >>> explain_declines({"main": lacks}, ["far"])
    'main: at 90 % of its demand: memory; no worker of far has looked at it lately'
    >>> explain_declines({}, ["main"])
    'no worker has looked at it yet'
    """
    parts = []
    for pool, note in sorted(notes.items()):
        if pool not in silent:
            kind = _WORDS[note.kind].format(part=100 * LOWERED_TO**note.lowered)
            parts.append(f"{pool}: {kind}{note.why}")
    if not parts:
        return f"no worker has looked at it {'lately' if notes else 'yet'}"
    named = sorted(silent)[:_NAMED]
    more = f" and {len(silent) - _NAMED} more" if len(silent) > _NAMED else ""
    tail = f"; no worker of {', '.join(named)}{more} has looked at it lately" if named else ""
    return "; ".join(parts)[: _LONGEST - len(tail)] + tail
