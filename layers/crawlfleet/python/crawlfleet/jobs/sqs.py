"""Events that wait for their start, in a queue of SQS (SPEC.md B1).

Each rule of the stage gives its event to the scheduler and to this queue, which keeps it for 14
days. So an event whose start fails, or that never reached the scheduler, is started by a tick. A
rule that somebody made by hand may have the scheduler as its only target: what the scheduler cannot
start it puts here itself, a second time as a rule, which starts nothing twice.
A message that is received is hidden from others for less than the half minute between two ticks:
what is not forgotten by then is received again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from crawlfleet.kernel.aws.clients import border
from crawlfleet.kernel.aws.clients import client as aws_client
from crawlfleet.kernel.errors import StoreUnavailableError

PART: Final = "sqs"
#: Messages of one call; SQS knows no more.
BATCH: Final = 10
#: An empty queue is asked for so long: without waiting SQS looks at some of its servers only.
WAIT_SECONDS: Final = 1
#: Less than the half minute between two ticks.
HIDDEN_SECONDS: Final = 25
#: SQS waits for messages before it answers.
TIMEOUT_SECONDS: Final = 5.0


class SqsApi(Protocol):
    """The calls that are made of botocore's SQS client."""

    def send_message(self, **arguments: Any) -> Any: ...  # noqa: D102
    def receive_message(self, **arguments: Any) -> Any: ...  # noqa: D102
    def delete_message_batch(self, **arguments: Any) -> Any: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class KeptEvent:
    """An event of the queue, and the receipt by which it is forgotten.

    ``event`` is empty where the message holds no JSON object: nothing starts of that.
    """

    event: Mapping[str, Any]
    receipt: str


class StartsQueue:
    """The queue of a stage's events; ``connect`` opens a client at the first call."""

    def __init__(self, url: str, *, connect: Callable[..., SqsApi] = aws_client) -> None:
        self._url = url
        self._connect = connect
        self._client: SqsApi | None = None

    def receive(self) -> list[KeptEvent]:
        """Receive some events; none where none is visible.

        Raises:
            StoreUnavailableError: SQS does not answer, or answers with nonsense.
        """
        with border(PART):
            answer = self._api().receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=BATCH,
                WaitTimeSeconds=WAIT_SECONDS,
                VisibilityTimeout=HIDDEN_SECONDS,
            )
        try:
            return [
                KeptEvent(_event(message["Body"]), message["ReceiptHandle"])
                for message in answer.get("Messages") or ()
            ]
        except (KeyError, TypeError, AttributeError) as error:
            raise StoreUnavailableError(PART, "answered with nonsense") from error

    def keep(self, event: Mapping[str, Any]) -> None:
        """Put an event in.

        Raises:
            StoreUnavailableError: SQS does not answer, or does not take it.
        """
        body = msgspec.json.encode(event).decode()
        with border(PART):
            self._api().send_message(QueueUrl=self._url, MessageBody=body)

    def forget(self, events: Sequence[KeptEvent]) -> None:
        """Delete events; one that is left is received again, which starts nothing twice.

        Raises:
            StoreUnavailableError: SQS does not answer.
        """
        entries = [{"Id": str(n), "ReceiptHandle": one.receipt} for n, one in enumerate(events)]
        if entries:
            with border(PART):
                self._api().delete_message_batch(QueueUrl=self._url, Entries=entries)

    def _api(self) -> SqsApi:
        if self._client is None:
            self._client = self._connect("sqs", timeout_seconds=TIMEOUT_SECONDS)
        return self._client


def _event(body: str) -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError):
        return {}
