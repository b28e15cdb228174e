"""Storing what became of requests: outcomes in batches, lane by lane, whatever fails (SPEC.md A7).

What cannot be stored yet is tried again; what can never be stored becomes a dead letter; what not
even that can be is left to its lease, and is told.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from crawlfleet.config.documents.biz import FleetLimits
from crawlfleet.fleet.models import WorkReport
from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import PAUSES, Pauses, Threaded
from crawlfleet.requests.leased import InFlight, LeasedRequest, by_queue
from crawlfleet.requests.outcomes import UNSTORABLE, Dead, Done, Outcome, Retry
from crawlfleet.worker.leases import Leasing
from crawlfleet.worker.parsing import Phases

#: Outcomes are stored when there are this many, or the oldest is old enough.
SETTLE_COUNT: Final = 100
#: Lanes whose outcomes are stored at once.
SETTLED_QUEUES: Final = 3


class Settler:
    """Stores the outcomes of one worker. Used from the event loop only.

    Args:
        holding: What is held, and what has ended of it.
        leasing: Stores outcomes, and finishes, delays or drops leases.
        phases: Is told how long storing took.
        report: Counts what became of requests.
        limits: How much may be parked while a node is away.
        threaded: Calls a part without stopping the event loop.
        before: What is done before each batch.
        pauses: How old outcomes get, and how long a store that is away is left alone.
    """

    def __init__(
        self,
        holding: InFlight,
        leasing: Leasing,
        phases: Phases,
        report: WorkReport,
        limits: FleetLimits,
        threaded: Threaded,
        before: Callable[[], Awaitable[None]],
        pauses: Pauses = PAUSES,
    ) -> None:
        self._in_flight = holding
        self._leasing = leasing
        self._phases = phases
        self._report = report
        self._limits = limits
        self._threaded = threaded
        self._before = before
        self._pauses = pauses
        self._ended = asyncio.Event()
        self._queues = asyncio.Semaphore(SETTLED_QUEUES)

    def more(self) -> None:
        """There is an outcome more."""
        self._ended.set()

    async def run(self) -> None:
        """Store what ends, for ever."""
        while True:
            await self._ended.wait()
            if self._in_flight.ended < SETTLE_COUNT:
                await asyncio.sleep(self._pauses.settle)
            self._ended.clear()
            await self._before()
            if not await self.settle(list(self._in_flight.outcomes())):
                await asyncio.sleep(self._pauses.settle_again)
                self._ended.set()

    async def settle(self, ended: Sequence[tuple[LeasedRequest, Outcome]]) -> bool:
        """Store outcomes lane by lane; False when a store did not answer, to be tried again."""
        outcomes = dict(ended)
        # At once: a lane whose node is away must not keep the others waiting for its time-out.
        parts = by_queue(outcomes).values()
        return all(await asyncio.gather(*(self._settle_queue(part, outcomes) for part in parts)))

    async def _settle_queue(
        self, part: Sequence[LeasedRequest], outcomes: dict[LeasedRequest, Outcome]
    ) -> bool:
        with self._in_flight.writing(part):
            return await self._write(part, outcomes)

    async def _write(
        self, part: Sequence[LeasedRequest], outcomes: dict[LeasedRequest, Outcome]
    ) -> bool:
        queue_key, started = part[0].queue_key, time.perf_counter()
        pairs = [(held.claim, outcomes[held]) for held in part]
        try:
            async with self._queues:
                settled = await self._threaded(self._leasing.settle, queue_key, part[0].biz, pairs)
        except StoreError as error:
            if not error.retryable:
                return await self._settle_apart(part, outcomes, error)
            warn("outcomes could not be stored yet", error)
            self._leasing.rest(queue_key)
            for held in self._in_flight.defer(part, self._limits):
                self._report.left += self._in_flight.drop(held)
            return False
        except Exception as error:  # noqa: BLE001  one of them must not keep the others waiting
            return await self._settle_apart(part, outcomes, error)
        for held, (claim, outcome) in zip(part, pairs, strict=True):
            if held.claim is not claim:  # it was claimed anew meanwhile: written next time
                self._ended.set()
            elif self._in_flight.drop(held):
                an_id = claim.request.id
                self._count(settled.buried.get(an_id, outcome), lost=an_id in settled.lost)
        self._phases.add(queue_key, "store", time.perf_counter() - started)
        return True

    async def _settle_apart(
        self,
        part: Sequence[LeasedRequest],
        outcomes: dict[LeasedRequest, Outcome],
        error: Exception,
    ) -> bool:
        """Store each outcome alone; the one that cannot be stored becomes a dead letter."""
        warn("outcomes cannot be stored as they are", error)
        if len(part) > 1:
            return all([await self.settle([(held, outcomes[held])]) for held in part])
        (held,) = part
        if isinstance(outcomes[held], Dead):
            # Not even that: whoever has it when its lease has ended may be able to.
            self._report.left += self._in_flight.drop(held)
            warn(f"request {held.claim.request.id} is left to its lease", error)
            return True
        dead = Dead(f"cannot be stored: {type(error).__name__}: {error}"[:500], UNSTORABLE)
        self._in_flight.end(held, dead)
        return await self.settle([(held, dead)])

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
