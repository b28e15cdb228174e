"""Thresholds and alarms of the stage document (SPEC.md A11).

A change is in force with the next evaluation of the monitor; no deployment has any part in it.
"""

from typing import Annotated, TypeVar

from msgspec import Meta

from crawlfleet.kernel.validation import Count, Document, Seconds

Share = Annotated[float, Meta(gt=0, le=1)]
#: What must not be exceeded may be 0.
Amount = Annotated[int, Meta(ge=0)]
T = TypeVar("T", int, float)


class Thresholds(Document, frozen=True, kw_only=True):
    """Beyond these the monitor calls something wrong (SPEC.md A11, B13, H4).

    Attributes:
        storage_bytes: On disk of a MongoDB node.
        memory_ratio: Of a MongoDB node's cache, used.
        redis_memory_ratio: Of Redis' ``maxmemory``, used; below the stage's ``redis_memory_ratio``,
            from which on submissions are refused.
        connections_ratio: Of the connections that a part takes at most, open.
        slow_operations: Of a part, in the last minute or running now.
        latency_seconds: Of a part's answer to a ping.
        lag_seconds: Of the worst secondary behind its primary.
        unwell_replicas: Members of a replica set in no good state.
        redis_replicas: That each Redis, of a cluster each of its nodes, is to have; fewer are
            wrong. 0 checks none: a Redis does not know how many it should have.
        evicted_keys: Keys that Redis evicted between two samples.
        backlog: Of a biz: queued, leased and delayed.
        oldest_waiting_seconds: Of a biz, what is served next.
        dead_per_minute: Requests of a biz given up on, a minute.
        expired_per_minute: Requests of a biz that ran out of time unprocessed, a minute.
        ledger_difference: Requests of a biz that are in no state.
        dead_workers: Dead and not reaped.
        tick_silent_seconds: Since the last tick of the scheduler ended.
        tick_faults: Of the last tick: parts, and schedules and bizs within them, that failed.
        throttled_share: Of a host's answers, 429, 503 and failed connections.
        throttled_answers: Fewer answers than this say nothing of a host.
        failing_share: Of a host's answers, 5xx but 503.
        host_latency_seconds: What a host's answers take on average; None for no such threshold.
        host_answers: Fewer answers than this do not say of a host that it fails or is slow.
    """

    storage_bytes: Count = 400_000_000_000
    memory_ratio: Share = 0.85
    redis_memory_ratio: Share = 0.75
    connections_ratio: Share = 0.8
    slow_operations: Count = 100
    latency_seconds: Seconds = 0.25
    lag_seconds: Seconds = 30.0
    unwell_replicas: Amount = 0
    redis_replicas: Amount = 0
    evicted_keys: Amount = 0
    backlog: Count = 1_000_000
    oldest_waiting_seconds: Seconds = 3600.0
    dead_per_minute: Count = 100
    expired_per_minute: Count = 10
    ledger_difference: Amount = 0
    dead_workers: Amount = 0
    tick_silent_seconds: Seconds = 180.0
    tick_faults: Amount = 0
    throttled_share: Share = 0.2
    throttled_answers: Count = 20
    failing_share: Share = 0.5
    host_latency_seconds: Seconds | None = None
    host_answers: Count = 10


class BizThresholds(Document, frozen=True, kw_only=True):
    """A biz's own thresholds; None leaves it to the stage. The plan is ``planned_seconds``."""

    backlog: Count | None = None
    oldest_waiting_seconds: Seconds | None = None
    dead_per_minute: Count | None = None
    expired_per_minute: Count | None = None


class AlarmLimits(Document, frozen=True, kw_only=True):
    """The limits by which findings become messages. The monitor evaluates once a minute.

    Attributes:
        bad_looks: Evaluations in a row that must find something before it opens.
        good_looks: Evaluations in a row without it before it is over; doubled for each time that it
            came back within ``flap_seconds``, up to ``most_good_looks``.
        most_good_looks: The most that flapping asks for.
        flap_seconds: What comes back so soon is the same incident.
        reminder_seconds: After the first message; each pause is twice the one before.
        most_reminder_seconds: The longest pause between reminders.
        singly: More messages than this at once become one that sums them up.
        messages_an_hour: More messages than this in an hour do too.
        digest_seconds: The least pause between two that sum up.
    """

    bad_looks: Annotated[int, Meta(ge=1, le=60)] = 2
    good_looks: Annotated[int, Meta(ge=1, le=60)] = 3
    most_good_looks: Annotated[int, Meta(ge=1, le=1_440)] = 60
    flap_seconds: Seconds = 3600.0
    reminder_seconds: Seconds = 3600.0
    most_reminder_seconds: Seconds = 86_400.0
    singly: Annotated[int, Meta(ge=1, le=100)] = 5
    messages_an_hour: Annotated[int, Meta(ge=1, le=1_000)] = 20
    digest_seconds: Seconds = 300.0


def own_or(own: T | None, stage: T) -> T:
    """Return the biz's own threshold where it has one, the stage's where not.

    >>> own_or(None, 100), own_or(5, 100)
    (100, 5)
    """
    return stage if own is None else own
