"""What follows where workers looked at a job and none applied for it (SPEC.md B6): pure decisions.

A job's demand is lowered only where every pool that is deployed has looked at it, as it is by now,
and some lack what it wants. One that has not looked may suit it as it is; one that suits it and has
other things to do will; and a site that gives no answer is no lack of a worker's. That may last for
as long as the stage has patience, by what was seen from the first look to the latest one: then a
busy pool counts as one that lacks, and a site without an answer ends the wait.

A pool that nobody has heard of for as long, as its workers cannot start or its network is cut, is
waited for no more: those that look decide. Where none looks a job stays in line, as nothing is
known of it; people are told that it waits (policy.unplaced_findings).
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from crawlfleet.model.bidding import BiddingTerms
from crawlfleet.model.board import Note, WhyNot
from crawlfleet.policy.bidding import LOWERED_TO, lowered

#: A job whose site gives no answer is looked at again after its wait, then after twice as long, and
#: so on up to this.
LONGEST_WAIT: Final = timedelta(minutes=5)
#: Where some pools have come to look at a job, the others have so long to come as well, however
#: long it has waited: after an outage of them all, or of Redis, the first to look decides nothing.
COMES: Final = timedelta(minutes=2)
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
        if note.lowered == times or note.kind.is_unanswered
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
    return now - since >= patience and now - first >= min(COMES, patience)


def _decided(
    looked: Mapping[str, Note], times: int, wait: timedelta, patience: timedelta
) -> tuple[Step, timedelta, str]:
    """What follows from what was said: the step, the wait then, and why it waits no more."""
    if is_unanswered(looked):
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


def is_unanswered(notes: Mapping[str, Note]) -> bool:
    """Whether its site, or the way there, is what keeps all who have looked from a job."""
    return bool(notes) and all(note.kind.is_unanswered for note in notes.values())


def told(notes: Mapping[str, Note], unheard: Collection[str] = ()) -> str:
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
