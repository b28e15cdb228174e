"""Run schedules (SPEC.md B1, C2): each due fire time becomes a job, once.

The job comes first, under a name that follows from the fire time; then the schedule advances to its
next fire time. Whoever comes second, or goes on after a crash, finds the job and advances from
there. The open jobs of a schedule are counted, and cancelled where its new job replaces them, in
the transaction that keeps the new job: fires and runs by hand that meet come one after the other.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import biz_of
from crawlfleet.jobs.models import Job, JobOrder
from crawlfleet.jobs.schedules.cron import Due, fires_due, next_fire, planned
from crawlfleet.jobs.schedules.models import Outcome, OutcomeKind, Overlap, Schedule
from crawlfleet.jobs.service import JobStarter, OverlapLimit
from crawlfleet.jobs.spiders.models import Start
from crawlfleet.kernel import errors
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import Clock, TimeLeft, from_ms, to_ms
from crawlfleet.requests.submission.admission import fire_name, run_now_name

if TYPE_CHECKING:
    from crawlfleet.jobs.schedules.mongo import MongoSchedules

#: Jobs of one schedule that may be open at once, whatever its overlap policy. Where that is
#: ``ALLOW``, those that are started at the same moment may each be one more.
OPEN_JOBS: Final = 100
#: Seconds of a tick that are left to others, should a node not answer, schedule by schedule.
MARGIN_SECONDS: Final = 60.0
#: Seconds of a tick for schedules: jobs are to be cancelled, expanded and ended, too.
BUDGET_SECONDS: Final = 30.0
#: Schedules read at once, and missed fire times created for one of them in a tick.
SCHEDULES_A_PAGE: Final = 200
FIRES_A_TICK: Final = 60
#: Until a schedule that begins to wait, or that a store has failed, is due again: the next tick.
SOON: Final = timedelta(seconds=30)
#: The same where somebody has to fix something first.
LATER: Final = timedelta(minutes=5)


def _order(schedule: Schedule, name: str, by: str, fire_at: datetime | None) -> JobOrder:
    return JobOrder(
        tenant=schedule.tenant,
        biz=schedule.biz,
        by=by,
        name=name,
        spider=schedule.spider,
        version=schedule.spider_version,
        rule=schedule.rule,
        start=Start(urls=schedule.urls) if schedule.urls else schedule.start,
        values=schedule.values,
        priority=schedule.priority,
        segment=schedule.segment,
        user=schedule.user,
        schedule=schedule.name,
        fire_at=fire_at,
    )


def _runs_alone(schedule: Schedule) -> bool:
    return schedule.overlap in (Overlap.SKIP, Overlap.QUEUE)


def _failure(fire_at: datetime, error: Exception, now: datetime) -> Outcome:
    """Describe an error to the schedule's owner; what is ours stays in our log."""
    if isinstance(error, errors.UnknownBizError):
        why = "its biz was removed: push that again, or delete the schedule"
    elif isinstance(error, errors.RejectedError):
        why = str(error)[:1_000]
    else:
        why = "a part of the platform has failed"
    return Outcome(kind=OutcomeKind.FAILED, fire_at=fire_at, at=now, why=why)


class _TimeBudget:
    """The time of a tick that schedules have; once it is up it stays so."""

    def __init__(self, time_left: TimeLeft, clock: Callable[[], float]) -> None:
        self._left, self._clock = time_left, clock
        self._until = clock() + BUDGET_SECONDS
        self.is_up = False

    def more(self) -> bool:
        """Tell whether there is any left."""
        self.is_up = self.is_up or self._clock() > self._until or self._left() < MARGIN_SECONDS
        return not self.is_up


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRunner:
    """The service that fires schedules, in time and by hand."""

    schedules: "MongoSchedules"
    starter: JobStarter

    def run_due(
        self,
        tree: Tree,
        now: datetime,
        time_left: TimeLeft,
        *,
        page: int = SCHEDULES_A_PAGE,
        clock: Callable[[], float] = monotonic,
    ) -> int:
        """Start the jobs of every due schedule, and return how many.

        A schedule that cannot be run (its biz, rule or spider is gone, a store is away) is logged,
        says so in its last outcome, and delays no other. Tenants alternate. What there is no time
        for stays due, and is not late for that. ``page`` schedules are read at once; ``clock``
        measures what they have of a tick.
        """
        fires, time_for = 0, _TimeBudget(time_left, clock)
        since = self.schedules.begin_scan(now)
        seen: set[tuple[str, str, str]] = set()
        stay: set[tuple[str, str, str]] = set()
        while not time_for.is_up:
            listed = self.schedules.due(now, page + len(stay))
            fresh = [due for due in listed if due.key not in seen]
            again = {due.key for due in listed} & seen
            if not fresh and again <= stay:
                self.schedules.end_scan()
                break
            # Schedules with more to run, or that could not go on, stay due until the next tick.
            stay |= again
            for due in fresh:
                if not time_for.more():
                    break
                seen.add(due.key)
                try:
                    fires += _DueFires(self, tree, due, now, since).run(time_for)
                except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
                    warn(f"schedule {'/'.join(due.key)} could not go on", error)
        return fires

    def run_in_time(
        self,
        run: Callable[[datetime], int],
        since: datetime,
        clock: Clock,
        time_left: TimeLeft,
        *,
        sleep: Callable[[float], None],
    ) -> int:
        """Run the schedules that come due after ``since`` in the time left, each when it does.

        ``run`` runs what is due by a moment, and returns how many fired, as this does. What was due
        and did not fire is left to the next tick.
        """
        fires = 0
        while (left := time_left()) > 0:
            due_at = self.schedules.next_due(since, clock() + timedelta(seconds=left))
            if due_at is None:
                break
            sleep(max(0.0, (due_at - clock()).total_seconds()))
            fires += run(max(due_at, clock()))
            since = due_at
        return fires

    def fire(self, tree: Tree, schedule: Schedule, fire_at: datetime, now: datetime) -> Outcome:
        """Start the job of a fire time, or say why there is none (yet).

        Raises CrawlfleetError (its biz, rule or spider is gone, or a store does not answer).
        """
        biz_of(tree, schedule.tenant, schedule.biz)
        name = fire_name(schedule.name, fire_at)

        def outcome(
            kind: OutcomeKind, why: str = "", job: str | None = None, *, as_meant: bool = False
        ) -> Outcome:
            return Outcome(kind=kind, fire_at=fire_at, at=now, job=job, why=why, as_meant=as_meant)

        # Counted first: an open job that is this fire's own is then found by its name.
        limit = self._limit(schedule)
        job = self.starter.jobs.get(schedule.tenant, schedule.biz, name)
        if job is None:
            order = _order(schedule, name, "schedule", fire_at)
            try:
                job = self._start(tree, schedule, order, now, limit)
            except errors.ConflictError as error:
                skips = schedule.overlap is Overlap.SKIP
                kind = OutcomeKind.SKIPPED if skips else OutcomeKind.WAITING
                return outcome(kind, str(error), as_meant=_runs_alone(schedule))
            except (errors.QuotaExceededError, errors.TenantSuspendedError) as error:
                return outcome(OutcomeKind.WAITING, str(error))
        if job.schedule != schedule.name:
            return outcome(OutcomeKind.SKIPPED, f"a job of others has its name, {name}")
        return outcome(OutcomeKind.STARTED, job=name)

    def run_now(self, tree: Tree, schedule: Schedule, key: str | None, now: datetime) -> Job:
        """Start a job of a schedule beside its fire times, once under an idempotency key.

        Raises:
            ConflictError: the schedule has as many open jobs as it may, or its name is taken.
            CrawlfleetError: it cannot be started.
        """
        biz_of(tree, schedule.tenant, schedule.biz)
        name = run_now_name(schedule.name, key, now)
        limit = self._limit(schedule)
        job = self.starter.jobs.get(schedule.tenant, schedule.biz, name)
        if job is None:
            order = _order(schedule, name, "run_now", None)
            job = self._start(tree, schedule, order, now, limit)
        if job.schedule != schedule.name:
            raise errors.ConflictError(f"a job of others has the name {name}")
        return job

    def _limit(self, schedule: Schedule) -> OverlapLimit:
        return OverlapLimit(
            open=self.starter.jobs.count_open(schedule.tenant, schedule.biz, schedule.name),
            most=1 if _runs_alone(schedule) else OPEN_JOBS,
            instead=schedule.overlap is Overlap.REPLACE,
        )

    def _start(
        self, tree: Tree, schedule: Schedule, order: JobOrder, now: datetime, limit: OverlapLimit
    ) -> Job:
        """Start a job of a schedule, unless as many are open as may be.

        They are counted again in a transaction as it is kept; ``ALLOW`` is spared that, as its jobs
        that start at the same moment may each be one more.

        Raises:
            ConflictError: the schedule has as many open jobs as it may.
            CrawlfleetError: it cannot be started.
        """
        if limit.open >= limit.most:
            key = schedule.tenant, schedule.biz, schedule.name
            raise errors.ConflictError(self.starter.overlap_reason(*key))
        if order.spider is not None:
            # A version that jobs name may outlive its spider; a schedule must not use it.
            newest = self.starter.spiders.get(schedule.tenant, schedule.biz, order.spider)
            if newest is None:
                raise errors.NotFoundError(f"this biz keeps no spider called {order.spider[:64]!r}")
        counts = schedule.overlap is not Overlap.ALLOW
        return self.starter.start(tree, order, now, limit=limit if counts else None)


class _DueFires:
    """The due fire times of one schedule. ``_standing`` is the schedule as it was left last."""

    def __init__(
        self, runner: "ScheduleRunner", tree: Tree, due: Schedule, now: datetime, since: datetime
    ) -> None:
        self._since = since
        self._runner, self._tree = runner, tree
        self._standing = due
        self._now = from_ms(to_ms(now))

    def run(self, time_for: _TimeBudget) -> int:
        """Fire them in their order, until one waits, fails, or is another scheduler's."""
        due = fires_due(self._standing, self._now, FIRES_A_TICK, self._since)
        if not due.fires:
            self._pass_over(due)
        fires, passed = 0, due.passed
        for fire_at in due.fires:
            if not (time_for.more() and self._stands()):
                break
            try:
                outcome = self._runner.fire(self._tree, self._standing, fire_at, self._now)
            except Exception as error:  # noqa: BLE001  it is stored, and tried again
                warn(f"schedule {'/'.join(self._standing.key)} could not run", error)
                again = isinstance(error, errors.CrawlfleetError) and error.retryable
                self._put_off(_failure(fire_at, error, self._now), SOON if again else LATER)
                break
            if outcome.kind is OutcomeKind.WAITING:
                self._put_off(outcome, self._wait(fire_at))
                break
            fires += outcome.kind is OutcomeKind.STARTED
            why = "; ".join(filter(None, (outcome.why, passed)))
            if not self._go_on(fire_at, replace(outcome, why=why)):
                break
            passed = ""
        return fires

    def _stands(self) -> bool:
        """Tell whether it is as it was read: not put anew, paused, deleted or advanced."""
        kept = self._runner.schedules.get(*self._standing.key)
        read = self._standing.version, self._standing.fire_at, self._standing.next_at
        return kept is not None and (kept.version, kept.fire_at, kept.next_at) == read

    def _go_on(self, fire_at: datetime, outcome: Outcome) -> bool:
        following = next_fire(self._standing, fire_at)
        started = outcome.kind is OutcomeKind.STARTED
        last_fired_at = fire_at if started else self._standing.last_fired_at
        to = planned(self._standing, following)
        return self._advance(replace(to, last_fired_at=last_fired_at, last_outcome=outcome))

    def _pass_over(self, due: Due) -> None:
        """Go on to the first fire time that still counts."""
        fire_at = self._standing.fire_at
        if fire_at is None or not due.passed:
            return
        kind, why, last = OutcomeKind.SKIPPED, due.passed, self._standing.last_outcome
        outcome = Outcome(kind=kind, fire_at=fire_at, at=self._now, why=why, as_meant=True)
        if last is not None and last.fire_at == fire_at and not last.as_meant:
            # What could not start in time has failed: its reason stays known.
            outcome = replace(outcome, why=f"{why}; {last.why}", as_meant=False)
        self._advance(replace(planned(self._standing, due.resume_at), last_outcome=outcome))

    def _wait(self, fire_at: datetime) -> timedelta:
        """Double the wait each time the same fire waits."""
        last, next_at = self._standing.last_outcome, self._standing.next_at
        if last is None or next_at is None:
            return SOON
        if (last.kind, last.fire_at) != (OutcomeKind.WAITING, fire_at):
            return SOON
        return min(max(2 * (next_at - last.at), SOON), LATER)

    def _put_off(self, outcome: Outcome, pause: timedelta) -> None:
        standing = replace(self._standing, fire_at=outcome.fire_at, next_at=self._now + pause)
        self._advance(replace(standing, last_outcome=outcome))

    def _advance(self, to: Schedule) -> bool:
        if to.last_outcome is not None and to.last_outcome.has_failed:
            to = replace(to, last_failure=to.last_outcome)
        done = self._runner.schedules.advance(self._standing, to)
        self._standing = to
        return done
