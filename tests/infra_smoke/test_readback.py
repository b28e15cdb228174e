"""Metrics that are missing, or do not fit what was done, are found; those that fit are not."""

import math
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from moto import mock_aws

from infra.aws_access import Access
from infra.localstack import settings
from infra.localstack.readback import Expected, Readback, after_the_crawl
from tests.kit.kernel import metric_names, names

STAGE = "localstack"
_ENVIRONMENT = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
}
PAGES = 500
EXPECTED = after_the_crawl(PAGES, settings.WORKERS, settings.PEAK)
REDIS = {"part": "redis", "node": "redis"}
MAIN = {"part": "mongodb", "node": "main"}
#: What a run has shown, by name and dimensions: its values.
SHOWN = [
    ("Submitted", {}, [300.0, 200.0]),
    ("Processed", {}, [100.0, 400.0]),
    ("SubmittedRate60s", {}, [0.0, 8.33]),
    ("ProcessedRate60s", {}, [0.0, 7.0]),
    ("Backlog", {}, [0.0, 320.0, 0.0]),
    ("WorkersAlive", {}, [0.0, 4.0]),
    ("Ticks", {}, [1.0, 1.0]),
    ("NodeUp", REDIS, [1.0, 1.0]),
    ("MemoryBytes", REDIS, [3e6]),
    ("NodeUp", MAIN, [1.0]),
    ("StorageBytes", MAIN, [2e6]),
]


@pytest.fixture
def cloudwatch():
    with mock_aws():
        yield boto3.client("cloudwatch", "us-east-1")


def put(cloudwatch, name, dimensions, values):
    now = datetime.now(UTC)
    own = {"stage": STAGE, **dimensions}
    data = [
        {
            "MetricName": name,
            "Dimensions": [{"Name": key, "Value": value} for key, value in own.items()],
            "Timestamp": now - timedelta(seconds=90 * number),
            "Value": value,
        }
        for number, value in enumerate(values)
    ]
    cloudwatch.put_metric_data(Namespace=names.METRIC_NAMESPACE, MetricData=data)


def wrong(minutes=60):
    since = datetime.now(UTC) - timedelta(minutes=minutes)
    return Readback(Access(_ENVIRONMENT), STAGE, since).wrong(EXPECTED)


def test_a_run_that_went_well_is_well(cloudwatch):
    for one in SHOWN:
        put(cloudwatch, *one)

    assert wrong() == []


def test_where_there_is_nothing_everything_is_missing(cloudwatch):
    assert wrong() == [f"{one} has no value" for one in EXPECTED]


@pytest.mark.parametrize("left_out", SHOWN, ids=lambda one: f"{one[0]} {one[1].get('part', '')}")
def test_each_metric_that_is_missing_is_named(cloudwatch, left_out):
    for one in SHOWN:
        if one is not left_out:
            put(cloudwatch, *one)

    assert wrong()
    assert all(said.startswith(left_out[0]) and "no value" in said for said in wrong())


@pytest.mark.parametrize(
    ("name", "dimensions", "values"),
    [
        ("Submitted", {}, [300.0, 199.0]),
        ("Submitted", {}, [1_001.0]),
        ("Processed", {}, [499.0]),
        ("SubmittedRate60s", {}, [0.0]),
        ("SubmittedRate60s", {}, [500.0]),
        ("ProcessedRate60s", {}, [0.0]),
        ("Backlog", {}, [0.0]),
        ("Backlog", {}, [0.0, 501.0]),
        ("Backlog", {}, [7.0]),
        ("WorkersAlive", {}, [1.0]),
        ("WorkersAlive", {}, [7.0]),
        ("Ticks", {}, [0.0]),
        ("NodeUp", REDIS, [1.0, 0.0]),
        ("NodeUp", MAIN, [0.0]),
        ("StorageBytes", MAIN, [0.0]),
    ],
)
def test_a_figure_that_does_not_fit_is_reported_with_what_would(
    cloudwatch, name, dimensions, values
):
    for one in SHOWN:
        if one[:2] != (name, dimensions):
            put(cloudwatch, *one)
    put(cloudwatch, name, dimensions, values)

    [said] = wrong()

    assert said.startswith(f"{name} (")
    assert ", not from " in said


def test_what_another_stage_or_an_earlier_journey_has_left_is_not_counted(cloudwatch):
    cloudwatch.put_metric_data(
        Namespace=names.METRIC_NAMESPACE,
        MetricData=[
            {
                "MetricName": "Submitted",
                "Dimensions": [{"Name": "stage", "Value": "other"}],
                "Value": 500,
            },
            {
                "MetricName": "Submitted",
                "Dimensions": [{"Name": "stage", "Value": STAGE}],
                "Timestamp": datetime.now(UTC) - timedelta(hours=2),
                "Value": 500,
            },
        ],
    )
    read = Readback(Access(_ENVIRONMENT), STAGE, datetime.now(UTC) - timedelta(hours=1))

    assert read.figure(Expected(metric_names.SUBMITTED, "Sum", 0, math.inf)) is None
