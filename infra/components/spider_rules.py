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

from crawlfleet import names
from infra.spider_rules import SpiderRule, is_path
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
                rule_name=rule_name(stage, rule),
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
                    event=events.RuleTargetInput.from_object(start_input(rule)),
                    dead_letter_queue=self.undelivered,
                    max_event_age=Duration.hours(24),
                    retry_attempts=185,
                )
            )


def rule_name(stage: Stage, rule: SpiderRule) -> str:
    """The deployed name of a rule."""
    return f"{names.PRODUCT}-{stage.name}-start-{rule.name}"


def start_input(rule: SpiderRule) -> dict[str, Any]:
    """What the scheduler gets: edge/starts.py reads it."""
    said: dict[str, Any] = {
        "crawlfleet": "start",
        "tenant": rule.tenant,
        "biz": rule.biz,
        "spider": rule.spider,
        "time": events.EventField.from_path("$.time"),
    }
    if rule.pattern is not None:
        # A schedule's event has an id too; should EventBridge fire it twice, there are two of them.
        said["id"] = events.EventField.from_path("$.id")
    if rule.values:
        said["values"] = {
            place: events.EventField.from_path(value) if is_path(value) else value
            for place, value in rule.values.items()
        }
    if rule.version is not None:
        said["version"] = rule.version
    if rule.priority is not None:
        said["priority"] = rule.priority
    return said


def _pattern(rule: SpiderRule) -> events.EventPattern | None:
    if rule.pattern is None:
        return None
    fields: dict[str, Any] = {name.replace("-", "_"): value for name, value in rule.pattern.items()}
    return events.EventPattern(**fields)
