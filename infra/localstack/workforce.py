"""The journey's steps about workers: who starts them, how many may run, and that they go again."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from crawlfleet.kernel import names
from crawlfleet.sdk import Client, RequestStatus
from infra import alarm_names
from infra.aws_access import asked
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
#: An alarm is judged each time that its periods are over, and wants two of them.
_ALARM: Final = 300.0
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
        self._events = deployment.access.client("events")
        self._targets: list[dict[str, Any]] = []
        self._consumers = log_group(deployment.stage, names.CONSUMER)
        self._scheduler = log_group(deployment.stage, names.SCHEDULER)

    @property
    def alive(self) -> int:
        """Workers that live."""
        return sum(one.health == "alive" for one in self._client.workers(settings.BIZ))

    def idle(self, step: Step) -> None:
        """A tick of the rule has given an idle fleet as little as it needs; nobody else could."""
        self._allowed(settings.IDLE, _TICK, "A tick sets it, once there is a rule.")
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

    def hold(self) -> None:
        """Let no worker run, and no tick see to it: what raises that now is an alarm."""
        rule = self._tick_rule
        answer = asked(f"reading {rule}", self._events.list_targets_by_rule, Rule=rule)
        self._targets = answer["Targets"]
        ids = [target["Id"] for target in self._targets]
        # LocalStack goes on firing a rule that is disabled: without a target nothing comes of it.
        asked(f"emptying {rule}", self._events.remove_targets, Rule=rule, Ids=ids)
        # What it has fired already comes again, half a minute later.
        queue = names.again_queue(self._deployment.stage, "scheduler-tick")
        sqs = self._deployment.access.client("sqs")
        url = asked(f"finding {queue}", sqs.get_queue_url, QueueName=queue)["QueueUrl"]
        asked(f"emptying {queue}", sqs.purge_queue, QueueUrl=url)
        asked(
            "letting no consumer run",
            self._deployment.access.client("lambda").put_function_concurrency,
            FunctionName=names.function_name(self._deployment.stage, names.CONSUMER),
            ReservedConcurrentExecutions=0,
        )

    def scale_up(self, step: Step, since_ms: int) -> None:
        """An alarm by its metric has workers started and allowed, as many as there should be.

        Since ``since_ms`` nobody else could: no tick comes, and whoever submits wakes nobody.
        """
        began = time.monotonic()
        try:
            self._wait(
                lambda: bool(self._rang(since_ms)),
                _ALARM,
                f"a metric makes an alarm ring, which has the scheduler allow {settings.PEAK}",
                "The monitor's metric must breach for two minutes; the alarm tells the topic"
                " `scale`: see whether the scheduler is subscribed to it.",
                log_group=self._scheduler,
            )
            self._allowed(settings.PEAK, _SOON, "The scheduler, which the alarm wakes, sets it.")
            self._wait(
                lambda: self.alive >= settings.WORKERS,
                _SOON,
                f"{settings.WORKERS} workers are there",
                "The alarm's topic wakes the scheduler: its log says what it wanted.",
                log_group=self._scheduler,
            )
        finally:
            rule = self._tick_rule
            asked(f"restoring {rule}", self._events.put_targets, Rule=rule, Targets=self._targets)
        step.saw(f"by {self._rang(since_ms)} after {time.monotonic() - began:.0f} s")
        step.saw(f"{settings.WORKERS} workers, {settings.PEAK} may run at once, of none before")

    def gone(self) -> None:
        """Wait until no worker lives."""
        what = "no worker lives when all is done"
        self._wait(lambda: self.alive == 0, _SOON, what, "They end when they are idle.")

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
        began, began_ms = datetime.now(UTC), now_ms()
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

    def _rang(self, since_ms: int) -> str:
        """Name the alarm that rang and had the scheduler allow all; empty where none did."""
        stage = self._deployment.stage
        ours = {alarm_name(stage, kind) for kind in alarm_names.SCALING}
        rang = (
            str(one["name"])
            for entry in self._said(since_ms, "scaled")
            if entry.get("limit") == settings.PEAK
            for one in entry["said"]
            if one["name"] in ours and one["state"] == "ALARM"
        )
        return next(rang, "")

    @property
    def _tick_rule(self) -> str:
        return f"{names.PRODUCT}-{self._deployment.stage}-scheduler-tick"

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


def now_ms() -> int:
    """Return the time as logs have it."""
    return int(time.time() * 1000)
