"""A cron tick (SPEC.md B1): each fire time of a due schedule becomes a job, once.

The job comes first, under a name that the fire time has, then the schedule goes on to its next fire
time. Whoever comes second, or comes back after a crash, finds the job and goes on from there.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from time import monotonic
from typing import Final

from msgspec.structs import replace

from crawlfleet.errors import CrawlfleetError, RejectedError
from crawlfleet.flows.firing import FiringPorts, fire
from crawlfleet.model.biz import Tree
from crawlfleet.model.schedule import Outcome, OutcomeKind, Schedule
from crawlfleet.model.times import from_ms, to_ms
from crawlfleet.policy.cron import Due, fires_due, next_fire, planned

#: The tick has other things to do than to wait for a silent node, schedule by schedule.
MARGIN_SECONDS: Final = 60.0
#: Schedules have so long of a tick: jobs are to be cancelled, made and ended, too.
BUDGET_SECONDS: Final = 30.0
#: Schedules read at once, and missed fire times created for one of them in a tick.
SCHEDULES_A_PAGE: Final = 200
FIRES_A_TICK: Final = 60
#: Until a schedule that begins to wait, or that a part has failed, is looked at again: the next
#: tick.
SOON: Final = timedelta(seconds=30)
#: The same where somebody has to mend something first. It goes behind others meanwhile.
LATER: Final = timedelta(minutes=5)


def run_due(
    ports: FiringPorts,
    tree: Tree,
    now: datetime,
    time_left: Callable[[], float],
    warn: Callable[[str, Exception], None],
    *,
    page: int = SCHEDULES_A_PAGE,
    clock: Callable[[], float] = monotonic,
) -> int:
    """Start the jobs of every due schedule; returns how many fire times have theirs now.

    A schedule that cannot be run (its biz, rule or spider is gone, a part is down) is told of
    through ``warn`` and in its last outcome, and does not keep others from running. Tenants have
    their turns. What there is no time for stays due, and is not late for that. So many
    schedules are read at once as ``page`` says; ``clock`` measures what they have of a tick.
    """
    fires, time_for = 0, _Time(time_left, clock)
    since = ports.schedules.begin_look(now)
    seen: set[tuple[str, str, str]] = set()
    stay: set[tuple[str, str, str]] = set()
    while not time_for.is_up:
        listed = ports.schedules.due(now, page + len(stay))
        fresh = [due for due in listed if due.key not in seen]
        again = {due.key for due in listed} & seen
        if not fresh and again <= stay:
            ports.schedules.end_look()
            break
        # Those that have more to run, or could not go on, stay due until the next tick.
        stay |= again
        for due in fresh:
            if not time_for.more():
                break
            seen.add(due.key)
            try:
                fires += _Fires(ports, tree, due, now, since, warn).run(time_for)
            except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
                warn(f"schedule {'/'.join(due.key)} could not go on", error)
    return fires


class _Time:
    """Of a tick, what schedules have. Once it is up it stays so."""

    def __init__(self, time_left: Callable[[], float], clock: Callable[[], float]) -> None:
        self._left, self._clock = time_left, clock
        self._until = clock() + BUDGET_SECONDS
        self.is_up = False

    def more(self) -> bool:
        """Whether there is any left."""
        self.is_up = self.is_up or self._clock() > self._until or self._left() < MARGIN_SECONDS
        return not self.is_up


class _Fires:
    """The due fire times of one schedule. ``_standing`` is the schedule as it was left last."""

    def __init__(
        self,
        ports: FiringPorts,
        tree: Tree,
        due: Schedule,
        now: datetime,
        since: datetime,
        warn: Callable[[str, Exception], None],
    ) -> None:
        self._since = since
        self._ports, self._tree, self._warn = ports, tree, warn
        self._standing = due
        self._now = from_ms(to_ms(now))

    def run(self, time_for: _Time) -> int:
        """Deal with them in their order, until one waits, fails, or is somebody else's."""
        due = fires_due(self._standing, self._now, FIRES_A_TICK, self._since)
        if not due.fires:
            self._pass_over(due)
        fires, passed = 0, due.passed
        for fire_at in due.fires:
            if not (time_for.more() and self._stands()):
                break
            try:
                outcome = fire(self._ports, self._tree, self._standing, fire_at, self._now)
            except Exception as error:  # noqa: BLE001  it is told, and tried again
                self._warn(f"schedule {'/'.join(self._standing.key)} could not run", error)
                self._put_off(_failure(fire_at, error, self._now), _pause(error))
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
        """Whether it is as it was read: not put anew, paused or deleted, nor gone on from."""
        kept = self._ports.schedules.get(*self._standing.key)
        return kept is not None and (kept.version, kept.fire_at, kept.next_at) == (
            self._standing.version,
            self._standing.fire_at,
            self._standing.next_at,
        )

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
        kind = OutcomeKind.SKIPPED
        outcome = Outcome(kind=kind, fire_at=fire_at, at=self._now, why=due.passed)
        self._advance(replace(planned(self._standing, due.resume_at), last_outcome=outcome))

    def _wait(self, fire_at: datetime) -> timedelta:
        """Twice as long each time, where the same fire waits."""
        last, next_at = self._standing.last_outcome, self._standing.next_at
        if last is None or next_at is None:
            return SOON
        if (last.kind, last.fire_at) != (OutcomeKind.WAITING, fire_at):
            return SOON
        return min(max(2 * (next_at - last.at), SOON), LATER)

    def _put_off(self, outcome: Outcome, pause: timedelta) -> None:
        self._advance(
            replace(
                self._standing,
                fire_at=outcome.fire_at,
                next_at=self._now + pause,
                last_outcome=outcome,
            )
        )

    def _advance(self, to: Schedule) -> bool:
        done = self._ports.schedules.advance(self._standing, to)
        self._standing = to
        return done


def _failure(fire_at: datetime, error: Exception, now: datetime) -> Outcome:
    """What its owner is told of an error; what is ours stays in our log."""
    rejected = isinstance(error, RejectedError)
    why = str(error)[:1_000] if rejected else "a part of the platform has failed"
    return Outcome(kind=OutcomeKind.FAILED, fire_at=fire_at, at=now, why=why)


def _pause(error: Exception) -> timedelta:
    return SOON if isinstance(error, CrawlfleetError) and error.retryable else LATER
