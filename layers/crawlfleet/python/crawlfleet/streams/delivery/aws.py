"""Push messages to SQS, SNS and EventBridge: one call a batch, an answer for each message.

A call has a time-out and is made once: when it is made again is the deliverer's to say, who knows
of all calls to the receiver. Clients are those of the region in the target's ARN.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from crawlfleet.kernel.aws.clients import border, code_of
from crawlfleet.kernel.aws.clients import client as aws_client
from crawlfleet.kernel.errors import CrawlfleetError, MessageRefusedError, StoreUnavailableError
from crawlfleet.streams.delivery.messages import Message
from crawlfleet.streams.delivery.models import Fault
from crawlfleet.streams.targets import Target, TargetKind

#: For connecting, and for an answer.
TIMEOUT_SECONDS: Final = 4.0
SOURCE: Final = "crawlfleet.streams"
_SERVICES: Final = {
    TargetKind.SQS: "sqs",
    TargetKind.SNS: "sns",
    TargetKind.EVENTBRIDGE: "events",
}
#: What is said of a call that is not as it should be: of one message at least.
_REFUSED: Final = frozenset(
    {
        "AWS.SimpleQueueService.BatchRequestTooLong",
        "BatchRequestTooLong",
        "InvalidMessageContents",
        "InvalidParameter",
        "InvalidParameterException",
        "InvalidParameterValue",
        "RequestEntityTooLarge",
        "RequestEntityTooLargeException",
        "ValidationError",
        "ValidationException",
    }
)
#: What EventBridge says of an event that it never takes.
_BAD_EVENT: Final = frozenset({"InvalidArgument", "MalformedDetail"})


class AwsPusher:
    """Push to queues, topics and buses; threads may share it."""

    def __init__(self, connect: Callable[..., Any] = aws_client) -> None:
        self._connect = connect
        self._clients: dict[tuple[str, str | None], Any] = {}
        self._urls: dict[str, str] = {}
        self._lock = threading.Lock()

    def push(self, target: Target, batch: Sequence[Message]) -> list[Fault | None]:
        """Push a batch; return None for each message that was taken, in their order.

        Raises:
            StoreUnavailableError: the receiver does not answer, is not there or refuses us.
            MessageRefusedError: it finds fault with the call, so with one of its messages.
        """
        ways = {
            TargetKind.SQS: self._to_queue,
            TargetKind.SNS: self._to_topic,
            TargetKind.EVENTBRIDGE: self._to_bus,
        }
        service = _SERVICES[target.kind]
        with border(service, lambda error: _refusal(service, error)):
            faults = ways[target.kind](target, batch)
        if len(faults) != len(batch):
            raise StoreUnavailableError(service, "answered with nonsense")
        return faults

    def _to_queue(self, target: Target, batch: Sequence[Message]) -> list[Fault | None]:
        client = self._client(target)
        url = self._urls.get(target.address)
        if url is None:
            account, name = target.address.split(":")[4:6]
            found = client.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)
            url = self._urls[target.address] = found["QueueUrl"]
        entries = [
            {**entry, "MessageBody": message.body.decode()}
            for entry, message in zip(_entries(target, batch), batch, strict=True)
        ]
        return _by_id(client.send_message_batch(QueueUrl=url, Entries=entries), len(batch))

    def _to_topic(self, target: Target, batch: Sequence[Message]) -> list[Fault | None]:
        entries = [
            {**entry, "Message": message.body.decode()}
            for entry, message in zip(_entries(target, batch), batch, strict=True)
        ]
        answer = self._client(target).publish_batch(
            TopicArn=target.address, PublishBatchRequestEntries=entries
        )
        return _by_id(answer, len(batch))

    def _to_bus(self, target: Target, batch: Sequence[Message]) -> list[Fault | None]:
        entries = [
            {
                "Source": SOURCE,
                "DetailType": _kind(message),
                "Detail": message.body.decode(),
                "EventBusName": target.address,
            }
            for message in batch
        ]
        answer = self._client(target).put_events(Entries=entries)
        return [
            None
            if not one.get("ErrorCode")
            else Fault(text=one["ErrorCode"], is_final=one["ErrorCode"] in _BAD_EVENT)
            for one in answer["Entries"]
        ]

    def _client(self, target: Target) -> Any:
        key = _SERVICES[target.kind], target.region
        with self._lock:
            if key not in self._clients:
                self._clients[key] = self._connect(
                    key[0], region=key[1], timeout_seconds=TIMEOUT_SECONDS, attempts=1
                )
            return self._clients[key]


def _kind(message: Message) -> str:
    return "withdrawn" if message.delivery.is_withdrawal else "item"


def _entries(target: Target, batch: Sequence[Message]) -> list[dict[str, Any]]:
    """Build what SQS and SNS have of a message beside its body.

    In a FIFO queue the messages of an item are a group: its withdrawal comes after it.
    """
    entries: list[dict[str, Any]] = []
    for number, message in enumerate(batch):
        delivery = message.delivery
        words = {"id": delivery.id, "kind": _kind(message), "subscription": delivery.subscription}
        entry: dict[str, Any] = {
            "Id": str(number),
            "MessageAttributes": {
                name: {"DataType": "String", "StringValue": word} for name, word in words.items()
            },
        }
        if target.is_fifo:
            entry["MessageGroupId"] = delivery.key[:16].hex()
            entry["MessageDeduplicationId"] = delivery.id
        entries.append(entry)
    return entries


def _by_id(answer: Mapping[str, Any], count: int) -> list[Fault | None]:
    """Read an answer that names messages; one that it does not name was not taken."""
    faults: list[Fault | None] = [Fault(text="not answered") for _ in range(count)]
    for one in answer.get("Successful") or ():
        faults[int(one["Id"])] = None
    for one in answer.get("Failed") or ():
        is_final = bool(one.get("SenderFault"))
        faults[int(one["Id"])] = Fault(text=str(one.get("Code", "")), is_final=is_final)
    return faults


def _refusal(service: str, error: Exception) -> CrawlfleetError | None:
    code = code_of(error)
    if code in _REFUSED:
        return MessageRefusedError(f"{service}: {code}")
    return None
