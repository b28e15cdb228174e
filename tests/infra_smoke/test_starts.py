"""The journey's steps about rules of one's own: what each takes for shown, and what it does not."""

import io
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import pytest

from infra.localstack.hand import Hand
from infra.localstack.jobs import Jobs
from infra.localstack.starts import MODULES, Starts
from infra.smoke.deployment import Deployment
from infra.spider_rules import rule_name, start_input, value_at
from infra.stages import EVERY_MINUTE, ON_EVENT
from infra.steps import Step, StepError, wait_for
from tests.kit.apps import order_in
from tests.kit.kernel import InvalidRequestError, names
from tests.kit.sdk import Job, Ledger

STAGE = "localstack"
SITE = "http://site.example/"
CLOCK = rule_name(STAGE, EVERY_MINUTE)
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)


@dataclass
class Cloud:
    """AWS and the API, as far as these steps see them; time passes when somebody waits."""

    at: float = 0.0
    kept: dict[str, dict] = field(default_factory=dict)
    started: dict[str, Job] = field(default_factory=dict)
    #: Targets and state of the rule with a clock.
    targets: list[dict] = field(
        default_factory=lambda: [
            {"Id": "Target0", "Arn": "scheduler"},
            {"Id": "Target1", "Arn": f"arn:aws:sqs:here:1:{names.starts_queue(STAGE)}"},
        ]
    )
    #: What the queue has kept, until a tick comes.
    queued: list[dict] = field(default_factory=list)
    no_tick: bool = False
    #: How often the tick starts what it finds.
    times: int = 1
    state: str = "DISABLED"
    refused: int = 0
    #: What goes wrong.
    deaf: bool = False
    names_by_chance: bool = False
    takes_any_kind: bool = False
    dead: int = 0
    never_ends: bool = False

    def sleep(self, seconds):
        self.at += seconds
        if self.at > 60 and not self.no_tick:
            for event in self.queued:
                for number in range(self.times):
                    self.start(ON_EVENT, {**event, "id": f"{event['id']}-{number}"})
            self.queued.clear()
        if self.state == "ENABLED" and self.targets:
            self.start(
                EVERY_MINUTE, {"id": str(self.at), "time": f"2026-03-10T12:00:{self.at:02.0f}Z"}
            )

    def wait(self, *args, **arguments):
        partial(wait_for, clock=lambda: self.at, sleep=self.sleep)(*args, **arguments)

    def start(self, rule, event):
        return self.ordered(start_input(rule, lambda path: value_at(event, path)))

    def ordered(self, said):
        """Start the ordered job, or refuse the order, as the scheduler does."""
        try:
            order = order_in(said)
        except InvalidRequestError as error:
            return {"refused": str(error)}
        name = f"{order.name}{len(self.started) if self.names_by_chance else ''}"
        size = len(MODULES) if order.values else 1
        job = Job(
            name=name,
            state="running" if self.never_ends else "done",
            rule="page",
            size=size,
            created_at=NOW,
            by=order.by,
            spider=order.spider,
            values=order.values,
        )
        self.started.setdefault(name, job)
        return {"job": name, "tasks": size}

    # ---- AWS -----------------------------------------------------------------------------------

    def client(self, service):
        assert service in {"lambda", "events"}
        return self

    def invoke(self, FunctionName, Payload):  # noqa: N803  boto3's
        assert FunctionName == names.function_name(STAGE, names.SCHEDULER)
        return {"Payload": io.BytesIO(json.dumps(self.ordered(json.loads(Payload))).encode())}

    def put_events(self, Entries):  # noqa: N803  boto3's
        ids = [f"event-{number}" for number in range(len(Entries))]
        for entry, event_id in zip(Entries, ids, strict=True):
            matching = entry["DetailType"] in ON_EVENT.pattern["detail-type"] or self.takes_any_kind
            if matching and not self.deaf and not self.refused:
                detail = json.loads(entry["Detail"])
                event = {"id": event_id, "time": "2026-03-10T12:34:56Z", "detail": detail}
                if any(target["Arn"] == "scheduler" for target in self.targets):
                    self.start(ON_EVENT, event)
                else:
                    self.queued.append(event)
        return {
            "FailedEntryCount": self.refused,
            "Entries": [{"EventId": event_id} for event_id in ids],
        }

    def enable_rule(self, Name):  # noqa: N803  boto3's
        assert Name == CLOCK
        assert EVERY_MINUTE.spider in self.kept
        self.state = "ENABLED"

    def disable_rule(self, Name):  # noqa: N803  boto3's
        assert Name == CLOCK
        self.state = "DISABLED"

    def list_targets_by_rule(self, Rule):  # noqa: N803  boto3's
        return {"Targets": list(self.targets)}

    def put_targets(self, Rule, Targets):  # noqa: N803  boto3's
        ids = {target["Id"] for target in Targets}
        self.targets = [*(one for one in self.targets if one["Id"] not in ids), *Targets]

    def remove_targets(self, Rule, Ids):  # noqa: N803  boto3's
        self.targets = [one for one in self.targets if one["Id"] not in Ids]

    # ---- the API -------------------------------------------------------------------------------

    def put_spider(self, biz, name, **plan):
        self.kept[name] = plan

    def jobs(self, biz, spider):
        return [job for job in reversed(self.started.values()) if job.spider == spider]

    def job(self, biz, name):
        return self.started[name]

    def ledger(self, biz, job):
        size = self.started[job].size
        return Ledger(submitted=size, done=size - self.dead, dead=self.dead, job=job)


@pytest.fixture
def cloud():
    return Cloud()


@pytest.fixture
def step():
    return Step("starts", lambda _: None)


@pytest.fixture
def starts(cloud):
    hand = Hand(cloud, STAGE)
    return Starts(Jobs(Deployment(STAGE, cloud, {}, {}), cloud, SITE, cloud.wait), hand)


def test_an_event_that_comes_twice_is_one_job(cloud, starts, step):
    starts.by_event(step)

    assert len(cloud.started) == 1
    assert cloud.kept["on-event"]["pattern"] == "http://site.example/{package}.{module}.html"
    assert ["4 done" in one for one in step.seen] == [True]


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ({"deaf": True}, "start-pages-ready starts on-event: not within 30 s"),
        ({"names_by_chance": True}, "when it comes again"),
        ({"takes_any_kind": True}, "was started besides"),
        ({"dead": 1}, "is done, by 'event' with {'package': 'json'}"),
        ({"never_ends": True}, "ends: not within 90 s"),
        ({"refused": 1}, "EventBridge refuses the event"),
    ],
)
def test_what_goes_wrong_with_an_event_is_reported(cloud, starts, step, wrong, reported):
    for name, value in wrong.items():
        setattr(cloud, name, value)

    with pytest.raises(StepError) as caught:
        starts.by_event(step)

    assert reported in str(caught.value)
    assert caught.value.do


def test_a_clock_is_enabled_seen_and_disabled_again(cloud, starts, step):
    starts.enable_clock(step)
    assert cloud.state == "ENABLED"

    starts.by_clock(step)

    assert (cloud.state, cloud.targets) == ("DISABLED", [])
    (job,) = cloud.started
    assert step.seen[-1] == f"{job}, 1 done by its ledger"
    starts.restore_clock()
    assert [target["Id"] for target in cloud.targets] == ["Target0", "Target1"]


def test_a_clock_that_does_not_fire_is_reported(cloud, starts, step):
    starts.enable_clock(step)
    cloud.state = "DISABLED"

    with pytest.raises(StepError, match=r"start-every-minute .*by-clock: .*90 s"):
        starts.by_clock(step)


# ---- an event that is kept -----------------------------------------------------------------------


def test_an_event_that_never_reached_the_scheduler_is_started_by_a_tick(cloud, starts, step):
    starts.by_event(step)
    before = set(cloud.started)

    starts.keep_event()
    assert set(cloud.started) == before
    starts.kept_event(step)

    assert len(cloud.started) == len(before) + 1
    assert "scheduler" in [target["Arn"] for target in cloud.targets]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"no_tick": True}, "a tick starts the event"), ({"times": 2}, "one event has started")],
)
def test_an_event_that_is_lost_or_started_twice_fails(cloud, starts, step, wrong, said):
    starts.keep_event()
    for name, value in wrong.items():
        setattr(cloud, name, value)

    with pytest.raises(StepError, match=said):
        starts.kept_event(step)
