"""SNS topics: one of moto's that is heard, and one that refuses."""

import json
from typing import Any

import boto3
from botocore.exceptions import ClientError


class Topic:
    """A topic of moto's, and a queue that hears it."""

    def __init__(self, name: str, only: dict[str, Any] | None = None) -> None:
        sns, self._sqs = boto3.client("sns"), boto3.client("sqs")
        self.arn = sns.create_topic(Name=name)["TopicArn"]
        self._queue = self._sqs.create_queue(QueueName=f"{name}-heard")["QueueUrl"]
        queue = self._sqs.get_queue_attributes(QueueUrl=self._queue, AttributeNames=["QueueArn"])
        attributes = {} if only is None else {"FilterPolicy": json.dumps(only)}
        sns.subscribe(
            TopicArn=self.arn,
            Protocol="sqs",
            Endpoint=queue["Attributes"]["QueueArn"],
            Attributes=attributes,
        )

    def heard(self) -> list[dict[str, Any]]:
        found = self._sqs.receive_message(QueueUrl=self._queue, MaxNumberOfMessages=10)
        return [json.loads(each["Body"]) for each in found.get("Messages", [])]


class Refusing:
    """SNS that answers every call with an error."""

    def __init__(self, code: str) -> None:
        self._code = code

    def publish(self, **arguments: Any) -> None:
        raise ClientError({"Error": {"Code": self._code, "Message": "secret"}}, "Publish")
