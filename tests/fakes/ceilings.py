"""In-memory fakes of what tenants with ceilings have: permits, rates, sizes."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from tests.kit.ceilings import TERM, PermitAsk, Permits, QueueBytes
from tests.kit.kernel import QueueKey, to_ms

_SECOND_US = 1_000_000


class MemoryCeilings:
    """An in-memory ``RedisCeilings``: the model that its scripts are held against."""

    def __init__(self, *, clock: Callable[[], datetime] | None = None) -> None:
        self._clock = clock or (lambda: datetime.now(UTC))
        self._permits: defaultdict[tuple[str, str], dict[str, tuple[int, int]]] = defaultdict(dict)
        self._full_at: defaultdict[tuple[str, str], float] = defaultdict(float)
        #: What queues take, as the test says.
        self.queues = QueueBytes(0, 0)

    def permits(self, tenant: str, worker: str, ask: PermitAsk) -> Permits:
        """Ask for more requests in flight."""
        return self._ask(tenant, "begun", worker, ask)

    def trials(self, tenant: str, trial: str, ask: PermitAsk) -> Permits:
        """Ask for a trial to go on, or say that it has ended."""
        return self._ask(tenant, "trials", trial, ask)

    def _ask(self, tenant: str, kind: str, worker: str, ask: PermitAsk) -> Permits:
        now = to_ms(self._clock()) * 1_000
        known = self._permits[tenant, kind]
        for name in [name for name, (_, ends) in known.items() if ends <= now // 1_000]:
            del known[name]
        others = sum(count for name, (count, _) in known.items() if name != worker)
        count, wait = ask.wanted, 0.0
        if ask.in_flight is not None:
            count = max(0, min(count, ask.in_flight - others - ask.held))
        if ask.per_second is not None:
            interval = _SECOND_US / ask.per_second
            burst = max(interval, _SECOND_US)
            # Kept in whole microseconds, as a script's text has them.
            full_at = max(now, self._full_at[tenant, "begun"] - ask.unused * interval)
            room = math.floor((now + burst - full_at) / interval)
            if room < count:
                count = max(0, room)
                wait = max(0, full_at + (count + 1) * interval - now - burst)
            if count or ask.unused:
                self._full_at[tenant, "begun"] = round(full_at + count * interval)
        known.pop(worker, None)
        if ask.held + count:
            ends = now // 1_000 + int(TERM.total_seconds() * 1_000)
            known[worker] = ask.held + count, ends
        return Permits(
            count=count,
            in_flight=others + ask.held + count,
            wait_seconds=math.ceil(wait) / _SECOND_US,
        )

    def rate(self, tenant: str, count: int, per_second: float, burst: int) -> float:
        """Count submissions towards the tenant's rate."""
        now, interval = to_ms(self._clock()) * 1_000, _SECOND_US / per_second
        full_at = max(now, self._full_at[tenant, "intake"])
        wait = full_at - now - max(0, (burst - count) * interval)
        if wait <= 0:
            self._full_at[tenant, "intake"] = full_at + count * interval
        return max(0, math.ceil(wait)) / _SECOND_US

    def bytes(self, queues: Sequence[QueueKey]) -> QueueBytes:
        """Measure queues."""
        return self.queues if queues else QueueBytes(0, 0)


class MemorySizes:
    """An in-memory ``MongoSizes``, as the test says."""

    def __init__(self) -> None:
        self.sizes: dict[str, tuple[int, int]] = {}

    def of(self, tenant: str, databases: Iterable[tuple[str, str]]) -> tuple[int, int]:
        """Return the bytes and the number of the documents."""
        assert set(databases)
        return self.sizes.get(tenant, (0, 0))
