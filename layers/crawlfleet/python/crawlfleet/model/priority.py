"""How urgent a task is, and how that grows while it waits (SPEC.md C4)."""

from typing import Annotated

from msgspec import Meta

from crawlfleet.model.document import Document

#: From 0 to 10; what waits gains on what is above it (policy.ageing).
Priority = Annotated[int, Meta(ge=0, le=10)]
DEFAULT_PRIORITY = 5


class Ageing(Document, frozen=True, kw_only=True):
    """By how much the priority of what waits grows (policy.ageing).

    A tick is every ``interval_seconds``. A task weighs its priority + 1, and at each tick at which
    its age is more than ``beta`` of the oldest one's that becomes up to twice as much, though never
    more than ``clamp``. What has waited longest stands before every newcomer after four ticks.
    """

    interval_seconds: Annotated[float, Meta(ge=0.05, le=86_400)] = 300.0
    beta: Annotated[float, Meta(ge=0.1, le=0.9)] = 0.5
    clamp: Annotated[float, Meta(ge=12, le=2**20)] = 1024.0

    @property
    def interval_ms(self) -> int:
        """The interval in whole milliseconds."""
        return round(self.interval_seconds * 1_000)


USUAL_AGEING = Ageing()
