"""The topics by which people, phones and machines are notified (SPEC.md A11).

People get sentences by e-mail, phones what is critical by SMS, machines JSON. The monitor writes to
all three, and CloudWatch's alarms do. The topics, their key and who is subscribed outlive
deployments, as addresses have been confirmed by those whom they belong to.

Phones have a topic and no filter: the alarms' messages carry no attributes, and SNS holds
``exists: false`` to be true only of a message that has others.
"""

import hashlib
from typing import Final

from aws_cdk import CfnResource, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct, IConstruct

from crawlfleet.kernel import names
from infra.components.keeping import kept
from infra.stages import Stage

_ALARMS: Final = "cloudwatch.amazonaws.com"


class Notifications(Construct):
    """Three topics, the key they are encrypted with, and who is subscribed.

    Attributes:
        people: For administrators, who are notified of everything.
        phones: For phones, which are notified of what is critical.
        machines: For programs; its messages can be filtered by ``tenant``.
        key: Of all, and of the configuration.
    """

    def __init__(self, scope: Construct, construct_id: str, *, stage: Stage) -> None:
        super().__init__(scope, construct_id)
        self._stage = stage
        # AWS's own key for SNS lets nobody else in, and CloudWatch's alarms must be.
        self.key = kms.Key(
            self,
            "Key",
            description=f"Messages and configuration of {names.PRODUCT} {stage.name}",
            enable_key_rotation=True,
            removal_policy=kept(stage),
        )
        # As AWS documents it for alarms and encrypted topics, without a condition: were one on
        # something that does not come with the request to KMS, no alarm could tell anybody. Whose
        # alarms may publish is bounded by the topics' policies, where it is known to come.
        self.key.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsMayWrite",
                principals=[iam.ServicePrincipal(_ALARMS)],
                actions=["kms:Decrypt", "kms:GenerateDataKey*"],
                resources=["*"],
            )
        )
        _pin(self.key, "TopicKey")
        # The stage's one key: the configuration is encrypted with it, too.
        called = names.config_key(names.config_root(stage.name))
        kms.Alias(self, "Name", alias_name=called, target_key=self.key)
        self.people = self._topic("People", stage, f"Crawlfleet {stage.name}")
        self.phones = self._topic("Phones", stage, f"Crawlfleet {stage.name}")
        self.machines = self._topic("Machines", stage, f"Crawlfleet {stage.name} (JSON)")
        addresses = stage.notify
        for email in addresses.emails:
            self._subscribe(self.people, "email", email)
        for phone in addresses.phones:
            self._subscribe(self.phones, "sms", phone)
        for machine in addresses.machines:
            protocol = "sqs" if machine.startswith("arn:") else "https"
            self._subscribe(self.machines, protocol, machine)

    def grant_publish(self, grantee: iam.IGrantable) -> None:
        """Lets the grantee send messages to these topics, and nothing else."""
        topics = [each.topic_arn for each in (self.people, self.phones, self.machines)]
        iam.Grant.add_to_principal(grantee=grantee, actions=["sns:Publish"], resource_arns=topics)
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["kms:Decrypt", "kms:GenerateDataKey"],
            resource_arns=[self.key.key_arn],
        )

    def _topic(self, listeners: str, stage: Stage, shown: str) -> sns.Topic:
        topic = sns.Topic(
            self,
            listeners,
            topic_name=names.topic_name(stage.name, listeners.lower()),
            display_name=shown,
            master_key=self.key,
            enforce_ssl=True,
        )
        topic.apply_removal_policy(kept(stage))
        _pin(topic, f"Topic{listeners}")
        self.let_alarms_publish(topic)
        _resource(topic.node.find_child("Policy")).apply_removal_policy(kept(stage))
        return topic

    def let_alarms_publish(self, topic: sns.Topic) -> None:
        """Lets the account's alarms publish to a topic that has this key."""
        # A policy of one's own takes the place of the one by which they may.
        topic.add_to_resource_policy(
            iam.PolicyStatement(
                sid="AlarmsMayPublish",
                principals=[iam.ServicePrincipal(_ALARMS)],
                actions=["sns:Publish"],
                resources=[topic.topic_arn],
                conditions={"StringEquals": {"aws:SourceAccount": Stack.of(self).account}},
            )
        )

    def _subscribe(self, topic: sns.ITopic, protocol: str, endpoint: str) -> None:
        # Called after whom it is of, not after its place in the list: by that whoever is taken out
        # would move the others. AWS would answer for each that there is one already, and then the
        # clean-up would end it.
        digest = hashlib.sha256(f"{protocol}:{endpoint}".encode()).hexdigest()
        subscribed = sns.CfnSubscription(
            self,
            f"{protocol.title()}{digest[:16]}",
            topic_arn=topic.topic_arn,
            protocol=protocol,
            endpoint=endpoint,
        )
        subscribed.apply_removal_policy(kept(self._stage))


def _pin(construct: Construct, logical_id: str) -> None:
    _resource(construct).override_logical_id(logical_id)


def _resource(construct: IConstruct) -> CfnResource:
    resource = construct.node.default_child
    if not isinstance(resource, CfnResource):
        raise TypeError(f"{construct.node.path} is no single resource")
    return resource
