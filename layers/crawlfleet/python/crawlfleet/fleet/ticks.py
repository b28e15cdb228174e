"""Report the scheduler's ticks and their faults, by part (SPEC.md B1, B13).

A tick goes on where a part of it fails, and a part where a schedule or a biz of it does. So that
this is not only in a log, each warning of a part counts as a fault of it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from crawlfleet.fleet.models import TickPart
from crawlfleet.fleet.redis.scheduler import RedisTicks
from crawlfleet.kernel import metric_names
from crawlfleet.kernel.errors import BacklogFullError, LimitRefusedError, StoreUnavailableError
from crawlfleet.kernel.log import counted, warn
from crawlfleet.kernel.metrics import Metric, MetricSink

#: Where there is no more room, or the account has no more to give, the tick has done its work.
_NO_FAULTS: Final = (BacklogFullError, LimitRefusedError)


class Faults:
    """Count the faults of a tick by part: each warning that its thread gives meanwhile is one."""

    def __init__(self) -> None:
        self.counts: Counter[TickPart] = Counter()

    def begin(self) -> None:
        """Begin another tick."""
        self.counts = Counter()

    @contextmanager
    def within(self, part: TickPart, otherwise: str) -> Iterator[None]:
        """Do a part in the block; warn of ``otherwise`` where it fails as a whole."""

        def count(error: Exception) -> None:
            if not isinstance(error, _NO_FAULTS):
                self.counts[part] += 1

        with counted(count):
            try:
                yield
            except Exception as error:  # noqa: BLE001  the other parts must go on
                warn(otherwise, error)


@dataclass(frozen=True, slots=True, kw_only=True)
class TickReports:
    """Report ticks to Redis, where others read them, and by metrics, which need no Redis."""

    ticks: RedisTicks
    metrics: MetricSink

    def report_fault(self, part: TickPart, what: str, now: datetime) -> None:
        """Report a fault of a part between ticks; its metric needs no Redis.

        ``what`` is a word for it, the same whenever it is reported again.
        """
        self.metrics.put([Metric(metric_names.TICK_FAULTS, 1)], {}, now)
        try:
            self.ticks.report_fault(part, what)
        except StoreUnavailableError as error:
            warn("nobody hears of this fault but by its metric", error)

    def report_waiting(self, events: int, now: datetime) -> None:
        """Report how many events a tick could not start yet; its metric has an alarm."""
        self.metrics.put([Metric(metric_names.STARTS_WAITING, events)], {}, now)

    def report(self, faults: Mapping[TickPart, int], took_seconds: float, now: datetime) -> None:
        """Report a tick that has ended."""
        failed = Metric(metric_names.TICK_FAULTS, sum(faults.values()))
        self.metrics.put([Metric(metric_names.TICKS, 1), failed], {}, now)
        try:
            self.ticks.note(took_seconds, faults)
        except StoreUnavailableError as error:
            warn("nobody hears of this tick but by its metrics", error)
