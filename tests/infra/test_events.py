"""The clocks."""

import json

from infra.fleet import FLEET
from tests.infra.assembly import STAGE, Assembly


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
        (target,) = rule["Targets"]
        assert rule["ScheduleExpression"] == "rate(1 minute)"
        assert f"{clock.function}Function" in json.dumps(target["Arn"])


def test_a_tick_older_than_its_period_is_dropped(assembly: Assembly):
    for rule in assembly.resources("events", "AWS::Events::Rule").values():
        (target,) = rule["Properties"]["Targets"]
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
