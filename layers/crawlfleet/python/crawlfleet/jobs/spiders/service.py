"""Keeping spiders (SPEC.md B2, B11, C2): check and put one, read, list and delete them.

The store of spiders, as their verbs ask for it.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

import msgspec

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.rule import Rule
from crawlfleet.config.lookup import biz_of
from crawlfleet.jobs.spiders.models import (
    LARGEST_PLAN,
    MOST_VERSIONS,
    ConfiguredSpider,
    KeptSpider,
    SpiderPlan,
)
from crawlfleet.jobs.spiders.starts import problems_with, refused
from crawlfleet.kernel.errors import (
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    Problem,
    StoreUnavailableError,
)
from crawlfleet.kernel.paging import Listing
from crawlfleet.kernel.urls import problem_with


class SpiderStore(Protocol):
    """Kept spiders: of each the last versions (``MOST_VERSIONS``), and whatever is named or held.

    What open jobs and schedules name is not known here: whoever has versions forgotten says it.
    """

    def put(self, tenant: str, biz: str, name: str, plan: SpiderPlan, now: datetime) -> KeptSpider:
        """Keep a plan as the spider's newest version; the newest itself where it is the same.

        Another description alone makes no version: it takes the old one's place. Two that put at
        once make two versions, none lost. A deleted spider's numbers go on where they were.

        Raises:
            QuotaExceededError: the biz keeps as many spiders as it may (``MOST_SPIDERS``).
            StoreUnavailableError: also where so many put at once that it never had its turn.
        """
        ...

    def hold(self, spider: KeptSpider, now: datetime) -> None:
        """A job or a schedule will name this version: it stays for as long as keeping that takes.

        Forgotten meanwhile, it is kept again. After ``HOLD`` it stays only if it is named.
        """
        ...

    def get(
        self, tenant: str, biz: str, name: str, version: int | None = None
    ) -> KeptSpider | None:
        """One version, the newest where none is named; None where there is none.

        Those of a deleted spider are found by their number until they are forgotten.
        """
        ...

    def of_biz(self, tenant: str, biz: str, after: str | None, limit: int) -> list[KeptSpider]:
        """The newest version of each spider, by name, beginning after a name."""
        ...

    def versions(self, tenant: str, biz: str, name: str, limit: int) -> list[KeptSpider]:
        """Versions of a spider, the newest first."""
        ...

    def delete(self, tenant: str, biz: str, name: str) -> bool:
        """Start it no more; its versions stay until they are forgotten. False without one."""
        ...

    def forget(
        self, tenant: str, biz: str, name: str, named: Collection[int], now: datetime
    ) -> int:
        """Forget versions but for those ``named`` or held: old ones; all of a deleted spider.

        Returns how many. A deleted spider's number stays for as long as ended jobs may have it.
        """
        ...

    def deleted(self, tenant: str, biz: str, after: str | None, limit: int) -> list[str]:
        """Deleted spiders of which versions are left, by name, beginning after one."""
        ...


#: Where a list goes on: after a name of the configuration's (c), then after one that is kept (k).
_CURSOR: Final = re.compile(r"([ck])\.([A-Za-z0-9][A-Za-z0-9_.-]{0,63})\Z")
#: Schedules that an error names.
_NAMED: Final = 5
#: Of so many deleted spiders, when one more is deleted, what nothing names any more is forgotten.
_BESIDE: Final = 10
#: Characters of a description that a list shows.
_LONGEST: Final = 1_000


class NamesSpider(Protocol):
    """A schedule, as far as it names a spider."""

    @property
    def name(self) -> str:
        """Its own name."""
        ...

    @property
    def spider(self) -> str | None:
        """The spider that it starts."""
        ...

    @property
    def spider_version(self) -> int | None:
        """The version of it, where it names one."""
        ...


class SpiderSchedules(Protocol):
    """The schedules of a biz."""

    def of_biz(self, tenant: str, biz: str) -> Sequence[NamesSpider]:
        """Every schedule of a biz, by name."""
        ...


class SpiderJobs(Protocol):
    """The jobs of a spider."""

    def open_versions(self, tenant: str, biz: str, spider: str) -> set[int]:
        """The versions of a spider that open jobs name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SpiderPorts:
    """What keeping spiders needs of the world."""

    spiders: SpiderStore
    schedules: SpiderSchedules
    jobs: SpiderJobs


def put_spider(
    ports: SpiderPorts,
    tree: Tree,
    tenant: str,
    biz_name: str,
    name: str,
    plan: SpiderPlan,
    pools: Collection[str],
    now: datetime,
) -> tuple[KeptSpider, bool]:
    """Keep a plan; the version that stands for it, and whether it was made by this.

    Raises:
        InvalidRequestError: every mistake, with its field; nothing is kept.
        QuotaExceededError: the biz keeps as many spiders as it may.
    """
    _, biz = biz_of(tree, tenant, biz_name)
    problems = _errors(biz, plan, pools)
    if problems:
        raise InvalidRequestError(problems)
    before = ports.spiders.get(tenant, biz_name, name)
    kept = ports.spiders.put(tenant, biz_name, name, plan, now)
    is_new = before is None or kept.version > before.version
    if is_new and kept.version > MOST_VERSIONS:
        _forget(ports, tenant, biz_name, [name], now)
    return kept, is_new


def get_spider(
    ports: SpiderPorts, tree: Tree, tenant: str, biz_name: str, name: str, version: int | None
) -> KeptSpider | ConfiguredSpider:
    """A kept spider in one version, or the newest; else what the biz document calls so.

    Raises:
        NotFoundError: there is neither.
    """
    _, biz = biz_of(tree, tenant, biz_name)
    found = ports.spiders.get(tenant, biz_name, name, version)
    if found is not None:
        return found
    if version is None and biz.reader(name) is not None:
        return _configured(biz, name)
    raise _unknown(name, version)


def list_spiders(
    ports: SpiderPorts, tree: Tree, tenant: str, biz_name: str, *, cursor: str | None, limit: int
) -> Listing[KeptSpider | ConfiguredSpider]:
    """What the biz document has, rules and spiders by name, then what is kept, by name.

    Raises:
        InvalidRequestError: the cursor is none of this list.
    """
    _, biz = biz_of(tree, tenant, biz_name)
    origin, after = _position(cursor)
    found: list[KeptSpider | ConfiguredSpider] = []
    if origin == "c":
        later = [name for name in sorted(biz.readers) if after is None or name > after]
        found += [_configured(biz, name) for name in later[: limit + 1]]
        after = None
    if len(found) <= limit:
        found += ports.spiders.of_biz(tenant, biz_name, after, limit + 1 - len(found))
    shown = found[:limit]
    if not shown:
        return Listing(shown, cursor, more=False)
    last = shown[-1]
    kind = "k" if isinstance(last, KeptSpider) else "c"
    return Listing(shown, f"{kind}.{last.name}", more=len(found) > limit)


def list_versions(
    ports: SpiderPorts, tree: Tree, tenant: str, biz_name: str, name: str
) -> list[KeptSpider]:
    """The versions that are kept of a spider, the newest first; also of a deleted one.

    Raises:
        NotFoundError: none is.
    """
    biz_of(tree, tenant, biz_name)
    found = ports.spiders.versions(tenant, biz_name, name, MOST_VERSIONS)
    if not found:
        raise _unknown(name)
    return found


def delete_spider(
    ports: SpiderPorts, tree: Tree, tenant: str, biz_name: str, name: str, now: datetime
) -> None:
    """Delete a spider; its jobs go on, and what they name of it stays.

    What nothing names any more is forgotten then, and when another spider of the biz is deleted.

    Raises:
        NotFoundError: this biz keeps none of that name.
        ConflictError: schedules name it.
    """
    biz_of(tree, tenant, biz_name)
    if ports.spiders.get(tenant, biz_name, name) is None:
        raise _unknown(name)
    schedules = ports.schedules.of_biz(tenant, biz_name)
    naming = [schedule.name for schedule in schedules if schedule.spider == name]
    if naming:
        more = "" if len(naming) <= _NAMED else f" and {len(naming) - _NAMED:,} more"
        raise ConflictError(
            f"schedules start it: {', '.join(naming[:_NAMED])}{more}; delete or change them first"
        )
    if not ports.spiders.delete(tenant, biz_name, name):
        raise _unknown(name)
    # It is deleted, whatever becomes of what is left: that stays for the next one.
    with suppress(StoreUnavailableError):
        earlier = ports.spiders.deleted(tenant, biz_name, name, _BESIDE)
        earlier += ports.spiders.deleted(tenant, biz_name, None, _BESIDE - len(earlier) or 1)
        _forget(ports, tenant, biz_name, dict.fromkeys([name, *earlier]), now)


def _forget(
    ports: SpiderPorts, tenant: str, biz_name: str, names: Iterable[str], now: datetime
) -> None:
    """Forget what no open job and no schedule names of these spiders."""
    schedules = ports.schedules.of_biz(tenant, biz_name)
    for name in names:
        named = ports.jobs.open_versions(tenant, biz_name, name)
        named |= {
            schedule.spider_version
            for schedule in schedules
            if schedule.spider == name and schedule.spider_version is not None
        }
        ports.spiders.forget(tenant, biz_name, name, named, now)


def _errors(biz: Biz, plan: SpiderPlan, pools: Collection[str]) -> list[Problem]:
    problems = problems_with(plan.start)
    if biz.reader(plan.rule) is None:
        names = ", ".join(biz.readers[:10])
        problems.append(Problem("rule", f"this biz has no rule {plan.rule!r}; it has: {names}"))
    elif not problems:
        problems += refused(biz, plan.rule, plan.start)
    if plan.link.test_url is not None:
        fault = problem_with(plan.link.test_url)
        problems += [] if fault is None else [Problem("link.test_url", fault)]
    if plan.pool is not None and plan.pool not in pools:
        known = ", ".join(sorted(pools)[:10])
        problems.append(Problem("pool", f"there is no pool {plan.pool!r}; there is: {known}"))
    length = len(msgspec.json.encode(plan))
    if length > LARGEST_PLAN:
        message = f"makes {length:,} bytes, of {LARGEST_PLAN:,} that a spider may have"
        problems.append(Problem("start", message))
    return problems


def _configured(biz: Biz, name: str) -> ConfiguredSpider:
    reader = biz.reader(name)
    assert reader is not None  # noqa: S101  whoever asks has looked
    return ConfiguredSpider(
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
