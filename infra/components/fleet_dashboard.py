"""The dashboard: what the monitor emits and what AWS itself measures, the worst things first.

What has many values of a dimension (bizs, hosts, nodes) is searched for when the page is looked
at, so a biz that came this morning is on it without a deployment.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from crawlfleet.kernel import metric_names as metric
from crawlfleet.kernel import names
from crawlfleet.monitoring.incidents.kinds import Kind
from infra.fleet import FunctionSpec
from infra.stages import Stage

_MINUTE: Final = Duration.minutes(1)
#: The page has 24 columns; three graphs stand side by side.
_WIDTH: Final = 8

_QUEUE_KEY: Final = ("stage", "tenant", "biz")
_NODE: Final = ("stage", "part", "node")
_HOST: Final = ("stage", "host")


class FleetDashboard(Construct):
    """The CloudWatch dashboard of a stage, under the stage's name."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        functions: Mapping[str, lambda_.IFunction],
        dead_letters: Mapping[str, sqs.IQueue],
        api: apigateway.RestApi,
    ) -> None:
        super().__init__(scope, construct_id)
        self._stage = stage.name
        board = cloudwatch.Dashboard(
            self, "Dashboard", dashboard_name=f"{names.PRODUCT}-{stage.name}"
        )
        board.add_widgets(
            self._fleet("What is wrong (1 is a finding)", *map(metric.finding, Kind)),
            self._fleet("Requests a minute", metric.SUBMITTED, metric.PROCESSED, statistic="Sum"),
            self._fleet("Backlog", metric.BACKLOG, metric.LEASED, metric.DELAYED),
        )
        board.add_widgets(
            self._fleet(
                "Seconds waited, seconds left", metric.OLDEST_WAITING, metric.TIME_TO_FINISH
            ),
            self._fleet(
                "Workers",
                *(metric.CONSUMERS, metric.WANTED_CONSUMERS, metric.WORKERS_ALIVE),
                metric.CAPACITY_SHORT,
                *(metric.WORKERS_SUSPECTED, metric.WORKERS_DEAD),
            ),
            self._fleet(
                "Given up, expired, lost", metric.DEAD, metric.EXPIRED, metric.LEDGER_DIFFERENCE
            ),
        )
        board.add_widgets(
            self._each("Backlog by biz", _QUEUE_KEY, metric.BACKLOG),
            self._each("Seconds left by biz", _QUEUE_KEY, metric.TIME_TO_FINISH),
            self._each("Processed a minute by biz", _QUEUE_KEY, metric.PROCESSED, statistic="Sum"),
        )
        board.add_widgets(
            self._each("Stores: up", _NODE, metric.NODE_UP, statistic="Minimum"),
            self._each(
                "Stores: memory and cache used", _NODE, metric.MEMORY_RATIO, metric.CACHE_RATIO
            ),
            self._each("Stores: latency", _NODE, metric.LATENCY),
        )
        board.add_widgets(
            self._each("Stores: slow operations", _NODE, metric.SLOW_OPERATIONS),
            self._each("Stores: connections used", _NODE, metric.CONNECTIONS_RATIO),
            self._each("Stores: lag", _NODE, metric.LAG_SECONDS),
        )
        board.add_widgets(
            self._each("Hosts: answered well", _HOST, metric.HOST_SUCCESS, statistic="Average"),
            self._each("Hosts: latency", _HOST, metric.HOST_LATENCY, statistic="Average"),
            self._each("Hosts: throttled", _HOST, metric.HOST_THROTTLED),
        )
        every = functions.values()
        away = [spec for spec in stage.fleet.functions if spec.region]
        board.add_widgets(
            self._graph(
                "Functions: errors",
                [one.metric_errors(period=_MINUTE) for one in every]
                + [self._away(spec, "Errors") for spec in away],
            ),
            self._graph(
                "Functions: throttled",
                [one.metric_throttles(period=_MINUTE) for one in every]
                + [self._away(spec, "Throttles") for spec in away],
            ),
            self._graph(
                "Events given up",
                [
                    queue.metric_approximate_number_of_messages_visible(
                        label=name, period=_MINUTE, statistic="Maximum"
                    )
                    for name, queue in dead_letters.items()
                ],
            ),
        )
        board.add_widgets(
            self._graph("API: calls", [api.metric_count(period=_MINUTE)]),
            self._graph(
                "API: refused, failed",
                [
                    api.metric_client_error(period=_MINUTE, statistic="Sum"),
                    api.metric_server_error(period=_MINUTE, statistic="Sum"),
                ],
            ),
            self._graph("API: latency", [api.metric_latency(period=_MINUTE, statistic="p99")]),
        )

    def _away(self, spec: FunctionSpec, name: str) -> cloudwatch.IMetric:
        """Name Lambda's metrics of a function in another region: a dashboard shows any region's."""
        return cloudwatch.Metric(
            namespace="AWS/Lambda",
            metric_name=name,
            dimensions_map={"FunctionName": names.function_name(self._stage, spec.name)},
            statistic="Sum",
            period=_MINUTE,
            region=spec.region,
        )

    def _fleet(
        self, title: str, *wanted: str, statistic: str = "Maximum"
    ) -> cloudwatch.GraphWidget:
        """Metrics of the stage as a whole."""
        return self._graph(
            title,
            [
                cloudwatch.Metric(
                    namespace=names.METRIC_NAMESPACE,
                    metric_name=name,
                    dimensions_map={"stage": self._stage},
                    statistic=statistic,
                    period=_MINUTE,
                    label=name,
                )
                for name in wanted
            ],
        )

    def _each(
        self, title: str, dimensions: tuple[str, ...], *wanted: str, statistic: str = "Maximum"
    ) -> cloudwatch.GraphWidget:
        """Metrics of every biz, node or host that there is."""
        schema = ",".join((names.METRIC_NAMESPACE, *dimensions))
        return self._graph(
            title,
            [
                cloudwatch.MathExpression(
                    expression=(
                        f'SEARCH(\'{{{schema}}} MetricName="{name}" stage="{self._stage}"\','
                        f" '{statistic}', {_MINUTE.to_seconds():.0f})"
                    ),
                    label="",
                    using_metrics={},
                    period=_MINUTE,
                )
                for name in wanted
            ],
        )

    @staticmethod
    def _graph(title: str, metrics: Iterable[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
        return cloudwatch.GraphWidget(
            title=title,
            left=list(metrics),
            left_y_axis=cloudwatch.YAxisProps(min=0),
            width=_WIDTH,
        )
