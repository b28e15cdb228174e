"""Alarms: on what the monitor finds, and on what it cannot see of itself (SPEC.md A11, B13).

**Findings.** The monitor judges by the config centre's thresholds and emits 0 or 1 of each kind, so
these alarms know no thresholds and a change of one needs no deployment. They notify machines,
scaling among them; the monitor itself, which knows where and how bad, notifies people once for each
incident. A stage may have those alone that start workers: an alarm costs, and the monitor notifies
machines of every finding, too.

**Of the monitor itself, and of AWS.** Missing evaluations, and missing ticks of the scheduler,
which the monitor may be too blind to report; messages that fail, errors, throttles and slowness of
the functions, events given up on, the API's faults, ElastiCache's processor and memory. These
notify people and machines, and phones too where it is urgent: without evaluations, messages or new
workers, when a function or the API fails, when Redis fills up.

An alarm watches metrics of its own region and notifies topics there. So pools of other regions have
none: what the monitor finds of their workers it finds here, by what they write into Redis, and the
dashboard has what Lambda measures of them.

No alarm is on metric math or percentiles: LocalStack never judges those.
"""

from collections.abc import Mapping
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from crawlfleet.kernel import metric_names as metric
from crawlfleet.kernel import names
from crawlfleet.monitoring.incidents.kinds import ADVICE, Kind, evaluations_required
from infra import alarm_names
from infra.components.notifications import Notifications
from infra.fleet import AsynchronousInvocation, FunctionSpec
from infra.stages import ElastiCache, Stage

#: The monitor evaluates once a minute. One evaluation may find what is over in the next.
_LEAST_MINUTES: Final = 2
#: Of the time that a function has: what takes longer is about to be cut off.
_NEAR_THE_END: Final = 0.9
#: CloudWatch takes 1,024 characters.
_DESCRIPTION: Final = 1_000

_ABOVE: Final = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
_BELOW: Final = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
_QUIET: Final = cloudwatch.TreatMissingData.NOT_BREACHING
#: Who goes on where a function fails.
_NEXT: Final = "the next tick goes on"
_GOES_ON: Final = {
    names.TRIALS: "whoever tries a rule is told to try again",
    names.OPERATORS: "a call that is repeated goes on where it stood",
}


class FleetAlarms(Construct):
    """Every alarm of a stage.

    Attributes:
        findings: The alarms of findings by kind, for whoever acts on one.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        functions: Mapping[str, lambda_.IFunction],
        dead_letters: Mapping[str, sqs.IQueue],
        api: apigateway.RestApi,
        notifications: Notifications,
    ) -> None:
        super().__init__(scope, construct_id)
        self._stage = stage
        self._made: set[str] = set()
        self._everybody: tuple[sns.ITopic, ...] = (notifications.people, notifications.machines)
        self._machines: tuple[sns.ITopic, ...] = (notifications.machines,)
        self._all_with_phones: tuple[sns.ITopic, ...] = (*self._everybody, notifications.phones)
        self.findings = {kind: self._finding(kind) for kind in alarm_names.finding_kinds(stage)}
        self._monitor()
        for spec in stage.fleet.at_home:
            self._function(spec, functions[spec.name])
            if spec.asynchronous is not None and spec.keeps_dead_letters:
                self._dead_letters(spec.name, spec.asynchronous, dead_letters[spec.name])
        if stage.spider_rules:
            self._starts_waiting()
        self._api(api)
        if isinstance(stage.redis, ElastiCache):
            for node in alarm_names.redis_nodes(stage, stage.redis):
                self._redis(node)
        if self._made != (wanted := alarm_names.of_stage(stage)):
            raise ValueError(f"alarm_names.py disagrees on {sorted(self._made ^ wanted)}")

    def _finding(self, kind: Kind) -> cloudwatch.Alarm:
        advice = ADVICE[kind]
        fields = ", ".join(f"thresholds.{name}" for name in advice.thresholds)
        measured = f" Measured by {fields} of the configuration." if fields else ""
        return self._alarm(
            alarm_names.finding(kind),
            f"The monitor has found: {advice.title}. `crawlfleet incidents` says where, since when"
            f" and how bad. {advice.do}{measured}",
            self._own(metric.finding(kind.value)),
            threshold=0,
            minutes=evaluations_required(kind, _LEAST_MINUTES),
            # In an hour without work what is not found is not emitted.
            missing=_QUIET,
            topics=self._machines,
        )

    def _monitor(self) -> None:
        function = names.function_name(self._stage.name, names.MONITOR)
        self._alarm(
            alarm_names.MONITOR_SILENT,
            "The monitor has not looked for three minutes: nobody watches, and nobody but this"
            f" alarm tells. Look at the log of {function} and whether the rule monitor-tick is"
            " enabled.",
            self._own(metric.LOOKS, "Sum"),
            threshold=1,
            minutes=3,
            compare=_BELOW,
            missing=cloudwatch.TreatMissingData.BREACHING,
            topics=self._all_with_phones,
        )
        scheduler = names.function_name(self._stage.name, names.SCHEDULER)
        self._alarm(
            alarm_names.SCHEDULER_SILENT,
            "No tick of the scheduler has ended for three minutes: no schedule runs, nothing lost"
            " is found, and no worker is started but by submissions. Look whether the rule"
            f" scheduler-tick is enabled, at the log of {scheduler}, and at its errors and"
            " throttles.",
            self._own(metric.TICKS, "Sum"),
            threshold=1,
            minutes=3,
            compare=_BELOW,
            missing=cloudwatch.TreatMissingData.BREACHING,
            topics=self._all_with_phones,
        )
        self._alarm(
            alarm_names.MESSAGES_FAILED,
            "The monitor could not send messages for three minutes; they wait until it can."
            f" `crawlfleet incidents` shows what is open. The log of {function} says what SNS"
            " answered.",
            self._own(metric.MESSAGES_FAILED),
            threshold=0,
            minutes=3,
            missing=_QUIET,
            topics=self._all_with_phones,
        )

    def _function(self, spec: FunctionSpec, function: lambda_.IFunction) -> None:
        name, timeout_seconds = spec.name, spec.timeout_seconds
        log = f"/aws/lambda/{names.function_name(self._stage.name, name)}"
        self._alarm(
            alarm_names.errors(name),
            f"The {name} has failed in three of five minutes. Its log {log} says why: look for"
            " ERROR and for `Task timed out`. Nothing accepted is lost:"
            f" {_GOES_ON.get(name, _NEXT)}.",
            function.metric_errors(period=Duration.minutes(1), statistic="Sum"),
            threshold=0,
            minutes=5,
            of_these=3,
            missing=_QUIET,
            topics=self._all_with_phones,
        )
        if not alarm_names.is_called_all_day(spec):
            return
        self._alarm(
            alarm_names.throttles(name),
            f"Lambda has refused to start the {name} for five minutes: its reserved concurrency or"
            " the account's is used up. Compare ConcurrentExecutions with both; ask AWS for more,"
            " or reserve more. Of the consumer some are normal while all workers are busy.",
            function.metric_throttles(period=Duration.minutes(1), statistic="Sum"),
            threshold=0,
            minutes=15 if spec.is_worker else 5,
            missing=_QUIET,
        )
        if not alarm_names.has_an_end(spec):
            return
        self._alarm(
            alarm_names.slow(name),
            f"The {name} takes nearly the {timeout_seconds} s after which it is cut off. Look at"
            f" the latency of Redis and of the MongoDB nodes, and at its log {log}.",
            function.metric_duration(period=Duration.minutes(1), statistic="Maximum"),
            threshold=1_000 * timeout_seconds * _NEAR_THE_END,
            minutes=5,
            of_these=3,
            missing=_QUIET,
        )

    def _dead_letters(self, name: str, treated: AsynchronousInvocation, queue: sqs.IQueue) -> None:
        self._alarm(
            alarm_names.dead_letters(name),
            f"Events of the {name} were given up on. The attribute ErrorMessage of the messages in"
            f" the queue {queue.queue_name} says why. Nothing has to be sent again: the next tick"
            " does its work, and starts what was to be started. Purge the queue when the cause is"
            f" mended, or wait for {treated.dead_letters_kept_hours} h, after which each is gone.",
            queue.metric_approximate_number_of_messages_visible(
                period=Duration.minutes(5), statistic="Maximum"
            ),
            threshold=0,
            minutes=1,
            missing=_QUIET,
        )

    def _starts_waiting(self) -> None:
        log = f"/aws/lambda/{names.function_name(self._stage.name, names.SCHEDULER)}"
        self._alarm(
            alarm_names.STARTS_WAITING,
            "Events that are to start spiders wait for a quarter of an hour: a part is away, or a"
            f" biz has as many open jobs as it may. The log {log} says which: look for `wait for"
            " their start`. Each tick tries again, for 14 days; each is started once.",
            self._own(metric.STARTS_WAITING),
            threshold=0,
            minutes=15,
            missing=_QUIET,
        )

    def _api(self, api: apigateway.RestApi) -> None:
        self._alarm(
            alarm_names.API_FAULTS,
            "The API has answered with 5xx in three of five minutes: the router fails, or a part"
            " that it needs is away. GET /health says which; then the router's log.",
            api.metric_server_error(period=Duration.minutes(1), statistic="Sum"),
            threshold=0,
            minutes=5,
            of_these=3,
            missing=_QUIET,
            topics=self._all_with_phones,
        )
        self._alarm(
            alarm_names.API_SLOW,
            "The API has taken more than 5 s on average for five minutes; API Gateway gives up at"
            " 29 s. Look at the latency of Redis and of the MongoDB nodes.",
            api.metric_latency(period=Duration.minutes(1), statistic="Average"),
            threshold=5_000,
            minutes=5,
            missing=_QUIET,
        )

    def _redis(self, node: str) -> None:
        self._alarm(
            alarm_names.redis_cpu(self._stage.name, node),
            f"The engine of {node} has been busy for more than 85 % of five minutes; it has one"
            " thread. Fewer consumers relieve it at once, a larger node type or more shards for"
            " good.",
            self._elasticache("EngineCPUUtilization", node, "Average"),
            threshold=85,
            minutes=5,
            missing=_QUIET,
        )
        self._alarm(
            alarm_names.redis_memory(self._stage.name, node),
            f"{node} has used more than 85 % of its memory for five minutes. Beyond the stage's"
            " redis_memory_ratio submissions are answered with 429: start more consumers, lower"
            " intake.max_backlog, or take a larger node type.",
            self._elasticache("DatabaseMemoryUsagePercentage", node, "Maximum"),
            threshold=85,
            minutes=5,
            missing=_QUIET,
            topics=self._all_with_phones,
        )

    def _own(self, name: str, statistic: str = "Maximum") -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=names.METRIC_NAMESPACE,
            metric_name=name,
            dimensions_map={"stage": self._stage.name},
            statistic=statistic,
            period=Duration.minutes(1),
        )

    @staticmethod
    def _elasticache(name: str, node: str, statistic: str) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace="AWS/ElastiCache",
            metric_name=name,
            dimensions_map={"CacheClusterId": node},
            statistic=statistic,
            period=Duration.minutes(1),
        )

    def _alarm(
        self,
        name: str,
        description: str,
        watched: cloudwatch.Metric,
        *,
        threshold: float,
        minutes: int,
        of_these: int | None = None,
        compare: cloudwatch.ComparisonOperator = _ABOVE,
        missing: cloudwatch.TreatMissingData,
        topics: tuple[sns.ITopic, ...] | None = None,
    ) -> cloudwatch.Alarm:
        """Make an alarm over so many periods, or so many of these; it notifies of both ends."""
        self._made.add(name)
        alarm = cloudwatch.Alarm(
            self,
            "".join(word.title() for word in name.split("-")),
            alarm_name=f"{alarm_names.prefix(self._stage.name)}{name}",
            alarm_description=description[:_DESCRIPTION],
            metric=watched,
            comparison_operator=compare,
            threshold=threshold,
            evaluation_periods=minutes,
            datapoints_to_alarm=of_these or minutes,
            treat_missing_data=missing,
        )
        for topic in self._everybody if topics is None else topics:
            action = actions.SnsAction(topic)
            alarm.add_alarm_action(action)
            alarm.add_ok_action(action)
        return alarm
