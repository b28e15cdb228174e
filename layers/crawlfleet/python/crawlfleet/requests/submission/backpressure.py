"""When a biz takes no more for now: how long to wait, and what to say (SPEC.md C4)."""

from typing import Final

from crawlfleet.config.documents.biz import IntakeLimits
from crawlfleet.requests.queue.stats import Pressure

#: Bounds of the wait for a backlog to shrink. Below, callers would only ask; above, work that could
#: be done would wait for them.
SHORTEST_SECONDS: Final = 5.0
LONGEST_SECONDS: Final = 300.0
#: The part of the limit that is worked off before callers come back: less, and few find room.
WORKED_OFF: Final = 0.1
#: Memory is freed by whatever biz is worked on, so this one's rate says nothing about it.
MEMORY_SECONDS: Final = 30.0


def retry_after(pressure: Pressure, limits: IntakeLimits, processed_per_second: float) -> float:
    """Seconds after which it makes sense to ask again; 0 where nothing stands against it.

    >>> full = Pressure(backlog=1_000, backlog_full=True)
    >>> retry_after(full, IntakeLimits(max_backlog=1_000), processed_per_second=10.0)
    10.0
    """
    waits = [pressure.wait_seconds]
    if pressure.memory_full:
        waits.append(MEMORY_SECONDS)
    if pressure.backlog_full:
        excess = max(pressure.backlog - limits.max_backlog, 0)
        waits.append(_worked_off(excess + limits.max_backlog * WORKED_OFF, processed_per_second))
    return max(waits)


def _worked_off(requests: float, per_second: float) -> float:
    if requests >= per_second * LONGEST_SECONDS:  # nobody works, for one
        return LONGEST_SECONDS
    return max(requests / per_second, SHORTEST_SECONDS)


def refusal(biz: str, pressure: Pressure, limits: IntakeLimits, memory_ratio: float) -> str:
    """Which limits stand against it, how much there is, and what helps."""
    reasons = []
    if pressure.backlog_full:
        reasons.append(
            f"biz {biz} has a backlog of {pressure.backlog:,} requests, and intake.max_backlog is "
            f"{limits.max_backlog:,}: submit less at once, come back when some of it is done, add "
            "consumers, or raise the limit"
        )
    if pressure.memory_full:
        reasons.append(
            f"the queues fill Redis beyond {memory_ratio:.0%} of its memory "
            f"(redis_memory_ratio), {pressure.backlog:,} requests of biz {biz} among them: come "
            "back when some of it is done, add consumers, or give Redis more memory"
        )
    if pressure.wait_seconds > 0:
        reasons.append(
            f"biz {biz} takes {limits.per_second or 0:g} requests a second and {limits.burst:,} at "
            "once (intake.per_second, intake.burst): come back later, submit more slowly, or raise "
            "the limit"
        )
    return "; ".join(reasons)
