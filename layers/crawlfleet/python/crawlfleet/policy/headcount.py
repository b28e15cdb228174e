"""How many workers are how (SPEC.md C5, C6)."""

from collections import Counter
from collections.abc import Iterable

from crawlfleet.model.biz import DetectorLimits
from crawlfleet.model.sample import WorkersSample
from crawlfleet.model.staff import Staff
from crawlfleet.model.worker import Health, Pulse
from crawlfleet.policy.liveness import status


def headcount(
    pulses: Iterable[Pulse], limits: DetectorLimits, *, present: int = 0, staff: Staff | None = None
) -> WorkersSample:
    """The workers by what the failure detector makes of them.

    >>> headcount([Pulse(worker="w", silent_ms=100)], DetectorLimits()).alive
    1
    """
    verdicts = Counter(status(pulse, limits).health for pulse in pulses)
    return WorkersSample(
        alive=verdicts[Health.ALIVE],
        suspected=verdicts[Health.SUSPECTED],
        dead=verdicts[Health.DEAD],
        unwatched=verdicts[Health.UNWATCHED],
        present=present,
        wanted=None if staff is None else staff.needed,
        allowed=None if staff is None else staff.allowed,
    )
