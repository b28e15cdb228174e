"""Items, subscribers and an outbox whose clock a test sets."""

from datetime import UTC, datetime, timedelta

from tests.kit.streams import Addressed, Item, StreamItem, Subscriber, Target, TargetKind

#: The next midnight: what is kept for a day is not forgotten meanwhile by the server's clock.
BEGIN = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
QUEUE = Target(TargetKind.SQS, "arn:aws:sqs:eu-west-1:123456789012:items")
STREAM = Target(TargetKind.REDIS_STREAM, "items")


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self):
        self.now = BEGIN

    def __call__(self):
        return self.now

    def passes(self, seconds):
        self.now += timedelta(seconds=seconds)
        return self.now


def an_item(id_="1", text="rain", channel="news", **fields):
    return StreamItem(id=id_, channel=channel, seen=Item(text=text), received_at=BEGIN, **fields)


def a_subscriber(name="press", target=STREAM, tenant="acme", biz="news"):
    return Subscriber(tenant=tenant, biz=biz, name=name, target=target)


def addressed(item, *subscribers):
    return Addressed(item=item, subscribers=subscribers or (a_subscriber(),))


class Died(BaseException):
    """A deliverer is killed here."""


class Receivers:
    """Receivers of any kind, who note what they are sent; a test says how they answer.

    Attributes:
        got: Ids by the receiver's address, in the order they came.
        calls: How often each was called.
        answers: By address: what a call comes to, given its batch; without one it takes all.
    """

    def __init__(self):
        self.got = {}
        self.calls = {}
        self.answers = {}

    def push(self, target, batch):
        """Take a batch as a service does."""
        self.calls[target.address] = self.calls.get(target.address, 0) + 1
        answer = self.answers.get(target.address)
        faults = [None] * len(batch) if answer is None else answer(batch)
        got = self.got.setdefault(target.address, [])
        got += [one.delivery.id for one, fault in zip(batch, faults, strict=True) if fault is None]
        return faults
