"""Why workers did not apply for a job, as the board keeps it, and what follows (SPEC.md B6).

A job's demand is lowered only where somebody has looked at it, as it is by now, and lacked what it
wants: not because its site is away, nobody could judge, or nobody has looked. Nor while a pool has
workers that have not come to look at it, as others stand before it: they may suit it as it is. One
that would suit it, had it nothing else to do, will: to be busy is no lack.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Final

from crawlfleet.policy.bidding import LOWERED_TO

#: A job that waits through no fault of its own is looked at again after its wait, then after twice
#: as long, and so on up to this.
LONGEST_WAIT: Final = timedelta(minutes=5)
_AWAY: Final = "the site is away: "
_UNJUDGED: Final = "not judged yet: "
_BUSY: Final = "busy now: "
#: Characters of what is told of a job.
_LONGEST: Final = 400


def lacking(lowered: int, why: Sequence[str]) -> str:
    """A worker lacks what a job wants that was lowered so often.

    >>> lacking(1, ["memory: 1.0 GB left, 2.0 GB wanted"])
    'at 90 % of its demand: memory: 1.0 GB left, 2.0 GB wanted'
    """
    return _at(lowered) + "; ".join(why)


def busy(lowered: int, why: Sequence[str]) -> str:
    """A worker lacks what a job wants as long as it does something else beside.

    >>> busy(0, ["memory: 1.0 GB left, 2.0 GB wanted"])
    'at 100 % of its demand: busy now: memory: 1.0 GB left, 2.0 GB wanted'
    """
    return lacking(lowered, [_BUSY + "; ".join(why)])


def away(why: str) -> str:
    """The site gave a worker no answer."""
    return _AWAY + why


def unjudged(why: str) -> str:
    """What the way to the site is like could not be found out, which is not the site's doing."""
    return _UNJUDGED + why


def is_lacked(why_not: Mapping[str, str], lowered: int) -> bool:
    """Whether a pool lacks what the job wants, which was lowered so often, of these reasons.

    >>> is_lacked({"main": away("no route"), "far": lacking(1, ["memory"])}, 1)
    True
    >>> is_lacked({"main": away("no route"), "far": lacking(1, ["memory"])}, 2)
    False
    """
    return any(why.startswith(_at(lowered)) for why in why_not.values())


def is_busy(why_not: Mapping[str, str], lowered: int) -> bool:
    """Whether a pool would suit the job, which was lowered so often, had it nothing else to do.

    >>> why_not = {"main": busy(0, ["memory"]), "far": lacking(0, ["memory"])}
    >>> is_busy(why_not, 0), is_busy(why_not, 1)
    (True, False)
    """
    return any(why.startswith(_at(lowered) + _BUSY) for why in why_not.values())


def is_away(why_not: Mapping[str, str]) -> bool:
    """Whether its site is what keeps it, for all who have looked.

    >>> is_away({"main": away("no route")}), is_away({"main": lacking(0, ["memory"])}), is_away({})
    (True, False, False)
    """
    return bool(why_not) and all(why.startswith((_AWAY, _UNJUDGED)) for why in why_not.values())


def has_no_answer(why_not: Mapping[str, str]) -> bool:
    """Whether its site has given some pool's worker no answer, or none that could be asked for.

    >>> has_no_answer({"main": away("no route"), "far": lacking(0, ["memory"])}), has_no_answer({})
    (True, False)
    """
    return any(why.startswith((_AWAY, _UNJUDGED)) for why in why_not.values())


def says_no_answer(told: str | None) -> bool:
    """Whether that was so when people were :func:`told` last.

    >>> says_no_answer(told({"main": away("no route")})), says_no_answer(None)
    (True, False)
    """
    return told is not None and (_AWAY in told or _UNJUDGED in told)


def have_not_looked(why_not: Mapping[str, str], lowered: int, pools: Collection[str]) -> set[str]:
    """Those of the pools whose workers have not said why not, of a job that was lowered so often.

    >>> why_not = {"main": lacking(0, ["memory"]), "far": away("no route")}
    >>> have_not_looked(why_not, 0, {"main", "far"}), have_not_looked(why_not, 1, {"main", "far"})
    (set(), {'main'})
    """
    words = (_at(lowered), _AWAY, _UNJUDGED)
    return {pool for pool in pools if not why_not.get(pool, "").startswith(words)}


def told(why_not: Mapping[str, str]) -> str:
    """Why nobody has applied, by pool, for people.

    >>> told({"main": away("no route")}), told({})
    ('main: the site is away: no route', 'no worker has looked at it yet')
    """
    words = "; ".join(f"{pool}: {why}" for pool, why in sorted(why_not.items()))
    return words[:_LONGEST] or "no worker has looked at it yet"


def longer(wait: timedelta, waited: timedelta) -> timedelta:
    """How long a job waits on that waits through no fault of its own, and has for so long.

    >>> wait, minute = timedelta(seconds=30), timedelta(minutes=1)
    >>> [longer(wait, minute * waited).total_seconds() for waited in (0, 1, 60)]
    [30.0, 60.0, 300.0]
    """
    return max(wait, min(waited, LONGEST_WAIT))


def _at(lowered: int) -> str:
    return f"at {100 * LOWERED_TO**lowered:.0f} % of its demand: "
