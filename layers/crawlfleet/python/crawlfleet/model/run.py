"""What a job took: what each of its workers has measured, and the run's record (SPEC.md B3, B10).

A run is a job on its workers. What counts for placing it is what it takes of one of them, so an
average goes over the seconds of all workers, and a maximum is the highest of one.
"""

from datetime import datetime, timedelta
from typing import Final

import msgspec

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
