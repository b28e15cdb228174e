"""Jobs with their ledger and progress, and the usage that was measured of their runs."""

from datetime import datetime
from typing import Final

import msgspec

from crawlfleet.wire import Page

#: States of a job that has ended; only in ``done`` were all of its tasks tried.
ENDED: Final = frozenset({"done", "cancelled", "unplaced"})


class JobLedger(msgspec.Struct, frozen=True, kw_only=True):
    """The states of a job's tasks: ``submitted`` is the sum of the others."""

    submitted: int = 0
    pending: int = 0
    leased: int = 0
    waiting: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0
    expired: int = 0
    others: int = 0


class JobProgress(msgspec.Struct, frozen=True, kw_only=True):
    """``ended`` of ``tasks``, those its pages led to among them; shares are from 0 to 1.

    ``per_second`` is since the job began, ``ends_at`` when it will have ended at that rate; null
    where that is not known.
    """

    tasks: int = 0
    expanded_share: float = 0.0
    ended: int = 0
    ended_share: float = 0.0
    per_second: float | None = None
    ends_at: datetime | None = None


class JobSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A job: one run of a spider, a schedule or a list of URLs.

    ``state`` is placing, expanding, running, cancelling, done, cancelled or unplaced. ``size`` is
    how many tasks it has; ``expanded`` so many of them are made, of which ``refused`` have a URL
    that may not be asked for. ``counts`` are its tasks by their end, once it has ended; ``trouble``
    is why it does not go on. Where jobs are placed by bidding, ``worker`` has won it at
    ``placed_at``, its demand ``lowered`` so often until one did; ``pool`` is then the winner's,
    null for the usual one.
    """

    name: str
    state: str
    by: str = ""
    rule: str
    rule_version: str = ""
    spider: str | None = None
    spider_version: int | None = None
    schedule: str | None = None
    fire_at: datetime | None = None
    values: dict[str, str] = {}
    priority: int = 5
    pool: str | None = None
    worker: str | None = None
    placed_at: datetime | None = None
    lowered: int = 0
    size: int
    expanded: int = 0
    refused: int = 0
    created_at: datetime
    expanded_at: datetime | None = None
    cancelled_at: datetime | None = None
    ended_at: datetime | None = None
    counts: dict[str, int] = {}
    trouble: str | None = None

    @property
    def id(self) -> str:
        """Its name, which is what it is known by."""
        return self.name

    @property
    def ended(self) -> bool:
        """Tell whether nothing more will happen to it."""
        return self.state in ENDED


class Job(JobSummary, frozen=True, kw_only=True):
    """A job with its ledger and its progress, which lists leave out.

    ``pattern`` makes its URLs where they are no list.
    """

    pattern: str | None = None
    refusals: tuple[str, ...] = ()
    ledger: JobLedger | None = None
    progress: JobProgress | None = None


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of one resource: the average over the run, and the maximum."""

    average: float = 0.0
    maximum: float = 0.0


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of a worker's resources.

    ``memory`` is bytes, ``cpu`` the index (GHz times cores times the part of them that is used),
    ``bandwidth`` bytes a second.
    """

    memory: Amount = Amount()
    cpu: Amount = Amount()
    bandwidth: Amount = Amount()


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """The demand of a spider's jobs: an average of all ``runs``, the maxima of the latest 20."""

    spider: str
    runs: int = 0
    measured_at: datetime | None = None
    usage: Usage = Usage()

    @property
    def id(self) -> str:
        """The spider, which tells it from the others of its biz."""
        return self.spider


class DemandsPage(Page, frozen=True):
    """A page of demands, by the spider's name; ``cursor`` is where to go on."""

    demands: tuple[Demand, ...]


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The run of a job; while it goes on ``ended_at`` is null, and all of it up to now.

    ``usage`` is that of each worker, ``seconds`` the time of all ``workers`` together in which
    tasks of it were under way. ``requests`` counts attempts, ``errors`` those that failed,
    ``counts`` its tasks by how they ended. ``learnt_at`` is when it became part of its spider's
    demand; of a run that was cancelled, or not measured, it stays null.
    """

    job: str
    spider: str | None = None
    usage: Usage = Usage()
    seconds: float = 0.0
    workers: int = 0
    requests: int = 0
    records: int = 0
    errors: int = 0
    bytes: int = 0
    counts: dict[str, int] = {}
    started_at: datetime | None = None
    ended_at: datetime | None = None
    learnt_at: datetime | None = None
