"""Send notifications through SNS (SPEC.md A11): a topic each for people, phones and machines.

Phones have a topic of their own, as no filter lets through what is critical and CloudWatch's
alarms, which carry no attributes: ``exists: false`` is true of no message without any.

A message to people carries a text for e-mail and a short one, for phones that somebody subscribes
to it by hand. Attributes let subscriptions filter: ``severity`` (critical, warning), ``word``
(opened, reminder, recovered) and, for machines, ``tenant`` (``-`` is the platform). A stage without
topics keeps its messages in the monitor's log.

A message that SNS finds fault with is refused for ever; an SNS that cannot be reached, does not let
us or is throttling is worth another try. SNS answers once it has a message on several disks. No
answer in time may mean either, so the caller sends again: a message may come twice, never not at
all.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from crawlfleet.kernel.aws.clients import border, code_of
from crawlfleet.kernel.aws.clients import client as aws_client
from crawlfleet.kernel.errors import CrawlfleetError, MessageRefusedError, StoreUnavailableError
from crawlfleet.monitoring.incidents.models import Bulletin, Notification, Word

log = logging.getLogger(__name__)

PART: Final = "sns"
#: The platform's own, as an attribute must not be empty.
PLATFORM: Final = "-"
#: What SNS says of a message that is not as it should be.
_REFUSED: Final = (
    "InvalidParameter",
    "InvalidParameterException",
    "InvalidParameterValue",
    "InvalidParameterValueException",
    "ParameterValueInvalid",
    "ValidationError",
    "ValidationException",
)


class SnsApi(Protocol):
    """The one call of botocore's SNS client that is made."""

    def publish(self, **arguments: Any) -> Any:
        """See botocore."""


@dataclass(slots=True)
class SnsNotifier:
    """Send notifications to the topics of SNS.

    ``people``, ``machines`` and ``phones`` are ARNs of topics; None where there is none. ``client``
    is opened by ``connect`` at the first message, as most evaluations have none.
    """

    people: str | None
    machines: str | None
    phones: str | None = None
    client: SnsApi | None = None
    connect: Callable[[str], SnsApi] = aws_client

    def notify_people(self, notification: Notification) -> None:
        """Send a message to the administrators, in sentences."""
        if self.people is None:
            log.warning("a message to people, who have no topic", extra={"text": notification.text})
            return
        text, short = notification.text, notification.short
        texts = {"default": text, "email": text, "sms": short}
        self._publish(
            TopicArn=self.people,
            Subject=notification.subject,
            Message=json.dumps(texts),
            MessageStructure="json",
            MessageAttributes=_attributes(notification.severity, notification.words),
        )

    def notify_phones(self, notification: Notification) -> None:
        """Send the short form of a message to phones."""
        if self.phones is None:
            return
        self._publish(
            TopicArn=self.phones,
            Subject=notification.subject,
            Message=notification.short,
            MessageAttributes=_attributes(notification.severity, notification.words),
        )

    def notify_machines(self, bulletin: Bulletin) -> None:
        """Send a message to programs."""
        if self.machines is None:
            return
        attributes = _attributes(bulletin.severity, bulletin.words)
        tenant = {"DataType": "String", "StringValue": bulletin.tenant or PLATFORM}
        self._publish(
            TopicArn=self.machines,
            Message=bulletin.document,
            MessageAttributes={**attributes, "tenant": tenant},
        )

    def _publish(self, **arguments: Any) -> None:
        with border(PART, _refusal):
            if self.client is None:
                self.client = self.connect("sns")
            self.client.publish(**arguments)


def _attributes(severity: str, words: Sequence[Word]) -> dict[str, Mapping[str, str]]:
    return {
        "severity": {"DataType": "String", "StringValue": severity},
        "word": {"DataType": "String.Array", "StringValue": json.dumps(words)},
    }


def _refusal(error: Exception) -> CrawlfleetError | None:
    """Tell a message that is refused for ever from an SNS that takes none now."""
    from botocore.exceptions import ParamValidationError

    if isinstance(error, ParamValidationError):
        return MessageRefusedError(f"{PART}: the message cannot be put into a call")
    code = code_of(error)
    if code is None:
        return None
    why = f"the message was refused: {code}"
    return (
        MessageRefusedError(f"{PART}: {why}")
        if code in _REFUSED
        else StoreUnavailableError(PART, why)
    )
