"""Ceilings in Redis: permits of workers, rates of submissions, and the memory of queues.

Only what has a ceiling is asked for here, and a tenant's keys are its own: no counter is shared by
tenants, and none is kept of bytes, which the server measures. So nothing is lost with Redis but
permits, which workers say again with their next ask, and trials, which end within a minute.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.redis.connection import RedisConnection, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.ceilings.models import PermitAsk, Permits
from crawlfleet.requests.queue.redis.keys import ceiling_keys, level_keys, redis_keys

_PERMITS: Final = Script("requests/ceilings/permits")
_BYTES: Final = Script("requests/ceilings/queue_bytes")
_RATE: Final = Script("requests/submission/admit", "requests/queue/levels_prelude")
#: Permits of a worker that is not heard of end after this: until then nobody else has them.
TERM: Final = timedelta(seconds=60)
#: What an entry takes in the list of a host, and such a list with its figures beside.
ENTRY_BYTES: Final = 90
PLACE_BYTES: Final = 400
#: The rate alone is asked for: no backlog is too long, and no memory too full.
_NO_BOUND: Final = 2**53


class QueueBytes(NamedTuple):
    """Bytes that queues take, and what their servers have for all tenants, 0 where unbounded."""

    used: int
    most: int


class RedisCeilings:
    """The use of tenants with ceilings, in Redis; the server's clock counts where none is given."""

    def __init__(
        self, connection: RedisConnection, *, clock: Callable[[], datetime] | None = None
    ) -> None:
        self._redis, self._clock = connection, clock

    def permits(self, tenant: str, worker: str, ask: PermitAsk) -> Permits:
        """Ask for more requests in flight; what the worker has is counted whatever the answer."""
        keys = ceiling_keys(tenant)
        return self._ask((keys.permits, keys.permit_ends, keys.begun), worker, ask)

    def trials(self, tenant: str, trial: str, ask: PermitAsk) -> Permits:
        """Ask for a trial to go on, or say that it has ended; it counts for :data:`TERM`."""
        keys = ceiling_keys(tenant)
        return self._ask((keys.trials, keys.trial_ends, keys.begun), trial, ask)

    def _ask(self, keys: Sequence[str], worker: str, ask: PermitAsk) -> Permits:
        answer = self._redis.once(
            _PERMITS,
            keys,
            *(worker, ask.held, ask.wanted, ask.unused),
            "" if ask.in_flight is None else ask.in_flight,
            "" if ask.per_second is None else ask.per_second,
            *(TERM // timedelta(milliseconds=1), self._now()),
        )
        count, total, wait = several(answer, 3)
        with self._redis.translated():
            seconds = int(text(wait)) / 1_000_000
            return Permits(count=whole(count), in_flight=whole(total), wait_seconds=seconds)

    def rate(self, tenant: str, count: int, per_second: float, burst: int) -> float:
        """Count submissions towards the tenant's rate; return the seconds to wait instead, if any.

        More than the burst are taken at once when the bucket is full.
        """
        arguments = count, _NO_BOUND, per_second, burst, _NO_BOUND, self._now()
        answer = several(self._redis.once(_RATE, (ceiling_keys(tenant).taken,), *arguments), 4)
        with self._redis.translated():
            return int(text(answer[3])) / 1_000_000

    def bytes(self, queues: Sequence[QueueKey]) -> QueueBytes:
        """Measure queues; what the nodes of a cluster that are away hold is left out."""
        if not queues:
            return QueueBytes(0, 0)
        # Items are the biz's: they count with one of its queues.
        seen: set[str] = set()
        each = []
        for queue_key in queues:
            keys, is_first = redis_keys(queue_key), queue_key.path not in seen
            seen.add(queue_key.path)
            own = keys.parked_due, keys.parked_low, keys.leases, keys.delayed
            places = (keys.item_bytes, keys.parked, *own, *level_keys(queue_key))
            each.append((places, (ENTRY_BYTES, PLACE_BYTES, int(is_first))))
        answers = self._redis.queue_by_queue(_BYTES, each)
        found = [several(one, 2) for one in answers if not isinstance(one, StoreUnavailableError)]
        with self._redis.translated():
            return QueueBytes(
                sum(whole(used) for used, _ in found), max(whole(most) for _, most in found)
            )

    def _now(self) -> int | str:
        return "" if self._clock is None else to_ms(self._clock()) * 1_000
