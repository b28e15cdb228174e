"""A biz with schedules, in memory, whose clock is the test's."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from tests.fakes.jobs import MemoryJobs
from tests.fakes.requests import MemoryRules
from tests.fakes.schedules import MemorySchedules
from tests.fakes.spiders import MemorySpiders
from tests.kit.config import Tree
from tests.kit.jobs import ENDED, Job, JobStarter, JobState
from tests.kit.schedules import (
    OutcomeKind,
    Schedule,
    ScheduleRunner,
    ScheduleService,
)
from tests.kit.spiders import SpiderPlan, Start
from tests.kit.warned import Warned
from tests.kit.worlds.memory import START, make_tree

URLS = ("https://example.org/1", "https://example.org/2")


def schedule(**changes: object) -> Schedule:
    settings: dict[str, object] = {
        "tenant": "default",
        "biz": "docs",
        "name": "hourly",
        "cron": "0 * * * *",
        "time_zone": "UTC",
        "rule": "page",
        "urls": URLS,
    }
    return Schedule(**(settings | changes))  # type: ignore[arg-type]


def of_spider(**changes: object) -> Schedule:
    return schedule(**({"rule": None, "urls": (), "spider": "shop"} | changes))


class Created(MemoryJobs):
    """Jobs in memory, in the order in which they were created."""

    def __init__(self) -> None:
        super().__init__()
        self._keys: dict[tuple[str, str, str], None] = {}

    def create(self, job: Job) -> Job:
        self._keys[job.key] = None
        return super().create(job)

    def create_limited(self, job: Job, most: int, *, instead: bool = False) -> Job | None:
        made = super().create_limited(job, most, instead=instead)
        if made is not None:
            self._keys[made.key] = None
        return made

    @property
    def kept(self) -> dict[tuple[str, str, str], Job]:
        return {key: self.get(*key) for key in self._keys}

    @property
    def created(self) -> int:
        return len(self._keys)

    def open(self) -> list[Job]:
        """Return the jobs that have not ended."""
        return [job for job in self.kept.values() if job.state not in ENDED]

    def finish(self, job: Job) -> None:
        """End the job, as its ledger would."""
        job = self.get(*job.key)
        is_cancelled = job.state is JobState.CANCELLING
        state = JobState.CANCELLED if is_cancelled else JobState.DONE
        assert self.end(job, state, {}, job.created_at)


class Clocked:
    """Ports in memory, or the given ones. Replace one to see what a fault does."""

    def __init__(self, schedules: Any = None, tree: Tree | None = None) -> None:
        self.tree = tree or make_tree()
        self.now = START
        self.schedules = schedules or MemorySchedules()
        self.jobs: Any = Created()
        self.spiders: Any = MemorySpiders()
        self.rules: Any = MemoryRules()
        self.warned = Warned()

    @property
    def warnings(self) -> list[str]:
        return self.warned.texts

    @property
    def planning(self) -> ScheduleService:
        return ScheduleService(schedules=self.schedules, spiders=self.spiders)

    @property
    def firing(self) -> ScheduleRunner:
        starter = JobStarter(jobs=self.jobs, spiders=self.spiders, rules=self.rules)
        return ScheduleRunner(schedules=self.schedules, starter=starter)

    def put(self, **changes: object) -> Schedule:
        return self.planning.put(self.tree, schedule(**changes), self.now)

    def put_spider(self, **changes: object) -> Schedule:
        return self.planning.put(self.tree, of_spider(**changes), self.now)

    def keep_spider(self, pattern: str = "https://example.org/{kind}/x") -> None:
        plan = SpiderPlan(rule="page", start=Start(pattern=pattern), priority=7)
        self.spiders.put("default", "docs", "shop", plan, self.now)

    def tick(self, time_left: Callable[[], float] = lambda: 120.0) -> int:
        return self.firing.run_due(self.tree, self.now, time_left)

    def run(self, key: str | None = None, name: str = "hourly") -> Job:
        return self.firing.run_now(self.tree, self.get(name), key, self.now)

    def get(self, name: str = "hourly") -> Schedule:
        return self.planning.get(self.tree, "default", "docs", name)

    def outcome(self, name: str = "hourly") -> tuple[OutcomeKind, datetime]:
        """Tell what became of a schedule's last fire, and when that was due."""
        last = self.get(name).last_outcome
        assert last is not None
        return last.kind, last.fire_at

    def enable(self, *, enabled: bool, name: str = "hourly") -> Schedule:
        return self.planning.set_enabled(
            self.tree, "default", "docs", name, self.now, enabled=enabled
        )

    def names(self) -> list[str]:
        """Jobs in the order they were created."""
        return [name for _, _, name in self.jobs.kept]


def at(hour: int, minute: int = 0, day: int = 1) -> datetime:
    return datetime(2026, 3, day, hour, minute, tzinfo=UTC)
