"""A queue that hears what SNS sends: all topics, as a machine of somebody's would."""

import json
from typing import Any, Final, NamedTuple, Self

from crawlfleet.kernel import names
from crawlfleet.monitoring.incidents.kinds import ADVICE, Kind
from crawlfleet.monitoring.incidents.models import Word
from infra import alarm_names
from infra.aws_access import Access
from infra.smoke.deployment import Deployment

_QUEUE: Final = "crawlfleet-smoke-letterbox"
#: SQS gives ten at most in one call.
_AT_ONCE: Final = 10


class Notification(NamedTuple):
    """A message as it came."""

    topic: str
    subject: str
    message: str

    @property
    def text(self) -> str:
        """Return the notification's subject and message as one text."""
        return f"{self.subject} {self.message}"


class Inbox:
    """Subscribed while the block lasts; what came is kept.

    Args:
        deployment: Whose topics.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._access: Access = deployment.access
        self._topics = {
            "people": deployment.output("state", "PeopleTopic"),
            "phones": deployment.output("state", "PhonesTopic"),
            "machines": deployment.output("state", "MachinesTopic"),
        }
        self._url = ""
        self._subscriptions: list[str] = []
        self.notifications: list[Notification] = []

    def __enter__(self) -> Self:
        sqs, sns = self._access.client("sqs"), self._access.client("sns")
        self._url = sqs.create_queue(QueueName=_QUEUE)["QueueUrl"]
        attributes = sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])
        arn = attributes["Attributes"]["QueueArn"]
        sqs.set_queue_attributes(QueueUrl=self._url, Attributes={"Policy": self._policy(arn)})
        for topic in self._topics.values():
            made = sns.subscribe(
                TopicArn=topic, Protocol="sqs", Endpoint=arn, ReturnSubscriptionArn=True
            )
            self._subscriptions.append(made["SubscriptionArn"])
        return self

    def __exit__(self, *_: object) -> None:
        for subscription in self._subscriptions:
            self._access.client("sns").unsubscribe(SubscriptionArn=subscription)
        self._access.client("sqs").delete_queue(QueueUrl=self._url)

    def look(self) -> list[Notification]:
        """Empty the queue; everything that has come so far."""
        sqs = self._access.client("sqs")
        while True:
            answer = sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=_AT_ONCE)
            messages = answer.get("Messages", [])
            if not messages:
                return self.notifications
            for message in messages:
                self.notifications.append(self._notification(json.loads(message["Body"])))
                sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])

    def _notification(self, envelope: dict[str, Any]) -> Notification:
        topic = next(name for name, arn in self._topics.items() if arn == envelope["TopicArn"])
        return Notification(topic, str(envelope.get("Subject") or ""), str(envelope["Message"]))

    def _policy(self, arn: str) -> str:
        statement = {
            "Effect": "Allow",
            "Principal": {"Service": "sns.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": arn,
            "Condition": {"ArnEquals": {"aws:SourceArn": list(self._topics.values())}},
        }
        return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def alarm_name(stage: str, kind: Kind) -> str:
    """Name of a finding's alarm.

    >>> alarm_name("aws-small", Kind.NO_WORKERS)
    'crawlfleet-aws-small-no-workers'
    """
    return f"{alarm_names.prefix(stage)}{alarm_names.finding(kind)}"


def rings(message: str, stage: str, kind: Kind) -> bool:
    """Return whether a message is the one by which a finding's alarm begins to ring.

    >>> told = {"AlarmName": "crawlfleet-aws-small-storage", "NewStateValue": "ALARM"}
    >>> [rings(json.dumps(told), "aws-small", kind) for kind in (Kind.STORAGE, Kind.BACKLOG)]
    [True, False]
    >>> rings(json.dumps(told | {"NewStateValue": "OK"}), "aws-small", Kind.STORAGE)
    False
    """
    reported = json.loads(message)
    return (reported.get("AlarmName"), reported.get("NewStateValue")) == (
        alarm_name(stage, kind),
        "ALARM",
    )


def ends(notification: Notification, stage: str, kind: Kind) -> bool:
    """Return whether a message is the one by which a finding's incident is over.

    >>> subject = "crawlfleet aws-small over: mongodb main: the disk fills"
    >>> notification = Notification("people", subject, "It is over.")
    >>> ends(notification, "aws-small", Kind.STORAGE), ends(notification, "aws-small", Kind.BACKLOG)
    (True, False)
    >>> other = notification._replace(subject=subject.replace("over", "warning"))
    >>> ends(other, "aws-small", Kind.STORAGE)
    False
    >>> bulletin = {"incidents": [{"kind": "storage", "event": "recovered"}]}
    >>> ends(Notification("machines", "", json.dumps(bulletin)), "aws-small", Kind.STORAGE)
    True
    """
    if notification.topic == "machines":
        reported = json.loads(notification.message).get("incidents", ())
        return any((one["kind"], one["event"]) == (kind, Word.RECOVERED) for one in reported)
    title = ADVICE[kind].title
    alone = (
        notification.subject.startswith(f"{names.PRODUCT} {stage} over: ")
        and title in notification.text
    )
    # Of several at once one message says how many each are.
    return alone or f"{title} (over)" in notification.message
