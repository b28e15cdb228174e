"""The journey's steps about workers: what each of them takes for shown, and what it does not."""

import io
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import pytest

from infra.localstack import settings
from infra.localstack.hand import Hand
from infra.localstack.workforce import SCHEDULE, Workforce
from infra.smoke.deployment import Deployment, log_group
from infra.stages import STAGES
from infra.steps import Step, StepError, wait_for
from tests.kit.kernel import names
from tests.kit.sdk import RequestStatus, WorkerState

STAGE = "localstack"
ALARM = "crawlfleet-localstack-backlog"
URLS = ["http://site.example/1", "http://site.example/2"]
DEPLOYED = STAGES[STAGE].consumer_concurrency


@dataclass
class Cloud:
    """AWS and the API, as far as these steps see them; time passes when somebody waits."""

    reserved: int = DEPLOYED
    alive: int = 0
    at: float = 0.0
    lines: list[dict] = field(default_factory=list)
    found: list[RequestStatus] = field(default_factory=list)
    schedules: list[str] = field(default_factory=list)
    #: Targets of the rule that ticks.
    targets: list[dict] = field(default_factory=lambda: [{"Id": "Target0", "Arn": "scheduler"}])
    #: What happens at so many seconds, and by whatever is done.
    later: dict[float, object] = field(default_factory=dict)
    on_invoke: object = None
    purged: list = field(default_factory=list)

    def sleep(self, seconds):
        self.at += seconds
        for due in [due for due in self.later if due <= self.at]:
            self.later.pop(due)()

    def wait(self, *args, **arguments):
        partial(wait_for, clock=lambda: self.at, sleep=self.sleep)(*args, **arguments)

    def log(self, message, **reported):
        self.lines.append({"message": message, **reported})

    # ---- AWS -----------------------------------------------------------------------------------

    def client(self, service, region=""):
        assert service in {"lambda", "events", "sqs"}
        assert not region
        return self

    def get_queue_url(self, QueueName):  # noqa: N803  boto3's
        return {"QueueUrl": f"http://sqs/{QueueName}"}

    def purge_queue(self, QueueUrl):  # noqa: N803  boto3's
        assert not self.targets, "the rule would fill it again"
        self.purged.append(QueueUrl)

    def get_function_concurrency(self, FunctionName):  # noqa: N803  boto3's
        assert FunctionName == names.function_name(STAGE, names.CONSUMER)
        return {"ReservedConcurrentExecutions": self.reserved}

    def invoke(self, FunctionName, Payload):  # noqa: N803  boto3's
        answer = self.on_invoke()
        return {"Payload": io.BytesIO(json.dumps(answer).encode())}

    def put_function_concurrency(self, FunctionName, ReservedConcurrentExecutions):  # noqa: N803
        assert FunctionName == names.function_name(STAGE, names.CONSUMER)
        self.reserved = ReservedConcurrentExecutions

    def list_targets_by_rule(self, Rule):  # noqa: N803  boto3's
        assert Rule == "crawlfleet-localstack-scheduler-tick"
        return {"Targets": list(self.targets)}

    def remove_targets(self, Rule, Ids):  # noqa: N803  boto3's
        self.targets = [one for one in self.targets if one["Id"] not in Ids]

    def put_targets(self, Rule, Targets):  # noqa: N803  boto3's
        self.targets = list(Targets)

    def all(self, service, call, key, **arguments):
        assert arguments["logGroupName"] == log_group(STAGE, names.SCHEDULER)
        return [{"message": json.dumps(line)} for line in self.lines]

    # ---- the API -------------------------------------------------------------------------------

    def workers(self, biz):
        living = [WorkerState(worker=f"w{n}", health="alive") for n in range(self.alive)]
        return [*living, WorkerState(worker="gone", health="dead")]

    def put_schedule(self, biz, name, **settings_of_it):
        self.schedules.append(name)

    def delete_schedule(self, biz, name):
        self.schedules.remove(name)

    def requests(self, biz, since):
        return self.found


def request(number, state="done", job=f"{SCHEDULE}.20260301T1200Z"):
    return RequestStatus(
        id=str(number), state=state, url=URLS[0], job=job, worker="w1", queued_at=datetime.now(UTC)
    )


def said_by_alarm(state="ALARM", limit=settings.PEAK, started=4, name=ALARM):
    return {"said": [{"name": name, "state": state}], "limit": limit, "started": started}


@pytest.fixture
def cloud():
    return Cloud()


@pytest.fixture
def step():
    return Step("workers", lambda _: None)


@pytest.fixture
def workforce(cloud):
    deployment = Deployment(STAGE, cloud, {}, {})
    hand = Hand(cloud, STAGE)
    return Workforce(deployment, cloud, hand, wait=cloud.wait, sleep=cloud.sleep)


# ---- an idle fleet -------------------------------------------------------------------------------


def test_an_idle_fleet_is_what_a_tick_has_made_of_what_was_deployed(cloud, workforce, step):
    cloud.later = {50.0: lambda: setattr(cloud, "reserved", settings.IDLE)}

    workforce.idle(step)

    assert [f" {DEPLOYED}, {settings.IDLE} " in one for one in step.seen] == [True]


@pytest.mark.parametrize("reserved", [DEPLOYED, settings.PEAK, 0])
def test_where_no_tick_changes_it_the_fleet_is_not_idle(cloud, workforce, step, reserved):
    cloud.reserved = reserved

    with pytest.raises(StepError, match=f"{settings.IDLE} consumers"):
        workforce.idle(step)


# ---- up ------------------------------------------------------------------------------------------


def scaled(cloud, reserved=settings.PEAK, alive=settings.WORKERS, **said):
    def act():
        cloud.reserved = reserved
        cloud.log("scaled", **said_by_alarm(**said))
        cloud.later = {cloud.at + 5: lambda: setattr(cloud, "alive", alive)}

    return act


def test_an_alarm_by_its_metric_raises_what_is_allowed_and_starts_workers(cloud, workforce, step):
    cloud.reserved = settings.IDLE
    workforce.hold()
    assert (cloud.reserved, cloud.targets) == (0, [])
    assert cloud.purged == ["http://sqs/crawlfleet-localstack-scheduler-tick-again"]
    cloud.later = {150.0: scaled(cloud)}

    workforce.scale_up(step, 0)

    assert any(f"{settings.WORKERS} workers, {settings.PEAK} " in one for one in step.seen)
    assert any(ALARM in one for one in step.seen)
    assert [target["Id"] for target in cloud.targets] == ["Target0"]


def test_any_alarm_that_starts_workers_will_do(cloud, workforce, step):
    workforce.hold()
    cloud.later = {150.0: scaled(cloud, name="crawlfleet-localstack-no-workers")}

    workforce.scale_up(step, 0)

    assert any("no-workers" in one for one in step.seen)


@pytest.mark.parametrize(
    ("happens", "wrong"),
    [
        ({"reserved": DEPLOYED}, "consumers may run at once"),
        ({"reserved": 0}, "consumers may run at once"),
        ({"limit": settings.IDLE}, "a metric makes an alarm ring"),
        ({"state": "OK"}, "a metric makes an alarm ring"),
        ({"name": "crawlfleet-localstack-storage"}, "a metric makes an alarm ring"),
        ({"alive": settings.WORKERS - 1}, "4 workers are there"),
    ],
)
def test_a_rise_that_is_not_whole_fails_and_ticks_come_again(
    cloud, workforce, step, happens, wrong
):
    workforce.hold()
    cloud.later = {150.0: scaled(cloud, **happens)}

    with pytest.raises(StepError, match=wrong):
        workforce.scale_up(step, 0)

    assert [target["Id"] for target in cloud.targets] == ["Target0"]


def test_an_alarm_that_reaches_nobody_fails(workforce, cloud, step):
    workforce.hold()

    with pytest.raises(StepError):
        workforce.scale_up(step, 0)


def test_workers_that_stay_when_all_is_done_are_reported(cloud, workforce):
    cloud.alive = 1

    with pytest.raises(StepError, match="no worker lives"):
        workforce.gone()

    cloud.later = {cloud.at + 5: lambda: setattr(cloud, "alive", 0)}
    workforce.gone()


def test_a_submission_wakes_a_worker_or_the_step_fails(cloud, workforce, step):
    with pytest.raises(StepError, match="worker"):
        workforce.woken(step)

    cloud.later = {cloud.at + 3: lambda: setattr(cloud, "alive", 1)}
    workforce.woken(step)


# ---- down ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [settings.IDLE, settings.PEAK, 1])
def test_an_idle_fleet_goes_down_to_what_it_was_and_no_other_number(cloud, workforce, step, last):
    cloud.reserved, cloud.alive = settings.PEAK, 4

    def tick():
        cloud.alive = max(0, cloud.alive - 1)
        cloud.reserved = settings.PEAK if cloud.alive else last
        return {"kept": cloud.alive, "limit": cloud.reserved}

    cloud.on_invoke = tick

    if last == settings.IDLE:
        workforce.scale_down(step)
        assert step.seen == [f"no worker, {settings.PEAK} and then {settings.IDLE} at once"]
    else:
        with pytest.raises(StepError, match=f"{last} may run, not {settings.IDLE}"):
            workforce.scale_down(step)


def test_workers_that_stay_fail_the_way_down(cloud, workforce, step):
    cloud.reserved, cloud.alive = settings.IDLE, 1
    cloud.on_invoke = lambda: {"kept": 0, "limit": settings.IDLE}

    with pytest.raises(StepError, match="1 workers live"):
        workforce.scale_down(step)


# ---- by a tick alone -----------------------------------------------------------------------------


def ticked(cloud, *requests, fires=1):
    def act():
        cloud.log("ticked", fires=fires, requests=len(requests), started=0)
        cloud.found = list(requests)

    return act


def test_a_schedule_is_run_and_done_by_nothing_but_a_tick(cloud, workforce, step):
    cloud.log("ticked", fires=0)
    cloud.later = {40.0: ticked(cloud, request(1), request(2), request(9, job=None))}

    workforce.by_a_tick_alone(step, URLS)

    assert ["1 fire, 2 done by 1 workers" in one for one in step.seen] == [True]
    assert cloud.schedules == [], "it is removed"


@pytest.mark.parametrize(
    ("requests", "fires", "wrong"),
    [
        ([], 0, "a tick of the rule runs a schedule: not within"),
        ([request(1)], 1, "the 2 requests of the schedule are done: not within"),
        ([request(1), request(2, "pending")], 1, "requests of the schedule are done: not within"),
        ([request(1), request(2, "dead")], 1, "2 of the schedule is dead"),
        ([request(1), request(2, job="june")], 1, "requests of the schedule are done: not within"),
    ],
    ids=["never fires", "one is missing", "one waits", "one is dead", "one is another's"],
)
def test_a_schedule_that_is_not_run_or_not_done_fails(
    cloud, workforce, step, requests, fires, wrong
):
    cloud.later = {40.0: ticked(cloud, *requests, fires=fires)}

    with pytest.raises(StepError, match=wrong):
        workforce.by_a_tick_alone(step, URLS)

    assert cloud.schedules == [], "it is removed"


def test_where_a_worker_lives_already_nobody_could_say_who_started_one(cloud, workforce, step):
    cloud.alive = 1

    with pytest.raises(StepError, match="1 workers live already"):
        workforce.by_a_tick_alone(step, URLS)


def test_where_an_alarm_has_started_workers_it_was_not_the_tick_alone(cloud, workforce, step):
    def act():
        cloud.log("scaled", **said_by_alarm(started=1))
        ticked(cloud, request(1), request(2))()

    cloud.later = {40.0: act}

    with pytest.raises(StepError, match="1 workers"):
        workforce.by_a_tick_alone(step, URLS)


# ---- by hand -------------------------------------------------------------------------------------


def test_what_is_invoked_by_hand_is_counted_and_a_failure_is_reported(cloud):
    hand = Hand(cloud, STAGE)
    cloud.on_invoke = lambda: {"kept": 0}

    assert hand.invoke(names.MONITOR) == {"kept": 0}
    assert hand.counts == {names.MONITOR: 1}

    cloud.invoke = lambda **_: {"FunctionError": "Unhandled", "Payload": io.BytesIO(b'{"a": 1}')}
    with pytest.raises(StepError, match="the scheduler fails"):
        hand.invoke(names.SCHEDULER)
