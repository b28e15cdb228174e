"""The journey's steps about workers: who starts them, how many may run, and that they go again."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from crawlfleet.kernel import names
from crawlfleet.monitoring.incidents.kinds import Kind
from crawlfleet.sdk import Client, RequestStatus
from infra.localstack import settings
from infra.localstack.hand import Hand
from infra.localstack.inbox import alarm_name
from infra.smoke import checks
from infra.smoke.deployment import Deployment, log_group
from infra.smoke.logs import entries
from infra.steps import Step, StepError, wait_for

#: The schedule that a tick alone can run.
SCHEDULE: Final = "journey"
_SOON: Final = 30.0
_TICK: Final = 90.0
#: A schedule that is due just after a tick is run by the next one.
_FIRE: Final = 150.0
#: Looks of the scheduler at an idle fleet until all of it is let go, at most.
_LOOKS: Final = 20


class Workforce:
    """The workers of a deployment.

    Args:
        deployment: Where they are.
        client: The API's.
        hand: Invokes functions.
        wait: Waits until something holds.
        sleep: Waits for a time.
    """

    def __init__(
        self,
        deployment: Deployment,
        client: Client,
        hand: Hand,
        *,
        wait: Callable[..., None] = wait_for,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._deployment = deployment
        self._client = client
        self._hand = hand
        self._wait = wait
        self._sleep = sleep
        self._consumers = log_group(deployment.stage, names.CONSUMER)
        self._scheduler = log_group(deployment.stage, names.SCHEDULER)

    @property
    def alive(self) -> int:
        """Workers that live."""
        return sum(one.health == "alive" for one in self._client.workers(settings.BIZ))

    def idle(self, step: Step) -> None:
        """A tick of the rule has given an idle fleet as little as it needs; nobody else could."""
        self._allowed(settings.IDLE, _TICK, "The minute's tick sets it, once there is a rule.")
        deployed = self._deployment.settings.consumer_concurrency
        step.saw(f"deployed with {deployed}, {settings.IDLE} may run at once")

    def woken(self, step: Step) -> None:
        """A submission has woken a worker."""
        began = time.monotonic()
        self._wait(
            lambda: self.alive > 0,
            _SOON,
            "a worker is there",
            "The submission wakes the first one; the consumer's log says why it does not live.",
            log_group=self._consumers,
        )
        step.saw(f"a worker after {time.monotonic() - began:.1f} s")

    def scale_up(self, step: Step) -> None:
        """An alarm has as many workers started as there should be, and allowed before that."""
        began_ms = _now_ms()
        self._set_alarm("ALARM")
        self._allowed(settings.PEAK, _SOON, "The alarm's topic wakes the scheduler, which sets it.")
        self._wait(
            lambda: self._scaled_since(began_ms),
            _SOON,
            f"the alarm has the scheduler look after the workers, and allow {settings.PEAK}",
            "It comes by the topic `scale`: see whether the scheduler is subscribed to it.",
            log_group=self._scheduler,
        )
        self._wait(
            lambda: self.alive >= settings.WORKERS,
            _SOON,
            f"{settings.WORKERS} workers are there",
            "The alarm's topic wakes the scheduler: its log says what it wanted.",
            log_group=self._scheduler,
        )
        step.saw(f"{settings.WORKERS} workers, {settings.PEAK} may run at once")
        self._set_alarm("OK")

    def scale_down(self, step: Step) -> None:
        """Check that an idle fleet keeps no worker and reserves as little concurrency as before."""
        answer: dict[str, Any] = {}
        for _ in range(_LOOKS):
            answer = self._hand.invoke(names.SCHEDULER)
            step.now(f"{answer.get('kept')} kept, {answer.get('limit')} reserved")
            if answer.get("kept") == 0 and self.alive == 0:
                break
            self._sleep(1.0 + settings.BUSY["fleet"]["quiet_seconds"])
        allowed = checks.reserved_concurrency(self._deployment)
        if answer.get("kept") != 0 or self.alive or allowed != settings.IDLE:
            raise StepError(
                f"of an idle fleet {answer} is kept, {self.alive} workers live, and {allowed} may"
                f" run, not {settings.IDLE}",
                "docs/how-it-works/scaling.md says how it should go down.",
                self._scheduler,
            )
        step.saw(f"no worker, {settings.PEAK} and then {allowed} at once")

    def by_a_tick_alone(self, step: Step, urls: Sequence[str]) -> None:
        """A schedule is run, and a worker started for it, by the rule: nobody submits anything."""
        if alive := self.alive:
            raise StepError(
                f"{alive} workers live already: it would not show who starts one",
                "The step before lets all of them go.",
                self._consumers,
            )
        began, began_ms = datetime.now(UTC), _now_ms()
        self._client.put_schedule(
            settings.BIZ, SCHEDULE, cron="* * * * *", urls=urls, rule=settings.RULE, missed="latest"
        )
        try:
            self._wait(
                lambda: bool(self._fired(began_ms)),
                _FIRE,
                "a tick of the rule runs a schedule",
                "Its log says whether the schedule was due, and why it did not run.",
                log_group=self._scheduler,
            )
            self._wait(
                lambda: len(self._done(began, step)) >= len(urls),
                _TICK,
                f"the {len(urls)} requests of the schedule are done",
                "The tick that makes them starts a worker for them.",
                log_group=self._consumers,
            )
        finally:
            self._client.delete_schedule(settings.BIZ, SCHEDULE)
        if called := [one for one in self._said(began_ms, "scaled") if one.get("started")]:
            raise StepError(
                f"an alarm has started {called[0]['started']} workers meanwhile",
                "It cannot be told what the tick alone would have started.",
                self._scheduler,
            )
        fired, done = self._fired(began_ms), self._done(began, step)
        workers = {one.worker for one in done}
        step.saw(f"{fired[0]['fires']} fire, {len(done)} done by {len(workers)} workers it started")

    def _allowed(self, count: int, seconds: float, do: str) -> None:
        def holds() -> bool:
            return checks.reserved_concurrency(self._deployment) == count

        what = f"{count} consumers may run at once"
        self._wait(holds, seconds, what, do, log_group=self._scheduler)

    def _scaled_since(self, since_ms: int) -> bool:
        """Return whether the alarm has called the scheduler; the minute's rule does, too."""
        name = alarm_name(self._deployment.stage, Kind.BACKLOG)
        return any(
            any((one["name"], one["state"]) == (name, "ALARM") for one in entry["said"])
            and entry.get("limit") == settings.PEAK
            for entry in self._said(since_ms, "scaled")
        )

    def _fired(self, since_ms: int) -> list[dict[str, Any]]:
        """Ticks that have run a schedule."""
        return [one for one in self._said(since_ms, "ticked") if one.get("fires")]

    def _said(self, since_ms: int, message: str) -> list[dict[str, Any]]:
        """Return what the scheduler has logged."""
        found = entries(self._deployment.access, self._scheduler, since_ms)
        return [entry for entry in found if entry.get("message") == message]

    def _done(self, since: datetime, step: Step) -> list[RequestStatus]:
        """Requests of the schedule that are done."""
        found = [
            one
            for one in self._client.requests(settings.BIZ, since=since)
            if (one.job or "").startswith(f"{SCHEDULE}.")
        ]
        if dead := [one for one in found if one.final and one.state != "done"]:
            raise StepError(
                f"{dead[0].id} of the schedule is {dead[0].state}: {dead[0].error}",
                f"`crawlfleet explain {settings.BIZ} {dead[0].id}`",
                self._consumers,
            )
        done = [one for one in found if one.state == "done"]
        step.now(f"{len(done)} of {len(found)} done")
        return done

    def _set_alarm(self, state: str) -> None:
        """Set the alarm's state as if its metric had crossed the threshold, or come back."""
        self._deployment.access.client("cloudwatch").set_alarm_state(
            AlarmName=alarm_name(self._deployment.stage, Kind.BACKLOG),
            StateValue=state,
            StateReason="the journey says so",
        )


def _now_ms() -> int:
    return int(time.time() * 1000)
