"""Why workers did not apply for a job, as the board keeps it, and what follows (SPEC.md B6).

A job's demand is lowered only where somebody has looked at it, as it is by now, and lacked what it
wants: not because its site is away, nobody could judge, or nobody has looked.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from crawlfleet.policy.bidding import LOWERED_TO

#: A job that waits through no fault of its own is looked at again after its wait, then after twice
#: as long, and so on up to this.
LONGEST_WAIT: Final = timedelta(minutes=5)
_AWAY: Final = "the site is away: "
_UNJUDGED: Final = "not judged yet: "
#: Characters of what is told of a job.
_LONGEST: Final = 400


def lacking(lowered: int, why: Sequence[str]) -> str:
    """A worker lacks what a job wants that was lowered so often.

    >>> lacking(1, ["memory: 1.0 GB left, 2.0 GB wanted"])
    'at 90 % of its demand: memory: 1.0 GB left, 2.0 GB wanted'
    """
    return _at(lowered) + "; ".join(why)


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


def is_away(why_not: Mapping[str, str]) -> bool:
    """Whether its site is what keeps it, for all who have looked.

    >>> is_away({"main": away("no route")}), is_away({"main": lacking(0, ["memory"])}), is_away({})
    (True, False, False)
    """
    return bool(why_not) and all(why.startswith((_AWAY, _UNJUDGED)) for why in why_not.values())


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
