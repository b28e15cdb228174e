"""The router's calls about jobs: each is a flow, given the configuration in force and the time."""

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from crawlfleet.flows.submission import SubmissionPorts
from crawlfleet.model.job import Job, JobOrder, JobState
from crawlfleet.wiring.parts import Parts

if TYPE_CHECKING:
    from crawlfleet.flows.cancelling import CancellingPorts
    from crawlfleet.flows.dead_letters import DeadLetterPorts
    from crawlfleet.flows.jobs import JobPorts, Retried, Seen, Started
    from crawlfleet.flows.tracking import Listing

# What few calls are about is imported by them.


class RouterJobs:
    """edge.job_operations.JobOperations.

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
        from crawlfleet.wiring.cancelling import cancelling_ports

        return cancelling_ports(self._parts)

    @cached_property
    def _jobs(self) -> "JobPorts":
        from crawlfleet.adapters.mongo.spiders import MongoSpiders
        from crawlfleet.adapters.redis_queue.board import RedisBoard
        from crawlfleet.flows.jobs import JobPorts
        from crawlfleet.flows.starting import StartingPorts

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
        """flows.jobs."""
        from crawlfleet.flows.jobs import start

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
        """flows.jobs."""
        from crawlfleet.flows.jobs import list_jobs

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
        """flows.jobs."""
        from crawlfleet.flows.jobs import look

        return look(
            self._jobs, self._parts.config.current(), (tenant, biz, name), self._parts.now()
        )

    def cancel_job(self, tenant: str, biz: str, name: str) -> "Seen":
        """flows.cancelling."""
        from crawlfleet.errors import UnknownBizError
        from crawlfleet.flows.cancelling import cancel_job
        from crawlfleet.flows.jobs import Seen
        from crawlfleet.model.ledger import Ledger

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
        """flows.jobs."""
        from crawlfleet.adapters.mongo.job_reopening import MongoJobReopening
        from crawlfleet.flows.jobs import retry_failed

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
