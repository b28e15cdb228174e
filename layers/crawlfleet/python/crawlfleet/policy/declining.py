"""What follows where workers looked at a job and none applied for it (SPEC.md B6): pure decisions.

A job's demand is lowered only where every pool that may have workers has looked at it, as it is by
now, and some lack what it wants. One that has not looked may suit it as it is; one that suits it
and has other things to do will; and a site that gives no answer is no lack of a worker's. That may
last for as long as the stage has patience, by what was seen from the first look to the latest one:
then a busy pool counts as one that lacks, and a site without an answer ends the wait.
"""

from collections.abc import Collection, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Final

import msgspec

from crawlfleet.model.bidding import BiddingTerms
from crawlfleet.model.board import Note, WhyNot
from crawlfleet.policy.bidding import LOWERED_TO, lowered

#: A job whose site gives no answer is looked at again after its wait, then after twice as long, and
#: so on up to this.
LONGEST_WAIT: Final = timedelta(minutes=5)
_WORDS: Final = {
    WhyNot.LACKS: "at {part:.0f} % of its demand: ",
    WhyNot.BUSY: "at {part:.0f} % of its demand: busy now: ",
    WhyNot.AWAY: "the site is away: ",
    WhyNot.UNJUDGED: "not judged yet: ",
}
#: Characters of what is told of a job.
_LONGEST: Final = 400


class Step(StrEnum):
    """What becomes of a job for which nobody has applied in its wait.

    It waits on where it is, or at the tail; it wants less, at the tail; or it waits no more.
    """

    STAY = "stay"
    TAIL = "tail"
    LOWER = "lower"
    GIVE_UP = "give up"


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A step, how long the job waits then, and for people why it waits no more."""

    step: Step
    wait: timedelta
    why: str = ""


def decide(
    notes: Mapping[str, Note],
    times: int,
    pools: Collection[str],
    waited: timedelta,
    terms: BiddingTerms,
) -> Decided:
    """What becomes of a job.

    Args:
        notes: By pool, why a worker that has looked at it did not apply.
        times: How often its demand was lowered.
        pools: Those that have workers, or may have; what others have said does not count.
        waited: For how long the job has waited altogether.
        terms: The stage's.
    """
    wait, patience = (
        timedelta(seconds=seconds) for seconds in (terms.wait_seconds, terms.patience_seconds)
    )
    now = {
        pool: note
        for pool, note in notes.items()
        if pool in pools and (note.lowered == times or note.kind.is_unanswered)
    }
    if not now.keys() >= set(pools):
        # It keeps its place while it is short of nothing but a look, yet blocks nobody for ever.
        return Decided(step=Step.STAY if waited < patience else Step.TAIL, wait=wait)
    if is_unanswered(now):
        seen = min(note.lasted for note in now.values())
        if seen < patience:
            return Decided(step=Step.TAIL, wait=max(wait, min(seen, LONGEST_WAIT)))
        why = f"its site gave no worker an answer for {seen.total_seconds() / 60:,.0f} min"
        return Decided(step=Step.GIVE_UP, wait=wait, why=why)
    busy = [note.lasted for note in now.values() if note.kind is WhyNot.BUSY]
    if busy and min(busy) < patience:
        return Decided(step=Step.TAIL, wait=wait)
    if lowered(times + 1) is not None:
        return Decided(step=Step.LOWER, wait=wait)
    why = "no worker suits it"
    if busy:
        why = f"those that suit it were busy for {min(busy).total_seconds() / 60:,.0f} min"
    return Decided(step=Step.GIVE_UP, wait=wait, why=why)


def is_unanswered(notes: Mapping[str, Note]) -> bool:
    """Whether its site, or the way there, is what keeps all who have looked from a job."""
    return bool(notes) and all(note.kind.is_unanswered for note in notes.values())


def told(notes: Mapping[str, Note]) -> str:
    """Why nobody has applied, by pool, for people.

    >>> from datetime import UTC, datetime
    >>> at = datetime(2026, 3, 1, tzinfo=UTC)
    >>> told({"main": Note(kind=WhyNot.LACKS, lowered=1, why="memory", since=at, at=at)}), told({})
    ('main: at 90 % of its demand: memory', 'no worker has looked at it yet')
    """
    parts = []
    for pool, note in sorted(notes.items()):
        kind = _WORDS[note.kind].format(part=100 * LOWERED_TO**note.lowered)
        parts.append(f"{pool}: {kind}{note.why}")
    return "; ".join(parts)[:_LONGEST] or "no worker has looked at it yet"
