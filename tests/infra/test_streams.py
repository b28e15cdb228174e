"""The function that reads streams: in stages that have streams, with what it needs and no more."""

import dataclasses
from collections.abc import Callable

import pytest

from infra.app import add_stacks
from infra.fleet import FLEET
from infra.stages import AWS_LARGE, STAGES, Stage, StageError
from infra.streams import StreamReaders, sends, with_streams
from tests.infra.assembly import Assembly
from tests.infra.test_compute import ONLY_FOR_ALL, allowed, text
from tests.kit.kernel import names

QUEUE = "arn:aws:sqs:eu-west-1:123456789012:items-*"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:items.fifo"
BUS = "arn:aws:events:eu-west-1:123456789012:event-bus/items"
STREAMS = StreamReaders(readers=3, memory_mb=1_536, targets=(QUEUE, TOPIC, BUS))
READS = dataclasses.replace(AWS_LARGE, streams=STREAMS)


@pytest.fixture(scope="module")
def reading(composed: Callable[[Stage], Assembly]) -> Assembly:
    """A stage with streams, beside everything else."""
    return composed(READS)


def of_reader(assembly: Assembly, kind: str) -> list[dict]:
    """The resources of a kind in the compute stack that are the reader's."""
    found = assembly.resources("compute", kind)
    return [one["Properties"] for key, one in found.items() if key.startswith("streams")]


def test_a_stage_without_streams_has_no_function_and_no_right_for_them(assembly: Assembly):
    assert names.function_name("aws-large", names.STREAMS) not in assembly.functions()
    scheduler = assembly.function(names.SCHEDULER)["Environment"]["Variables"]
    assert not {names.ENV_STREAMS_FUNCTION, names.ENV_STREAM_READERS} & scheduler.keys()
    assert with_streams(FLEET, None) is FLEET


def test_the_reader_is_a_function_of_its_own_with_a_successor_for_each(reading: Assembly):
    function = reading.function(names.STREAMS)

    assert function["Handler"] == "functions.streams.handler.lambda_handler"
    assert (function["MemorySize"], function["Timeout"]) == (1_536, 900)
    assert function["ReservedConcurrentExecutions"] == 6
    assert len(function["Layers"]) == 5
    assert "VpcConfig" in function


def test_a_reader_that_fails_is_not_started_again_by_lambda(reading: Assembly):
    (treated,) = of_reader(reading, "AWS::Lambda::EventInvokeConfig")

    assert (treated["MaximumRetryAttempts"], treated["MaximumEventAgeInSeconds"]) == (0, 60)
    assert of_reader(reading, "AWS::SQS::Queue") == []
    assert "DeadLetterConfig" not in reading.function(names.STREAMS)


def test_no_rule_wakes_the_reader_and_it_starts_nobody(reading: Assembly):
    assert "lambda:InvokeFunction" not in allowed(reading, names.STREAMS)
    assert "RecursiveLoop" not in reading.function(names.STREAMS)
    rules = [one for _, _, one in reading.every("AWS::Events::Rule")]
    assert not [one for one in rules if "streams" in str(one["Properties"]["Targets"])]


def test_the_scheduler_may_start_it_and_is_told_how_many(reading: Assembly):
    variables = reading.function(names.SCHEDULER)["Environment"]["Variables"]

    assert text(variables[names.ENV_STREAMS_FUNCTION]).startswith("<streamsFunction")
    assert variables[names.ENV_STREAM_READERS] == "3"
    started = allowed(reading, names.SCHEDULER)["lambda:InvokeFunction"]
    assert any(text(one).startswith("<streamsFunction") for one in started)


def test_the_reader_may_read_its_secrets_and_send_to_what_the_stage_names(reading: Assembly):
    found = allowed(reading, names.STREAMS)

    assert found["sqs:SendMessage"] == found["sqs:GetQueueUrl"] == [QUEUE]
    assert found["sns:Publish"] == [TOPIC]
    assert found["events:PutEvents"] == [BUS]
    secrets = [text(one) for one in found["secretsmanager:GetSecretValue"]]
    readable = {one.rpartition("secret:")[2] for one in secrets}
    assert {"crawlfleet/aws-large/nodes/*", "crawlfleet/aws-large/streams/*"} < readable
    assert not [one for one in readable if "/tenants/" in one or "/proxies/" in one]
    expected = {"logs:CreateLogStream", "logs:PutLogEvents", *ONLY_FOR_ALL}
    expected |= {"ssm:GetParameter", "ssm:GetParameters", "ssm:GetParametersByPath"}
    expected |= {"kms:Decrypt", "secretsmanager:GetSecretValue"}
    sending = {"sqs:GetQueueUrl", "sqs:SendMessage", "sns:Publish", "events:PutEvents"}
    assert found.keys() - expected == sending


def test_its_failures_have_an_alarm_and_its_long_runs_have_none(reading: Assembly):
    alarms = reading.resources("events", "AWS::CloudWatch::Alarm").values()
    named = {one["Properties"]["AlarmName"].removeprefix("crawlfleet-aws-large-") for one in alarms}

    assert {one for one in named if "streams" in one} == {"streams-errors", "streams-throttles"}


def test_only_a_stage_with_streams_has_its_code_built(empty_bundle):
    asked = {}

    def build(*_, fleet, **__):
        asked[stage.name] = {spec.name for spec in fleet.functions}
        return empty_bundle

    from aws_cdk import App

    for stage in (STAGES["localstack"], STAGES["aws-small"]):
        add_stacks(App(), stage, build)

    assert asked["localstack"] - asked["aws-small"] == {names.STREAMS}


def test_without_targets_nothing_may_be_sent():
    assert sends(()) == {}


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"readers": 0}, "streams.readers"),
        ({"memory_mb": 128}, "streams.memory_mb"),
        ({"targets": ("*",)}, "streams.targets"),
        ({"targets": ("arn:aws:s3:::items",)}, "streams.targets"),
        ({"targets": (QUEUE,) * 51}, "streams.targets"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(wrong, field):
    with pytest.raises(StageError, match=field):
        dataclasses.replace(AWS_LARGE, streams=StreamReaders(**wrong))
