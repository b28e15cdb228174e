"""A cron tick (SPEC.md B1): each fire time of a due schedule becomes a job, once.

The job comes first, under a name that the fire time has, then the schedule goes on to its next fire
time. Whoever comes second, or comes back after a crash, finds the job and goes on from there.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
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
#: Schedules handled in one tick, and missed fire times created for one of them.
SCHEDULES_A_TICK: Final = 1_000
FIRES_A_TICK: Final = 60
#: Until a schedule that waits, or that a part has failed, is looked at again: the next tick.
SOON: Final = timedelta(seconds=30)
#: The same where somebody has to mend something first. It goes behind others meanwhile.
LATER: Final = timedelta(minutes=5)


def run_due(
    ports: FiringPorts,
    tree: Tree,
    now: datetime,
    time_left: Callable[[], float],
    warn: Callable[[str, Exception], None],
) -> int:
    """Start the jobs of every due schedule; returns how many fire times have theirs now.

    A schedule that cannot be run (its biz, rule or spider is gone, a part is down) is told of
    through ``warn`` and in its last outcome, and does not keep others from running. What there is
    no time for stays due.
    """
    fires = 0
    for due in ports.schedules.due(now, SCHEDULES_A_TICK):
        if time_left() < MARGIN_SECONDS:
            break
        try:
            fires += _Fires(ports, tree, due, now, warn).run(time_left)
        except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
            warn(f"schedule {'/'.join(due.key)} could not go on", error)
    return fires


class _Fires:
    """The due fire times of one schedule. ``_standing`` is the schedule as it was left last."""

    def __init__(
        self,
        ports: FiringPorts,
        tree: Tree,
        due: Schedule,
        now: datetime,
        warn: Callable[[str, Exception], None],
    ) -> None:
        self._ports, self._tree, self._warn = ports, tree, warn
        self._standing = due
        self._now = from_ms(to_ms(now))

    def run(self, time_left: Callable[[], float]) -> int:
        """Deal with them in their order, until one waits, fails, or is somebody else's."""
        due = fires_due(self._standing, self._now, FIRES_A_TICK)
        if not due.fires:
            self._pass_over(due)
        fires, passed = 0, due.passed
        for fire_at in due.fires:
            if time_left() < MARGIN_SECONDS or not self._stands():
                break
            try:
                outcome = fire(self._ports, self._tree, self._standing, fire_at, self._now)
            except Exception as error:  # noqa: BLE001  it is told, and tried again
                self._warn(f"schedule {'/'.join(self._standing.key)} could not run", error)
                self._put_off(_failure(fire_at, error, self._now), _pause(error))
                break
            if outcome.kind is OutcomeKind.WAITING:
                self._put_off(outcome, SOON)
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
