"""The alarms."""

from crawlfleet import names
from tests.infra.assembly import Assembly


def test_a_ledger_that_does_not_balance_for_five_minutes_is_an_alarm(assembly: Assembly):
    [alarm] = [
        one["Properties"] for one in assembly.resources("events", "AWS::CloudWatch::Alarm").values()
    ]

    assert alarm["AlarmName"] == "crawlfleet-prod-ledger-difference"
    assert (alarm["Namespace"], alarm["MetricName"]) == (
        names.METRIC_NAMESPACE,
        names.METRIC_LEDGER_DIFFERENCE,
    )
    assert alarm["Dimensions"] == [{"Name": "stage", "Value": "prod"}]
    assert (alarm["Threshold"], alarm["ComparisonOperator"]) == (0, "GreaterThanThreshold")
    assert (alarm["Period"], alarm["EvaluationPeriods"], alarm["DatapointsToAlarm"]) == (60, 5, 5)


def test_the_alarm_says_what_to_do(assembly: Assembly):
    for one in assembly.resources("events", "AWS::CloudWatch::Alarm").values():
        assert "crawlfleet ledger BIZ" in one["Properties"]["AlarmDescription"]
