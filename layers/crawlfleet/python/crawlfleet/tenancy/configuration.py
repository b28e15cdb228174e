"""Change the configuration by calls: checked first, tried without writing, kept as versions.

A change is one push, made of what stands at that moment, for the revision that its caller has seen.
The version that it replaces is kept before anything is written, so that nothing is changed which
could not be told of, and undone, later. One change goes at a time, those of tenants among them; new
rules and spiders are checked before that, as their parsers may take long.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from crawlfleet.config import publishing
from crawlfleet.config.documents.biz import Biz, Stage
from crawlfleet.config.documents.history import HistoryTerms
from crawlfleet.config.editing import Difference, differences
from crawlfleet.config.loading import shape_of
from crawlfleet.config.publishing import Plan
from crawlfleet.config.validation import unchecked
from crawlfleet.config.versions.models import Note, owner_of
from crawlfleet.config.versions.mongo import MongoVersions
from crawlfleet.crawling.trials.checking import ReaderChecks
from crawlfleet.crawling.trials.remote import Trials
from crawlfleet.jobs.mongo.lists import JobLists
from crawlfleet.jobs.schedules.mongo import MongoSchedules
from crawlfleet.kernel.errors import (
    BacklogFullError,
    ConfigError,
    ConflictError,
    CrawlfleetError,
    InvalidRequestError,
    Problem,
    StoreConflictError,
    StoreUnavailableError,
)
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.names import CONFIG_STAGE
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.validation import decode
from crawlfleet.requests.queue.redis.queue import RedisQueue
from crawlfleet.streams.subscriptions.mongo import MongoSubscriptions
from crawlfleet.tenancy.own_edits import refusals
from crawlfleet.tenancy.service import Tenants

#: Bizs whose open work a change tells of, and subscriptions of one that are counted.
MOST_TOUCHED: Final = 50
_MOST_COUNTED: Final = 1_000
#: The part of the versions that are kept which one tenant may make in a day.
PART: Final = 20
_DAY: Final = timedelta(days=1)
#: Makes the documents that are wanted of those that stand.
Wanted = Callable[[Mapping[str, str]], Mapping[str, str]]


class Touched(msgspec.Struct, frozen=True, kw_only=True):
    """The open work of a biz whose document changes."""

    tenant: str
    biz: str
    requests: int
    jobs: int
    schedules: int
    subscriptions: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A change that was made, or tried: its revision, or the standing one, and what differs.

    ``bizs`` are those that it changes, of which ``touched`` are the first.
    """

    revision: str
    differences: tuple[Difference, ...]
    touched: tuple[Touched, ...]
    bizs: int
    written: bool


@dataclass(frozen=True, slots=True)
class Configuration:
    """The configuration of a stage as calls change it, where functions may write it."""

    tenants: Tenants
    versions: MongoVersions
    _: KW_ONLY
    is_writable: bool
    trials: Trials
    queue: RedisQueue
    jobs: JobLists
    schedules: MongoSchedules
    subscriptions: MongoSubscriptions

    def change(
        self,
        wanted: Wanted,
        now: datetime,
        *,
        expected: str | None,
        tenant: str | None,
        note: Note,
        dry_run: bool = False,
        checks_readers: bool = True,
    ) -> Outcome:
        """Make a change, or with ``dry_run`` tell what it would do; for operators or a ``tenant``.

        Raises:
            InvalidRequestError: what is wanted is wrong, or none of the tenant's; names each field.
            BacklogFullError: the tenant has made its part of the versions that are kept.
            ConflictError: the stage is not at the ``expected`` revision any more, or functions may
                write no configuration here.
            StoreUnavailableError: a store does not answer; what was written is not announced.
        """
        if not (dry_run or self.is_writable):
            said = "functions of this stage may not write the configuration: `crawlfleet config "
            raise ConflictError(f"{said}push` does; `dry_run` tells what would change")
        checks = None
        if checks_readers:
            checks = ReaderChecks(self.trials, _readers(self.tenants.documents()))
        if dry_run:
            plan = self._planned(wanted, now, expected, tenant, checks)
            return self._outcome(plan, plan.revision or "", written=False)
        if checks is not None:
            tried = self._planned(wanted, now, expected, tenant, checks)
            checks = ReaderChecks(None, checks.known | _readers(tried.wanted()))
        with self.tenants.locked():
            plan = self._planned(wanted, now, expected, tenant, checks)
            if not (plan.put or plan.deleted):
                return self._outcome(plan, plan.revision or "", written=False)
            outcome = self._outcome(plan, "", written=True)
            terms = _stage_of(plan.wanted()).history
            if tenant is not None:
                self._check_room(tenant, now, terms)
            if plan.revision is not None:
                self.versions.keep(plan.revision, plan.stored.documents, now, terms)
            try:
                written = publishing.carry_out(self.tenants.ssm, self.tenants.stage, plan, now=now)
            except StoreConflictError as error:
                said = "somebody else pushed meanwhile; look at it, and ask again"
                raise ConflictError(said) from error
            with suppress(StoreUnavailableError, ConfigError):
                self.tenants.revisions.look(written.revision)
            try:
                self.versions.keep(written.revision, plan.wanted(), now, terms, note)
            except CrawlfleetError as error:  # it is in force: the scheduler keeps what it sees
                warn("a version of the configuration was kept without who made it", error)
        return msgspec.structs.replace(outcome, revision=written.revision)

    def _check_room(self, tenant: str, now: datetime, terms: HistoryTerms) -> None:
        """Let no tenant fill the history that it shares with all others."""
        made, most = self.versions.made_since(tenant, now - _DAY), max(1, terms.versions // PART)
        if made >= most:
            raise BacklogFullError(
                f"{tenant} has made {made:,} versions of the configuration within a day, the most "
                "that it may: put several changes into one call",
                retry_after_seconds=_DAY / timedelta(seconds=1) / most,
                limit="history.versions",
                used=made,
                allowed=most,
            )

    def _planned(
        self,
        wanted: Wanted,
        now: datetime,
        expected: str | None,
        tenant: str | None,
        checks: ReaderChecks | None,
    ) -> Plan:
        """Plan a change; whatever forbids it is raised. Without ``checks`` readers stand as right.

        Raises ConflictError where they cannot be checked any more: somebody changed them meanwhile.
        """

        def wanted_of(
            standing: Mapping[str, str], _given: Mapping[str, str], **_: bool
        ) -> dict[str, str]:
            return publishing.wanted_of(standing, dict(wanted(standing)), delete=True)

        try:
            plan = publishing.plan(
                self.tenants.ssm,
                self.tenants.stage,
                {},
                check_reader=unchecked if checks is None else checks,
                now=now,
                wanted_of=wanted_of,
            )
        except ConfigError as error:
            raise _refused(error, tenant) from error
        if checks is not None and checks.failure is not None:
            raise checks.failure
        if expected is not None and plan.revision != expected:
            said = f"the configuration is at revision {plan.revision}, not {expected[:100]!r}"
            raise ConflictError(f"{said}: look at what changed, and ask again")
        if tenant is not None and (problems := list(refusals(tenant, plan.before, plan.after))):
            raise InvalidRequestError(problems)
        return plan

    def _outcome(self, plan: Plan, revision: str, *, written: bool) -> Outcome:
        paths = sorted(plan.before.keys() | plan.after.keys())
        bizs = [path for path in paths if shape_of(path) is Biz]
        return Outcome(
            revision=revision,
            differences=tuple(differences(plan.before, plan.after)),
            touched=tuple(self._touched(plan, path) for path in bizs[:MOST_TOUCHED]),
            bizs=len(bizs),
            written=written,
        )

    def _touched(self, plan: Plan, path: str) -> Touched:
        _, tenant, name = path.split("/")
        biz = decode(plan.before.get(path) or plan.after[path], Biz)[0] or Biz()
        depth = self.queue.depth(QueueKey(tenant, name, biz.queue))
        found = self.subscriptions.of_biz(tenant, name, None, _MOST_COUNTED)
        return Touched(
            tenant=tenant,
            biz=name,
            requests=depth.queued + depth.leased + depth.delayed,
            jobs=self.jobs.count_open(tenant, name),
            schedules=self.schedules.count(tenant, name),
            subscriptions=len(found),
        )


def restored(
    standing: Mapping[str, str], earlier: Mapping[str, str], *, tenant: str | None, path: str | None
) -> dict[str, str]:
    """Return the documents with those of an earlier version put back: all, one, or a tenant's bizs.

    >>> restored({"stage": "1", "tenants/a": "2"}, {"stage": "0"}, tenant=None, path="stage")
    {'tenants/a': '2', 'stage': '0'}
    """

    def goes_back(at: str) -> bool:
        if path is not None:
            return at == path
        return tenant is None or (shape_of(at) is Biz and owner_of(at) == tenant)

    stays = {at: text for at, text in standing.items() if not goes_back(at)}
    return stays | {at: text for at, text in earlier.items() if goes_back(at)}


def _refused(error: ConfigError, tenant: str | None) -> CrawlfleetError:
    """Tell of a refusal what concerns who asks: a tenant is not told of others' documents."""
    if tenant is None:
        return InvalidRequestError(error.problems)
    own = [one for one in error.problems if owner_of(_path_in(one)) == tenant]
    if own:
        return InvalidRequestError(own)
    return ConflictError("the configuration as a whole would be refused: ask an operator")


def _path_in(problem: Problem) -> str:
    path = problem.field.partition(": ")[0]
    return path if shape_of(path) is not None else CONFIG_STAGE


def _readers(documents: Mapping[str, str]) -> frozenset[str]:
    """Return the versions of all rules and spiders that stand, which were checked before."""
    found: set[str] = set()
    for path, text in documents.items():
        biz = decode(text, Biz)[0] if shape_of(path) is Biz else None
        if biz is not None:
            found |= {rule.version for rule in biz.rules.values()}
            found |= {spider.version for spider in biz.spiders.values()}
    return frozenset(found)


def _stage_of(documents: Mapping[str, str]) -> Stage:
    return decode(documents.get(CONFIG_STAGE, "{}"), Stage)[0] or Stage()
