"""The journey's steps about rules of one's own: an event, and a clock, start a kept spider."""

import json
from typing import Any, Final

from crawlfleet.kernel import names
from crawlfleet.sdk import Job
from infra.aws_access import asked
from infra.localstack import settings
from infra.localstack.hand import Hand
from infra.localstack.jobs import TICK, Jobs
from infra.smoke.deployment import log_group
from infra.spider_rules import SpiderRule, rule_name, start_input, value_at
from infra.stages import EVERY_MINUTE, ON_EVENT
from infra.steps import Step, StepError

#: Of the package that the event names.
PACKAGE: Final = "json"
MODULES: Final = ("decoder", "encoder", "scanner", "tool")
#: What the rule's pattern wants.
EVENT: Final = {"Source": "crawlfleet.journey", "DetailType": "Pages Ready"}

_SOON: Final = 30.0


class Starts:
    """Jobs that rules of one's own start; ``hand`` invokes functions."""

    def __init__(self, jobs: Jobs, hand: Hand) -> None:
        self._all, self._hand = jobs, hand
        self._stage, self._client = jobs.deployment.stage, jobs.client
        self._events = jobs.deployment.access.client("events")
        self._targets: list[dict[str, Any]] = []
        self._before: set[str] = set()
        self._scheduler = log_group(self._stage, names.SCHEDULER)

    def by_event(self, step: Step) -> None:
        """An event of the bus is one job, delivered once or twice; one of another kind is none."""
        pattern = f"{self._all.site}/{{package}}.{{module}}.html"
        self._keep(ON_EVENT, pattern=pattern, values={"module": list(MODULES)})
        event = self._put()
        job = self._started(ON_EVENT, _SOON, "Its rule in the stack of the clocks matches it.")
        # What the rule hands over, once more: EventBridge delivers at least once.
        again = self._hand.invoke(
            names.SCHEDULER, start_input(ON_EVENT, lambda path: value_at(event, path))
        )
        if again.get("job") != job.name:
            raise StepError(
                f"the event that started {job.name} starts {again} when it comes again",
                "apps/events.py names a job by its event.",
                self._scheduler,
            )
        ended = self._ended(job.name, len(MODULES), {"package": PACKAGE})
        if others := [one.name for one in self._jobs(ON_EVENT) if one.name != job.name]:
            raise StepError(
                f"{', '.join(others)} was started besides: there was one event for it",
                "The rule's pattern is in infra/stages.py.",
                self._scheduler,
            )
        step.saw(f"one job of an event that came twice, {ended} done by its ledger")

    def keep_event(self) -> None:
        """Put an event on the bus that reaches the queue of what is to be started alone.

        As on AWS where the scheduler is throttled, or cut off.
        """
        rule = rule_name(self._stage, ON_EVENT)
        targets = asked(f"reading {rule}", self._events.list_targets_by_rule, Rule=rule)["Targets"]
        queue = f":{names.starts_queue(self._stage)}"
        others = [target for target in targets if not target["Arn"].endswith(queue)]
        ids = [target["Id"] for target in others]
        self._before = {job.name for job in self._jobs(ON_EVENT)}
        asked(f"changing {rule}", self._events.remove_targets, Rule=rule, Ids=ids)
        self._put()
        asked(f"restoring {rule}", self._events.put_targets, Rule=rule, Targets=others)

    def kept_event(self, step: Step) -> None:
        """A tick has started what the queue had kept, once, and nobody handed anything over."""
        found: list[str] = []

        def there() -> bool:
            jobs = {job.name for job in self._jobs(ON_EVENT)}
            found[:] = sorted(jobs - self._before)
            return bool(found)

        what = "a tick starts the event that never reached the scheduler"
        do = "The queue is the output StartsQueue of the stack of the functions; see its messages."
        self._all.wait(there, 2 * TICK, what, do, log_group=self._scheduler)
        ended = self._ended(found[0], len(MODULES), {"package": PACKAGE})
        if len(found) > 1:
            raise StepError(
                f"one event has started {', '.join(found)}",
                "apps/events.py names a job by its event.",
                self._scheduler,
            )
        step.saw(f"{found[0]}, {ended} done by its ledger")

    def enable_clock(self, step: Step) -> None:
        """Enable the rule that fires every minute, now that there is what it starts."""
        self._keep(EVERY_MINUTE, urls=[f"{self._all.site}/{PACKAGE}.html"])
        rule = rule_name(self._stage, EVERY_MINUTE)
        asked(f"enabling {rule}", self._events.enable_rule, Name=rule)
        targets = asked(f"reading {rule}", self._events.list_targets_by_rule, Rule=rule)["Targets"]
        # LocalStack looks at a clock's state when it is given its targets, and at no other time.
        asked(f"enabling {rule}", self._events.put_targets, Rule=rule, Targets=targets)
        self._targets = targets
        step.saw(f"{rule} is enabled")

    def by_clock(self, step: Step) -> None:
        """The clock has started a job of its spider, which is done; then it is disabled again."""
        job = self._started(EVERY_MINUTE, TICK, "Rules fire on the minute.")
        ended = self._ended(job.name, 1, {})
        rule = rule_name(self._stage, EVERY_MINUTE)
        asked(f"disabling {rule}", self._events.disable_rule, Name=rule)
        # LocalStack goes on firing it: without a target nothing comes of that.
        ids = [target["Id"] for target in self._targets]
        asked(f"disabling {rule}", self._events.remove_targets, Rule=rule, Ids=ids)
        step.saw(f"{job.name}, {ended} done by its ledger")

    def restore_clock(self) -> None:
        """Give the disabled rule its target again, as the stage has it."""
        rule = rule_name(self._stage, EVERY_MINUTE)
        asked(f"restoring {rule}", self._events.put_targets, Rule=rule, Targets=self._targets)

    def _keep(self, rule: SpiderRule, **start: Any) -> None:
        self._client.put_spider(rule.biz, rule.spider, rule=settings.RULE, **start)

    def _put(self) -> dict[str, Any]:
        """Put an event on the bus, and one that no rule wants; the first, as a rule sees it."""
        detail = {"package": PACKAGE}
        entry = {**EVENT, "Detail": json.dumps(detail)}
        answer = asked(
            "putting an event on the bus",
            self._events.put_events,
            Entries=[entry, {**entry, "DetailType": "Pages Gone"}],
        )
        if answer["FailedEntryCount"]:
            raise StepError(
                f"EventBridge refuses the event: {answer['Entries']}",
                "Its log says why.",
            )
        # The time is no part of what an event is known by.
        time = "2026-03-10T12:00:00Z"
        return {"id": answer["Entries"][0]["EventId"], "time": time, "detail": detail}

    def _jobs(self, rule: SpiderRule) -> list[Job]:
        return list(self._client.jobs(rule.biz, spider=rule.spider))

    def _started(self, rule: SpiderRule, seconds: float, do: str) -> Job:
        """The first job that the rule has started."""
        found: list[Job] = []

        def there() -> bool:
            found[:] = self._jobs(rule)
            return bool(found)

        name = rule_name(self._stage, rule)
        what = f"the rule {name} starts {rule.spider}"
        self._all.wait(there, seconds, what, do, log_group=self._scheduler)
        return found[-1]

    def _ended(self, name: str, tasks: int, values: dict[str, str]) -> int:
        """Wait until a job has ended; how many of its tasks are done, which is all."""
        job = self._all.ended(settings.BIZ, name)
        ledger = self._client.ledger(settings.BIZ, job=name)
        found = (job.state, job.by, job.values, ledger.submitted, ledger.done)
        if found != ("done", "event", values, tasks, tasks) or not ledger.balanced:
            raise StepError(
                f"{name} is {job.state}, by {job.by!r} with {job.values}: {ledger}",
                f"`crawlfleet ledger {settings.BIZ} --job {name}` tells where its tasks are.",
                self._scheduler,
            )
        return tasks
