"""What is wrong with what a schedule crawls (SPEC.md B1, C2); when it does is for policy.cron."""

from crawlfleet.errors import Problem
from crawlfleet.model.biz import Biz
from crawlfleet.model.request import Body
from crawlfleet.model.schedule import Schedule
from crawlfleet.model.start import Start
from crawlfleet.model.submission import Submission
from crawlfleet.policy.admission import Admission
from crawlfleet.policy.starting import bind, problems_with, size, url_at
from crawlfleet.ports import SpiderStore


def problems_in(spiders: SpiderStore, biz: Biz, schedule: Schedule) -> list[Problem]:
    """Every mistake, with its field; empty when there is none."""
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
            Problem(f"values.{name}", "there is no such place to fill") for name in schedule.values
        ]
        return problems
    if schedule.urls:
        problems.append(Problem("urls", "are given, and a start too: one of both"))
    return problems + _of_start(biz, schedule, schedule.start)


def _of_spider(spiders: SpiderStore, schedule: Schedule) -> list[Problem]:
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
    count = size(bound)
    if bound.pattern is None:
        return _refused(biz, schedule.rule, [(f"start.urls[{i}]", u) for i, u in _each(bound)])
    ends = sorted({0, count - 1})
    return _refused(biz, schedule.rule, [("start.pattern", url_at(bound, at)) for at in ends])


def _each(start: Start) -> list[tuple[int, str]]:
    return list(enumerate(start.urls))


def _of_urls(biz: Biz, schedule: Schedule) -> list[Problem]:
    if not schedule.urls:
        return [Problem("urls", "are missing, and so are a start and a spider")]
    problems: list[Problem] = []
    seen: set[str] = set()
    for index, url in enumerate(schedule.urls):
        if url in seen:
            problems.append(Problem(f"urls[{index}]", "is there twice"))
        seen.add(url)
    named = [(f"urls[{index}]", url) for index, url in enumerate(schedule.urls)]
    return problems if schedule.rule is None else _refused(biz, schedule.rule, named) + problems


def _refused(biz: Biz, rule: str, urls: list[tuple[str, str]]) -> list[Problem]:
    """What admission finds wrong with URLs, by the field that each comes from."""
    admission = Admission(biz)
    found: list[Problem] = []
    for field, url in urls:
        admitted = admission.admit(Submission(url=url, rule=rule), f"{field}.")
        if isinstance(admitted, Body):
            continue
        found += [_named(problem) for problem in admitted]
    return found


def _named(problem: Problem) -> Problem:
    # The rule is the schedule's, one for all its URLs; a URL's own path ends in its field.
    if problem.field.endswith(".rule"):
        return Problem("rule", problem.message)
    return Problem(problem.field.removesuffix(".url"), problem.message)
