"""What the API asks of whoever wires it about seeds.

What the API asks of whoever wires it about demands and runs.

What the API asks of whoever wires it about jobs.

What the API asks of whoever wires it about schedules.

What the API asks of whoever wires it about spiders.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from crawlfleet.crawling.frontier.models import Offer, Offered, Seed, SeedsMeant, SeedTotals
from crawlfleet.jobs.models import Job, JobOrder, JobState
from crawlfleet.jobs.schedules.models import Run, Schedule
from crawlfleet.jobs.spiders.models import ConfiguredSpider, KeptSpider, SpiderPlan
from crawlfleet.jobs.usage import JobDemand, RunRecord
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.requests.ledger import Ledger


class SeedChanges(Protocol):
    """What a change of many seeds did."""

    @property
    def count(self) -> int:
        """How many were changed."""
        ...

    @property
    def cursor(self) -> str | None:
        """Where to go on."""
        ...

    @property
    def more(self) -> bool:
        """Whether others may be meant."""
        ...


class SeedPage(Protocol):
    """A page of seeds."""

    @property
    def items(self) -> list[Seed]:
        """Its seeds."""
        ...

    @property
    def cursor(self) -> str | None:
        """Where to go on."""
        ...

    @property
    def more(self) -> bool:
        """Whether there is more now."""
        ...


class SeedOperations(Protocol):
    """What can be done with seeds, each for the tenant of the call's API key."""

    def offer_seeds(
        self, tenant: str, biz: str, offers: Sequence[Offer | InvalidRequestError]
    ) -> list[Offered | InvalidRequestError]:
        """Offer URLs; one answer each, in order."""
        ...

    def list_seeds(
        self, tenant: str, biz: str, meant: SeedsMeant, *, cursor: str | None, limit: int
    ) -> SeedPage:
        """A page of seeds."""
        ...

    def seed_totals(self, tenant: str, biz: str) -> list[SeedTotals]:
        """How many there are by segment and state."""
        ...

    def release_seed(self, tenant: str, biz: str, seed: str) -> Seed:
        """Make one ready again; the seed as it stands then."""
        ...

    def release_seeds(self, tenant: str, biz: str, seeds: Sequence[str]) -> SeedChanges:
        """Make these ready again."""
        ...

    def release_those(
        self, tenant: str, biz: str, meant: SeedsMeant, *, cursor: str | None, limit: int
    ) -> SeedChanges:
        """Make up to ``limit`` that are meant ready again."""
        ...

    def forget_seed(self, tenant: str, biz: str, seed: str) -> None:
        """Remove one."""
        ...

    def forget_seeds(self, tenant: str, biz: str, seeds: Sequence[str]) -> SeedChanges:
        """Remove these."""
        ...

    def forget_those(
        self, tenant: str, biz: str, meant: SeedsMeant, *, cursor: str | None, limit: int
    ) -> SeedChanges:
        """Remove up to ``limit`` that are meant."""
        ...


class DemandOperations(Protocol):
    """Reading what runs took, for the tenant of the call's API key."""

    def list_demands(
        self, tenant: str, biz: str, *, after: str | None, limit: int
    ) -> list[JobDemand]:
        """What a biz's spiders are known to take, by name, beginning after a name."""
        ...

    def get_demand(self, tenant: str, biz: str, spider: str) -> JobDemand:
        """What one spider is known to take."""
        ...

    def get_run(self, tenant: str, biz: str, name: str) -> RunRecord:
        """What the run of a job took."""
        ...


class StartedJob(Protocol):
    """A job, and whether the call has made it."""

    @property
    def job(self) -> Job:
        """The job."""
        ...

    @property
    def is_new(self) -> bool:
        """Whether the call has made it."""
        ...


class SeenJob(Protocol):
    """A job, and where its tasks are."""

    @property
    def job(self) -> Job:
        """The job."""
        ...

    @property
    def ledger(self) -> Ledger:
        """Where its tasks are."""
        ...


class RetriedJob(Protocol):
    """What retrying a job's failed tasks did."""

    @property
    def job(self) -> Job:
        """The job as it stands then."""
        ...

    @property
    def count(self) -> int:
        """So many are worked on again."""
        ...

    @property
    def skipped(self) -> int:
        """So many are past their time to live."""
        ...

    @property
    def more(self) -> bool:
        """Whether the time was up before all were."""
        ...


class JobPage(Protocol):
    """A page of jobs."""

    @property
    def items(self) -> list[Job]:
        """Its jobs."""
        ...

    @property
    def cursor(self) -> str | None:
        """Where to go on."""
        ...

    @property
    def more(self) -> bool:
        """Whether there is more now."""
        ...


class JobOperations(Protocol):
    """What can be done with jobs, each for the tenant of the call's API key."""

    def start_job(self, order: JobOrder, key: str | None) -> StartedJob:
        """Start a job, or find the one that the same order has started."""
        ...

    def list_jobs(
        self,
        tenant: str,
        biz: str,
        *,
        states: Sequence[JobState],
        spider: str | None,
        schedule: str | None,
        cursor: str | None,
        limit: int,
    ) -> JobPage:
        """A page of jobs."""
        ...

    def get_job(self, tenant: str, biz: str, name: str) -> SeenJob:
        """One job and its ledger."""
        ...

    def cancel_job(self, tenant: str, biz: str, name: str) -> SeenJob:
        """Cancel a job; as it stands a moment later."""
        ...

    def retry_job(self, tenant: str, biz: str, name: str, *, current_rule: bool) -> RetriedJob:
        """Have its failed tasks worked on again."""
        ...

    def moment(self) -> datetime:
        """Now."""
        ...


class ScheduleOperations(Protocol):
    """What can be done with schedules, each for the tenant of the call's API key."""

    def put_schedule(self, schedule: Schedule) -> Schedule:
        """Create or replace a schedule."""
        ...

    def get_schedule(self, tenant: str, biz: str, name: str) -> Schedule:
        """One schedule."""
        ...

    def list_schedules(self, tenant: str, biz: str) -> list[Schedule]:
        """Every schedule of a biz."""
        ...

    def delete_schedule(self, tenant: str, biz: str, name: str) -> None:
        """Delete a schedule."""
        ...

    def schedule_versions(self, tenant: str, biz: str, name: str, limit: int) -> list[Schedule]:
        """The last versions of a schedule, the newest first."""
        ...

    def enable_schedule(self, tenant: str, biz: str, name: str, *, enabled: bool) -> Schedule:
        """Resume a schedule, or pause it."""
        ...

    def preview_schedule(self, schedule: Schedule, count: int) -> list[Run]:
        """The next runs of a schedule, whether it is kept or not."""
        ...

    def run_schedule(self, tenant: str, biz: str, name: str, key: str | None) -> Job:
        """Start a job of a schedule now, once for all calls under one ``key``."""
        ...


class SpiderPage(Protocol):
    """A page of spiders."""

    @property
    def items(self) -> list[KeptSpider | ConfiguredSpider]:
        """Its spiders."""
        ...

    @property
    def cursor(self) -> str | None:
        """Where to go on."""
        ...

    @property
    def more(self) -> bool:
        """Whether there is more now."""
        ...


class SpiderOperations(Protocol):
    """What can be done with spiders, each for the tenant of the call's API key."""

    def put_spider(
        self, tenant: str, biz: str, name: str, plan: SpiderPlan
    ) -> tuple[KeptSpider, bool]:
        """Keep a plan; the version that stands for it, and whether it is new."""
        ...

    def get_spider(
        self, tenant: str, biz: str, name: str, version: int | None
    ) -> KeptSpider | ConfiguredSpider:
        """One spider."""
        ...

    def list_spiders(self, tenant: str, biz: str, *, cursor: str | None, limit: int) -> SpiderPage:
        """A page of what the biz document has, then of what is kept."""
        ...

    def list_spider_versions(self, tenant: str, biz: str, name: str) -> list[KeptSpider]:
        """The versions of a spider, the newest first."""
        ...

    def delete_spider(self, tenant: str, biz: str, name: str) -> None:
        """Delete a spider."""
        ...
