"""Metrics in a log become metrics, as CloudWatch makes them and LocalStack does not."""

import time
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from moto import mock_aws

from infra.aws_access import Access
from infra.localstack.embedded_metrics import EmbeddedMetrics, metric_data
from tests.kit.kernel import Metric, Unit
from tests.kit.monitoring import EmfMetrics
from tests.waiting import eventually

_GROUP = "/aws/lambda/monitor"
_ENVIRONMENT = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
}


@pytest.fixture
def written(capsys):
    """Lines as our functions write them."""

    def write(*metrics, **dimensions):
        EmfMetrics("aws-small").put(metrics, dimensions, datetime.now(UTC))
        return capsys.readouterr().out.splitlines()

    return write


def test_what_a_function_writes_is_read_with_its_dimensions(written):
    looks = Metric(name="Looks", value=1.0, unit=Unit.COUNT)
    rate = Metric(name="Submitted", value=2.5, unit=Unit.PER_SECOND, fine=True)

    found = [one for line in written(looks, rate, biz="docs") for one in metric_data(line)]

    assert {space for space, _ in found} == {"Crawlfleet"}
    by_name = {one["MetricName"]: one for _, one in found}
    assert by_name["Looks"]["Values"] == [1.0]
    assert by_name["Looks"]["Dimensions"] == [
        {"Name": "stage", "Value": "aws-small"},
        {"Name": "biz", "Value": "docs"},
    ]
    assert by_name["Submitted"]["StorageResolution"] == 1
    assert by_name["Submitted"]["Unit"] == "Count/Second"
    assert abs(by_name["Looks"]["Timestamp"] - datetime.now(UTC)) < timedelta(minutes=1)


def test_each_line_is_put_in_once(written):
    (line,) = written(Metric(name="Looks", value=1.0, unit=Unit.COUNT))
    with mock_aws():
        logs = boto3.client("logs", "us-east-1")
        logs.create_log_group(logGroupName=_GROUP)
        logs.create_log_stream(logGroupName=_GROUP, logStreamName="s")

        def log(*messages):
            events = [{"timestamp": int(time.time() * 1000), "message": one} for one in messages]
            logs.put_log_events(logGroupName=_GROUP, logStreamName="s", logEvents=events)

        with EmbeddedMetrics(Access(_ENVIRONMENT), [_GROUP]) as metrics:
            log("START", line)
            eventually(lambda: metrics.values == 1)
            log(line, "END")
            eventually(lambda: metrics.values == 2)
        assert metrics.problem == ""

        now = datetime.now(UTC)
        answer = boto3.client("cloudwatch", "us-east-1").get_metric_statistics(
            Namespace="Crawlfleet",
            MetricName="Looks",
            Dimensions=[{"Name": "stage", "Value": "aws-small"}],
            StartTime=now - timedelta(minutes=5),
            EndTime=now + timedelta(minutes=5),
            Period=3600,
            Statistics=["Sum"],
        )
        assert sum(point["Sum"] for point in answer["Datapoints"]) == 2


def test_a_log_that_is_not_there_yet_is_a_problem_that_passes(written):
    with mock_aws(), EmbeddedMetrics(Access(_ENVIRONMENT), [_GROUP]) as metrics:
        eventually(lambda: "ResourceNotFound" in metrics.problem)
        boto3.client("logs", "us-east-1").create_log_group(logGroupName=_GROUP)
        eventually(lambda: metrics.problem == "")
