"""Scaling at once: what the monitor finds too much has the workers looked after (SPEC.md A12, H4).

An alarm's message is only the reason to look: the scheduler sees for itself what there is to do,
and what it does not get to hear the next tick finds. So a message is worth nothing when it
is old, and may come twice.
"""

from collections.abc import Mapping

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct

from crawlfleet.kernel import names
from crawlfleet.monitoring.incidents.kinds import Kind
from infra import alarm_names
from infra.components.notifications import Notifications
from infra.stages import Stage


class ScaleUp(Construct):
    """A topic between those alarms and the scheduler.

    Attributes:
        topic: What the alarms publish to, when they begin and when they are over.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        stage: Stage,
        scheduler: lambda_.IFunction,
        findings: Mapping[Kind, cloudwatch.Alarm],
        notifications: Notifications,
    ) -> None:
        super().__init__(scope, construct_id)
        self.topic = sns.Topic(
            self,
            "Topic",
            topic_name=names.topic_name(stage.name, "scale"),
            master_key=notifications.key,
            enforce_ssl=True,
        )
        notifications.let_alarms_publish(self.topic)
        # Not by `LambdaSubscription`: it would put the right into the function's stack, which
        # would then need this one.
        lambda_.CfnPermission(
            self,
            "Call",
            action="lambda:InvokeFunction",
            function_name=scheduler.function_arn,
            principal="sns.amazonaws.com",
            source_arn=self.topic.topic_arn,
        )
        sns.CfnSubscription(
            self,
            "Scheduler",
            topic_arn=self.topic.topic_arn,
            protocol="lambda",
            endpoint=scheduler.function_arn,
        )
        action = actions.SnsAction(self.topic)
        for kind in alarm_names.SCALING:
            findings[kind].add_alarm_action(action)
            findings[kind].add_ok_action(action)
