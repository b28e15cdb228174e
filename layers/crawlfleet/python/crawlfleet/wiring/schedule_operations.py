"""The router's calls about schedules: each is a flow, given the configuration and the time."""

from functools import cached_property
from typing import TYPE_CHECKING

from crawlfleet.wiring.parts import Parts

if TYPE_CHECKING:
    from crawlfleet.adapters.mongo.schedules import MongoSchedules
    from crawlfleet.adapters.mongo.spiders import MongoSpiders
    from crawlfleet.flows.planning import PlanningPorts
    from crawlfleet.model.job import Job
    from crawlfleet.model.schedule import Run, Schedule
    from crawlfleet.ports import RuleStore

# What few calls are about is imported by them: cron lines and time zones cost a cold start.


class RouterSchedules:
    """edge.schedule_operations.ScheduleOperations.

    Args:
        parts: The parts of the world.
        rules: Where the rules of jobs are frozen.
    """

    def __init__(self, parts: Parts, rules: "RuleStore") -> None:
        self._parts = parts
        self._rules = rules

    @cached_property
    def _schedules(self) -> "MongoSchedules":
        from crawlfleet.adapters.mongo.schedules import MongoSchedules

        return MongoSchedules(self._parts.nodes)

    @cached_property
    def _kept_spiders(self) -> "MongoSpiders":
        from crawlfleet.adapters.mongo.spiders import MongoSpiders

        return MongoSpiders(self._parts.nodes)

    @property
    def _planning(self) -> "PlanningPorts":
        from crawlfleet.flows.planning import PlanningPorts

        return PlanningPorts(schedules=self._schedules, spiders=self._kept_spiders)

    def put_schedule(self, schedule: "Schedule") -> "Schedule":
        """flows.planning."""
        from crawlfleet.flows import planning

        tree = self._parts.config.current()
        return planning.put_schedule(self._planning, tree, schedule, self._parts.now())

    def get_schedule(self, tenant: str, biz: str, name: str) -> "Schedule":
        """flows.planning."""
        from crawlfleet.flows import planning

        tree = self._parts.config.current()
        return planning.get_schedule(self._schedules, tree, tenant, biz, name)

    def list_schedules(self, tenant: str, biz: str) -> "list[Schedule]":
        """flows.planning."""
        from crawlfleet.flows import planning

        tree = self._parts.config.current()
        return planning.list_schedules(self._schedules, tree, tenant, biz)

    def delete_schedule(self, tenant: str, biz: str, name: str) -> None:
        """flows.planning."""
        from crawlfleet.flows import planning

        tree = self._parts.config.current()
        planning.delete_schedule(self._schedules, tree, tenant, biz, name)

    def schedule_versions(self, tenant: str, biz: str, name: str, limit: int) -> "list[Schedule]":
        """flows.planning."""
        from crawlfleet.flows import planning

        tree = self._parts.config.current()
        return planning.list_versions(self._schedules, tree, tenant, biz, name, limit)

    def enable_schedule(self, tenant: str, biz: str, name: str, *, enabled: bool) -> "Schedule":
        """flows.planning."""
        from crawlfleet.flows import planning

        tree = self._parts.config.current()
        return planning.set_enabled(
            self._planning, tree, tenant, biz, name, self._parts.now(), enabled=enabled
        )

    def preview_schedule(self, schedule: "Schedule", count: int) -> "list[Run]":
        """flows.planning."""
        from crawlfleet.flows import planning

        return planning.preview(self._parts.config.current(), schedule, count, self._parts.now())

    def run_schedule(self, tenant: str, biz: str, name: str, key: str | None) -> "Job":
        """flows.firing."""
        from crawlfleet.adapters.mongo.jobs import MongoJobs
        from crawlfleet.adapters.redis_queue.board import RedisBoard
        from crawlfleet.flows.firing import FiringPorts, run_now
        from crawlfleet.flows.planning import get_schedule
        from crawlfleet.flows.starting import StartingPorts, wake_for

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
