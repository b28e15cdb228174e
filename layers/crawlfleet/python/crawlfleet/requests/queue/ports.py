"""Redis as the flows see it: what is to be done, who does it, who looks after whom."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from crawlfleet.kernel.queue_key import USUAL_AGEING, Ageing, QueueKey
from crawlfleet.requests.models import Entry, QueueEpoch
from crawlfleet.requests.queue.deferral import DeferredHost
from crawlfleet.requests.queue.stats import Depth, Load, Rates


class RequestQueue(Protocol):
    """The index of what is to be done. Entries may repeat; the claim in the store decides."""

    def enqueue(self, queue_key: QueueKey, entries: Sequence[Entry], now: datetime) -> int:
        """Append, and count towards the lane's submission rate.

        Returns how many wait in the queue now, these included.
        """
        ...

    def requeue(self, queue_key: QueueKey, entries: Sequence[Entry]) -> None:
        """Put recovered entries where those of their priority are served next; not counted."""
        ...

    def lease(
        self,
        queue_key: QueueKey,
        token: str,
        count: int,
        now: datetime,
        until: datetime,
        ageing: Ageing = USUAL_AGEING,
    ) -> list[Entry]:
        """Move up to ``count`` entries to the token's lease. Empty when none wait.

        Due retries come first, then entries of leases that have ended, then the queue: each time
        the oldest entry of the priority that weighs most by requests.queue.ageing. Ticks go by the
        server's clock where it has one; ``now`` is the caller's.
        """
        ...

    def renew(
        self, queue_key: QueueKey, token: str, entries: Sequence[Entry], until: datetime
    ) -> list[Entry]:
        """Extend the lease of ``entries``; returns those that the token no longer holds."""
        ...

    def finish(
        self,
        queue_key: QueueKey,
        token: str,
        entries: Sequence[Entry],
        processed: int,
        now: datetime,
    ) -> int:
        """Drop the token's entries, add ``processed`` to the rate; returns how many it held."""
        ...

    def defer(
        self,
        queue_key: QueueKey,
        token: str,
        hosts: Sequence[tuple[str, datetime, Sequence[Entry]]],
    ) -> int:
        """Move entries still held by the token to the end of their host's own lists.

        There is one for each priority, which is served in the order in which it was made. The host
        is looked at again at that time (the latest one given counts). Returns how many moved.
        """
        ...

    def deferred(self, queue_key: QueueKey, now: datetime, limit: int) -> list[DeferredHost]:
        """Hosts whose time has come and that have entries, the longest due first."""
        ...

    def lease_deferred(
        self,
        queue_key: QueueKey,
        token: str,
        hosts: Sequence[tuple[str, int, datetime]],
        until: datetime,
        ageing: Ageing = USUAL_AGEING,
    ) -> dict[str, list[Entry]]:
        """Move up to so many entries of each host to the token's lease.

        Of a host's priorities the one is next of which the oldest weighs most, as
        ``deferral`` has them age. Where some are left, the host is looked at again at the
        time given.
        """
        ...

    def give_back(self, queue_key: QueueKey, token: str, entries: Sequence[Entry]) -> int:
        """Return entries still held by the token to where they are served next."""
        ...

    def return_unconfirmed(self, queue_key: QueueKey, token: str, until: datetime) -> int:
        """Return what a lease has moved of which the caller got no answer; how many entries.

        That is what the token holds until then: whatever was renewed it knows of. They go where
        they are served next of the queue, also those that had waited for a host. The lease may have
        come to nothing, or be made later than this: called again, it is looked for again.
        """
        ...

    def delay(
        self, queue_key: QueueKey, token: str, entries: Sequence[tuple[Entry, datetime]]
    ) -> int:
        """Move entries still held by the token to the waiting set, each until its time."""
        ...

    def depth(self, queue_key: QueueKey) -> Depth:
        """How much is queued, leased and delayed, and what is served next of each priority."""
        ...

    def depths(self, queues: Sequence[QueueKey]) -> list[Depth]:
        """:meth:`depth` of many lanes in one round trip.

        Where a part of the store is away, its lanes' are ``away``; where all of it is this fails.
        """
        ...

    def loads(self, queues: Sequence[QueueKey], now: datetime) -> list[Load]:
        """What many lanes have for whoever asks now, in one round trip; ``away`` as of depths."""
        ...

    def rates(self, queue_key: QueueKey, now: datetime) -> tuple[Rates, Rates]:
        """Submitted and processed requests per second over the last full 1, 5 and 60 seconds."""
        ...

    def per_second(
        self, queue_key: QueueKey, now: datetime
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Submitted and processed counts by epoch second, for the last full 60 seconds."""
        ...

    def add_phases(self, queue_key: QueueKey, seconds: Mapping[str, float]) -> None:
        """Add to the lane's account of where workers spend their time."""
        ...

    def phases(self, queue_key: QueueKey) -> dict[str, float]:
        """That account, in seconds by phase."""
        ...


class Overview(Protocol):
    """Many lanes at a glance, for who watches them all: a round trip for some hundreds."""

    def counts(
        self, queues: Sequence[QueueKey]
    ) -> list[tuple[dict[int, int], dict[int, int]] | None]:
        """Submitted and processed counts by epoch second, for queue.rates.KEPT_SECONDS at least.

        The present second is among them; it is not over yet. None for a lane whose part of the
        store is away, where others are not.
        """
        ...

    def waiting_hosts(self, queues: Sequence[QueueKey], limit: int) -> list[list[DeferredHost]]:
        """Of each lane up to ``limit`` hosts that something waits for, the last due first.

        What waits longest is what its host asked to be left alone for. None of a lane that is away.
        """
        ...


class LeaseBook(Protocol):
    """Who holds what of a lane, as the queue knows it. Costs grow with what is leased, not queued.

    A token begins with its worker's id (requests.queue.leases).
    """

    def leases(self, queue_key: QueueKey, worker: str | None = None) -> list[tuple[str, Entry]]:
        """Leased entries with their tokens: of one worker, or of all."""
        ...

    def relist(
        self, queue_key: QueueKey, token: str, entries: Sequence[Entry], until: datetime
    ) -> None:
        """List as leased what the store says the token owns and the queue has forgotten."""
        ...


class QueueRebuild(Protocol):
    """Filling a lane's queue from the truth after Redis has lost some or all of it."""

    def mark(self, queue_key: QueueKey) -> QueueEpoch:
        """Which server holds the queue now, and what was written there when it was filled."""
        ...

    def clear(self, queue_key: QueueKey, nonce: str) -> None:
        """Drop what is queued and delayed (not what is leased), and begin a filling."""
        ...

    def fill(self, queue_key: QueueKey, nonce: str, entries: Sequence[Entry], reached: int) -> bool:
        """Append, oldest first of each priority, and note how far this has come.

        False: another has begun anew.
        """
        ...

    def fill_delayed(
        self, queue_key: QueueKey, nonce: str, entries: Sequence[tuple[Entry, datetime]]
    ) -> bool:
        """The same for what waits for its time."""
        ...

    def filled(self, queue_key: QueueKey, nonce: str) -> bool:
        """The queue is complete; True also if this nonce had completed it before."""
        ...
