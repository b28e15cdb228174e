"""Streams of a stage on AWS: the function that reads them, and what it may send to.

It is a kind of consumer that waits at connections instead of leasing requests. A stage without
``streams`` has none: no function, no rights, and nothing that the scheduler would start.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from crawlfleet.kernel import names
from infra.fleet import AsynchronousInvocation, Fleet, FunctionSpec, Grants

#: What sending an item takes, with the service in the ARN of its target.
_SENDS: Final = {
    "sqs:GetQueueUrl": "sqs",
    "sqs:SendMessage": "sqs",
    "sns:Publish": "sns",
    "events:PutEvents": "events",
}
_TARGET: Final = re.compile(
    r"arn:aws[a-z-]{0,8}:(sqs|sns|events):[a-z]{2}[a-z0-9-]{3,20}:[0-9]{12}:[A-Za-z0-9._/-]{1,250}\*?\Z"
)
_MEMORY: Final = (256, 10_240)
_MOST_READERS: Final = 100
_MOST_TARGETS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReaders:
    """The readers of a stage's streams. They cost while somebody subscribes, and nothing else.

    Attributes:
        readers: Most of them at once. As many again are reserved for their successors, which run
            beside them for the overlap of a hand-over.
        memory_mb: Of each; CPU comes with it (1,769 MB is one virtual CPU).
        targets: ARNs of the queues, topics and buses that items may be sent to, ``*`` at the end
            for any that begin so. The stage document's ``streams.targets`` say which tenant may
            have which of them; the function can send to these alone.
    """

    readers: int = 1
    memory_mb: int = 1_024
    targets: tuple[str, ...] = ()

    @property
    def reserved_concurrency(self) -> int:
        """Return the invocations at once: readers, and the successor of each."""
        return 2 * self.readers

    def errors(self) -> Iterator[str]:
        """Yield what cannot be, or what AWS would refuse in the middle of a deployment."""
        if not 1 <= self.readers <= _MOST_READERS:
            yield f"streams.readers is {self.readers}: 1 to {_MOST_READERS}"
        least, most = _MEMORY
        if not least <= self.memory_mb <= most:
            yield f"streams.memory_mb is {self.memory_mb}: {least} to {most:,}"
        if len(self.targets) > _MOST_TARGETS:
            yield f"streams.targets has {len(self.targets)}; the most is {_MOST_TARGETS}"
        for target in self.targets:
            if not _TARGET.match(target):
                yield (
                    f"streams.targets: {target!r} is no ARN of a queue, topic or bus, such as"
                    " arn:aws:sqs:eu-west-1:123456789012:items-*"
                )


def with_streams(fleet: Fleet, streams: StreamReaders | None) -> Fleet:
    """Return the fleet with the function that reads streams, which the scheduler starts.

    >>> from infra.fleet import FLEET
    >>> with_streams(FLEET, None) is FLEET
    True
    """
    if streams is None:
        return fleet
    functions: list[FunctionSpec] = []
    for spec in fleet.functions:
        if spec.name == names.SCHEDULER:
            functions.append(_function(streams, fleet.function(names.CONSUMER).vendor))
            invokes = (*spec.grants.invokes, names.STREAMS)
            functions.append(replace(spec, grants=replace(spec.grants, invokes=invokes)))
        else:
            functions.append(spec)
    return Fleet(
        functions=tuple(functions),
        clocks=fleet.clocks,
        routes=fleet.routes,
        vendor_groups=fleet.vendor_groups,
    )


def _function(streams: StreamReaders, vendor: tuple[str, ...]) -> FunctionSpec:
    return FunctionSpec(
        name=names.STREAMS,
        purpose="Reads streams for their subscribers, and delivers what they want.",
        memory_mb=streams.memory_mb,
        timeout_seconds=900,
        vendor=vendor,
        # It starts nobody, itself least of all: a chain of its own invocations would be stopped as
        # a loop. The scheduler's ticks start successors.
        grants=Grants(reads_stream_secrets=True, delivers=streams.targets),
        reserved_concurrency=streams.reserved_concurrency,
        # A reader that was cut off must not come back as a second one. The next tick starts whoever
        # is still missing; an older call is worth nothing.
        asynchronous=AsynchronousInvocation(
            retry_attempts=0, max_event_age_seconds=60, keeps_dead_letters=False
        ),
    )


def sends(targets: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return what is to be allowed so that items reach these targets, by action.

    >>> sends(("arn:aws:sns:eu-west-1:123456789012:items-*",))
    {'sns:Publish': ('arn:aws:sns:eu-west-1:123456789012:items-*',)}
    """
    return {
        action: found
        for action, service in _SENDS.items()
        if (found := tuple(one for one in targets if one.split(":")[2] == service))
    }
