"""Targets: where a subscription's items are delivered, and which ones a tenant may name (D10).

A target is written as one field: ``{"sqs": ...}``, ``{"sns": ...}``, ``{"eventbridge": ...}`` or
``{"redis_stream": ...}``. It is kept in one form, the ARN for what AWS has: the region and account
are part of it, and no address that a tenant writes is ever connected to. The stage's configuration
says by tenant what may be named; what it does not name is refused, when it is written and again
before each push, so that another tenant's queue is out of reach.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.kernel.validation import join, named


class TargetKind(StrEnum):
    """The kinds of target, by the name of their field."""

    SQS = "sqs"
    SNS = "sns"
    EVENTBRIDGE = "eventbridge"
    REDIS_STREAM = "redis_stream"


class Target(msgspec.Struct, frozen=True):
    """Where items go: an ARN, or the name of a Redis stream of the tenant's."""

    kind: TargetKind
    address: str

    @property
    def region(self) -> str | None:
        """The region of an ARN; None for a Redis stream."""
        return None if self.kind is TargetKind.REDIS_STREAM else self.address.split(":")[3]

    @property
    def written(self) -> dict[str, str]:
        """The target as a subscription has it."""
        return {self.kind.value: self.address}

    @property
    def is_fifo(self) -> bool:
        """Tell whether it is a FIFO queue or topic, whose messages have a group."""
        return self.address.endswith(".fifo")


#: The end of a pattern that stands for whatever follows.
_ANY: Final = "*"
_ARN: Final = r"arn:aws[a-z-]{0,8}:%s:[a-z]{2}[a-z0-9-]{3,20}:[0-9]{12}:%s\Z"
_FORMS: Final = {
    TargetKind.SQS: (
        re.compile(_ARN % ("sqs", r"[A-Za-z0-9_-]{1,75}(\.fifo)?")),
        "the ARN or the URL of a queue, such as arn:aws:sqs:eu-west-1:123456789012:items",
    ),
    TargetKind.SNS: (
        re.compile(_ARN % ("sns", r"[A-Za-z0-9_-]{1,250}(\.fifo)?")),
        "the ARN of a topic, such as arn:aws:sns:eu-west-1:123456789012:items",
    ),
    TargetKind.EVENTBRIDGE: (
        re.compile(_ARN % ("events", r"event-bus/[A-Za-z0-9._/-]{1,240}")),
        "the ARN of a bus, such as arn:aws:events:eu-west-1:123456789012:event-bus/items",
    ),
    TargetKind.REDIS_STREAM: (
        re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z"),
        "a name of up to 64 letters, digits, ., _ and -, a letter or a digit first",
    ),
}
_QUEUE_URL: Final = re.compile(
    r"https://sqs\.(?P<region>[a-z]{2}[a-z0-9-]{3,20})\.(?P<host>amazonaws\.com(\.cn)?)"
    r"/(?P<account>[0-9]{12})/(?P<name>[A-Za-z0-9_.-]{1,80})\Z"
)


def target_of(document: object, field: str = "deliver") -> Target:
    """Read a target as a subscription has it.

    >>> target_of({"sqs": "https://sqs.eu-west-1.amazonaws.com/123456789012/items"}).address
    'arn:aws:sqs:eu-west-1:123456789012:items'

    Raises:
        InvalidRequestError: it is none; the field is named.
    """
    if not isinstance(document, Mapping) or len(document) != 1:
        kinds = ", ".join(TargetKind)
        raise InvalidRequestError.of(field, f"must be an object with one of {kinds}")
    ((kind, address),) = document.items()
    if kind not in list(TargetKind):
        said = f"is unknown: expected {named(TargetKind, str(kind))}"
        raise InvalidRequestError.of(join(field, str(kind)), said)
    target = TargetKind(kind)
    form, words = _FORMS[target]
    plain = _as_arn(address) if target is TargetKind.SQS and isinstance(address, str) else address
    if not isinstance(plain, str) or not form.match(plain):
        raise InvalidRequestError.of(join(field, kind), f"must be {words}")
    return Target(target, plain)


def _as_arn(address: str) -> str:
    """Return the ARN of a queue's URL; whatever else it is stays as it is."""
    found = _QUEUE_URL.match(address)
    if found is None:
        return address
    partition = "aws-cn" if found["host"].endswith(".cn") else "aws"
    return f"arn:{partition}:sqs:{found['region']}:{found['account']}:{found['name']}"


def is_allowed(target: Target, patterns: Iterable[Mapping[str, str]]) -> bool:
    """Tell whether one of a tenant's patterns names the target.

    A pattern is written like a target; with ``*`` at its end it names all that begin so.

    >>> queue = Target(TargetKind.SQS, "arn:aws:sqs:eu-west-1:123456789012:acme-items")
    >>> is_allowed(queue, [{"sqs": "arn:aws:sqs:eu-west-1:123456789012:acme-*"}])
    True
    >>> is_allowed(queue, [{"sqs": "arn:aws:sqs:eu-west-1:123456789012:acme"}])
    False
    """
    return any(
        kind == target.kind and _is_named(target.address, pattern)
        for one in patterns
        for kind, pattern in one.items()
    )


def _is_named(address: str, pattern: str) -> bool:
    if pattern.endswith(_ANY):
        return address.startswith(pattern.removesuffix(_ANY))
    return address == pattern


def must_be_allowed(
    target: Target, patterns: Iterable[Mapping[str, str]], field: str = "deliver"
) -> None:
    """Refuse a target that the stage does not let the tenant deliver to.

    Raises:
        InvalidRequestError: no pattern of the tenant's names it.
    """
    if not is_allowed(target, patterns):
        said = (
            f"is not among the targets of this tenant: an operator adds {target.address} to the "
            "stage's streams.targets"
        )
        raise InvalidRequestError.of(join(field, target.kind), said)
