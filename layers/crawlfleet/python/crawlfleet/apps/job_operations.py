"""The router's calls about what runs took.

The router's calls about jobs: each is a flow, given the configuration in force and the time.

The router's calls about schedules: each is a flow, given the configuration and the time.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from crawlfleet.apps.context import Parts
from crawlfleet.jobs.models import Job, JobOrder, JobState
from crawlfleet.requests.submission.service import SubmissionPorts

if TYPE_CHECKING:
    from crawlfleet.jobs.cancellation import CancellingPorts
    from crawlfleet.jobs.mongo.usage import MongoDemands
    from crawlfleet.jobs.schedules.models import Run, Schedule
    from crawlfleet.jobs.schedules.mongo import MongoSchedules
    from crawlfleet.jobs.schedules.service import PlanningPorts
    from crawlfleet.jobs.service import JobPorts, Retried, Seen, Started
    from crawlfleet.jobs.spiders.mongo import MongoSpiders
    from crawlfleet.jobs.usage import JobDemand, RunRecord
    from crawlfleet.kernel.paging import Listing
    from crawlfleet.requests.dead_letters.service import DeadLetterPorts
    from crawlfleet.requests.ports import RuleStore


class RouterDemands:
    """api.operations.Operations, as far as demands are concerned.

    What few calls are about is imported by them.
    """

    _parts: Parts

    @cached_property
    def _demands(self) -> "MongoDemands":
        from crawlfleet.jobs.mongo.usage import MongoDemands

        return MongoDemands(self._parts.nodes)

    def list_demands(
        self, tenant: str, biz: str, *, after: str | None, limit: int
    ) -> "list[JobDemand]":
        """jobs.usage_averages."""
        from crawlfleet.jobs.usage_averages import list_demands

        tree = self._parts.config.current()
        return list_demands(self._demands, tree, tenant, biz, after, limit)

    def get_demand(self, tenant: str, biz: str, spider: str) -> "JobDemand":
        """jobs.usage_averages."""
        from crawlfleet.jobs.usage_averages import get_demand

        return get_demand(self._demands, self._parts.config.current(), tenant, biz, spider)

    def get_run(self, tenant: str, biz: str, name: str) -> "RunRecord":
        """jobs.usage_averages."""
        from crawlfleet.jobs.usage_averages import get_run

        return get_run(self._demands, self._parts.config.current(), tenant, biz, name)


# What few calls are about is imported by them.


class RouterJobs:
    """api.operations_jobs.JobOperations.

    Args:
        parts: The parts of the world.
    """

    _submission: SubmissionPorts
    if TYPE_CHECKING:

        @property
        def _letters(self) -> "DeadLetterPorts": ...

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @cached_property
    def _cancelling(self) -> "CancellingPorts":
        from crawlfleet.apps.rounds import cancelling_ports

        return cancelling_ports(self._parts)

    @cached_property
    def _jobs(self) -> "JobPorts":
        from crawlfleet.jobs.bidding.redis import RedisBoard
        from crawlfleet.jobs.service import JobPorts
        from crawlfleet.jobs.spiders.mongo import MongoSpiders
        from crawlfleet.jobs.starting import StartingPorts

        parts = self._parts
        return JobPorts(
            starting=StartingPorts(
                jobs=self._cancelling.jobs,
                spiders=MongoSpiders(parts.nodes),
                rules=self._submission.rules,
                board=RedisBoard(parts.redis),
            ),
            ledgers=parts.ledgers,
            workers=parts.workers,
            waker=parts.waker,
            warn=parts.warn,
        )

    def start_job(self, order: JobOrder, key: str | None) -> "Started":
        """jobs.service."""
        from crawlfleet.jobs.service import start

        return start(self._jobs, self._parts.config.current(), order, key, self._parts.now())

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
    ) -> "Listing[Job]":
        """jobs.service."""
        from crawlfleet.jobs.service import list_jobs

        return list_jobs(
            self._jobs,
            self._parts.config.current(),
            tenant,
            biz,
            states=states,
            spider=spider,
            schedule=schedule,
            cursor=cursor,
            limit=limit,
        )

    def get_job(self, tenant: str, biz: str, name: str) -> "Seen":
        """jobs.service."""
        from crawlfleet.jobs.service import look

        return look(
            self._jobs, self._parts.config.current(), (tenant, biz, name), self._parts.now()
        )

    def cancel_job(self, tenant: str, biz: str, name: str) -> "Seen":
        """jobs.cancellation."""
        from crawlfleet.jobs.cancellation import cancel_job
        from crawlfleet.jobs.service import Seen
        from crawlfleet.kernel.errors import UnknownBizError
        from crawlfleet.requests.ledger import Ledger

        tree = self._parts.config.current()
        job = cancel_job(
            self._cancelling, tree, (tenant, biz, name), f"api:{tenant}", self._parts.now
        )
        try:
            return self.get_job(tenant, biz, name)
        except UnknownBizError:
            # It was removed, and its ledger with it: the job says so itself.
            return Seen(job, Ledger())

    def retry_job(self, tenant: str, biz: str, name: str, *, current_rule: bool) -> "Retried":
        """jobs.service."""
        from crawlfleet.jobs.mongo.reopening import MongoJobReopening
        from crawlfleet.jobs.service import retry_failed

        return retry_failed(
            self._jobs,
            self._letters,
            MongoJobReopening(self._parts.nodes),
            self._parts.config.current(),
            (tenant, biz, name),
            current_rule=current_rule,
            by=f"api:{tenant}",
            now=self._parts.now(),
        )

    def moment(self) -> datetime:
        """Now."""
        return self._parts.now()


# What few calls are about is imported by them: cron lines and time zones cost a cold start.


class RouterSchedules:
    """api.operations_jobs.ScheduleOperations.

    Args:
        parts: The parts of the world.
        rules: Where the rules of jobs are frozen.
    """

    def __init__(self, parts: Parts, rules: "RuleStore") -> None:
        self._parts = parts
        self._rules = rules

    @cached_property
    def _schedules(self) -> "MongoSchedules":
        from crawlfleet.jobs.schedules.mongo import MongoSchedules

        return MongoSchedules(self._parts.nodes)

    @cached_property
    def _kept_spiders(self) -> "MongoSpiders":
        from crawlfleet.jobs.spiders.mongo import MongoSpiders

        return MongoSpiders(self._parts.nodes)

    @property
    def _planning(self) -> "PlanningPorts":
        from crawlfleet.jobs.schedules.service import PlanningPorts

        return PlanningPorts(schedules=self._schedules, spiders=self._kept_spiders)

    def put_schedule(self, schedule: "Schedule") -> "Schedule":
        """jobs.schedules.service."""
        from crawlfleet.jobs.schedules import service as planning

        tree = self._parts.config.current()
        return planning.put_schedule(self._planning, tree, schedule, self._parts.now())

    def get_schedule(self, tenant: str, biz: str, name: str) -> "Schedule":
        """jobs.schedules.service."""
        from crawlfleet.jobs.schedules import service as planning

        tree = self._parts.config.current()
        return planning.get_schedule(self._schedules, tree, tenant, biz, name)

    def list_schedules(self, tenant: str, biz: str) -> "list[Schedule]":
        """jobs.schedules.service."""
        from crawlfleet.jobs.schedules import service as planning

        tree = self._parts.config.current()
        return planning.list_schedules(self._schedules, tree, tenant, biz)

    def delete_schedule(self, tenant: str, biz: str, name: str) -> None:
        """jobs.schedules.service."""
        from crawlfleet.jobs.schedules import service as planning

        tree = self._parts.config.current()
        planning.delete_schedule(self._schedules, tree, tenant, biz, name)

    def schedule_versions(self, tenant: str, biz: str, name: str, limit: int) -> "list[Schedule]":
        """jobs.schedules.service."""
        from crawlfleet.jobs.schedules import service as planning

        tree = self._parts.config.current()
        return planning.list_versions(self._schedules, tree, tenant, biz, name, limit)

    def enable_schedule(self, tenant: str, biz: str, name: str, *, enabled: bool) -> "Schedule":
        """jobs.schedules.service."""
        from crawlfleet.jobs.schedules import service as planning

        tree = self._parts.config.current()
        return planning.set_enabled(
            self._planning, tree, tenant, biz, name, self._parts.now(), enabled=enabled
        )

    def preview_schedule(self, schedule: "Schedule", count: int) -> "list[Run]":
        """jobs.schedules.service."""
        from crawlfleet.jobs.schedules import service as planning

        return planning.preview(self._parts.config.current(), schedule, count, self._parts.now())

    def run_schedule(self, tenant: str, biz: str, name: str, key: str | None) -> "Job":
        """jobs.schedules.dispatcher."""
        from crawlfleet.jobs.bidding.redis import RedisBoard
        from crawlfleet.jobs.mongo.store import MongoJobs
        from crawlfleet.jobs.schedules.dispatcher import FiringPorts, run_now
        from crawlfleet.jobs.schedules.service import get_schedule
        from crawlfleet.jobs.starting import StartingPorts, wake_for

        tree = self._parts.config.current()
        schedule = get_schedule(self._schedules, tree, tenant, biz, name)
        jobs = MongoJobs(self._parts.nodes)
        starting = StartingPorts(
            jobs=jobs,
            spiders=self._kept_spiders,
            rules=self._rules,
            board=RedisBoard(self._parts.redis),
        )
        ports = FiringPorts(schedules=self._schedules, starting=starting)
        job = run_now(ports, tree, schedule, key, self._parts.now())
        wake_for(job, self._parts.workers, self._parts.waker, self._parts.warn)
        return job
