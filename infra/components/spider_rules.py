"""Rules of the operator's own: a clock or an event of EventBridge starts a kept spider.

What the rule hands to the scheduler is made of the rule, and of the event only what the rule names:
an event cannot say which tenant's spider is started.
"""

from collections.abc import Sequence
from typing import Any

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.spider_rules import SpiderRule, rule_name, start_input
from infra.stages import Stage


class SpiderRules(Construct):
    """The rules, each with the scheduler for its only target.

    Attributes:
        undelivered: What EventBridge could not deliver to the scheduler for a day.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        rules: Sequence[SpiderRule],
        scheduler: lambda_.IFunction,
    ) -> None:
        super().__init__(scope, construct_id)
        self.undelivered = sqs.Queue(
            self,
            "Undelivered",
            retention_period=Duration.days(14),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            removal_policy=RemovalPolicy.DESTROY,
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
            made.add_target(
                targets.LambdaFunction(
                    scheduler,
                    event=events.RuleTargetInput.from_object(
                        start_input(rule, events.EventField.from_path)
                    ),
                    dead_letter_queue=self.undelivered,
                    max_event_age=Duration.hours(24),
                    retry_attempts=185,
                )
            )


def _pattern(rule: SpiderRule) -> events.EventPattern | None:
    if rule.pattern is None:
        return None
    fields: dict[str, Any] = {name.replace("-", "_"): value for name, value in rule.pattern.items()}
    return events.EventPattern(**fields)
