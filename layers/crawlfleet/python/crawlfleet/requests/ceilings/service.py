"""Hold tenants to their ceilings (SPEC.md C7): what is submitted, and what workers lease.

Bytes and documents are asked of the stores, which know them, and remembered for a few seconds: what
comes within that time may be beyond a ceiling, and nothing has to be recomputed when Redis is lost.
Only of what has a ceiling anybody asks; a store that does not answer stands against nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Final, NamedTuple, TypeVar

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import biz_of, ceilings_of, queues_beside
from crawlfleet.kernel.errors import BacklogFullError, StoreError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import STEADY, SteadyTime
from crawlfleet.requests.ceilings import models
from crawlfleet.requests.ceilings.models import CeilingState, PermitAsk, TenantSizes
from crawlfleet.requests.ceilings.mongo import MongoSizes
from crawlfleet.requests.ceilings.redis import ENTRY_BYTES, TERM, QueueBytes, RedisCeilings
from crawlfleet.requests.queue.redis.open_queues import RedisOpenQueues

T = TypeVar("T")

#: For so long sizes are remembered.
QUEUES_SECONDS: Final = 5.0
STORED_SECONDS: Final = 30.0
#: A worker says again what it has of a tenant, where it asks for nothing.
AGAIN_SECONDS: Final = TERM.total_seconds() / 12

#: Who was refused permits asks again after this at the earliest.
REFUSED_SECONDS: Final = 0.1
LONGEST_SECONDS: Final = 1.0
#: Permits that are not used are given back after this.
GIVEN_BACK_SECONDS: Final = 0.5


class _Known(NamedTuple):
    until: float
    found: object


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSizesBook:
    """The tenants' use of the stores, remembered for some seconds. Threads may ask at once."""

    redis: RedisCeilings
    stored: MongoSizes
    open: RedisOpenQueues
    steady: SteadyTime = STEADY
    _known: dict[tuple[str, str], _Known] = field(default_factory=dict, init=False)
    # Entries that this process has queued since the queues were measured.
    _since: dict[str, int] = field(default_factory=dict, init=False)

    def of(self, tree: Tree, tenant: str, *, everything: bool = False) -> TenantSizes:
        """Return what is needed of a tenant's sizes for its ceilings; all, if that is wanted."""
        ceilings = ceilings_of(tree, tenant)
        several = len(tree.bizs) > 1
        queues = QueueBytes(0, 0)
        is_asked = everything or several or ceilings.redis_bytes is not None
        if is_asked:
            queues = self._remembered(
                ("queues", tenant), QUEUES_SECONDS, lambda: self._queues(tree, tenant)
            ) or QueueBytes(0, 0)
        most = int(queues.most * tree.stage.redis_memory_ratio * tree.stage.tenant_redis_ratio)
        used = queues.used + ENTRY_BYTES * self._since.get(tenant, 0)
        size = count = None
        if everything or ceilings.stored_bytes is not None or ceilings.documents is not None:
            stored = self._remembered(
                ("stored", tenant), STORED_SECONDS, lambda: self._stored(tree, tenant)
            )
            size, count = stored or (None, None)
        return TenantSizes(
            redis_bytes=used if is_asked else None,
            redis_most=most if several and most else None,
            stored_bytes=size,
            documents=count,
        )

    def queued(self, tenant: str, count: int) -> None:
        """Count entries that are about to be queued."""
        self._since[tenant] = self._since.get(tenant, 0) + count

    def _queues(self, tree: Tree, tenant: str) -> QueueBytes:
        listed = self.open.listed()
        self._since.pop(tenant, None)
        queues: list[QueueKey] = []
        for biz in tree.bizs.get(tenant, {}):
            usual, _ = biz_of(tree, tenant, biz)
            queues += [one for one in (usual, *queues_beside(tree, usual)) if one in listed]
        return self.redis.bytes(queues)

    def _stored(self, tree: Tree, tenant: str) -> tuple[int, int]:
        bizs = tree.bizs.get(tenant, {}).values()
        return self.stored.of(tenant, (place for biz in bizs for place in _places(biz)))

    def _remembered(
        self, key: tuple[str, str], seconds: float, measure: Callable[[], T]
    ) -> T | None:
        known, now = self._known.get(key), self.steady.now()
        if known is None or now >= known.until:
            found: T | None = None
            try:
                found = measure()
            except StoreError as error:
                warn(f"what tenant {key[1]} takes of the stores is not known", error)
            known = self._known[key] = _Known(now + seconds, found)
        return known.found  # type: ignore[return-value]  # what this key's caller has measured


def _places(biz: Biz) -> set[tuple[str, str]]:
    """Return the databases of a biz, by node."""
    return {
        (node, database)
        for generation in biz.generations
        for node in generation.nodes
        for database in generation.databases
    }


@dataclass(slots=True)
class _Granted:
    """Permits that a worker was granted for a tenant; ``unused`` ones were not leased."""

    count: int = 0
    unused: int = 0
    said_at: float = 0.0
    again_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantCeilings:
    """Hold tenants to their ceilings. A worker's own is used by one thread at a time."""

    redis: RedisCeilings
    sizes: TenantSizesBook
    steady: SteadyTime = STEADY
    _granted: dict[str, _Granted] = field(default_factory=dict, init=False)

    def admit(self, tree: Tree, tenant: str, count: int) -> None:
        """Pass so many more requests of a tenant.

        Raises:
            BacklogFullError: it has as much as it may of something, which is named.
        """
        if reached := self.standing_against(tree, tenant):
            whole = " and ".join(map(str, reached))
            last = max(reached, key=lambda one: one.seconds)
            raise BacklogFullError(
                f"tenant {tenant} has {whole}: come back when some of it is done, has expired or "
                "was deleted, or raise the limit",
                retry_after_seconds=last.seconds,
                limit=last.limit,
                used=last.used,
                allowed=last.allowed,
            )
        self.sizes.queued(tenant, count)

    def admit_rate(self, tree: Tree, tenant: str, count: int) -> None:
        """Count so many submissions towards the tenant's rate.

        Raises:
            BacklogFullError: there were too many lately.
        """
        ceilings = ceilings_of(tree, tenant)
        rate = ceilings.submissions_per_second
        if rate is None:
            return
        try:
            wait = self.redis.rate(tenant, count, rate, ceilings.burst)
        except StoreError as error:
            warn("admitted without knowing the tenant's rate", error)
            return
        if wait > 0:
            used = models.used_rate(wait, count, rate, ceilings.burst)
            raise BacklogFullError(
                f"tenant {tenant} takes {rate:g} submissions a second and {ceilings.burst:,} at "
                "once (ceilings.submissions_per_second, ceilings.burst), and of late there were "
                f"{used:g} a second: come back later, submit more slowly, or raise the limit",
                retry_after_seconds=wait,
                limit="ceilings.submissions_per_second",
                used=used,
                allowed=rate,
            )

    def standing_against(self, tree: Tree, tenant: str) -> list[CeilingState]:
        """Return what stands against more requests of a tenant."""
        sizes, ceilings = self.sizes.of(tree, tenant), ceilings_of(tree, tenant)
        states = (models.redis_state(ceilings, sizes), *models.stored_states(ceilings, sizes))
        return [one for one in states if one.is_reached]

    def may_begin(self, tree: Tree, tenant: str) -> bool:
        """Tell whether requests of a tenant may begin, by what it has stored."""
        ceilings = ceilings_of(tree, tenant)
        if ceilings.stored_bytes is None and ceilings.documents is None:
            return True
        sizes = self.sizes.of(tree, tenant)
        return not any(one.is_reached for one in models.stored_states(ceilings, sizes))

    @contextmanager
    def trial(self, tree: Tree, tenant: str) -> Iterator[None]:
        """Count a trial of a tenant while it goes on.

        Raises:
            BacklogFullError: as many go on as it may have.
        """
        most, name = ceilings_of(tree, tenant).trials, token_hex(8)
        try:
            found = self.redis.trials(tenant, name, PermitAsk(held=0, wanted=1, in_flight=most))
        except StoreError as error:
            warn("a rule is tried without knowing how many trials go on", error)
            yield
            return
        if not found.count:
            raise BacklogFullError(
                f"tenant {tenant} has {found.in_flight:,} of {most:,} trials under way "
                "(ceilings.trials): come back when one has ended, or raise the limit",
                retry_after_seconds=LONGEST_SECONDS,
                limit="ceilings.trials",
                used=found.in_flight,
                allowed=most,
            )
        try:
            yield
        finally:
            try:
                self.redis.trials(tenant, name, PermitAsk(held=0))
            except StoreError as error:
                warn("a trial counts for a minute more than it took", error)

    def permitted(self, tree: Tree, tenant: str, worker: str, wanted: int, held: int) -> int:
        """Return how many more requests of a tenant a worker may lease, of so many.

        One that was refused a moment ago is not asked for, and where Redis does not answer the
        tenant waits. After it, :meth:`leased` follows.
        """
        ceilings = ceilings_of(tree, tenant)
        if ceilings.in_flight is None and ceilings.leases_per_second is None:
            return wanted
        now, known = self.steady.now(), self._granted.get(tenant, _Granted())
        if now < known.again_at:
            return 0
        ask = PermitAsk(
            held=held,
            wanted=wanted,
            unused=known.unused,
            in_flight=ceilings.in_flight,
            per_second=ceilings.leases_per_second,
        )
        try:
            permits = self.redis.permits(tenant, worker, ask)
        except StoreError as error:
            warn(f"tenant {tenant} waits: how much it has in flight is not known", error)
            # It may have been counted: that is said again.
            self._granted[tenant] = _Granted(held + wanted, 0, now, now + LONGEST_SECONDS)
            return 0
        again_at = now
        if permits.count < wanted:
            again_at += max(REFUSED_SECONDS, min(LONGEST_SECONDS, permits.wait_seconds))
        self._granted[tenant] = _Granted(held + permits.count, permits.count, now, again_at)
        return permits.count

    def leased(self, tenant: str, entries: int) -> None:
        """Note how many were leased of those permitted."""
        if (known := self._granted.get(tenant)) is not None:
            known.unused = max(0, known.unused - entries)

    def give_back(self, tree: Tree, worker: str, in_flight: Mapping[str, int]) -> None:
        """Say what the worker has of tenants with permits that it does not use."""
        now = self.steady.now()
        for tenant, known in list(self._granted.items()):
            held, passed = in_flight.get(tenant, 0), now - known.said_at
            if passed < (GIVEN_BACK_SECONDS if held < known.count else AGAIN_SECONDS):
                continue
            ceilings = ceilings_of(tree, tenant)
            ask = PermitAsk(held=held, unused=known.unused, per_second=ceilings.leases_per_second)
            try:
                self.redis.permits(tenant, worker, ask)
            except StoreError as error:
                warn(f"permits of tenant {tenant} could not be given back", error)
                known.said_at = now
                continue
            if held:
                self._granted[tenant] = _Granted(held, 0, now, known.again_at)
            else:
                del self._granted[tenant]
