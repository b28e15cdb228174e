"""What a spider's runs are known to take (SPEC.md B3).

An average is that of all runs, each counting as one: what one run had no reading of, it does not
move. A maximum stays a maximum, where the sources' own text averages it too: the average of maxima
would promise a worker less than every other run takes. But it is that of the latest runs only
(:data:`PEAKS`), so that a spider whose one page once took all memory is not kept from every worker
for ever.

From what workers have measured of a job to what its run took (SPEC.md B10).

What a job took: what each of its workers has measured, and the run's record (SPEC.md B3, B10).

A run is a job on its workers. What counts for placing it is what it takes of one of them, so an
average goes over the seconds of all workers, and a maximum is the highest of one.

What a run takes of a worker (SPEC.md B2, B3, B10), and what a worker has left of it (B4).

The CPU index is SPEC.md's: frequency in GHz times cores times how much of them is used; what is
left of a worker's is the same of what is not used.
"""

import math
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Of one run, or of many: how much it takes, on average over its time and at its highest.

    Memory in bytes, bandwidth in bytes a second, CPU as the index. Nothing is below 0.
    """

    memory: float = 0.0
    memory_max: float = 0.0
    cpu: float = 0.0
    cpu_max: float = 0.0
    bandwidth: float = 0.0
    bandwidth_max: float = 0.0


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """The highest that one run took of each resource."""

    memory: float = 0.0
    cpu: float = 0.0
    bandwidth: float = 0.0


class JobDemand(msgspec.Struct, frozen=True, kw_only=True):
    """What the runs of a spider have taken so far: ``usage`` is their average, weighted by runs.

    The maxima are those of the latest runs, whose ``peaks`` are kept for that, the newest last
    (jobs.usage). ``runs`` 0 is a spider that never ran, whose demand is nothing: only latency
    and speed decide about it. ``spider`` is what is learnt for: a kept spider's name, or that of a
    rule whose jobs have none.
    """

    tenant: str
    biz: str
    spider: str
    runs: int = 0
    usage: Usage = Usage()
    peaks: tuple[Peak, ...] = ()
    measured_at: datetime | None = None


#: A run's maxima count until so many others have come after it.
PEAKS: Final = 20


def learn(demand: JobDemand, run: Usage) -> JobDemand:
    """The demand with one run more; when that was measured is for the caller to note.

    Whatever a reading says, no figure gets below 0, or anything else than a number.
    """
    known, runs = demand.usage, max(0, demand.runs)
    peak = Peak(
        memory=max(_sound(run.memory_max, 0.0), _sound(run.memory, 0.0)),
        cpu=max(_sound(run.cpu_max, 0.0), _sound(run.cpu, 0.0)),
        bandwidth=max(_sound(run.bandwidth_max, 0.0), _sound(run.bandwidth, 0.0)),
    )
    peaks = (*demand.peaks, peak)[-PEAKS:]
    memory = _average(known.memory, runs, run.memory)
    cpu = _average(known.cpu, runs, run.cpu)
    bandwidth = _average(known.bandwidth, runs, run.bandwidth)
    usage = Usage(
        memory=memory,
        cpu=cpu,
        bandwidth=bandwidth,
        # Where the great ones were long ago the average may be above all the latest maxima.
        memory_max=max(memory, *(one.memory for one in peaks)),
        cpu_max=max(cpu, *(one.cpu for one in peaks)),
        bandwidth_max=max(bandwidth, *(one.bandwidth for one in peaks)),
    )
    return replace(demand, runs=runs + 1, usage=usage, peaks=peaks)


def _average(known: float, runs: int, value: float) -> float:
    before = _sound(known, 0.0)
    run = _sound(value, before)
    if runs == 0:
        return run
    found = before + (run - before) / (runs + 1)
    return min(max(found, min(before, run)), max(before, run))  # whatever rounding does


def _sound(value: float, otherwise: float) -> float:
    """A reading that is one: a number, not below 0."""
    return float(value) if math.isfinite(value) and value >= 0 else otherwise


#: What runs took is kept so long after they ended, as are the ledgers of their jobs.
RUN_LIFE: Final = timedelta(days=30)


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Sums and maxima of one worker's part of a run, or of several parts together.

    Attributes:
        seconds: Time in which some of its tasks were under way, of all workers together.
        memory_seconds: Bytes times those seconds; ``memory_max`` in bytes.
        cpu_seconds: The CPU index times those seconds; ``cpu_max`` is the index.
        bytes: Downloaded, as they travelled; ``bandwidth_max`` of one second.
        requests: Attempts at its tasks. ``errors`` are those that failed.
        records: What it yielded.
        workers: How many took part, each invocation of one by itself.
    """

    seconds: float = 0.0
    memory_seconds: float = 0.0
    memory_max: float = 0.0
    cpu_seconds: float = 0.0
    cpu_max: float = 0.0
    bytes: int = 0
    bandwidth_max: float = 0.0
    requests: int = 0
    records: int = 0
    errors: int = 0
    workers: int = 0
    began_at: datetime | None = None
    ended_at: datetime | None = None


class RunPart(msgspec.Struct, frozen=True, kw_only=True):
    """What one worker has measured of a job up to now; it takes the place of what it said before.

    ``part`` is the worker's name and a number: one that had forgotten a job and meets it again
    begins with nothing, in another part.
    """

    tenant: str
    biz: str
    job: str
    part: str
    figures: RunFigures


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A run, kept for a month.

    Attributes:
        spider: Whose demand it tells of (``JobDemand.spider``); empty while it goes on.
        figures: What it took: of a run that goes on, up to now.
        counts: Its tasks by how they ended.
        is_whole: It came to its own end; from one that was cancelled nothing is learnt.
        ended_at: When its job ended; None while it goes on.
        learnt_at: When what it took became part of the demand; None where it has not, or never
            will as nothing was measured, or it was cancelled.
        retries: The job's, when this end of it was written down.
        closed: Nothing will change any more, unless the job's dead letters are retried.
    """

    tenant: str
    biz: str
    job: str
    spider: str = ""
    figures: RunFigures = RunFigures()
    counts: dict[str, int] = {}
    is_whole: bool = True
    started_at: datetime | None = None
    ended_at: datetime | None = None
    learnt_at: datetime | None = None
    retries: int = 0
    closed: bool = False


def together(parts: Iterable[RunFigures]) -> RunFigures:
    """Several parts as one: sums are added, maxima stay maxima, from the first to the last moment.

    >>> two = together([RunFigures(seconds=1, bytes=5, cpu_max=2.0), RunFigures(bytes=6)])
    >>> two.seconds, two.bytes, two.cpu_max
    (1.0, 11, 2.0)
    """
    found = tuple(parts)
    return RunFigures(
        seconds=sum((one.seconds for one in found), 0.0),
        memory_seconds=sum((one.memory_seconds for one in found), 0.0),
        memory_max=max((one.memory_max for one in found), default=0.0),
        cpu_seconds=sum((one.cpu_seconds for one in found), 0.0),
        cpu_max=max((one.cpu_max for one in found), default=0.0),
        bytes=sum(one.bytes for one in found),
        bandwidth_max=max((one.bandwidth_max for one in found), default=0.0),
        requests=sum(one.requests for one in found),
        records=sum(one.records for one in found),
        errors=sum(one.errors for one in found),
        workers=sum(one.workers for one in found),
        began_at=_first(one.began_at for one in found),
        ended_at=_last(one.ended_at for one in found),
    )


def was_closed(run: RunRecord) -> bool:
    """Whether there is an end of it already that has its figures, before the one written down."""
    return run.learnt_at is not None or run.figures != RunFigures()


def usage_of(figures: RunFigures) -> Usage:
    """What a run takes of a worker: on average while it is there, and at its highest.

    A second is the shortest time that is looked at: what is over sooner has not taken a worker's
    whole processor for good.

    >>> usage_of(RunFigures(seconds=10, memory_seconds=500, memory_max=90, bytes=20)).memory
    50.0
    """
    seconds = max(1.0, figures.seconds)
    memory = figures.memory_seconds / seconds
    cpu = figures.cpu_seconds / seconds
    bandwidth = figures.bytes / seconds
    return Usage(
        memory=memory,
        memory_max=max(memory, figures.memory_max),
        cpu=cpu,
        cpu_max=max(cpu, figures.cpu_max),
        bandwidth=bandwidth,
        bandwidth_max=max(bandwidth, figures.bandwidth_max),
    )


def _first(moments: Iterable[datetime | None]) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


def _last(moments: Iterable[datetime | None]) -> datetime | None:
    return max((moment for moment in moments if moment is not None), default=None)
