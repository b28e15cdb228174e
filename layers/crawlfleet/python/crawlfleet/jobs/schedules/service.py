"""Manage schedules (SPEC.md B1, B11): put, pause, get, list, preview, delete."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import biz_of
from crawlfleet.crawling.frontier.segments import choice_problem
from crawlfleet.jobs.schedules import cron
from crawlfleet.jobs.schedules.models import (
    KEPT_VERSIONS,
    MOST_SCHEDULES,
    Missed,
    Run,
    Schedule,
)
from crawlfleet.jobs.spiders.models import Start, bind, problems_with
from crawlfleet.jobs.spiders.service import named_start, refused, refused_urls
from crawlfleet.kernel.errors import (
    InvalidRequestError,
    NotFoundError,
    Problem,
    QuotaExceededError,
    StoreConflictError,
    UnknownBizError,
)
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.kernel.validation import named

if TYPE_CHECKING:
    from crawlfleet.jobs.schedules.mongo import MongoSchedules
    from crawlfleet.jobs.spiders.mongo import MongoSpiders

#: A fire time so long ago still counts where the line is changed: its tick may not have come.
_JUST: Final = timedelta(minutes=1)
#: Attempts to put a schedule while others, or its own fires, change it.
_TRIES: Final = 8


def preview(tree: Tree, schedule: Schedule, count: int, now: datetime) -> list[Run]:
    """List the next runs of a schedule, kept or not; those it would have if it is paused.

    Raises InvalidRequestError (its cron line or its time zone is wrong).
    """
    biz_of(tree, schedule.tenant, schedule.biz)
    problems = cron.problems_with(schedule.cron, schedule.time_zone, now)
    if problems:
        raise InvalidRequestError(problems)
    return cron.preview(schedule, now, count)


def _problems(spiders: "MongoSpiders", biz: Biz, schedule: Schedule) -> list[Problem]:
    if schedule.spider is not None:
        return _of_spider(spiders, schedule)
    problems = []
    if schedule.spider_version is not None:
        problems.append(Problem("version", "is a spider's, and there is none"))
    if schedule.rule is None:
        problems.append(Problem("rule", "is missing, and so is a spider"))
    if schedule.start is None:
        problems += _of_urls(biz, schedule)
        problems += [
            Problem(f"values.{name}", "there is no such place to fill: only patterns have places")
            for name in schedule.values
        ]
        return problems
    if schedule.urls:
        problems.append(Problem("urls", "are given, and a start too: one of both"))
    return problems + _of_start(biz, schedule, schedule.start)


def _of_spider(spiders: "MongoSpiders", schedule: Schedule) -> list[Problem]:
    given = {"rule": schedule.rule, "urls": schedule.urls, "start": schedule.start}
    problems = [
        Problem(field, "is the spider's own: a schedule is of a spider, or has both itself")
        for field, value in given.items()
        if value
    ]
    name, version = schedule.spider or "", schedule.spider_version
    newest = spiders.get(schedule.tenant, schedule.biz, name)
    if newest is None:
        return [*problems, Problem("spider", f"this biz keeps no spider called {name[:64]!r}")]
    kept = newest
    if version is not None:
        found = spiders.get(schedule.tenant, schedule.biz, name, version)
        if found is None:
            return [*problems, Problem("version", f"{name} has no version {version}")]
        kept = found
    return problems + bind(kept.plan.start, schedule.values)[1]


def _of_start(biz: Biz, schedule: Schedule, start: Start) -> list[Problem]:
    problems = problems_with(start)
    bound, unbound = bind(start, schedule.values)
    problems += unbound
    if problems or schedule.rule is None:
        return problems
    return refused(biz, schedule.rule, bound)


def _of_urls(biz: Biz, schedule: Schedule) -> list[Problem]:
    if not schedule.urls:
        try:
            if schedule.rule is not None and named_start(biz, schedule.rule).urls:
                return []
        except InvalidRequestError as error:
            return list(error.problems)
        missing = "are missing, and so are a start and a spider; the rule names none"
        return [Problem("urls", missing)]
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, url in enumerate(schedule.urls):
        if url in seen:
            problems.append(Problem(f"urls[{index}]", "is there twice"))
        seen.add(url)
    named = [(f"urls[{index}]", url) for index, url in enumerate(schedule.urls)]
    return problems if schedule.rule is None else refused_urls(biz, schedule.rule, named) + problems


def _as_put(schedule: Schedule, standing: Schedule | None, now: datetime) -> Schedule:
    """Make the schedule that is to be kept: its version, and its next fire time."""
    if standing is None:
        fresh = replace(schedule, version=1, put_at=from_ms(to_ms(now)))
        return cron.planned(fresh, cron.first_fire(fresh, now) if fresh.enabled else None)
    if schedule.content == standing.content:
        return standing
    fired_at, outcome = standing.last_fired_at, standing.last_outcome
    changed = replace(schedule, version=standing.version + 1, put_at=from_ms(to_ms(now)))
    changed = replace(changed, last_fired_at=fired_at, last_outcome=outcome)
    changed = replace(changed, last_failure=standing.last_failure)
    if not changed.enabled:
        return cron.planned(changed, None)
    if not standing.enabled:
        # Fire times that passed while it rested are not made up for.
        return cron.planned(changed, cron.next_fire(changed, now))
    same = (standing.cron, standing.time_zone) == (changed.cron, changed.time_zone)
    # What has just come is not lost for a change of the line before its tick.
    due = standing.fire_at is not None and now - _JUST < standing.fire_at <= now
    kept = same or (due and changed.missed is Missed.ALL)
    return cron.planned(changed, standing.fire_at if kept else cron.first_fire(changed, now))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleService:
    """The service that keeps schedules."""

    schedules: "MongoSchedules"
    spiders: "MongoSpiders"

    def put(self, tree: Tree, schedule: Schedule, now: datetime) -> Schedule:
        """Create or replace a schedule; what has fired already does not fire again.

        Raises:
            InvalidRequestError: every problem of cron line, time zone, rule, spider and URLs;
                nothing is stored.
            QuotaExceededError: the biz has as many as it may.
        """
        _, biz = biz_of(tree, schedule.tenant, schedule.biz)
        problems = cron.problems_with(schedule.cron, schedule.time_zone, now)
        problems += _problems(self.spiders, biz, schedule)
        if (fault := choice_problem(biz.seeds, schedule.segment)) is not None:
            problems.append(Problem("segment", fault))
        if problems:
            raise InvalidRequestError(dict.fromkeys(problems))
        self._hold(schedule, now)

        def change(standing: Schedule | None) -> Schedule:
            if standing is None and self.schedules.count(*schedule.key[:2]) >= MOST_SCHEDULES:
                message = f"a biz may have {MOST_SCHEDULES:,} schedules, and this one has"
                raise QuotaExceededError(message)
            return schedule

        return self._change(schedule.key, change, now)

    def set_enabled(
        self, tree: Tree, tenant: str, biz: str, name: str, now: datetime, *, enabled: bool
    ) -> Schedule:
        """Pause a schedule, or resume it: fire times that pass meanwhile are not made up for.

        One of a biz that was removed can be paused alone.

        Raises NotFoundError (this biz has none of that name).
        """
        if enabled:
            biz_of(tree, tenant, biz)
        else:
            self._check_known(tree, tenant, biz)

        def change(standing: Schedule | None) -> Schedule:
            if standing is None:
                raise self._unknown(tenant, biz, name)
            return replace(standing, enabled=enabled)

        return self._change((tenant, biz, name), change, now)

    def get(self, tree: Tree, tenant: str, biz: str, name: str) -> Schedule:
        """Get one schedule. Raises NotFoundError (this biz has none of that name)."""
        self._check_known(tree, tenant, biz)
        found = self.schedules.get(tenant, biz, name)
        if found is None:
            raise self._unknown(tenant, biz, name)
        return found

    def of_biz(self, tree: Tree, tenant: str, biz: str) -> list[Schedule]:
        """List every schedule of a biz, by name."""
        self._check_known(tree, tenant, biz)
        return self.schedules.of_biz(tenant, biz)

    def versions(
        self, tree: Tree, tenant: str, biz: str, name: str, limit: int = KEPT_VERSIONS
    ) -> list[Schedule]:
        """List the last versions of a schedule, the newest first; NotFoundError without one."""
        self._check_known(tree, tenant, biz)
        found = self.schedules.versions(tenant, biz, name, limit)
        if not found:
            raise self._unknown(tenant, biz, name)
        return found

    def _unknown(self, tenant: str, biz: str, name: str) -> NotFoundError:
        there = named([one.name for one in self.schedules.of_biz(tenant, biz)], name) or "none"
        return NotFoundError(f"there is no schedule called {name[:64]!r}; there are: {there}")

    def _check_known(self, tree: Tree, tenant: str, biz: str) -> None:
        """Check that there is a biz, or was one: its schedules stay, and somebody ends them.

        Raises:
            UnknownBizError: there is none, and nothing is kept of one.
        """
        try:
            biz_of(tree, tenant, biz)
        except UnknownBizError:
            if not self.schedules.count(tenant, biz):
                raise

    def _hold(self, schedule: Schedule, now: datetime) -> None:
        """Hold the version that a schedule names until the schedule is kept."""
        if schedule.spider is None or schedule.spider_version is None:
            return
        named = self.spiders.get(*schedule.key[:2], schedule.spider, schedule.spider_version)
        if named is not None:
            self.spiders.hold(named, now)

    def delete(self, tree: Tree, tenant: str, biz: str, name: str) -> None:
        """Delete a schedule, NotFoundError without one; what it has created stays."""
        self._check_known(tree, tenant, biz)
        if not self.schedules.delete(tenant, biz, name):
            raise self._unknown(tenant, biz, name)

    def _change(
        self,
        key: tuple[str, str, str],
        change: Callable[[Schedule | None], Schedule],
        now: datetime,
    ) -> Schedule:
        """Put what a change makes of the schedule; try again where it has changed meanwhile."""
        for _ in range(_TRIES):
            standing = self.schedules.get(*key)
            wanted = _as_put(change(standing), standing, now)
            if wanted == standing or self.schedules.put(wanted, standing):
                return wanted
        raise StoreConflictError(f"the schedule {key[2][:64]!r} is being changed by others")
