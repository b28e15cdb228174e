"""Workers: the numbers under which ids are issued, and what one consumer invocation did."""

import msgspec


class HeldNumber(msgspec.Struct, frozen=True, kw_only=True):
    """A leased Snowflake worker number. ``mark``: every position below it is spent."""

    number: int
    fence: str
    mark: int


class WorkReport(msgspec.Struct, kw_only=True):
    """Counts of one consumer invocation and where its time went, phase by phase in seconds.

    Phases overlap: a worker fetches many pages at once, so ``fetch`` is the sum over pages.
    """

    worker: str
    leased: int = 0
    done: int = 0
    retried: int = 0
    dead: int = 0
    skipped: int = 0
    handed_back: int = 0
    lost: int = 0
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    phases: dict[str, float] = msgspec.field(default_factory=dict)
    stopped_because: str = ""
