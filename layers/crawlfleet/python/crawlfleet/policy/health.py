"""Which figures of a node are beyond the stage's thresholds (SPEC.md A11)."""

from crawlfleet.model.biz import Thresholds
from crawlfleet.model.totals import NodeHealth


def breaches(look: NodeHealth, thresholds: Thresholds) -> list[str]:
    """A sentence for each figure that is too high; none for a figure that is missing."""
    limits = {
        "StorageBytes": float(thresholds.storage_bytes),
        "MemoryRatio": thresholds.memory_ratio,
        "SlowOperations": float(thresholds.slow_operations),
    }
    return [
        f"{name} is {look.figures[name]:g}, more than {limit:g}"
        for name, limit in limits.items()
        if look.figures.get(name, 0.0) > limit
    ]
