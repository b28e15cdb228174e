"""Scale-up alarms publish to one topic, and the topic calls the scheduler and nothing else."""

from typing import Any

from tests.infra.assembly import STAGE, Assembly
from tests.infra.test_compute import text
from tests.kit.incidents import Kind
from tests.kit.kernel import metric_names, names

#: What more workers may be the answer to.
KINDS = (Kind.BACKLOG, Kind.OLDEST_WAITING, Kind.WILL_BE_LATE, Kind.NO_WORKERS)
TOPIC = names.topic_name(STAGE, "scale")


def topic(assembly: Assembly) -> str:
    """The logical id of the topic."""
    (key,) = [
        key
        for key, one in assembly.resources("events", "AWS::SNS::Topic").items()
        if one["Properties"]["TopicName"] == TOPIC
    ]
    return key


def alarms(assembly: Assembly) -> dict[str, dict[str, Any]]:
    """Properties of every alarm, by its metric."""
    found = assembly.resources("events", "AWS::CloudWatch::Alarm").values()
    return {one["Properties"]["MetricName"]: one["Properties"] for one in found}


def test_what_more_workers_may_be_the_answer_to_calls_the_scheduler_as_it_comes_and_goes(assembly):
    reference = {"Ref": topic(assembly)}

    for kind in KINDS:
        alarm = alarms(assembly)[metric_names.finding(kind)]
        assert reference in alarm["AlarmActions"]
        assert reference in alarm["OKActions"]


def test_no_other_alarm_does(assembly: Assembly):
    reference, wanted = {"Ref": topic(assembly)}, {metric_names.finding(kind) for kind in KINDS}

    others = [one for metric, one in alarms(assembly).items() if metric not in wanted]

    assert others
    assert not any(reference in one.get("AlarmActions", []) for one in others)


def test_the_scheduler_and_nobody_else_is_subscribed(assembly: Assembly):
    subscribed = [
        one["Properties"]
        for one in assembly.resources("events", "AWS::SNS::Subscription").values()
        if one["Properties"]["TopicArn"] == {"Ref": topic(assembly)}
    ]

    assert [one["Protocol"] for one in subscribed] == ["lambda"]
    assert "schedulerFunction" in text(subscribed[0]["Endpoint"])


def test_sns_may_call_the_scheduler_for_this_topic_only(assembly: Assembly):
    (permission,) = [
        one["Properties"]
        for one in assembly.resources("events", "AWS::Lambda::Permission").values()
        if one["Properties"]["Principal"] == "sns.amazonaws.com"
    ]

    assert permission["SourceArn"] == {"Ref": topic(assembly)}
    assert "schedulerFunction" in text(permission["FunctionName"])
    assert permission["Action"] == "lambda:InvokeFunction"


def test_the_topic_is_encrypted_and_takes_messages_of_this_accounts_alarms(assembly: Assembly):
    properties = assembly.resources("events", "AWS::SNS::Topic")[topic(assembly)]["Properties"]
    statements = [
        statement
        for policy in assembly.resources("events", "AWS::SNS::TopicPolicy").values()
        if {"Ref": topic(assembly)} in policy["Properties"]["Topics"]
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
    ]

    assert "KmsMasterKeyId" in properties
    allowed = [one for one in statements if one["Effect"] == "Allow"]
    assert [one["Principal"] for one in allowed] == [{"Service": "cloudwatch.amazonaws.com"}]
    assert all("aws:SourceAccount" in one["Condition"]["StringEquals"] for one in allowed)
    denied = [one for one in statements if one["Effect"] == "Deny"]
    assert denied[0]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
