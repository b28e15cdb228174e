"""The usage of jobs on this worker, measured while it works (SPEC.md B10).

The process is read about once a second while tasks of jobs are under way, and not at all otherwise.
What it has taken since the last reading is shared out between whatever was under way: memory by how
long each job's downloads were, CPU half by that and half by the bytes that each got, as it is pages
that are parsed. Requests without a job get their share as well, so that jobs do not pay for them.

What is paid for, of each job and of each biz by the day, is in the accounts of ``day_accounts``.

Memory is what is resident above the least that this process was seen with while nothing ran. What a
page took is booked over the seconds that it came in, so that a large one at the end of a slow
download is no burst.
"""

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from crawlfleet.crawling.politeness.client import Waiting
from crawlfleet.fleet.prices import Measured
from crawlfleet.fleet.quotas.money import DEFAULT_GB
from crawlfleet.fleet.resources import MachineReadings
from crawlfleet.jobs.models import RunFigures, RunPart
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import Clock, from_ms, to_ms
from crawlfleet.requests.leased import Bill
from crawlfleet.requests.models import Record
from crawlfleet.requests.outcomes import Done, Outcome
from crawlfleet.worker.day_accounts import DayAccounts, SharedTime, added

#: Between two readings, unless all that ran has ended.
READ_SECONDS: Final = 1.0
#: So often the usage of a job that goes on is reported.
REPORT_SECONDS: Final = 15.0
#: A job of which nothing is under way for so long is reported at once, and is forgotten after this.
QUIET_SECONDS: Final = 1.0
FORGET_SECONDS: Final = 60.0
#: Jobs that are measured at once.
MOST_RUNS: Final = 200
#: A record of which only the count is known.
_RECORD_BYTES: Final = 500
_GB: Final = 1e9
#: A download is spread over so many seconds at most.
_LONGEST_SECONDS: Final = 60

_Key: TypeAlias = tuple[str, str, str]


class Idle:
    """The least memory that the process was seen with while nothing ran; kept with the process."""

    def __init__(self) -> None:
        self.memory_bytes: int | None = None

    def seen(self, memory_bytes: int) -> None:
        """Note what it had while nothing ran."""
        if memory_bytes > 0 and (self.memory_bytes is None or memory_bytes < self.memory_bytes):
            self.memory_bytes = memory_bytes


class _Run:
    """The usage of a job on this worker, or of all requests without a job.

    Of ``running`` tasks the last one ended at ``quiet_since``. Since the last reading ``spent`` are
    the seconds of downloads, of all together, ``active`` those with any, ``moved`` the bytes.
    ``slots`` are bytes by the second that they came in; of what is too long ago the most.
    """

    def __init__(self, number: int, now: float) -> None:
        self.number = number
        self.running = 0
        self.quiet_since = self.told_at = self._at = now
        self.spent = self.active = 0.0
        self.moved = 0
        self.slots: dict[int, float] = defaultdict(float)
        self.slot_max = 0.0
        self.figures = RunFigures(workers=1)
        self.unreported = False

    def move_on(self, now: float, change: int = 0) -> None:
        """Book the time since this was called last; from now on so many more are under way."""
        passed, self._at = max(0.0, now - self._at), now
        if self.running:
            self.spent += self.running * passed
            self.active += passed
        self.running += change

    def clear(self, now: float) -> None:
        """Begin another reading."""
        self._at = now
        self.spent = self.active = 0.0
        self.moved = 0

    def book(self, memory: float, cpu: float, seconds: float, now: float) -> None:
        """Add its share of a reading: bytes, and the index times seconds, of so many seconds."""
        known = self.figures
        self.figures = replace(
            known,
            seconds=known.seconds + self.active,
            memory_seconds=known.memory_seconds + memory * self.active,
            memory_max=max(known.memory_max, memory),
            cpu_seconds=known.cpu_seconds + cpu,
            cpu_max=max(known.cpu_max, cpu / seconds),
            bytes=known.bytes + self.moved,
        )
        self.unreported = True
        for second in [one for one in self.slots if one <= now - 2 * _LONGEST_SECONDS]:
            self.slot_max = max(self.slot_max, self.slots.pop(second))


class UsageMeter:
    """Measures the jobs of one worker. Used from its event loop only.

    What is beyond ``most`` jobs at once counts as requests without a job. What attempts with a bill
    have taken is ``priced`` at once, as it is when costs are asked for.
    """

    def __init__(
        self,
        readings: MachineReadings,
        worker: str,
        clock: Clock,
        idle: Idle,
        steady: Callable[[], float] = time.monotonic,
        most: int = MOST_RUNS,
        gb: float = DEFAULT_GB,
        priced: Callable[[Measured], float] = lambda _: 0.0,
    ) -> None:
        self._priced = priced
        self._readings, self._idle, self._worker = readings, idle, worker
        self._clock, self._steady = clock, steady
        self._most = most
        self._runs: dict[_Key, _Run] = {}
        self._others = _Run(0, steady())
        self._numbers = 0
        #: Tasks of jobs under way: without any nothing is read.
        self._measured = 0
        #: When the process was read last; None while nothing is measured.
        self._read_at: float | None = None
        self._cpu = 0.0
        self._ghz = 0.0
        self._gb = gb
        self._time = SharedTime(steady())
        self._days = DayAccounts(worker, clock, steady)
        # Whose attempt was last: what is left of the worker's time is its own.
        self._latest: tuple[QueueKey, _Run] | None = None
        idle.seen(readings.taken().memory_bytes)

    async def during(
        self,
        queue_key: QueueKey,
        job: str | None,
        attempt: Awaitable[Outcome | Waiting],
        bill: Bill | None = None,
    ) -> Outcome | Waiting:
        """Make the attempt, and measure it."""
        idle = 0.0 if bill is None else self._time.idle(self._steady())
        run, mark = self._begin(queue_key, job), self._time.began(self._steady())
        end: Outcome | Waiting | None = None
        if bill is not None:
            bill.so_far = lambda: self._usd(self._time.had(mark, self._steady()) - idle)
        try:
            end = await attempt
            return end
        finally:
            self._end(run, end)
            seconds = self._time.ended(mark, self._steady())
            taken = _taken(end, seconds * self._gb)
            self._pay(queue_key, run, taken)
            if bill is not None:
                bill.idle_usd, bill.so_far = self._usd(idle), None
                bill.usd += self._priced(taken) - bill.idle_usd

    def _usd(self, seconds: float) -> float:
        return self._priced(Measured(gb_seconds=seconds * self._gb)) if seconds else 0.0

    def arrived(
        self,
        queue_key: QueueKey,
        job: str | None,
        page: Page,
        usd_per_gb: float | None = None,
        bill: Bill | None = None,
    ) -> None:
        """Note that the page of an attempt has come; through a proxy where there is a price."""
        count, now = travelled(page), self._steady()
        key = queue_key.tenant, queue_key.biz, job or ""  # no job has an empty name
        run = self._runs.get(key, self._others)
        paid = RunFigures(bytes=count)
        if usd_per_gb is not None:
            paid = RunFigures(bytes=count, proxied_bytes=count, proxy_usd=count / _GB * usd_per_gb)
            if run is not self._others:
                run.figures = added(run.figures, replace(paid, bytes=0))
        self._days.add(queue_key, paid)
        if bill is not None:
            bill.usd += self._priced(paid)
        if self._read_at is None:
            return
        run.moved += count
        if run is not self._others:
            last = int(now)
            first = max(int(now - max(0.0, page.seconds)), last - _LONGEST_SECONDS + 1)
            for second in range(first, last + 1):
                run.slots[second] += count / (last - first + 1)

    def tick(self) -> None:
        """Read the process, where it is time to. To be called twice a second or so."""
        if self._read_at is not None:
            now = self._steady()
            if now - self._read_at >= READ_SECONDS or not self._measured:
                self._share_out(now, self._read_at)

    def take(self, *, last: bool = False) -> list[RunPart]:
        """Return what is to be reported now; in the ``last`` call all that was not reported yet."""
        now = self._steady()
        if last and self._latest is not None and (rest := self._time.rest(now)):
            self._pay(*self._latest, RunFigures(gb_seconds=rest * self._gb))
        found = self._days.take(last=last)
        if not self._runs:
            return found
        if last and self._read_at is not None:
            self._share_out(now, self._read_at)
        for key, run in list(self._runs.items()):
            quiet = 0.0 if run.running else now - run.quiet_since
            due = quiet >= QUIET_SECONDS or now - run.told_at >= REPORT_SECONDS
            if run.unreported and (last or due):
                run.unreported, run.told_at = False, now
                found.append(self._part(key, run))
            elif not run.unreported and quiet >= FORGET_SECONDS:
                del self._runs[key]
        return found

    def keep(self, parts: Iterable[RunPart]) -> None:
        """Keep parts that could not be reported, for the next call."""
        for part in parts:
            run = self._runs.get((part.tenant, part.biz, part.job))
            if run is not None:
                run.unreported = True
            else:
                self._days.keep(part)

    def _pay(self, queue_key: QueueKey, run: _Run, paid: RunFigures) -> None:
        """Book what is paid for; attempts, records and faults of a job are counted already."""
        self._days.add(queue_key, paid)
        self._latest = queue_key, run
        if run is not self._others:
            run.figures = added(run.figures, replace(paid, requests=0, records=0, errors=0))
            run.unreported = True

    def _begin(self, queue_key: QueueKey, job: str | None) -> _Run:
        now = self._steady()
        key = queue_key.tenant, queue_key.biz, job or ""
        run = self._others if job is None else self._run(key, now)
        if run is not self._others:
            if self._read_at is None:
                self._open(now)
            self._measured += 1
            if run.figures.began_at is None:
                run.figures = replace(run.figures, began_at=from_ms(to_ms(self._clock())))
        run.move_on(now, 1)
        return run

    def _end(self, run: _Run, end: Outcome | Waiting | None) -> None:
        now = self._steady()
        run.move_on(now, -1)
        run.quiet_since = now
        if run is self._others:
            return
        self._measured -= 1
        run.unreported = True
        known = replace(run.figures, ended_at=from_ms(to_ms(self._clock())))
        if end is not None and not isinstance(end, Waiting):
            found = len(end.records) + end.stored if isinstance(end, Done) else 0
            requests, records = known.requests + 1, known.records + found
            errors = known.errors + (not isinstance(end, Done))
            known = replace(known, requests=requests, records=records, errors=errors)
        run.figures = known

    def _run(self, key: _Key, now: float) -> _Run:
        run = self._runs.get(key)
        if run is None and (len(self._runs) < self._most or self._forget_one()):
            self._numbers += 1
            run = self._runs[key] = _Run(self._numbers, now)
        return self._others if run is None else run

    def _forget_one(self) -> bool:
        """Make room, where a job is quiet and all of it reported."""
        quiet = (key for key, run in self._runs.items() if not run.running and not run.unreported)
        key = next(quiet, None)
        return key is not None and self._runs.pop(key) is not None

    def _open(self, now: float) -> None:
        """Open a reading: the first task of any job after a while has begun."""
        taken = self._readings.taken()
        if not self._others.running:
            self._idle.seen(taken.memory_bytes)
        self._read_at, self._cpu = now, taken.cpu_seconds
        self._ghz = self._ghz or self._readings.ghz()
        self._others.clear(now)

    def _share_out(self, now: float, since: float) -> None:
        runs = (*self._runs.values(), self._others)
        for run in runs:
            run.move_on(now)
        taken = self._readings.taken()
        cpu = max(0.0, taken.cpu_seconds - self._cpu) * self._ghz
        memory = max(0.0, float(taken.memory_bytes - (self._idle.memory_bytes or 0)))
        spent, moved = sum(run.spent for run in runs), sum(run.moved for run in runs)
        # What is over in less than a second has not had the processor for one.
        seconds = max(now - since, READ_SECONDS)
        for run in runs:
            if run is not self._others and (run.spent or run.moved):
                by_time = run.spent / spent if spent else 0.0
                by_bytes = run.moved / moved if moved else by_time
                run.book(memory * by_time, cpu * (by_time + by_bytes) / 2, seconds, now)
            run.clear(now)
        self._cpu = taken.cpu_seconds
        self._read_at = now if self._measured else None

    def _part(self, key: _Key, run: _Run) -> RunPart:
        tenant, biz, job = key
        most = max((run.slot_max, *run.slots.values()))
        part, figures = f"{self._worker}.{run.number}", replace(run.figures, bandwidth_max=most)
        return RunPart(tenant=tenant, biz=biz, job=job, part=part, figures=figures)


def _taken(end: Outcome | Waiting | None, gb_seconds: float) -> RunFigures:
    """Compute what an attempt is paid for; one that waits, or was given up, is no request."""
    if end is None or isinstance(end, Waiting):
        return RunFigures(gb_seconds=gb_seconds)
    if not isinstance(end, Done):
        return RunFigures(gb_seconds=gb_seconds, requests=1, errors=1)
    size = sum(map(_size, end.records))
    if end.stored:
        size += round(end.stored * (size / len(end.records) if end.records else _RECORD_BYTES))
    count = len(end.records) + end.stored
    return RunFigures(gb_seconds=gb_seconds, requests=1, records=count, stored_bytes=size)


def _size(record: Record) -> int:
    try:
        return len(msgspec.json.encode(record.fields, enc_hook=str))
    except (TypeError, ValueError, RecursionError):  # what no JSON can be
        return _RECORD_BYTES


def travelled(page: Page) -> int:
    """Estimate the bytes of a page's body on its way here.

    >>> travelled(Page(url="", status=200, body=b"x" * 9, headers={}))
    9
    """
    if page.headers.get("content-encoding", "identity") == "identity":
        return len(page.body)
    # It was decoded; what it was before the site may have said.
    said = page.headers.get("content-length", "")
    is_count = said.isascii() and said.isdigit() and len(said) < 16
    return int(said) if is_count else len(page.body)
