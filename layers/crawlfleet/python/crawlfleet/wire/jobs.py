"""Jobs with their ledger and progress, and the usage that was measured of their runs."""

from datetime import datetime
from typing import Final

import msgspec

from crawlfleet.wire import Page
from crawlfleet.wire.costs import Cost, Forecast, Took
from crawlfleet.wire.quotas import OwnQuota
from crawlfleet.wire.rules import FieldCoverage

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

    It is one, too, where clients submit under its name: ``by`` is then ``submission``, and it has
    no rule. ``state`` is placing, expanding, running, cancelling, done, cancelled or unplaced.
    ``size`` is how many tasks it has; ``expanded`` so many of them are made, of which ``refused``
    have a URL that may not be asked for. A page that its links lead to is read once a ``segment``;
    so many ``known_links`` were not followed, as others had read their pages in the segment
    ``known_in``. ``counts`` are its tasks that have ended, by how, and ``open`` the others that are
    made, as they were ``counted_at``: while it goes on that is the moment of the answer, afterwards
    its end; null where nobody counted. ``trouble`` is why it does not go on. Where jobs are placed
    by bidding, ``worker`` has won it at ``placed_at``, its demand ``lowered`` so often until one
    did; ``pool`` is then the winner's, null for the usual one. It is for the ``user``, and uses no
    more than its ``quotas`` say.
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
    segment: str | None = None
    user: str | None = None
    quotas: tuple[OwnQuota, ...] = ()
    known_links: int = 0
    known_in: str | None = None
    counts: dict[str, int] = {}
    open: int | None = None
    counted_at: datetime | None = None
    trouble: str | None = None

    @property
    def id(self) -> str:
        """Its name, which is what it is known by."""
        return self.name

    @property
    def ended(self) -> bool:
        """Tell whether nothing more will happen to it."""
        return self.state in ENDED


class OwnLink(msgspec.Struct, frozen=True, kw_only=True):
    """The link to its site that a job needs: ``seconds_below`` to the first byte of ``test_url``.

    Null is no limit; without a ``test_url`` the first URL of the job is asked for.
    """

    test_url: str | None = None
    seconds_below: float | None = None
    bytes_per_second_above: int | None = None


class OwnAmount(msgspec.Struct, frozen=True, kw_only=True):
    """The demand of one resource as a job states it."""

    average: float | None = None
    maximum: float | None = None


class OwnDemand(msgspec.Struct, frozen=True, kw_only=True):
    """The demand that a job states itself; what is null is demanded as its spider's runs took it.

    ``memory`` is bytes, ``cpu`` the index in GHz, ``bandwidth`` bytes a second.
    """

    memory: OwnAmount | None = None
    cpu: OwnAmount | None = None
    bandwidth: OwnAmount | None = None


class JobCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that one rule has found in the job's pages: how many records have which.

    ``empty`` fields have a value in less than a tenth of the records; with ``mostly_empty`` at
    least half of what the rule selects is so, and its selectors do not fit these pages.
    """

    rule: str
    pages: int = 0
    records: int = 0
    rejected: int = 0
    fields: tuple[FieldCoverage, ...] = ()
    empty: tuple[str, ...] = ()
    mostly_empty: bool = False


class Job(JobSummary, frozen=True, kw_only=True):
    """A job with its ledger, its progress and its coverage, which lists leave out.

    ``pattern`` makes its URLs where they are no list, of every combination of what goes into its
    ``places``: a list, or a range. Where jobs are placed by bidding, ``link`` is
    what a worker's way to the site must be like, ``demand`` what the job states that it takes.
    Its ``cost`` up to now is null while nothing was measured, and a month after its end.
    It ``took`` so much of what the ``forecast`` at its start says; null as the cost is.
    """

    pattern: str | None = None
    places: dict[str, dict[str, int] | tuple[str, ...]] = {}
    link: OwnLink | None = None
    demand: OwnDemand | None = None
    refusals: tuple[str, ...] = ()
    ledger: JobLedger | None = None
    progress: JobProgress | None = None
    coverage: tuple[JobCoverage, ...] = ()
    cost: Cost | None = None
    forecast: Forecast | None = None
    took: Took | None = None


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
