"""Store what became of requests: outcomes in batches, queue by queue, whatever fails (SPEC.md A7).

Each tenant's are stored by themselves, so that nobody waits for what another one stores; of the few
places where that goes on each has its part (worker.shares).

What cannot be stored yet is tried again; what can never be stored becomes a dead letter; what not
even that can be is left to its lease, with a warning.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from crawlfleet.config.documents.biz import Biz
from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.tracing import Span
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.outcomes import UNSTORABLE, Dead, Done, Outcome, Retry, Settled
from crawlfleet.worker.in_flight import by_queue
from crawlfleet.worker.leases import Leases, Outcomes
from crawlfleet.worker.session import Session
from crawlfleet.worker.shares import SETTLED_QUEUES, TenantSlots, store_cost
from crawlfleet.worker.telemetry import Telemetry

#: Outcomes are stored when there are this many, or the oldest is old enough.
SETTLE_COUNT: Final = 100


class Settler:
    """Stores the outcomes of one worker. Used from the event loop only."""

    def __init__(self, session: Session, leases: Leases, telemetry: Telemetry) -> None:
        self._session = session
        self._in_flight = session.in_flight
        self._report = session.report
        self._leases = leases
        self._telemetry = telemetry
        self._ended = asyncio.Event()
        self._slots = TenantSlots(SETTLED_QUEUES, session.shares.first, session.is_shared)
        self._settling: dict[str, asyncio.Task[None]] = {}

    def wake(self) -> None:
        """Note that there is an outcome more."""
        self._ended.set()

    async def run(self) -> None:
        """Store what ends, for ever."""
        pauses = self._session.services.pauses
        try:
            while True:
                await self._ended.wait()
                if self._in_flight.ended < SETTLE_COUNT:
                    await asyncio.sleep(pauses.settle)
                self._ended.clear()
                await self._telemetry.report_hosts()
                self._begin()
        finally:
            settling = list(self._settling.values())
            for task in settling:
                task.cancel()
            await asyncio.gather(*settling, return_exceptions=True)

    def _begin(self) -> None:
        """Begin to store what has ended of tenants of which nothing is being stored."""
        by_tenant: dict[str, dict[LeasedRequest, Outcome]] = defaultdict(dict)
        for leased, end in self._in_flight.outcomes().items():
            by_tenant[leased.queue_key.tenant][leased] = end
        for tenant in by_tenant.keys() - self._settling.keys():
            task = asyncio.create_task(self._settle_tenant(tenant, by_tenant[tenant]))
            self._settling[tenant] = task

    async def _settle_tenant(self, tenant: str, outcomes: Mapping[LeasedRequest, Outcome]) -> None:
        try:
            if not await self.settle(outcomes):
                await asyncio.sleep(self._session.services.pauses.settle_again)
        finally:
            del self._settling[tenant]
        if self._in_flight.ended:
            self._ended.set()

    async def settle(self, outcomes: Mapping[LeasedRequest, Outcome]) -> bool:
        """Store outcomes queue by queue; False when a store did not answer, to be tried again."""
        # At once: a queue whose node is away must not keep the others waiting for its time-out.
        parts = by_queue(outcomes).values()
        return all(await asyncio.gather(*(self._settle_queue(part, outcomes) for part in parts)))

    async def _settle_queue(
        self, part: Sequence[LeasedRequest], outcomes: Mapping[LeasedRequest, Outcome]
    ) -> bool:
        with self._in_flight.writing(part):
            return await self._write(part, outcomes)

    async def _write(
        self, part: Sequence[LeasedRequest], outcomes: Mapping[LeasedRequest, Outcome]
    ) -> bool:
        queue_key, started = part[0].queue_key, time.perf_counter()
        pairs = [(leased.claim, outcomes[leased]) for leased in part]
        try:
            async with self._slots.of(queue_key.tenant):
                settled = await self._session.threaded(self._store, queue_key, part[0].biz, pairs)
        except StoreError as error:
            if not error.retryable:
                return await self._settle_apart(part, outcomes, error)
            warn("outcomes could not be stored yet", error)
            self._leases.back_off(queue_key)
            for leased in self._in_flight.defer(part, self._session.limits):
                self._report.left += self._in_flight.drop(leased)
            return False
        except Exception as error:  # noqa: BLE001  one of them must not keep the others waiting
            return await self._settle_apart(part, outcomes, error)
        spans: list[Span] = []
        for leased, (claim, outcome) in zip(part, pairs, strict=True):
            if leased.claim is not claim:  # it was claimed anew meanwhile: written next time
                self._ended.set()
            elif self._in_flight.drop(leased):
                an_id = claim.request.id
                end, lost = settled.unstorable.get(an_id, outcome), an_id in settled.lost
                self._count(end, lost=lost)
                spans += self._session.traces.take(leased, None if lost else end)
        if spans:
            await self._session.call(self._session.traces.send, spans)
        self._session.account.add(queue_key, "store", time.perf_counter() - started)
        return True

    def _store(self, queue_key: QueueKey, biz: Biz, pairs: Outcomes) -> Settled:
        """Store outcomes, and charge it; it blocks."""
        began, cpu = self._session.services.steady.now(), time.thread_time()
        try:
            return self._leases.settle(queue_key, biz, pairs)
        finally:
            seconds = self._session.services.steady.now() - began
            cost = store_cost(seconds, time.thread_time() - cpu)
            self._session.shares.charge(queue_key.tenant, cost)

    async def _settle_apart(
        self,
        part: Sequence[LeasedRequest],
        outcomes: Mapping[LeasedRequest, Outcome],
        error: Exception,
    ) -> bool:
        """Store each outcome alone; the one that cannot be stored becomes a dead letter."""
        warn("outcomes cannot be stored as they are", error)
        if len(part) > 1:
            return all([await self.settle({leased: outcomes[leased]}) for leased in part])
        (leased,) = part
        if isinstance(outcomes[leased], Dead):
            # Not even that: whoever has it when its lease has ended may be able to.
            self._report.left += self._in_flight.drop(leased)
            warn(f"request {leased.claim.request.id} is left to its lease", error)
            return True
        dead = Dead(f"cannot be stored: {type(error).__name__}: {error}"[:500], UNSTORABLE)
        self._in_flight.end(leased, dead)
        return await self.settle({leased: dead})

    def _count(self, outcome: Outcome, *, lost: bool) -> None:
        report = self._report
        if lost:
            report.lost += 1
        elif isinstance(outcome, Done):
            report.done += 1
            report.records += len(outcome.records) + outcome.stored
        elif isinstance(outcome, Retry):
            report.retried += 1
        else:
            report.dead += 1
