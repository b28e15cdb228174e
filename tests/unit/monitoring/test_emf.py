"""Lines of the embedded metric format, read as CloudWatch reads them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.kit.kernel import Metric, Unit
from tests.kit.monitoring import EmfMetrics

AT = datetime.now(UTC).replace(microsecond=123_000)
HERE = {"tenant": "acme", "biz": "docs"}


@pytest.fixture
def lines(capsys):
    def read() -> list[dict[str, Any]]:
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return read


def test_a_line_has_values_dimensions_and_the_moment(lines):
    EmfMetrics("aws-large").put([Metric("Backlog", 7, fine=True), Metric("Leased", 2)], HERE, AT)

    [line] = lines()
    assert line == {
        "_aws": {
            "Timestamp": int(AT.timestamp() * 1000),
            "CloudWatchMetrics": [
                {
                    "Namespace": "Crawlfleet",
                    "Dimensions": [["stage", "tenant", "biz"]],
                    "Metrics": [
                        {"Name": "Backlog", "Unit": "Count", "StorageResolution": 1},
                        {"Name": "Leased", "Unit": "Count"},
                    ],
                }
            ],
        },
        "stage": "aws-large",
        "tenant": "acme",
        "biz": "docs",
        "Backlog": [7.0],
        "Leased": [2.0],
    }


@pytest.mark.parametrize("unit", list(Unit))
def test_units_are_spelled_as_cloudwatch_spells_them(lines, unit):
    EmfMetrics("aws-large").put([Metric("X", 1.5, unit)], {}, AT)

    [line] = lines()
    [metric] = line["_aws"]["CloudWatchMetrics"][0]["Metrics"]
    assert metric["Unit"] == unit.value


def test_the_stage_is_the_only_dimension_that_is_always_there(lines, monkeypatch):
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "monitor")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "Elsewhere")

    EmfMetrics("aws-large").put([Metric("Consumers", 3)], {}, AT)

    [line] = lines()
    [directive] = line["_aws"]["CloudWatchMetrics"]
    assert directive["Dimensions"] == [["stage"]]
    assert directive["Namespace"] == "Crawlfleet"


@pytest.mark.parametrize(
    ("count", "sizes"), [(0, []), (99, [99]), (100, [99, 1]), (250, [99, 99, 52])]
)
def test_a_line_carries_fewer_than_a_hundred_metrics(lines, count, sizes):
    EmfMetrics("aws-large").put([Metric(f"M{n}", n) for n in range(count)], HERE, AT)

    found = lines()
    assert [len(line["_aws"]["CloudWatchMetrics"][0]["Metrics"]) for line in found] == sizes
    values = {name: line[name] for line in found for name in line if name.startswith("M")}
    assert values == {f"M{n}": [float(n)] for n in range(count)}


def test_calls_share_nothing(lines):
    metrics = EmfMetrics("aws-large")
    metrics.put([Metric("A", 1)], HERE, AT)
    metrics.put([Metric("B", 2)], {}, AT - timedelta(seconds=30))

    first, second = lines()
    assert ("B" in first, "A" in second) == (False, False)
    assert first["_aws"]["Timestamp"] - second["_aws"]["Timestamp"] == 30_000
    assert "tenant" not in second


def test_zero_is_a_value(lines):
    EmfMetrics("aws-large").put([Metric("NodeUp", 0)], {"part": "redis", "node": "redis"}, AT)

    [line] = lines()
    assert line["NodeUp"] == [0.0]


@pytest.mark.parametrize("away", [timedelta(days=-15), timedelta(hours=3)])
def test_a_moment_that_cloudwatch_would_not_take_is_left_out(lines, away):
    EmfMetrics("prod").put([Metric("A", 1)], HERE, AT + away)
    EmfMetrics("prod").put([Metric("B", 1)], HERE, AT - timedelta(days=13))

    assert ["B" in line for line in lines()] == [True]


def test_a_value_of_a_dimension_is_cut_to_what_cloudwatch_takes(lines):
    EmfMetrics("prod").put([Metric("A", 1)], {"host": "h" * 2_000}, AT)

    [line] = lines()
    assert line["host"] == "h" * 1024
