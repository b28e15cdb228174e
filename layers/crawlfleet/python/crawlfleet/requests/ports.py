"""MongoDB as the flows see it: requests and records, what may be done with them by whom.

What starts consumers where requests wait and nobody is there to read them.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from crawlfleet.config.documents.biz import Biz
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import (
    Body,
    Claim,
    Entry,
    Harvest,
    Inserted,
    Link,
    QueueEpoch,
    Record,
    Request,
    Skipped,
    Tracked,
)
from crawlfleet.requests.outcomes import Outcome, Settled


class RequestStore(Protocol):
    """The truth: requests and records. ``biz`` is the configuration in force for ``lane``."""

    def insert(
        self,
        queue_key: QueueKey,
        biz: Biz,
        requests: Sequence[Request],
        kept: frozenset[RequestId] = frozenset(),
    ) -> Inserted:
        """Persist with majority write concern.

        A node that does not answer refuses its own requests only: nothing of those is left behind
        as far as that can be had, and the others stand. Of ``kept`` ids nothing is taken back: who
        comes again with the same ids finds what is left.
        """
        ...

    def claim(
        self,
        queue_key: QueueKey,
        biz: Biz,
        entries: Sequence[Entry],
        worker: str,
        now: datetime,
        until: datetime,
        token: str,
    ) -> list[Claim]:
        """Own each request that matches id, biz, ts and a claimable state, atomically.

        Claimable: pending, waiting until ``now`` at most, or leased with a lease that has ended.
        Entries that are gone, final, not due or owned by another are missing from the answer.
        """
        ...

    def due(
        self, queue_key: QueueKey, biz: Biz, entries: Sequence[Entry]
    ) -> list[tuple[Entry, datetime]]:
        """Those that are leased or wait for an attempt, and when they may be claimed again."""
        ...

    def renew(
        self, queue_key: QueueKey, biz: Biz, claims: Sequence[Claim], until: datetime
    ) -> set[RequestId]:
        """Extend the leases; returns the ids that the token no longer owns."""
        ...

    def settle(
        self,
        queue_key: QueueKey,
        biz: Biz,
        outcomes: Sequence[tuple[Claim, Outcome]],
        worker: str,
        now: datetime,
    ) -> Settled:
        """Store records and write each outcome, on the condition that the token still owns it.

        Of those whose lease was lost nothing is written. One whose records cannot be stored is
        dead, and the others are written all the same.

        Raises:
            StoreUnavailableError: a node does not answer; another's outcomes may be written.
            StoreError: not even that one is dead can be written.
        """
        ...

    def store_part(
        self, queue_key: QueueKey, biz: Biz, claim: Claim, records: Sequence[Record], now: datetime
    ) -> bool:
        """Store records of a page that is still being read; those under the same keys are replaced.

        False, and nothing is written, when the token no longer owns the request. When it is done,
        what an earlier attempt has stored and the last one has not is removed; a request that ends
        in any other way leaves none of these. Records with keys of their own stay whatever becomes
        of it.

        Raises:
            StoreError: the store cannot hold one of them; none of these is stored.
        """
        ...

    def store_keyed(
        self, queue_key: QueueKey, biz: Biz, records: Sequence[Record], now: datetime
    ) -> None:
        """Store records with keys of their own that no claim stands for.

        One replaces what is stored under its key, unless that is newer (requests.models).

        Raises:
            StoreError: the store cannot hold one of them; others may be stored.
        """
        ...

    def release(
        self,
        queue_key: QueueKey,
        biz: Biz,
        claims: Sequence[Claim],
        worker: str,
        why: str,
        now: datetime,
    ) -> None:
        """Make claimed requests pending again, without an attempt counted."""
        ...

    def get(self, queue_key: QueueKey, biz: Biz, request_id: RequestId) -> Tracked | None:
        """Everything about one request, or None."""
        ...

    def find(
        self,
        queue_key: QueueKey,
        biz: Biz,
        *,
        state: int | None,
        since: datetime | None,
        after: tuple[int, str] | None,
        limit: int,
        now: datetime,
    ) -> list[Tracked]:
        """Requests by time of queueing, oldest first, after the position ``(ts, id)``."""
        ...

    def cancel(
        self, queue_key: QueueKey, biz: Biz, request_id: RequestId, by: str, now: datetime
    ) -> Tracked | None:
        """Cancel a pending or waiting request; returns it as it then stands, None if unknown."""
        ...

    def cancel_job(
        self, queue_key: QueueKey, biz: Biz, job: str, limit: int, by: str, now: datetime
    ) -> int:
        """Cancel about ``limit`` of what is open of a job, leased requests too; how many were.

        Whoever works on one settles it before or not at all: its token owns nothing any more. Less
        than ``limit`` says nothing of what is left; 0 says that nothing was, a moment ago.
        """
        ...

    def records(
        self,
        queue_key: QueueKey,
        biz: Biz,
        *,
        request_id: RequestId | None,
        after: tuple[int, str] | None,
        limit: int,
    ) -> list[Record]:
        """Records by time of storing, oldest first, after the position ``(ms, record id)``."""
        ...

    def record_count(self, queue_key: QueueKey, biz: Biz) -> int:
        """About how many records there are; exact unless a node has just come back from a crash."""
        ...

    def unqueued(
        self,
        queue_key: QueueKey,
        biz: Biz,
        *,
        before: Sequence[datetime],
        now: datetime,
        limit: int,
    ) -> list[Entry]:
        """Entries that recovery shall queue again, oldest first: those of the lane's pool.

        Pending ones with ``ts`` below what ``before`` has for their priority, 0 to 10; waiting and
        leased ones overdue at ``now``. Of those of which many others stand before it may leave out
        some: whatever is below the least of all the bounds is found, and the latest ones are.
        """
        ...

    def expire(self, queue_key: QueueKey, biz: Biz, now: datetime) -> int:
        """Mark, and count for ever, what passed its TTL unprocessed; returns how many."""
        ...

    def index(
        self, queue_key: QueueKey, biz: Biz, now: datetime, time_left: Callable[[], float]
    ) -> list[str]:
        """Build what helps recovery, where that is cheap, nobody has tried lately and time is left.

        ``time_left`` is in seconds. Returns what people are to be told: what they have to build.
        Nothing depends on it, so a node that does not answer is passed by.
        """
        ...


class LeaseRevocation(Protocol):
    """What recovery takes from whom, and what it fills queues from.

    A biz has a lane for each pool: what is pending, waits or is held is told of the lane's alone.
    """

    def pools(
        self, queue_key: QueueKey, biz: Biz, among: Collection[str], now: datetime
    ) -> set[str]:
        """The pools that requests of the biz are bound for, whoever asks and whatever state.

        All of ``among`` where that cannot be told quickly; others than those may be found too.
        """
        ...

    def give_over(
        self, queue_key: QueueKey, biz: Biz, limit: int, by: str, why: str, now: datetime
    ) -> tuple[int, list[Entry]]:
        """Have up to ``limit`` a shard of the open requests of the lane's pool be bound for none.

        Returns how many were, 0 where there was none, and those that are to be queued in the usual
        lane now: pending ones, and those whose lease is over. What waits for an attempt is found
        there when it is due. What a lease that is not over holds stays.
        """
        ...

    def revoke(
        self,
        queue_key: QueueKey,
        biz: Biz,
        entries: Sequence[Entry],
        worker: str,
        by: str,
        why: str,
        now: datetime,
    ) -> int:
        """Make pending what ``worker`` owns of these; its tokens are worth nothing from then on."""
        ...

    def pending(
        self,
        queue_key: QueueKey,
        biz: Biz,
        *,
        since: int,
        before: datetime,
        now: datetime,
        limit: int,
    ) -> list[Entry]:
        """Pending entries with ``ts`` from ``since`` (epoch ms) on, oldest first.

        A page has about ``limit`` entries and all of the last one's millisecond, so the next begins
        one after it. Only an empty page is the last one.
        """
        ...

    def waiting(
        self, queue_key: QueueKey, biz: Biz, *, now: datetime, limit: int
    ) -> list[tuple[Entry, datetime]]:
        """Entries that wait for their next attempt, and when it is due; soonest first."""
        ...

    def held(
        self, queue_key: QueueKey, biz: Biz, *, now: datetime, limit: int
    ) -> list[tuple[str, Entry]]:
        """What is leased and its lease not over, with its worker."""
        ...

    def remembered_epoch(self, queue_key: QueueKey, biz: Biz) -> QueueEpoch | None:
        """Which Redis held the lane's whole queue when that was last looked at."""
        ...

    def remember_epoch(self, queue_key: QueueKey, biz: Biz, mark: QueueEpoch) -> None:
        """Keep that."""
        ...


class RuleStore(Protocol):
    """Rules and spiders as they were when a request was accepted."""

    def freeze(self, queue_key: QueueKey, name: str, rule: Rule | Spider) -> None:
        """Keep this version. No effect when it is kept already."""
        ...

    def frozen(self, queue_key: QueueKey, name: str, version: str) -> Rule | Spider | None:
        """The rule or spider of that version, or None if it was never frozen."""
        ...


class Extractor(Protocol):
    """Applies rules."""

    def harvest(
        self, rule: Rule, page: Page, depth: int = 0, meta: Mapping[str, Any] | None = None
    ) -> Harvest:
        """The records and links of a page that lies ``depth`` links from where the crawl began.

        ``meta`` is its request's: there it says which page of a list it is
        (crawling.extract.links).

        Raises:
            ExtractError: names the field that could not be read.
        """
        ...


class Executors(Protocol):
    """Applies spiders that are no rules."""

    def read(
        self, spider: Spider, page: Page, body: Body
    ) -> Iterator[dict[str, object] | Link | Skipped]:
        """Records, as mappings of their fields, links, and what is left out, as they are found.

        Raises:
            ExtractError: names what could not be read; what came before it counts for nothing.
        """
        ...


class Waker(Protocol):
    """Starts consumers."""

    def wake(self, count: int) -> None:
        """Start ``count`` consumer invocations, without waiting for them."""
        ...


class WakeReservations(Protocol):
    """A pool's workers, so far as more of them are to be started."""

    def reserve_wake(self, now: datetime | None, wanted: int, most: int | None = None) -> int:
        """How many workers the caller shall start so that ``wanted`` live; atomic over callers.

        ``now`` is None for whoever does not go by the server's clock, as workers do.

        No more than ``most``, if that is said: the caller asks again when these are started.

        Each is counted as live for a few seconds, so that no two callers start the same one.
        """
        ...
