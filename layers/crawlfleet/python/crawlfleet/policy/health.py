"""What is not as it should be: figures of a node, and bizs that are late (SPEC.md A11, H4)."""

from crawlfleet.model.biz import Thresholds
from crawlfleet.model.totals import NodeHealth


def breaches(look: NodeHealth, thresholds: Thresholds) -> list[str]:
    """A sentence for each figure that is too high; none for a figure that is missing."""
    limits = {
        "StorageBytes": float(thresholds.storage_bytes),
        "MemoryRatio": thresholds.memory_ratio,
        "SlowOperations": float(thresholds.slow_operations),
        "MembersUnwell": 0.0,
    }
    return [
        f"{name} is {look.figures[name]:g}, more than {limit:g}"
        for name, limit in limits.items()
        if look.figures.get(name, 0.0) > limit
    ]


def is_late(
    *,
    oldest_seconds: float,
    longest_seconds: float,
    queued: int,
    per_second: float,
    planned_seconds: float | None,
) -> bool:
    """Whether a biz's backlog is older than the stage bears, or will outlast the biz's plan.

    Args:
        oldest_seconds: Age of what is served next.
        longest_seconds: The age that the stage bears.
        queued: Requests waiting.
        per_second: The present rate of processing. Without one there is no forecast, and the
            backlog is late once its oldest has waited for as long as the whole was planned.
        planned_seconds: The time in which the biz wants a backlog finished; None for no wish.
    """
    if oldest_seconds > longest_seconds:
        return True
    if planned_seconds is None or not queued:
        return False
    forecast = queued / per_second if per_second else oldest_seconds
    return forecast > planned_seconds
