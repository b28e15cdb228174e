"""Workers: the numbers under which ids are issued, and what one consumer invocation did."""

from enum import StrEnum

import msgspec

from crawlfleet.model.pool import MAIN_POOL


class HeldNumber(msgspec.Struct, frozen=True, kw_only=True):
    """A leased Snowflake worker number. ``mark``: every position below it is spent."""

    number: int
    fence: str
    mark: int


class WorkReport(msgspec.Struct, kw_only=True):
    """Counts of one consumer invocation and where its time went, phase by phase in seconds.

    ``put_aside`` had no turn at their host yet, ``saved`` were answered with 304, ``links`` is how
    many new ones were found to go on with, ``items`` how many came from data queues, ``tasks`` how
    many it made of jobs. ``lost`` were
    another's before their outcome could be written, ``left`` could not be begun or written for want
    of their node; both are done again. ``cancelled`` were let go with their job. ``buried`` are
    other workers that it found dead. Phases overlap: a worker fetches many pages at once, so
    ``fetch`` is the sum over pages.
    """

    worker: str
    leased: int = 0
    done: int = 0
    retried: int = 0
    dead: int = 0
    skipped: int = 0
    handed_back: int = 0
    put_aside: int = 0
    saved: int = 0
    links: int = 0
    items: int = 0
    tasks: int = 0
    lost: int = 0
    left: int = 0
    cancelled: int = 0
    buried: int = 0
    records: int = 0
    bytes: int = 0
    seconds: float = 0.0
    phases: dict[str, float] = msgspec.field(default_factory=dict)
    stopped_because: str = ""


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of itself with each beat; ``held`` is requests by ``tenant/biz``.

    ``hosts`` are some hosts, each with the tenant, at which it has something under way: what it may
    do there is given to others when it is dead. ``failed`` are those that it gave up on. A card
    without a pool is of a version that knew of none: of the usual one.
    """

    started_ms: int = 0
    held: dict[str, int] = {}
    done: int = 0
    failed: int = 0
    pool: str = MAIN_POOL
    hosts: tuple[tuple[str, str], ...] = ()


class Pulse(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as the watch sees it.

    ``silent_ms`` is the time since its last beat, of which only what was watched counts: while
    Redis did not answer nobody could beat. ``beat_ms`` is all of that time. ``intervals`` are the
    latest pauses between its beats, in milliseconds, the newest last.
    """

    worker: str
    silent_ms: int
    beat_ms: int = 0
    intervals: tuple[int, ...] = ()
    card: Card = Card()


class Health(StrEnum):
    """What the detector makes of a worker.

    One is ``UNWATCHED`` that was not heard of for longer than the living are silent, while nobody
    watched: it may be dead or cut off from Redis as all were, and the next looks will tell.
    """

    ALIVE = "alive"
    UNWATCHED = "unwatched"
    SUSPECTED = "suspected"
    DEAD = "dead"


class WorkerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as people see it.

    ``phi`` is how unlikely it is that it still lives, as a power of ten: of suspicions at 8, one in
    100 million is wrong. It counts ``silent_ms``, the silence that was watched; ``beat_ms`` is the
    time since its last beat, whoever watched.
    """

    worker: str
    health: Health
    phi: float
    silent_ms: int
    beat_ms: int = 0
    card: Card
