"""A clock: an EventBridge rule that wakes one function at a fixed rate."""

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from crawlfleet.kernel import names
from infra.fleet import Clock
from infra.stages import Stage


class ClockRule(Construct):
    """The rule and its target. A tick that cannot be delivered before the next one is dropped."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        clock: Clock,
        stage: Stage,
        function: lambda_.IFunction,
    ) -> None:
        super().__init__(scope, construct_id)
        events.Rule(
            self,
            "Rule",
            rule_name=f"{names.PRODUCT}-{stage.name}-{clock.name}",
            description=f"Wakes {clock.function} every {clock.every_seconds} seconds",
            schedule=events.Schedule.rate(Duration.seconds(clock.every_seconds)),
            targets=[
                targets.LambdaFunction(
                    function,
                    max_event_age=Duration.seconds(clock.every_seconds),
                    retry_attempts=2,
                )
            ],
        )
