"""From what workers have measured of a job to what its run took (SPEC.md B10)."""

from collections.abc import Iterable
from datetime import datetime

from crawlfleet.model.run import RunFigures, RunRecord
from crawlfleet.model.usage import Usage


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
