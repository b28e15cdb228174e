"""Managing schedules (SPEC.md B1, B11): put, read, list, delete."""

from datetime import datetime

from msgspec.structs import replace

from crawlfleet.errors import InvalidRequestError, NotFoundError, Problem
from crawlfleet.flows.configuration import biz_of
from crawlfleet.model.biz import Tree
from crawlfleet.model.schedule import Schedule
from crawlfleet.model.submission import Submission
from crawlfleet.policy.admission import Admission
from crawlfleet.policy.cron import next_fire, problems_with
from crawlfleet.ports import ScheduleStore


def put_schedule(
    schedules: ScheduleStore, tree: Tree, schedule: Schedule, now: datetime
) -> Schedule:
    """Create or replace a schedule; what has fired already does not fire again.

    Raises:
        InvalidRequestError: every mistake in cron line, time zone, rule and URLs; nothing is
        stored.
    """
    _, biz = biz_of(tree, schedule.tenant, schedule.biz)
    problems = problems_with(schedule.cron, schedule.time_zone, now)
    admission = Admission(biz)
    seen: set[str] = set()
    for index, url in enumerate(schedule.urls):
        entry = Submission(url=url, rule=schedule.rule)
        admitted = admission.admit(entry, f"urls[{index}].")
        if isinstance(admitted, list):
            problems.extend(_named(problem) for problem in admitted)
        if url in seen:
            problems.append(Problem(f"urls[{index}]", "is there twice"))
        seen.add(url)
    if problems:
        raise InvalidRequestError(dict.fromkeys(problems))

    standing = schedules.get(schedule.tenant, schedule.biz, schedule.name)
    unchanged = standing is not None and (
        standing.cron == schedule.cron
        and standing.time_zone == schedule.time_zone
        and standing.enabled
    )
    next_at = standing.next_at if standing and unchanged else next_fire(schedule, now)
    planned = replace(
        schedule,
        next_at=next_at if schedule.enabled else None,
        last_fired_at=standing.last_fired_at if standing else None,
    )
    schedules.put(planned)
    return planned


def get_schedule(
    schedules: ScheduleStore, tree: Tree, tenant: str, biz: str, name: str
) -> Schedule:
    """One schedule.

    Raises:
        NotFoundError: this biz has none of that name.
    """
    biz_of(tree, tenant, biz)
    found = schedules.get(tenant, biz, name)
    if found is None:
        raise _unknown(name)
    return found


def list_schedules(schedules: ScheduleStore, tree: Tree, tenant: str, biz: str) -> list[Schedule]:
    """Every schedule of a biz, by name."""
    biz_of(tree, tenant, biz)
    return schedules.of_biz(tenant, biz)


def delete_schedule(schedules: ScheduleStore, tree: Tree, tenant: str, biz: str, name: str) -> None:
    """Delete a schedule; what it has created stays.

    Raises:
        NotFoundError: this biz has none of that name.
    """
    biz_of(tree, tenant, biz)
    if not schedules.delete(tenant, biz, name):
        raise _unknown(name)


def _named(problem: Problem) -> Problem:
    # The rule is the schedule's, one for all its URLs; a URL's own path ends in its index.
    if problem.field.endswith(".rule"):
        return Problem("rule", problem.message)
    return Problem(problem.field.removesuffix(".url"), problem.message)


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f"there is no schedule called {name[:64]!r}")
