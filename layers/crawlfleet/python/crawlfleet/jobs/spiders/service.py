"""Keep spiders (SPEC.md B2, B11, C2): check and put one, get, list and delete them."""

import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.lookup import biz_of
from crawlfleet.jobs.spiders import models
from crawlfleet.kernel.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    Problem,
    StoreUnavailableError,
)
from crawlfleet.kernel.paging import Listing
from crawlfleet.kernel.urls import problem_with
from crawlfleet.requests.models import Body
from crawlfleet.requests.submission.admission import Admission, Submission

if TYPE_CHECKING:
    from crawlfleet.jobs.spiders.mongo import MongoSpiders

#: Position in a list: after a name of the configuration's (c), then after one that is kept (k).
_CURSOR: Final = re.compile(r"([ck])\.([A-Za-z0-9][A-Za-z0-9_.-]{0,63})\Z")
#: Schedules that an error names.
_NAMED: Final = 5
#: Deleted spiders whose unnamed versions are forgotten when another one is deleted.
_BESIDE: Final = 10
#: Characters of a description that a list shows.
_LONGEST: Final = 1_000
#: The value of an open place while a start is checked.
_STAND_IN = "0"


# Protocols, as spiders stand below schedules and jobs, whose stores answer.


class NamesSpider(Protocol):
    """A schedule, as far as it names a spider and perhaps its version."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def spider(self) -> str | None: ...  # noqa: D102
    @property
    def spider_version(self) -> int | None: ...  # noqa: D102


class SpiderSchedules(Protocol):
    """The schedules of a biz."""

    def of_biz(self, tenant: str, biz: str) -> Sequence[NamesSpider]: ...  # noqa: D102


class SpiderJobs(Protocol):
    """The jobs of a spider."""

    def open_versions(self, tenant: str, biz: str, spider: str) -> set[int]: ...  # noqa: D102


def refused(biz: Biz, rule: str, start: models.Start) -> list[Problem]:
    """Find what admission refuses: of every URL of a start, or of both ends of its pattern."""
    start, _ = models.bind(start, dict.fromkeys(models.open_places(start), _STAND_IN))
    if start.pattern is None:
        named = [(f"start.urls[{index}]", url) for index, url in enumerate(start.urls)]
    else:
        ends = sorted({0, models.size(start) - 1})
        named = [("start.pattern", models.url_at(start, index)) for index in ends]
    return refused_urls(biz, rule, named)


def refused_urls(biz: Biz, rule: str, urls: Iterable[tuple[str, str]]) -> list[Problem]:
    """Find what admission refuses of URLs, by the field that each comes from."""
    admission = Admission(biz)
    found: list[Problem] = []
    for field, url in urls:
        admitted = admission.admit(Submission(url=url, rule=rule), f"{field}.")
        if isinstance(admitted, Body):
            continue
        # All have one rule; a URL's own path ends in its field.
        found += [
            Problem("rule", problem.message)
            if problem.field.endswith(".rule")
            else Problem(problem.field.removesuffix(".url"), problem.message)
            for problem in admitted
        ]
    return list(dict.fromkeys(found))


def named_start(biz: Biz, rule: str) -> models.Start:
    """Return the start that the parameters of an executor's spider name; without one, none.

    Raises InvalidRequestError: its executor cannot be had here, or cannot say it.
    """
    reader = biz.reader(rule)
    if not isinstance(reader, Spider):
        return models.NO_START
    # Executors come with all that reads pages, but for the parsers.
    from crawlfleet.crawling.executors.registry import starts_of

    return models.Start(urls=tuple(dict.fromkeys(starts_of(reader))))


def _problems(biz: Biz, plan: models.SpiderPlan, pools: Collection[str]) -> list[Problem]:
    start = plan.start
    if start == models.NO_START:
        try:
            start = named_start(biz, plan.rule)
        except InvalidRequestError as error:
            return list(error.problems)
    problems = models.problems_with(start)
    if biz.reader(plan.rule) is None:
        names = ", ".join(biz.readers[:10])
        problems.append(Problem("rule", f"this biz has no rule {plan.rule!r}; it has: {names}"))
    elif not problems:
        problems += refused(biz, plan.rule, start)
    if plan.link.test_url is not None:
        fault = problem_with(plan.link.test_url)
        problems += [] if fault is None else [Problem("link.test_url", fault)]
    if plan.pool is not None and plan.pool not in pools:
        known = ", ".join(sorted(pools)[:10])
        problems.append(Problem("pool", f"there is no pool {plan.pool!r}; there is: {known}"))
    length = len(msgspec.json.encode(plan))
    if length > models.LARGEST_PLAN:
        message = f"makes {length:,} bytes, of {models.LARGEST_PLAN:,} that a spider may have"
        problems.append(Problem("start", message))
    return problems


def _configured(biz: Biz, name: str) -> models.ConfiguredSpider:
    reader = biz.reader(name)
    assert reader is not None  # noqa: S101  whoever asks has looked
    return models.ConfiguredSpider(
        name=name,
        version=reader.version,
        executor=None if isinstance(reader, Rule) else reader.executor,
        description=reader.description[:_LONGEST],
    )


def _position(cursor: str | None) -> tuple[str, str | None]:
    if cursor is None:
        return "c", None
    match = _CURSOR.match(cursor)
    if match is None:
        raise InvalidRequestError.of("cursor", "is no cursor of this list")
    return match[1], match[2]


def _unknown(name: str, version: int | None = None) -> NotFoundError:
    which = "" if version is None else f", version {version}"
    return NotFoundError(f"this biz keeps no spider called {name[:64]!r}{which}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpiderService:
    """The service that keeps spiders."""

    spiders: "MongoSpiders"
    schedules: SpiderSchedules
    jobs: SpiderJobs

    def put(
        self,
        tree: Tree,
        tenant: str,
        biz_name: str,
        name: str,
        plan: models.SpiderPlan,
        pools: Collection[str],
        now: datetime,
    ) -> tuple[models.KeptSpider, bool]:
        """Keep a plan; return its version, and whether this call has made it.

        Raises:
            InvalidRequestError: every problem, with its field; nothing is kept.
            QuotaExceededError: the biz keeps as many spiders as it may.
        """
        _, biz = biz_of(tree, tenant, biz_name)
        problems = _problems(biz, plan, pools)
        if problems:
            raise InvalidRequestError(problems)
        before = self.spiders.get(tenant, biz_name, name)
        kept = self.spiders.put(tenant, biz_name, name, plan, now)
        is_new = before is None or kept.version > before.version
        if is_new and kept.version > models.MOST_VERSIONS:
            self._forget(tenant, biz_name, [name], now)
        return kept, is_new

    def get(
        self, tree: Tree, tenant: str, biz_name: str, name: str, version: int | None
    ) -> models.KeptSpider | models.ConfiguredSpider:
        """Get a kept spider in one version, or the newest; else what the biz document calls so.

        Raises NotFoundError (there is neither).
        """
        _, biz = biz_of(tree, tenant, biz_name)
        found = self.spiders.get(tenant, biz_name, name, version)
        if found is not None:
            return found
        if version is None and biz.reader(name) is not None:
            return _configured(biz, name)
        raise _unknown(name, version)

    def list_all(
        self, tree: Tree, tenant: str, biz_name: str, *, cursor: str | None, limit: int
    ) -> Listing[models.KeptSpider | models.ConfiguredSpider]:
        """List what the biz document has, rules and spiders by name, then what is kept, by name.

        Raises InvalidRequestError (the cursor is none of this list).
        """
        _, biz = biz_of(tree, tenant, biz_name)
        origin, after = _position(cursor)
        found: list[models.KeptSpider | models.ConfiguredSpider] = []
        if origin == "c":
            later = [name for name in sorted(biz.readers) if after is None or name > after]
            found += [_configured(biz, name) for name in later[: limit + 1]]
            after = None
        if len(found) <= limit:
            found += self.spiders.of_biz(tenant, biz_name, after, limit + 1 - len(found))
        shown = found[:limit]
        if not shown:
            return Listing(shown, cursor, more=False)
        last = shown[-1]
        kind = "k" if isinstance(last, models.KeptSpider) else "c"
        return Listing(shown, f"{kind}.{last.name}", more=len(found) > limit)

    def list_versions(
        self, tree: Tree, tenant: str, biz_name: str, name: str
    ) -> list[models.KeptSpider]:
        """List the versions that are kept of a spider, the newest first; also of a deleted one.

        Raises NotFoundError (none is).
        """
        biz_of(tree, tenant, biz_name)
        found = self.spiders.versions(tenant, biz_name, name, models.MOST_VERSIONS)
        if not found:
            raise _unknown(name)
        return found

    def delete(self, tree: Tree, tenant: str, biz_name: str, name: str, now: datetime) -> None:
        """Delete a spider; its jobs go on, and what they name of it stays.

        What nothing names any more is forgotten then, and when another spider of the biz is
        deleted.

        Raises:
            NotFoundError: this biz keeps none of that name.
            ConflictError: schedules name it.
        """
        biz_of(tree, tenant, biz_name)
        if self.spiders.get(tenant, biz_name, name) is None:
            raise _unknown(name)
        schedules = self.schedules.of_biz(tenant, biz_name)
        naming = [schedule.name for schedule in schedules if schedule.spider == name]
        if naming:
            more = "" if len(naming) <= _NAMED else f" and {len(naming) - _NAMED:,} more"
            names = ", ".join(naming[:_NAMED])
            raise ConflictError(f"schedules start it: {names}{more}; delete or change them first")
        if not self.spiders.delete(tenant, biz_name, name):
            raise _unknown(name)
        # The spider is deleted, whatever fails here: the versions are left to the next deletion.
        with suppress(StoreUnavailableError):
            earlier = self.spiders.deleted(tenant, biz_name, name, _BESIDE)
            earlier += self.spiders.deleted(tenant, biz_name, None, _BESIDE - len(earlier) or 1)
            self._forget(tenant, biz_name, dict.fromkeys([name, *earlier]), now)

    def _forget(self, tenant: str, biz_name: str, names: Iterable[str], now: datetime) -> None:
        """Forget the versions of these spiders that no open job and no schedule names."""
        schedules = self.schedules.of_biz(tenant, biz_name)
        for name in names:
            named = self.jobs.open_versions(tenant, biz_name, name)
            its = [schedule for schedule in schedules if schedule.spider == name]
            named |= {one.spider_version for one in its if one.spider_version is not None}
            self.spiders.forget(tenant, biz_name, name, named, now)
