"""The inbox receives what SNS sends to each topic, and leaves nothing behind."""

import boto3
import pytest
from moto import mock_aws

from infra.aws_access import Access
from infra.localstack.inbox import Inbox, Notification
from infra.smoke.deployment import Deployment
from tests.waiting import eventually

_ENVIRONMENT = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
}


@pytest.fixture
def deployment():
    with mock_aws():
        sns = boto3.client("sns", "us-east-1")
        topics = {
            output: sns.create_topic(Name=output)["TopicArn"]
            for output in ("PeopleTopic", "PhonesTopic", "MachinesTopic")
        }
        yield Deployment("aws-small", Access(_ENVIRONMENT), {"state": topics}, {})


def test_notifications_are_kept_by_the_topic_they_came_from(deployment):
    sns = boto3.client("sns", "us-east-1")
    topics = deployment.outputs["state"]
    with Inbox(deployment) as inbox:
        assert inbox.look() == []
        sns.publish(TopicArn=topics["PeopleTopic"], Subject="it is full", Message="do this")
        sns.publish(TopicArn=topics["PhonesTopic"], Message="full")
        sns.publish(TopicArn=topics["MachinesTopic"], Message="{}")

        eventually(lambda: len(inbox.look()) == 3)

    assert set(inbox.notifications) == {
        Notification("people", "it is full", "do this"),
        Notification("phones", "", "full"),
        Notification("machines", "", "{}"),
    }
    assert sns.list_subscriptions()["Subscriptions"] == []
    assert "QueueUrls" not in boto3.client("sqs", "us-east-1").list_queues()
