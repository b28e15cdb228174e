"""In which order jobs wait for workers, and how many may (SPEC.md B4, B6).

**Inside a tenant** by rank, the least first: when the job came, less what its priority is worth. As
ranks stand still while time goes on, what waits gains on whatever comes later: a job is overtaken
only by those that come within ``10 * GAIN_MS`` after it. One whose demand was lowered comes anew,
and of no priority: behind all that is there, and no further behind what comes than that.

**Among tenants** by turns: each award moves its tenant on by ``SCALE / weight``, and who has moved
on least is read first. Who comes anew begins where those are who are served now, so nobody saves
turns up by staying away. This is start-time fair queueing (Goyal, Vin and Cheng, 1996) of jobs of
equal length.

What follows where workers looked at a job and none applied for it (SPEC.md B6): pure decisions.

A job's demand is lowered only where every pool that is deployed has looked at it, as it is by now,
and some lack what it wants. One that has not looked may suit it as it is; one that suits it and has
other things to do will; and a site that gives no answer is no lack of a worker's. That may last for
as long as the stage has patience, by what was seen from the first look to the latest one: then a
busy pool counts as one that lacks, and a site without an answer ends the wait.

A pool that nobody has heard of for as long, as its workers cannot start or its network is cut, is
waited for no more: those that look decide. Where none looks a job stays in line, as nothing is
known of it; people are told that it waits (monitoring.incidents.capacity_checks).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from crawlfleet.config.documents.policies import BiddingTerms
from crawlfleet.jobs.bidding.models import Decline, JobKey, Note, Offer, WhyNot
from crawlfleet.jobs.bidding.selection import LOWERED_TO, lowered
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.kernel.time import to_ms

#: 2020: ranks are below that by what priorities are worth, and never below 0.
_EARLIEST_MS: Final = 1_577_836_800_000
#: What a priority is worth above the one below it.
GAIN_MS: Final = 60_000
#: A turn of a tenant whose weight is 1.
SCALE: Final = 1_000_000
MOST_WEIGHT: Final = 1_000
HIGHEST_PRIORITY: Final = 10

LISTING_BYTES: Final = 8_192
APPLICATION_BYTES: Final = 2_048
#: Why workers did not apply: characters of a pool's reason, jobs told of in one call.
WHY_CHARACTERS: Final = 200
MOST_WHYS: Final = 100
#: For so long after a worker of a pool was found that suits a job, and is busy, its pool counts as
#: one that does, whatever others of it lack.
SUITS: Final = timedelta(seconds=60)
#: Jobs that are read in one call, and how far from the head.
MOST_READ: Final = 100
DEEPEST: Final = 200
#: A job that was acknowledged is not offered anew for so long: whoever wins writes that down first.
BEGUN: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardBounds:
    """Bounds of a board. What does not fit is MongoDB's alone, and offered later.

    Args:
        tenant_offers: Offers of one tenant; where there are many tenants fewer, so that all
            together are bounded.
        most_offers: A tenant may add to its own while it has less than its part of these.
        least_offers: So many each tenant may have, however many there are.
        most_pools: Pools that jobs are pinned to at once.
        most_applications: For one job.
        most_notes: Pools of which a job keeps a reason; of more, the latest.
    """

    tenant_listings: int = 10_000
    most_listings: int = 100_000
    least_listings: int = 10
    most_pools: int = 64
    most_applications: int = 100
    most_notes: int = 33

    def room(self, tenants: int) -> int:
        """Count the offers that a tenant may have where so many have any, itself included.

        >>> bounds = BoardBounds()
        >>> bounds.room(1), bounds.room(100), bounds.room(50_000)
        (10000, 1000, 10)
        """
        part = self.most_listings // max(1, tenants)
        return max(self.least_listings, min(self.tenant_listings, part))


def rank(now_ms: int, priority: int) -> int:
    """Where a job stands in its tenant's queue that comes now; the least is first.

    >>> rank(1_000_000_000, 5) < rank(1_000_060_000, 5) == rank(1_000_120_000, 6)
    True
    """
    return now_ms - priority * GAIN_MS


def turn(weight: int) -> int:
    """By how much an award moves its tenant on.

    >>> turn(1), turn(4)
    (1000000, 250000)
    """
    return SCALE // weight


def name_of(key: JobKey) -> str:
    """A job's key as one word.

    >>> name_of(("acme", "docs", "june.1"))
    'acme/docs/june.1'
    """
    return "/".join(key)


def key_of(name: str) -> JobKey:
    """The key of :func:`name_of`.

    Raises:
        ValueError: it is none.
    """
    tenant, biz, job = name.split("/", 2)
    return tenant, biz, job


def check_listing(offer: Offer) -> None:
    """Refuse an offer that the board cannot keep.

    Raises:
        InvalidRequestError: names what is wrong with it.
    """
    check_bytes("document", offer.document, LISTING_BYTES)
    if offer.since is not None and to_ms(offer.since) < _EARLIEST_MS:
        raise InvalidRequestError.of("since", "lies before there were jobs")
    for field, value, least, most in (
        ("priority", offer.priority, 0, HIGHEST_PRIORITY),
        ("weight", offer.weight, 1, MOST_WEIGHT),
        ("lowered", offer.lowered, 0, 1_000),
    ):
        if not least <= value <= most:
            raise InvalidRequestError.of(field, f"is {value}, not from {least} to {most}")
    for field, text in (("tenant", offer.tenant), ("biz", offer.biz), ("job", offer.job)):
        if not is_word(text) or text == "*" or (field != "job" and "/" in text):
            raise InvalidRequestError.of(field, "is no name of one")
    if offer.pool is not None:
        check_pool(offer.pool)


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
    """Whether it is a word of printable ASCII, as all names here are.

    >>> [is_word(text) for text in ("june.1", "", "a b", "x" * 300)]
    [True, False, False, False]
    """
    return 0 < len(text) <= 256 and all("!" <= letter <= "~" for letter in text)


def why(text: str) -> str:
    """A reason as it is kept: one line, bounded."""
    return " ".join(text.split())[:WHY_CHARACTERS]


def noted(said: Decline, before: Note | None, now: datetime) -> Note:
    """What is kept of a decline, with since when its pool says the same.

    A pool suits a job where any worker of it does: that others lack what one has takes no effect
    while that one is heard of.
    """
    since = now
    if before is not None:
        is_less = (before.kind, said.kind) == (WhyNot.BUSY, WhyNot.LACKS)
        if is_less and before.lowered == said.lowered and now - before.at < SUITS:
            return before
        is_same = (before.kind, before.lowered) == (said.kind, said.lowered)
        if is_same or (before.kind.is_link_fault and said.kind.is_link_fault):
            since = before.since
    return Note(kind=said.kind, lowered=said.lowered, why=why(said.why), since=since, at=now)


#: A job whose site gives no answer is looked at again after its wait, then after twice as long, and
#: so on up to this.
LONGEST_WAIT: Final = timedelta(minutes=5)
#: Where some pools have come to look at a job, the others have so long to come as well, however
#: long it has waited: after an outage of them all, or of Redis, the first to look decides nothing.
CATCH_UP: Final = timedelta(minutes=2)
_WORDS: Final = {
    WhyNot.LACKS: "at {part:.0f} % of its demand: ",
    WhyNot.BUSY: "at {part:.0f} % of its demand: busy now: ",
    WhyNot.AWAY: "the site is away: ",
    WhyNot.UNJUDGED: "not judged yet: ",
}
#: Characters of what is told of a job, and pools that are named in it.
_LONGEST: Final = 400
_NAMED: Final = 3


class Step(StrEnum):
    """What becomes of a job for which nobody has applied in its wait.

    It waits on where it is, or at the tail; it wants less, at the tail; or it waits no more.
    """

    STAY = "stay"
    TAIL = "tail"
    LOWER = "lower"
    GIVE_UP = "give up"


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A step, how long the job waits then, and for people why it waits no more.

    ``unheard`` are the pools that have said nothing of it yet, or nothing for as long as the stage
    has patience.
    """

    step: Step
    wait: timedelta
    why: str = ""
    unheard: tuple[str, ...] = ()


def decide(
    notes: Mapping[str, Note],
    times: int,
    pools: Collection[str],
    since: datetime,
    now: datetime,
    terms: BiddingTerms,
) -> Decided:
    """What becomes of a job.

    Args:
        notes: By pool, why a worker that has looked at it did not apply.
        times: How often its demand was lowered.
        pools: Those that are deployed; what others have said does not count.
        since: When the job came.
        now: The moment of this.
        terms: The stage's.
    """
    wait, patience = (
        timedelta(seconds=seconds) for seconds in (terms.wait_seconds, terms.patience_seconds)
    )
    heard = {pool: note for pool in pools if (note := notes.get(pool)) and now - note.at < patience}
    unheard = tuple(sorted(set(pools) - heard.keys()))
    looked = {
        pool: note
        for pool, note in heard.items()
        if note.lowered == times or note.kind.is_link_fault
    }
    if not _is_enough(looked, heard, unheard, patience, since, now):
        # It keeps its place while it is short of nothing but a look, yet blocks nobody for ever.
        step = Step.STAY if now - since < patience else Step.TAIL
        return Decided(step=step, wait=wait, unheard=unheard)
    step, wait, why = _decided(looked, times, wait, patience)
    return Decided(step=step, wait=wait, why=why, unheard=unheard)


def _is_enough(
    looked: Mapping[str, Note],
    heard: Collection[str],
    unheard: Collection[str],
    patience: timedelta,
    since: datetime,
    now: datetime,
) -> bool:
    """Whether those that have looked at a job as it is by now may decide about it."""
    if not looked or len(looked) < len(heard):
        return False
    if not unheard:
        return True
    first = min(note.since for note in looked.values())
    return now - since >= patience and now - first >= min(CATCH_UP, patience)


def _decided(
    looked: Mapping[str, Note], times: int, wait: timedelta, patience: timedelta
) -> tuple[Step, timedelta, str]:
    """What follows from what was said: the step, the wait then, and why it waits no more."""
    if is_link_fault(looked):
        seen = min(note.lasted for note in looked.values())
        if seen < patience:
            return Step.TAIL, max(wait, min(seen, LONGEST_WAIT)), ""
        why = f"its site gave no worker an answer for {seen.total_seconds() / 60:,.0f} min"
        return Step.GIVE_UP, wait, why
    busy = [note.lasted for note in looked.values() if note.kind is WhyNot.BUSY]
    if busy and min(busy) < patience:
        return Step.TAIL, wait, ""
    if lowered(times + 1) is not None:
        return Step.LOWER, wait, ""
    why = "no worker suits it"
    if busy:
        why = f"those that suit it were busy for {min(busy).total_seconds() / 60:,.0f} min"
    return Step.GIVE_UP, wait, why


def is_link_fault(notes: Mapping[str, Note]) -> bool:
    """Whether its site, or the way there, is what keeps all who have looked from a job."""
    return bool(notes) and all(note.kind.is_link_fault for note in notes.values())


def reported(notes: Mapping[str, Note], unheard: Collection[str] = ()) -> str:
    """Why nobody has applied, by pool, for people; what the ``unheard`` have said is outdated.

    >>> from datetime import UTC, datetime
    >>> at = datetime(2026, 3, 1, tzinfo=UTC)
    >>> told({"main": Note(kind=WhyNot.LACKS, lowered=1, why="memory", since=at, at=at)}, ["far"])
    'main: at 90 % of its demand: memory; no worker of far has looked at it lately'
    >>> told({}, ["main"])
    'no worker has looked at it yet'
    """
    parts = []
    for pool, note in sorted(notes.items()):
        if pool not in unheard:
            kind = _WORDS[note.kind].format(part=100 * LOWERED_TO**note.lowered)
            parts.append(f"{pool}: {kind}{note.why}")
    if not parts:
        return f"no worker has looked at it {'lately' if notes else 'yet'}"
    named = sorted(unheard)[:_NAMED]
    more = f" and {len(unheard) - _NAMED} more" if len(unheard) > _NAMED else ""
    silent = f"; no worker of {', '.join(named)}{more} has looked at it lately" if named else ""
    return "; ".join(parts)[: _LONGEST - len(silent)] + silent
