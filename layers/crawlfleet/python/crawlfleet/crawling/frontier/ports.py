"""Seeds as the flows see them (SPEC.md F1-F5)."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from crawlfleet.config.documents.biz import Biz
from crawlfleet.crawling.frontier.models import Seed, SeedTotals, Segment
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.queue_key import QueueKey


class SeedFilter(Protocol):
    """A Bloom filter for each lane and segment. It spares look-ups and is never the truth."""

    def seen(
        self, queue_key: QueueKey, biz: Biz, segment: Segment, keys: Sequence[bytes]
    ) -> list[bool]:
        """Whether each key may be known; False means that it is not, unless the filter was lost."""
        ...

    def add(self, queue_key: QueueKey, biz: Biz, segment: Segment, keys: Sequence[bytes]) -> None:
        """From now on these are known."""
        ...

    def size(self, queue_key: QueueKey, segment: str) -> int:
        """Bytes of Redis that the filter of the segment of that name takes."""
        ...

    def drop(self, queue_key: QueueKey, segment: str) -> None:
        """Forget the segment's filter: nothing is taken for known any more but by the store."""
        ...


class SeedStore(Protocol):
    """The truth about seeds: one a key and segment, whoever offers it, however often."""

    def insert(self, queue_key: QueueKey, biz: Biz, seeds: Sequence[Seed]) -> set[str]:
        """Store; returns the keys that were there already, of which nothing is changed."""
        ...

    def known(
        self, queue_key: QueueKey, biz: Biz, segment: Segment, keys: Sequence[str]
    ) -> set[str]:
        """Which of these are stored."""
        ...

    def ready(self, queue_key: QueueKey, biz: Biz, now: datetime, limit: int) -> int:
        """How many ready seeds are due, counted up to the limit."""
        ...

    def handed(self, queue_key: QueueKey, biz: Biz, limit: int) -> int:
        """How many seeds are handed out and have not ended, counted up to the limit."""
        ...

    def dispatch(
        self,
        queue_key: QueueKey,
        biz: Biz,
        ids: Sequence[RequestId],
        now: datetime,
        until: datetime,
    ) -> list[Seed]:
        """Mark the longest due ready seeds as handed out until then, each as one of the requests.

        Written down before any request is stored, so that whoever comes after a crash knows which
        request a seed became.
        """
        ...

    def overdue(self, queue_key: QueueKey, biz: Biz, now: datetime, limit: int) -> list[Seed]:
        """Seeds that were handed out until before ``now`` and have not ended."""
        ...

    def extend(self, queue_key: QueueKey, biz: Biz, seeds: Sequence[Seed], until: datetime) -> None:
        """These are still being worked on."""
        ...

    def ended(
        self,
        queue_key: QueueKey,
        biz: Biz,
        ends: Mapping[str, tuple[RequestId, str]],
        now: datetime,
    ) -> int:
        """Archive the seeds ``segment/key`` that were handed out as these requests; how many.

        The text is empty where it went well, and else says why the seed failed. They are kept for
        the policy's time from now on, or from when their segment ends: a key counts that long. One
        that failed ends well when its request, replayed, does.
        """
        ...

    def release(
        self, queue_key: QueueKey, biz: Biz, seeds: Sequence[str], why: str, now: datetime
    ) -> int:
        """Make failed or finished seeds ``segment/key`` ready again; returns how many."""
        ...

    def forget(self, queue_key: QueueKey, biz: Biz, seeds: Sequence[str]) -> int:
        """Remove seeds, so that their URLs are accepted anew; returns how many there were."""
        ...

    def find(
        self,
        queue_key: QueueKey,
        biz: Biz,
        *,
        segment: str | None,
        state: int | None,
        after: str | None,
        limit: int,
    ) -> list[Seed]:
        """Seeds in the order of ``segment/key``, after that place."""
        ...

    def open_of_job(self, queue_key: QueueKey, biz: Biz, job: str, limit: int) -> list[Seed]:
        """Seeds of a job that are ready, now or later, or handed out; in no order.

        It reads no others, or, of a lane that had many before there were jobs, some thousands of
        what is open; where there is more it is given up at once.

        Raises:
            StoreError: it is not known.
        """
        ...

    def of_keys(self, queue_key: QueueKey, biz: Biz, keys: Sequence[str]) -> list[Seed]:
        """The seeds of these keys in the newest segments there are, the newest first."""
        ...

    def totals(self, queue_key: QueueKey, biz: Biz, now: datetime) -> list[SeedTotals]:
        """How many there are in each state, by segment, newest first."""
        ...


class CancelledJobs(Protocol):
    """Jobs that get no more tasks."""

    def cancelled(self, tenant: str, biz: str, names: Collection[str]) -> dict[str, bool]:
        """Those of these jobs that are cancelled or being cancelled.

        False while the open tasks of the job are still being swept, True once nobody does.
        """
        ...
