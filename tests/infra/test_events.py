"""The clocks."""

import json

from infra.fleet import FLEET
from tests.infra.assembly import STAGE, Assembly
from tests.kit.kernel import names


def test_every_clock_of_the_fleet_ticks_and_no_other(assembly: Assembly):
    rules = [
        one["Properties"] for one in assembly.resources("events", "AWS::Events::Rule").values()
    ]

    assert {rule["Name"] for rule in rules} == {
        f"crawlfleet-{STAGE}-{clock.name}" for clock in FLEET.clocks
    }
    assert {rule["State"] for rule in rules} == {"ENABLED"}


def test_scheduler_and_monitor_are_woken_every_minute(assembly: Assembly):
    rules = [
        one["Properties"] for one in assembly.resources("events", "AWS::Events::Rule").values()
    ]

    for clock in FLEET.clocks:
        (rule,) = [one for one in rules if one["Name"].endswith(clock.name)]
        target, *again = rule["Targets"]
        assert rule["ScheduleExpression"] == "rate(1 minute)"
        assert f"{clock.function}Function" in json.dumps(target["Arn"])
        assert len(again) == (clock.again_seconds > 0)


def test_the_scheduler_is_woken_again_half_a_minute_later_by_a_queue(assembly: Assembly):
    (rule,) = [
        one["Properties"]
        for one in assembly.resources("events", "AWS::Events::Rule").values()
        if one["Properties"]["Name"].endswith("scheduler-tick")
    ]
    made = assembly.resources("compute", "AWS::SQS::Queue")
    name = names.again_queue(STAGE, "scheduler-tick")
    ((key, queue),) = [
        (key, one["Properties"])
        for key, one in made.items()
        if one["Properties"].get("QueueName") == name
    ]
    (reading,) = assembly.resources("compute", "AWS::Lambda::EventSourceMapping").values()
    (scheduler,) = [
        key
        for key, one in assembly.resources("compute", "AWS::Lambda::Function").items()
        if one["Properties"]["FunctionName"] == names.function_name(STAGE, names.SCHEDULER)
    ]

    assert name in json.dumps(rule["Targets"][1]["Arn"])
    assert queue["DelaySeconds"] == 30
    assert queue["MessageRetentionPeriod"] == 60
    assert queue["VisibilityTimeout"] == FLEET.function(names.SCHEDULER).timeout_seconds
    assert reading["Properties"]["EventSourceArn"] == {"Fn::GetAtt": [key, "Arn"]}
    assert reading["Properties"]["FunctionName"] == {"Ref": scheduler}
    assert any("Policy" in one for one in reading["DependsOn"])


def test_only_the_clocks_rule_may_send_to_its_queue(assembly: Assembly):
    policies = json.dumps(assembly.resources("compute", "AWS::SQS::QueuePolicy"))

    assert f"rule/crawlfleet-{STAGE}-scheduler-tick" in policies


def test_a_tick_older_than_its_period_is_dropped(assembly: Assembly):
    for rule in assembly.resources("events", "AWS::Events::Rule").values():
        for target in rule["Properties"]["Targets"]:
            assert target["RetryPolicy"]["MaximumEventAgeInSeconds"] == 60


def test_each_rule_may_invoke_its_own_function_only(assembly: Assembly):
    permissions = [
        one["Properties"]
        for one in assembly.resources("events", "AWS::Lambda::Permission").values()
        if one["Properties"]["Principal"] == "events.amazonaws.com"
    ]
    rules = assembly.resources("events", "AWS::Events::Rule")

    assert len(permissions) == len(FLEET.clocks)
    for permission in permissions:
        rule = rules[permission["SourceArn"]["Fn::GetAtt"][0]]["Properties"]
        assert rule["Targets"][0]["Arn"] == permission["FunctionName"]
