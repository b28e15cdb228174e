"""The dashboard: it shows metrics that there are, under the dimensions that they have."""

import json
import re
from typing import Any

import pytest

from infra.pools import fleet_of
from infra.stages import STAGES
from tests.infra.assembly import STAGE, Assembly
from tests.kit.incidents import Kind
from tests.kit.kernel import metric_names, names

FUNCTIONS = fleet_of(STAGES[STAGE].pools).functions
#: Names by the dimensions that the monitor emits them under.
EMITTED = {
    ("stage",): {*metric_names.FLEET, *map(metric_names.finding, Kind)},
    ("stage", "tenant", "biz"): set(metric_names.QUEUE_KEY),
    ("stage", "part", "node"): {*metric_names.REDIS, *metric_names.NODE},
    ("stage", "host"): set(metric_names.HOST),
}


@pytest.fixture(scope="module")
def graphs(assembly: Assembly) -> dict[str, list[list[Any]]]:
    """The metrics of each graph by its title, references left out."""
    body = assembly.only("events", "AWS::CloudWatch::Dashboard")["Properties"]["DashboardBody"]
    parts = body["Fn::Join"][1]
    text = "".join(part if isinstance(part, str) else "REFERENCE" for part in parts)
    widgets = json.loads(text)["widgets"]
    return {one["properties"]["title"]: one["properties"]["metrics"] for one in widgets}


def test_every_graph_of_ours_shows_metrics_that_the_monitor_emits(
    graphs: dict[str, list[list[Any]]],
):
    shown = [
        (tuple(dimensions[::2]), name, set(dimensions[1::2]))
        for metrics in graphs.values()
        for namespace, name, *dimensions in (
            [word for word in metric if not isinstance(word, dict)]
            for metric in metrics
            if not isinstance(metric[0], dict)
        )
        if namespace == names.METRIC_NAMESPACE
    ]

    assert len(shown) > 10
    for keys, name, values in shown:
        assert name in EMITTED[keys]
        assert values == {STAGE}


def test_what_is_searched_for_is_emitted_under_the_dimensions_of_the_search(
    graphs: dict[str, list[list[Any]]],
):
    expressions = [
        metric[0]["expression"]
        for metrics in graphs.values()
        for metric in metrics
        if isinstance(metric[0], dict)
    ]

    assert len(expressions) > 10
    for expression in expressions:
        found = re.fullmatch(
            r"SEARCH\('\{Crawlfleet,([a-z,]+)\} MetricName=\"(\w+)\""
            r" stage=\"([\w-]+)\"', '(Sum|Minimum|Maximum|Average)', 60\)",
            expression,
        )
        assert found, expression
        assert found[3] == STAGE
        assert found[2] in EMITTED[tuple(found[1].split(","))]


def test_every_function_and_every_queue_of_dead_letters_is_on_it(
    graphs: dict[str, list[list[Any]]],
):
    keeping = [spec for spec in FUNCTIONS if spec.keeps_dead_letters]

    assert len(graphs["Functions: errors"]) == len(FUNCTIONS)
    assert len(graphs["Events given up"]) == len(keeping)


def test_the_dashboard_fits_cloudwatchs_limit_of_metrics(graphs: dict[str, list[list[Any]]]):
    assert max(len(metrics) for metrics in graphs.values()) <= 500
    assert sum(len(metrics) for metrics in graphs.values()) <= 2_500
