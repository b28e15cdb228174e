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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

from crawlfleet.kernel.aws.clients import client as aws_client
from crawlfleet.kernel.errors import MessageRefusedError, StoreUnavailableError
from crawlfleet.monitoring.incidents.models import Bulletin, Notification, Word

log = logging.getLogger(__name__)

PART: Final = "sns"
#: The platform's own, as an attribute must not be empty.
PLATFORM: Final = "-"
#: What SNS says of a message that is not as it should be.
_REFUSED: Final = frozenset(
    {
        "InvalidParameter",
        "InvalidParameterException",
        "InvalidParameterValue",
        "InvalidParameterValueException",
        "ParameterValueInvalid",
        "ValidationError",
        "ValidationException",
    }
)


class SnsApi(Protocol):
    """The one call of botocore's SNS client that is made."""

    def publish(self, **arguments: Any) -> Any:
        """See botocore."""
        ...


class SnsNotifier:
    """Send notifications to the topics of SNS.

    Args:
        people: ARN of the topic for people; None where there is none.
        machines: ARN of the topic for machines; None where there is none.
        phones: ARN of the topic for phones; None where there is none.
        client: SNS; opened at the first message, as most evaluations have none.
        connect: Opens it, by the name of the service.
    """

    def __init__(
        self,
        people: str | None,
        machines: str | None,
        phones: str | None = None,
        client: SnsApi | None = None,
        *,
        connect: Callable[[str], SnsApi] = aws_client,
    ) -> None:
        self._people = people
        self._machines = machines
        self._phones = phones
        self._client = client
        self._connect = connect

    def notify_people(self, notification: Notification) -> None:
        """Send a message to the administrators, in sentences."""
        if self._people is None:
            log.warning("a message to people, who have no topic", extra={"text": notification.text})
            return
        texts = {
            "default": notification.text,
            "email": notification.text,
            "sms": notification.short,
        }
        self._publish(
            TopicArn=self._people,
            Subject=notification.subject,
            Message=json.dumps(texts),
            MessageStructure="json",
            MessageAttributes=_attributes(notification.severity, notification.words),
        )

    def notify_phones(self, notification: Notification) -> None:
        """Send the short form of a message to phones."""
        if self._phones is None:
            return
        self._publish(
            TopicArn=self._phones,
            Subject=notification.subject,
            Message=notification.short,
            MessageAttributes=_attributes(notification.severity, notification.words),
        )

    def notify_machines(self, bulletin: Bulletin) -> None:
        """Send a message to programs."""
        if self._machines is None:
            return
        attributes = _attributes(bulletin.severity, bulletin.words)
        tenant = {"DataType": "String", "StringValue": bulletin.tenant or PLATFORM}
        self._publish(
            TopicArn=self._machines,
            Message=bulletin.document,
            MessageAttributes={**attributes, "tenant": tenant},
        )

    def _publish(self, **arguments: Any) -> None:
        with _border():
            if self._client is None:
                self._client = self._connect("sns")
            self._client.publish(**arguments)


def _attributes(severity: str, words: Sequence[Word]) -> dict[str, Mapping[str, str]]:
    return {
        "severity": {"DataType": "String", "StringValue": severity},
        "word": {"DataType": "String.Array", "StringValue": json.dumps(words)},
    }


@contextmanager
def _border() -> Iterator[None]:
    """Translate what botocore raises."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailableError(PART, type(error).__name__) from error
    except Exception as error:
        from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

        if isinstance(error, ClientError):
            code = str(error.response.get("Error", {}).get("Code", "unknown"))
            if code in _REFUSED:
                raise MessageRefusedError(f"{PART}: the message was refused: {code}") from error
            raise StoreUnavailableError(PART, f"the message was refused: {code}") from error
        if isinstance(error, ParamValidationError):
            raise MessageRefusedError(f"{PART}: the message cannot be put into a call") from error
        if isinstance(error, BotoCoreError):
            raise StoreUnavailableError(PART, type(error).__name__) from error
        raise
