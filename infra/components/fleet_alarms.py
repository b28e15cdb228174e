"""Alarms on what must never last: each says in words what is wrong and what to do."""

from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from crawlfleet import names
from infra.stages import Stage

#: The monitor looks once a minute. What differs in one look may be an outage that recovery is about
#: to book; what differs in five is nobody's.
_MINUTES: Final = 5


class FleetAlarms(Construct):
    """The ledger's alarm: requests that were accepted and are nowhere."""

    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage) -> None:
        super().__init__(scope, construct_id)
        cloudwatch.Alarm(
            self,
            "LedgerDifference",
            alarm_name=f"{names.PRODUCT}-{stage.name}-ledger-difference",
            alarm_description=(
                "Requests were accepted and are in no state, or more have ended than were accepted,"
                f" for {_MINUTES} minutes. `crawlfleet ledger BIZ` says of which biz and how many;"
                " the metric by tenant and biz says since when. Look for documents that somebody"
                " removed by hand, a node restored from an old backup, or a biz whose collection"
                " was renamed."
            ),
            metric=cloudwatch.Metric(
                namespace=names.METRIC_NAMESPACE,
                metric_name=names.METRIC_LEDGER_DIFFERENCE,
                dimensions_map={"stage": stage.name},
                statistic="Maximum",
                period=Duration.minutes(1),
            ),
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            threshold=0,
            evaluation_periods=_MINUTES,
            datapoints_to_alarm=_MINUTES,
            treat_missing_data=cloudwatch.TreatMissingData.MISSING,
        )
