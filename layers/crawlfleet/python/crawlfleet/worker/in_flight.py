"""The requests that a worker has leased, from the claim until the lease ends.

The states of a lease and its ends are listed in :mod:`crawlfleet.worker.leases`.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Final, NamedTuple, TypeVar

from crawlfleet.config.documents.biz import FleetLimits
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import PAUSES, STEADY, Clock, SteadyTime
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.models import Claim, Entry
from crawlfleet.requests.outcomes import Outcome
from crawlfleet.requests.queue.redis.queue import RedisQueue

#: Outcomes whose node does not answer are kept up to this many bytes and this many batches; what
#: is beyond is left to its leases, and done again.
DEFERRED_BYTES: Final = 32_000_000
DEFERRED_BATCHES: Final = 4
#: Unconfirmed leases that are looked for at most.
MOST_UNCONFIRMED: Final = 100

T = TypeVar("T")


class InFlight:
    """The leased requests of a worker. Used from its event loop, where nothing else is said.

    ``ended`` counts outcomes that are still to be written, ``weight`` their bytes, about, and
    :meth:`weight_of` those of one tenant; ``weighed`` is called as they change.
    """

    def __init__(self, weighed: Callable[[str, int], None] = lambda _tenant, _change: None) -> None:
        self._weighed = weighed
        self._leased: dict[LeasedRequest, Outcome | None] = {}
        self._by_id: dict[tuple[QueueKey, RequestId], LeasedRequest] = {}
        self._running: set[LeasedRequest] = set()
        self._deferred: dict[LeasedRequest, None] = {}
        self._written: set[LeasedRequest] = set()
        self._by_biz: dict[str, int] = {}
        self._weights: Counter[str] = Counter()
        self.ended = 0

    def __len__(self) -> int:
        return len(self._leased)

    def __contains__(self, leased: LeasedRequest) -> bool:
        return leased in self._leased

    @property
    def weight(self) -> int:
        """The bytes of all outcomes that are still to be written."""
        return self._weights.total()

    def weight_of(self, tenant: str) -> int:
        """Return the bytes of a tenant's outcomes that are still to be written."""
        return self._weights[tenant]

    def by_tenant(self) -> Counter[str]:
        """Count the requests by tenant. May be called from any thread.

        Deferred outcomes do not count: the work of other nodes goes on.
        """
        found: Counter[str] = Counter()
        for path, count in list(self._by_biz.items()):
            found[path.partition("/")[0]] += count
        found.subtract(one.queue_key.tenant for one in list(self._deferred))
        return +found

    def by_biz(self) -> dict[str, int]:
        """Count the requests by ``tenant/biz``. May be called from any thread."""
        return dict(self._by_biz)

    def add(self, leased: LeasedRequest) -> bool:
        """Add a claimed request; False if it is being worked on here already.

        A worker that was stopped for longer than its leases finds its own work again: that goes on,
        under the new claim.
        """
        known = self._by_id.setdefault((leased.queue_key, leased.claim.request.id), leased)
        if known is not leased:
            known.claim, known.ends_at = leased.claim, leased.ends_at
            return False
        self._leased[leased] = None
        self._count(leased.queue_key, 1)
        return True

    def start(self, leased: LeasedRequest) -> bool:
        """Note that a runner works on it; False if it is no longer ours to work on."""
        if leased not in self._leased:
            return False
        self._running.add(leased)
        return True

    def end(self, leased: LeasedRequest, outcome: Outcome) -> None:
        """Note an outcome, still to be written; nothing of a request that is not ours any more."""
        self._running.discard(leased)
        if leased in self._leased:
            if self._leased[leased] is None:
                self.ended += 1
                self._weigh(leased, leased.weight)
            self._leased[leased] = outcome

    def defer(self, leased: Iterable[LeasedRequest], limits: FleetLimits) -> list[LeasedRequest]:
        """Keep outcomes that cannot be written now; returns those that there is no room for."""
        self._deferred.update(dict.fromkeys(one for one in leased if one in self._leased))
        room, bytes_left = DEFERRED_BATCHES * limits.batch, DEFERRED_BYTES
        beyond = []
        for one in reversed(self._deferred):
            room, bytes_left = room - 1, bytes_left - one.weight
            if room < 0 or bytes_left < 0:
                beyond.append(one)
        return beyond

    def drop(self, leased: LeasedRequest) -> bool:
        """Forget a request whose lease has ended, however; False if it was not ours."""
        self._running.discard(leased)
        if leased not in self._leased:
            return False
        del self._by_id[leased.queue_key, leased.claim.request.id]
        self._deferred.pop(leased, None)
        self._count(leased.queue_key, -1)
        if self._leased.pop(leased) is not None:
            self.ended -= 1
            self._weigh(leased, -leased.weight)
        return True

    @contextmanager
    def writing(self, part: Collection[LeasedRequest]) -> Iterator[None]:
        """Mark outcomes as being written: until that ends, only it tells whether they were ours."""
        self._written.update(part)
        try:
            yield
        finally:
            self._written.difference_update(part)

    def is_settled(self, leased: LeasedRequest) -> bool:
        """Tell whether its outcome is, or is being, written. May be called from any thread."""
        return leased in self._written or leased not in self._leased

    def outcomes(self) -> dict[LeasedRequest, Outcome]:
        """Return the outcomes that wait to be written."""
        return {leased: end for leased, end in self._leased.items() if end is not None}

    def all(self) -> list[LeasedRequest]:
        """Return all requests in the order of their claims."""
        return list(self._leased)

    def waiting(self) -> list[LeasedRequest]:
        """Return the requests that no runner has begun with."""
        open_ones = (leased for leased, outcome in self._leased.items() if outcome is None)
        return [leased for leased in open_ones if leased not in self._running]

    def _weigh(self, leased: LeasedRequest, change: int) -> None:
        if not change:
            return
        tenant = leased.queue_key.tenant
        self._weighed(tenant, change)
        self._weights[tenant] += change
        if not self._weights[tenant]:
            del self._weights[tenant]

    def _count(self, queue_key: QueueKey, change: int) -> None:
        left = self._by_biz.get(queue_key.path, 0) + change
        if left:
            self._by_biz[queue_key.path] = left
        else:
            self._by_biz.pop(queue_key.path, None)


def by_queue(leased: Iterable[LeasedRequest]) -> dict[tuple[QueueKey, int], list[LeasedRequest]]:
    """Group requests by queue and by the configuration that they were claimed under."""
    groups: dict[tuple[QueueKey, int], list[LeasedRequest]] = defaultdict(list)
    for one in leased:
        groups[one.queue_key, id(one.biz)].append(one)
    return groups


def entries_by_token(claims: Iterable[Claim]) -> dict[str, list[Entry]]:
    """Group the entries of claims by the tokens of their leases."""
    tokens: dict[str, list[Entry]] = defaultdict(list)
    for claim in claims:
        tokens[claim.token].append(claim.entry)
    return tokens


class Stopper:
    """Stops attempts in the middle. Used from the event loop only."""

    def __init__(self) -> None:
        self._tasks: dict[LeasedRequest, asyncio.Task[object]] = {}
        self._stopped: set[LeasedRequest] = set()

    async def run(self, leased: LeasedRequest, attempt: Awaitable[T]) -> T | None:
        """Return what the attempt gives; None where it was stopped."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  it is a coroutine that runs
        self._tasks[leased] = task
        try:
            return await attempt
        except asyncio.CancelledError:
            # The worker's end cancels its runners too, perhaps at the same moment: that goes on.
            if leased not in self._stopped or task.cancelling() > 1:
                raise
            return None
        finally:
            del self._tasks[leased]
            if leased in self._stopped:
                self._stopped.discard(leased)
                task.uncancel()

    def stop(self, leased: LeasedRequest) -> None:
        """Stop the attempt, if one is under way; the caller's own goes on to its end."""
        task = self._tasks.get(leased)
        if task is None or leased in self._stopped or task is asyncio.current_task():
            return
        self._stopped.add(leased)
        task.cancel()


class _Asked(NamedTuple):
    queue_key: QueueKey
    token: str
    until: datetime


class UnconfirmedLeases:
    """Leases whose answer was lost (SPEC.md A7). Used by one thread at a time.

    Redis may have moved entries to a token then that nobody works on, and as its worker lives
    nobody reclaims them: they would lie there until the lease ends. So the worker returns them as
    soon as Redis answers again. What was asked may still be on its way to a server that was held
    up, so it is looked for again and again until that lease would be over. Of more than ``most``
    the oldest are left to their end.
    """

    def __init__(
        self,
        queue: RedisQueue,
        clock: Clock,
        again_seconds: float = PAUSES.unconfirmed,
        steady: SteadyTime = STEADY,
        most: int = MOST_UNCONFIRMED,
    ) -> None:
        self._queue, self._clock, self._now = queue, clock, steady.now
        self._again_seconds, self._most = again_seconds, most
        # By when they are looked for next, by the steady clock.
        self._open: dict[_Asked, float] = {}

    @contextmanager
    def asking(self, queue_key: QueueKey, token: str, until: datetime) -> Iterator[None]:
        """Remember the lease of a call whose answer is lost within, and raise that on."""
        try:
            yield
        except StoreUnavailableError:
            self._open[_Asked(queue_key, token, until)] = 0.0
            if len(self._open) > self._most:
                self._open.pop(next(iter(self._open)))
            raise

    def return_unconfirmed(self) -> None:
        """Return what such leases have moved, as far as Redis answers."""
        for asked, look_at in list(self._open.items()):
            if asked.until <= self._clock():
                del self._open[asked]  # the lease, if there is one, has ended
            elif self._now() >= look_at:
                try:
                    count = self._queue.return_unconfirmed(*asked)
                except StoreUnavailableError:
                    # Of a cluster it may be this queue's node alone: others' work must not wait.
                    self._postpone(asked.queue_key)
                    return
                self._open[asked] = self._now() + self._again_seconds
                if count:
                    lost = StoreUnavailableError("index", "the answer to a lease was lost")
                    warn(f"{count} entries were leased to nobody, and are queued again", lost)

    def _postpone(self, queue_key: QueueKey) -> None:
        later = self._now() + self._again_seconds
        self._open |= {asked: later for asked in self._open if asked.queue_key == queue_key}
