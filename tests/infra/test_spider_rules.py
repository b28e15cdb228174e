"""Rules that start spiders: what they hand over, to whom, and what they may not say."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra import alarm_names
from infra.fleet import FLEET
from infra.spider_rules import QUEUE_OUTPUT, SpiderRule, start_input, value_at
from infra.stages import AWS_LARGE, LOCALSTACK, Stage, StageError
from tests.infra.assembly import Assembly
from tests.infra.rights import Rights
from tests.infra.test_compute import text
from tests.kit.apps import order_in
from tests.kit.jobs import HIDDEN_SECONDS
from tests.kit.kernel import names

EVENTS = Path(__file__).parents[2] / "events" / "scheduler"
NIGHTLY = SpiderRule(
    name="nightly",
    tenant="acme",
    biz="shop",
    spider="all",
    schedule="cron(0 3 * * ? *)",
    priority=2,
    version=7,
)
NEW_LIST = SpiderRule(
    name="new-list",
    tenant="acme",
    biz="shop",
    spider="zone",
    pattern={
        "source": ["aws.s3"],
        "detail-type": ["Object Created"],
        "detail": {"bucket": {"name": ["lists"]}},
    },
    values={"zone": "$.detail.object.key", "kind": "lamps"},
    enabled=False,
)


def with_rules(stage: Stage, *rules: SpiderRule) -> Stage:
    return dataclasses.replace(stage, spider_rules=rules)


@pytest.fixture(scope="module", params=[AWS_LARGE, LOCALSTACK], ids=lambda stage: stage.name)
def made(request: pytest.FixtureRequest, composed: Callable[[Stage], Assembly]) -> Assembly:
    return composed(with_rules(request.param, NIGHTLY, NEW_LIST))


def rules(made: Assembly) -> dict[str, dict[str, Any]]:
    """Properties of the rules that start spiders, by name."""
    every = made.resources("events", "AWS::Events::Rule").values()
    found = {one["Properties"]["Name"]: one["Properties"] for one in every}
    return {name.partition("-start-")[2]: one for name, one in found.items() if "-start-" in name}


def target_of(rule: dict[str, Any]) -> dict[str, Any]:
    """The target of a rule that is the scheduler; the other one gets the same."""
    scheduler, queue = rule["Targets"]
    assert scheduler["InputTransformer"] == queue["InputTransformer"]
    return scheduler


def delivered(target: dict[str, Any], event: dict[str, Any]) -> dict[str, Any]:
    """Return what EventBridge sends for an event by a target's input transformer, as documented."""
    transformer = target["InputTransformer"]
    template = transformer["InputTemplate"]
    for name, path in transformer["InputPathsMap"].items():
        value: Any = event
        for part in path.removeprefix("$.").split("."):
            value = value[part]
        template = template.replace(f"<{name}>", json.dumps(value))
    read: dict[str, Any] = json.loads(template)
    return read


def test_a_rule_has_its_clock_or_its_pattern_and_gives_its_events_to_scheduler_and_queue(made):
    found = rules(made)

    assert set(found) == {"nightly", "new-list"}
    assert found["nightly"]["ScheduleExpression"] == "cron(0 3 * * ? *)"
    assert "EventPattern" not in found["nightly"]
    assert found["new-list"]["EventPattern"] == NEW_LIST.pattern
    assert [found[name]["State"] for name in ("nightly", "new-list")] == ["ENABLED", "DISABLED"]
    for rule in found.values():
        scheduler, queue = rule["Targets"]
        assert "schedulerFunction" in text(scheduler["Arn"])
        assert text(queue["Arn"]).endswith(f":crawlfleet-{made.stage}-starts")


def test_what_an_event_becomes_is_an_order_of_a_job(made):
    target = target_of(rules(made)["new-list"])
    event = {
        "id": "17793124-05d4",
        "time": "2026-03-10T12:00:00Z",
        "detail": {"object": {"key": 'no"rth'}, "tenant": "rival"},
    }

    order = order_in(delivered(target, event))

    assert (order.tenant, order.biz, order.spider) == ("acme", "shop", "zone")
    assert order.values == {"zone": 'no"rth', "kind": "lamps"}
    assert order == order_in(delivered(target, event))
    other = order_in(delivered(target, {**event, "id": "another"}))
    assert order.name != other.name


@pytest.mark.parametrize(
    ("payload", "rule"),
    [
        (
            "start",
            SpiderRule(
                name="list",
                tenant="acme",
                biz="docs",
                spider="shop",
                pattern={"source": ["lists"]},
                values={"zone": "$.detail.zone"},
            ),
        ),
        (
            "start-by-clock",
            SpiderRule(
                name="nightly",
                tenant="acme",
                biz="docs",
                spider="shop",
                schedule="cron(0 12 * * ? *)",
                values={"zone": "north"},
            ),
        ),
    ],
)
def test_the_payloads_of_events_are_what_rules_hand_over(payload, rule, composed):
    written = (EVENTS / f"{payload}.json").read_text().replace("{{tenants.acme}}", "acme")
    (deployed,) = rules(composed(with_rules(LOCALSTACK, rule))).values()
    event = {
        "id": "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa",
        "time": "2026-03-10T12:00:00Z",
        "detail": {"zone": "north"},
    }

    target = target_of(deployed)
    handed = delivered(target, event)

    assert handed == json.loads(written)["event"]
    # What `make event` hands over on one machine is the same.
    assert handed == start_input(rule, lambda path: value_at(event, path))


def test_a_path_is_read_as_eventbridge_does_or_leads_nowhere():
    event = {"detail": {"keys": ["a", {"b": "c"}], "text": "abc"}}

    assert value_at(event, "$.detail.keys[1].b") == "c"
    for path in ("$.detail.none", "$.detail.keys[2]", "$.detail.text[0]", "$.detail.text.b"):
        with pytest.raises(LookupError):
            value_at(event, path)


def test_a_clock_that_fires_twice_at_a_time_is_one_job(made):
    target = target_of(rules(made)["nightly"])

    first = order_in(delivered(target, {"id": "1", "time": "2026-03-10T03:00:00Z"}))
    twice = order_in(delivered(target, {"id": "2", "time": "2026-03-10T03:00:00Z"}))
    later = order_in(delivered(target, {"id": "3", "time": "2026-03-11T03:00:00Z"}))

    assert (first.version, first.priority, first.values) == (7, 2, {})
    assert first.name == twice.name != later.name


def test_each_rule_may_invoke_the_scheduler_and_nothing_else(made):
    by_rule = {
        permission["Properties"]["SourceArn"]["Fn::GetAtt"][0]: permission["Properties"]
        for permission in made.resources("events", "AWS::Lambda::Permission").values()
        if permission["Properties"]["Principal"] == "events.amazonaws.com"
    }
    ours = [
        key
        for key, one in made.resources("events", "AWS::Events::Rule").items()
        if "-start-" in one["Properties"]["Name"]
    ]

    for key in ours:
        assert by_rule[key]["Action"] == "lambda:InvokeFunction"
        assert "schedulerFunction" in text(by_rule[key]["FunctionName"])


def starts(made: Assembly) -> tuple[str, dict[str, Any]]:
    """The queue of the events that start spiders, by its key in the template."""
    name = f"crawlfleet-{made.stage}-starts"
    queues = made.resources("compute", "AWS::SQS::Queue").items()
    ((key, queue),) = (
        (key, one["Properties"])
        for key, one in queues
        if one["Properties"].get("QueueName") == name
    )
    return key, queue


def test_events_are_kept_for_14_days_until_they_are_started_and_people_hear_of_it(made):
    key, queue = starts(made)

    assert queue["MessageRetentionPeriod"] == 14 * 24 * 3600
    assert queue["SqsManagedSseEnabled"] is True
    assert 0 < queue["DelaySeconds"] < 60
    assert made.template("compute")["Outputs"][QUEUE_OUTPUT]["Value"] == {"Ref": key}
    alarms = [
        one["Properties"] for one in made.resources("events", "AWS::CloudWatch::Alarm").values()
    ]
    (alarm,) = [one for one in alarms if one["AlarmName"].endswith(alarm_names.STARTS_WAITING)]
    assert (alarm["MetricName"], alarm["EvaluationPeriods"]) == ("StartsWaiting", 15)
    assert len(alarm["AlarmActions"]) == 2


def test_the_scheduler_alone_takes_and_keeps_events_of_that_queue_and_knows_where_it_is(made):
    key, _ = starts(made)
    told = {
        properties["FunctionName"]: properties["Environment"]["Variables"].get(
            "CRAWLFLEET_STARTS_QUEUE"
        )
        for one in made.resources("compute", "AWS::Lambda::Function").values()
        if (properties := one["Properties"])
    }

    scheduler = f"crawlfleet-{made.stage}-scheduler"
    assert {name: url for name, url in told.items() if url} == {scheduler: {"Ref": key}}
    rights = Rights(made).held()
    may = [
        (holder, right["allow"])
        for holder, held in rights.items()
        for right in held
        if right.get("on") == "<Starts>" and "allow" in right
    ]
    assert sorted(may) == [
        ("at <Starts>", "sqs:SendMessage"),
        ("crawlfleet-STAGE-scheduler", "sqs:DeleteMessage"),
        ("crawlfleet-STAGE-scheduler", "sqs:ReceiveMessage"),
        ("crawlfleet-STAGE-scheduler", "sqs:SendMessage"),
    ]


def test_the_policy_of_the_queue_lets_in_the_rules_of_the_stage_however_many_they_are(composed):
    many = [dataclasses.replace(NEW_LIST, name=f"r{number}") for number in range(90)]
    made = composed(with_rules(LOCALSTACK, *many))
    key, _ = starts(made)
    (policy,) = [
        one["Properties"]["PolicyDocument"]
        for one in made.resources("compute", "AWS::SQS::QueuePolicy").values()
        if one["Properties"]["Queues"] == [{"Ref": key}]
    ]

    (allowed,) = [one for one in policy["Statement"] if one["Effect"] == "Allow"]
    assert allowed["Action"] == "sqs:SendMessage"
    assert allowed["Principal"] == {"Service": "events.amazonaws.com"}
    assert "rule/crawlfleet-localstack-start-*" in text(
        allowed["Condition"]["ArnLike"]["aws:SourceArn"]
    )
    # SQS takes 8,192 bytes.
    assert len(json.dumps(policy)) < 4_000
    assert "AWS::SQS::QueuePolicy" not in {
        one["Type"] for one in made.template("events")["Resources"].values()
    }


def test_a_stage_without_rules_has_neither_queue_nor_alarm_of_them(assembly: Assembly):
    assert rules(assembly) == {}
    assert "crawlfleet-aws-large-starts" not in json.dumps(assembly.template("compute"))
    assert alarm_names.STARTS_WAITING not in alarm_names.of_stage(AWS_LARGE)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": "New List"}, "name 'New List'"),
        ({"tenant": ""}, "tenant ''"),
        ({"spider": "No Spider"}, "spider 'No Spider'"),
        ({"schedule": "rate(1 day)"}, "has either a schedule or a pattern"),
        ({"pattern": None}, "has either a schedule or a pattern"),
        ({"pattern": None, "schedule": "0 3 * * *"}, "neither cron"),
        ({"pattern": {"detail": {"a": ["b"]}}}, "it would match nearly everything"),
        ({"pattern": {"source": ["a"], "details": {}}}, "pattern.details is none of"),
        ({"values": {"Zone": "x"}}, "values.Zone is no place"),
        ({"values": {"zone": ".."}}, "leads elsewhere"),
        ({"values": {"zone": ""}}, "values.zone is not 1 to 512"),
        ({"values": {"zone": "$.detail[*]"}}, "no path such as"),
        ({"values": {f"p{n}": "x" for n in range(9)}}, "values are 9, of 8"),
        ({"version": 0}, "version is 0"),
        ({"priority": 11}, "priority is 11"),
    ],
)
def test_what_a_rule_cannot_say_is_reported_before_anything_is_deployed(changes, said):
    with pytest.raises(StageError, match=r"spider_rules\[0\]") as refused:
        with_rules(AWS_LARGE, dataclasses.replace(NEW_LIST, **changes))
    assert said in str(refused.value)


def test_rules_are_bounded_and_called_differently():
    with pytest.raises(StageError, match="'new-list'"):
        with_rules(AWS_LARGE, NEW_LIST, NEW_LIST)
    many = [dataclasses.replace(NEW_LIST, name=f"r{number}") for number in range(101)]
    with pytest.raises(StageError, match="spider_rules are 101"):
        with_rules(AWS_LARGE, *many)
    path = dataclasses.replace(NIGHTLY, values={"zone": "$.detail.zone"})
    with pytest.raises(StageError, match=r"spider_rules\[0\]"):
        with_rules(AWS_LARGE, path)


def test_an_event_that_a_tick_could_not_start_is_not_hidden_from_the_next_tick():
    (clock,) = [one for one in FLEET.clocks if one.function == names.SCHEDULER]

    assert min(clock.again_seconds, clock.every_seconds - clock.again_seconds) > HIDDEN_SECONDS
