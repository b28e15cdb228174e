"""The account of a worker by biz and day, and its time, shared by what was under way (SPEC.md H2).

A worker is paid for from its start to its end, whatever it does. Each second is shared equally by
the attempts that are under way in it. What passes with none, as where a polite crawl waits for its
host, is paid by the next one that begins; the rest at the end by whose attempt was last.
"""

from collections.abc import Callable
from datetime import UTC, date

from msgspec.structs import replace

from crawlfleet.jobs.models import RunFigures, RunPart, day_name
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import Clock

#: So often an account that changes is reported.
REPORT_SECONDS = 15.0
#: One that did not change for so long, and is reported, is forgotten: another one is begun then.
FORGET_SECONDS = 60.0


class SharedTime:
    """Shares a worker's time between its attempts; all of it together is what has passed."""

    def __init__(self, now: float) -> None:
        self._at = now
        self._running = 0
        # What each attempt would have had that is under way since the worker's start.
        self._each = 0.0
        self._gap = 0.0

    def began(self, now: float) -> float:
        """Note that an attempt begins; return its mark for :meth:`ended`."""
        self._move_on(now)
        gap, self._gap = self._gap, 0.0
        self._running += 1
        return self._each - gap

    def idle(self, now: float) -> float:
        """Return the seconds of nobody that an attempt has in its part which begins now."""
        self._move_on(now)
        return self._gap

    def had(self, mark: float, now: float) -> float:
        """Return the seconds that an attempt has had, which is under way."""
        self._move_on(now)
        return self._each - mark

    def ended(self, mark: float, now: float) -> float:
        """Return the seconds that the attempt had, which has ended."""
        self._move_on(now)
        self._running -= 1
        return self._each - mark

    def rest(self, now: float) -> float:
        """Return the seconds of nobody since the last attempt ended; they are asked for once."""
        self._move_on(now)
        gap, self._gap = self._gap, 0.0
        return gap

    def _move_on(self, now: float) -> None:
        passed, self._at = max(0.0, now - self._at), max(now, self._at)
        if self._running:
            self._each += passed / self._running
        else:
            self._gap += passed


class _Day:
    """The account of a biz in one day."""

    __slots__ = ("changed_at", "figures", "number", "told_at", "unreported")

    def __init__(self, number: int, now: float) -> None:
        self.number = number
        self.figures = RunFigures(workers=1)
        self.told_at = self.changed_at = now
        self.unreported = False


class DayAccounts:
    """The accounts of one worker. Used from its event loop."""

    def __init__(self, worker: str, clock: Clock, steady: Callable[[], float]) -> None:
        self._worker, self._clock, self._steady = worker, clock, steady
        self._days: dict[tuple[str, str, date], _Day] = {}
        self._number = 0

    def add(self, queue_key: QueueKey, more: RunFigures) -> None:
        """Book what an attempt has taken on the day that it ends."""
        now = self._steady()
        key = queue_key.tenant, queue_key.biz, self._clock().astimezone(UTC).date()
        day = self._days.get(key)
        if day is None:
            self._number += 1
            day = self._days[key] = _Day(self._number, now)
        day.figures = added(day.figures, more)
        day.changed_at, day.unreported = now, True

    def take(self, *, last: bool) -> list[RunPart]:
        """Return the accounts that are to be reported now."""
        now, found = self._steady(), []
        for key, day in list(self._days.items()):
            if day.unreported and (last or now - day.told_at >= REPORT_SECONDS):
                day.unreported, day.told_at = False, now
                tenant, biz, date_of = key
                found.append(
                    RunPart(
                        tenant=tenant,
                        biz=biz,
                        job=day_name(date_of),
                        part=f"{self._worker}.d{day.number}",
                        figures=day.figures,
                    )
                )
            elif not day.unreported and now - day.changed_at >= FORGET_SECONDS:
                del self._days[key]
        return found

    def keep(self, part: RunPart) -> None:
        """Keep an account that could not be reported, for the next call."""
        for (tenant, biz, date_of), day in self._days.items():
            if (tenant, biz, day_name(date_of)) == (part.tenant, part.biz, part.job):
                day.unreported = True


def added(known: RunFigures, more: RunFigures) -> RunFigures:
    """Add what one attempt has taken and is paid for.

    >>> added(RunFigures(requests=1, workers=1), RunFigures(requests=1, bytes=9)).requests
    2
    """
    return replace(
        known,
        gb_seconds=known.gb_seconds + more.gb_seconds,
        bytes=known.bytes + more.bytes,
        proxied_bytes=known.proxied_bytes + more.proxied_bytes,
        proxy_usd=known.proxy_usd + more.proxy_usd,
        stored_bytes=known.stored_bytes + more.stored_bytes,
        requests=known.requests + more.requests,
        records=known.records + more.records,
        errors=known.errors + more.errors,
    )
