"""Clocks: an EventBridge rule wakes one function at a fixed rate, and again by a queue.

EventBridge knows whole minutes. Where a function is to be woken more often, its rule also sends the
event to a queue of SQS with a delay, which hands it to the function: no function of ours has to be
alive for that.
"""

from aws_cdk import ArnFormat, Duration, RemovalPolicy, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from crawlfleet.kernel import names
from infra.fleet import Clock, FunctionSpec
from infra.stages import Stage as Settings

#: What Lambda asks of the role of a function that it reads a queue for.
_READING = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
#: SQS keeps no message for less.
_KEPT_SECONDS = 60


def again_queue(
    scope: Construct,
    *,
    clock: Clock,
    stage: Settings,
    spec: FunctionSpec,
    function: lambda_.IFunction,
) -> sqs.Queue:
    """Make the queue that brings a clock's events once more, and have Lambda read it.

    An event that fails is not tried again: it is too old by then, and the next one comes.
    """
    queue = sqs.Queue(
        scope,
        f"{clock.name}-again",
        queue_name=names.again_queue(stage.name, clock.name),
        delivery_delay=Duration.seconds(clock.again_seconds),
        retention_period=Duration.seconds(_KEPT_SECONDS),
        # Lambda refuses a queue that would show an event again while the function works on it.
        visibility_timeout=Duration.seconds(spec.timeout_seconds),
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        removal_policy=RemovalPolicy.DESTROY,
    )
    rule = Stack.of(scope).format_arn(
        service="events",
        resource="rule",
        resource_name=f"{names.PRODUCT}-{stage.name}-{clock.name}",
    )
    queue.add_to_resource_policy(
        iam.PolicyStatement(
            sid="RuleMaySend",
            principals=[iam.ServicePrincipal("events.amazonaws.com")],
            actions=["sqs:SendMessage"],
            resources=[queue.queue_arn],
            conditions={"ArnEquals": {"aws:SourceArn": rule}},
        )
    )
    granted = queue.grant(function, *_READING)
    reading = lambda_.EventSourceMapping(
        scope,
        f"{clock.name}-reading",
        target=function,
        event_source_arn=queue.queue_arn,
        batch_size=1,
    )
    # Lambda looks at the role when the mapping is made.
    granted.apply_before(reading)
    return queue


class ClockRule(Construct):
    """The rule and its targets. A tick that cannot be delivered before the next one is dropped."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        clock: Clock,
        stage: Settings,
        function: lambda_.IFunction,
    ) -> None:
        super().__init__(scope, construct_id)
        rule = events.Rule(
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
        if clock.again_seconds:
            # By its name: a reference would tie it to the stack that has the function.
            queue = sqs.Queue.from_queue_arn(
                self,
                "Again",
                Stack.of(self).format_arn(
                    service="sqs",
                    resource=names.again_queue(stage.name, clock.name),
                    arn_format=ArnFormat.NO_RESOURCE_NAME,
                ),
            )
            rule.add_target(
                targets.SqsQueue(queue, max_event_age=Duration.seconds(clock.every_seconds))
            )
