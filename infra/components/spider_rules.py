"""Rules of the operator's own: a clock or an event of EventBridge starts a kept spider.

Each event goes to the scheduler, which starts it at once, and into a queue, of which a tick starts
what could not be started then: the stores were away, the biz had as many open jobs as it may, the
function was throttled or cut off. What was started is found so, and forgotten.

What the rule hands to the scheduler is made of the rule, and of the event only what the rule names:
an event cannot say which tenant's spider is started.
"""

from collections.abc import Sequence
from typing import Any

from aws_cdk import ArnFormat, CfnOutput, Duration, RemovalPolicy, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from crawlfleet.kernel import names
from infra.spider_rules import (
    DELAY_SECONDS,
    KEPT_DAYS,
    QUEUE_OUTPUT,
    SpiderRule,
    rule_name,
    start_input,
)
from infra.stages import Stage as Settings


def starts_queue(scope: Construct, stage: Settings) -> sqs.Queue:
    """Make the queue of the events that start spiders.

    One statement lets in all of the stage's rules: one for each would be more than a policy holds.
    """
    queue = sqs.Queue(
        scope,
        "Starts",
        queue_name=names.starts_queue(stage.name),
        retention_period=Duration.days(KEPT_DAYS),
        delivery_delay=Duration.seconds(DELAY_SECONDS),
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        removal_policy=RemovalPolicy.DESTROY,
    )
    rules = Stack.of(scope).format_arn(
        service="events", resource="rule", resource_name=f"{names.PRODUCT}-{stage.name}-start-*"
    )
    queue.add_to_resource_policy(
        iam.PolicyStatement(
            sid="RulesMaySend",
            principals=[iam.ServicePrincipal("events.amazonaws.com")],
            actions=["sqs:SendMessage"],
            resources=[queue.queue_arn],
            conditions={"ArnLike": {"aws:SourceArn": rules}},
        )
    )
    CfnOutput(
        scope,
        QUEUE_OUTPUT,
        value=queue.queue_url,
        description="Queue of the events that start spiders, until they are started",
    )
    return queue


class SpiderRules(Construct):
    """The rules, each with two targets: the scheduler, and the queue of what waits for a start."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Settings,
        rules: Sequence[SpiderRule],
        scheduler: lambda_.IFunction,
    ) -> None:
        super().__init__(scope, construct_id)
        # By its name: a reference would keep the queue from going with the stage's last rule, as
        # the stack that has it is deployed before this one. It also leaves the policy alone.
        queue = sqs.Queue.from_queue_arn(
            self,
            "Queue",
            Stack.of(self).format_arn(
                service="sqs",
                resource=names.starts_queue(stage.name),
                arn_format=ArnFormat.NO_RESOURCE_NAME,
            ),
        )
        for rule in rules:
            made = events.Rule(
                self,
                rule.name,
                rule_name=rule_name(stage.name, rule),
                description=f"Starts the spider {rule.spider} of {rule.tenant}/{rule.biz}",
                schedule=(
                    None if rule.schedule is None else events.Schedule.expression(rule.schedule)
                ),
                event_pattern=_pattern(rule),
                enabled=rule.enabled,
            )
            said = events.RuleTargetInput.from_object(
                start_input(rule, events.EventField.from_path)
            )
            # Later the queue's own is quicker.
            made.add_target(
                targets.LambdaFunction(scheduler, event=said, max_event_age=Duration.minutes(1))
            )
            made.add_target(targets.SqsQueue(queue, message=said))


def _pattern(rule: SpiderRule) -> events.EventPattern | None:
    if rule.pattern is None:
        return None
    fields: dict[str, Any] = {name.replace("-", "_"): value for name, value in rule.pattern.items()}
    return events.EventPattern(**fields)
