"""Whether the scheduler does its work, by the latest tick that it has told of (SPEC.md B1, B13).

Whoever is silent cannot say so, and a tick goes on where a part of it fails: so it is found here.
One finding at most: of a scheduler that is silent it is of no matter what its last tick did.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from crawlfleet.finding_kinds import Kind
from crawlfleet.model.alarms import Thresholds
from crawlfleet.model.incident import Finding, Place
from crawlfleet.model.tick import Ticked
from crawlfleet.policy.plain_text import plain
from crawlfleet.policy.spans import span

SCHEDULER: Final = Place(part="scheduler")
#: Parts in one sentence. There are no more, unless a newer version has noted them.
_NAMED: Final = 8
_WORD: Final = 32


def tick_findings(ticked: Ticked, thresholds: Thresholds) -> Iterator[Finding]:
    """What is wrong with the scheduler.

    Args:
        ticked: The latest tick.
        thresholds: The stage's.
    """
    ago, longest = ticked.seconds_ago, thresholds.tick_silent_seconds
    faults, most = sum(ticked.faults.values()), thresholds.tick_faults
    if ago is None:
        if ticked.awaited_seconds > longest:
            said = (
                f"no tick of it is known, and one is asked for since {span(ticked.awaited_seconds)}"
            )
            yield _finding(ticked.awaited_seconds, longest, said)
    elif ago > longest:
        said = f"the last tick ended {span(ago)} ago, longer than {span(longest)}"
        yield _finding(ago, longest, said)
    elif faults > most:
        yield _finding(faults, most, f"of the last tick failed: {faults_in_words(ticked.faults)}")


def may_come(ticked: Ticked, thresholds: Thresholds) -> bool:
    """Whether no tick is known, and it is too early to make anything of that.

    A fleet that was deployed just now has not ticked yet, and a Redis that was emptied knows none.

    >>> strict = Thresholds(tick_silent_seconds=180)
    >>> may_come(Ticked(awaited_seconds=180), strict), may_come(Ticked(awaited_seconds=181), strict)
    (True, False)
    >>> may_come(Ticked(seconds_ago=0), strict)
    False
    """
    return ticked.seconds_ago is None and ticked.awaited_seconds <= thresholds.tick_silent_seconds


def faults_in_words(faults: Mapping[str, int]) -> str:
    """Which parts have failed, and how often.

    >>> faults_in_words({"schedules": 3, "scaling": 1})
    'schedules (3), scaling (1)'
    """
    named = [f"{plain(part, _WORD)} ({count:,})" for part, count in list(faults.items())[:_NAMED]]
    more = len(faults) - _NAMED
    return ", ".join(named) + (f" and {more:,} more" if more > 0 else "")


def _finding(value: float, threshold: float, said: str) -> Finding:
    return Finding(
        kind=Kind.SCHEDULER_FAULTS, place=SCHEDULER, value=value, threshold=threshold, said=said
    )
