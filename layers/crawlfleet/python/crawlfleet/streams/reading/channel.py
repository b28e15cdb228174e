"""Read one source: hold its channel, match what comes, hand it to delivery, then keep the cursor.

What was accepted is known by its ids, and the cursor is kept after it: whoever goes on, here or in
another process, may hand some items on again, which has no effect, and none is left out.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from functools import partial
from typing import Final, TypeVar

import msgspec

from crawlfleet.kernel.errors import CrawlfleetError, StoreError, StoreUnavailableError
from crawlfleet.kernel.time import Clock
from crawlfleet.streams.delivery.figures import Tally
from crawlfleet.streams.delivery.models import Addressed
from crawlfleet.streams.delivery.mongo.accepting import MongoAccepting
from crawlfleet.streams.holds import KEEP_SECONDS, ReaderHold
from crawlfleet.streams.items import Batch, Reader, StreamItem
from crawlfleet.streams.matching import Matcher
from crawlfleet.streams.reading.closing import NOTHING, Conditions, Receiving
from crawlfleet.streams.reading.counters import ChannelCounters
from crawlfleet.streams.reading.metering import OVER_QUOTA, Admitted, Metering, Wanted
from crawlfleet.streams.reading.mongo import MongoCursors
from crawlfleet.streams.reading.plan import Planned
from crawlfleet.streams.redis import RedisHolds
from crawlfleet.streams.subscriptions.models import is_active

#: A cursor is kept at most so often: what is read twice for it has no effect.
CURSOR_SECONDS: Final = 0.5
#: Between two tries at a store that does not answer.
AGAIN_SECONDS: Final = 0.25
UNSTORABLE: Final = "unstorable"
log: Final = logging.getLogger(__name__)
T = TypeVar("T")


class Stores(msgspec.Struct, frozen=True, kw_only=True):
    """The stores that readers work on; ``clock`` is the time of day."""

    holds: RedisHolds
    cursors: MongoCursors
    accepting: MongoAccepting
    meter: Metering
    clock: Clock
    steady: Callable[[], float] = time.monotonic
    tally: Tally = msgspec.field(default_factory=Tally)


class SourceReader:
    """The reader of one source, for as long as it is this worker's."""

    def __init__(
        self,
        planned: Planned,
        receiving: Mapping[str, Receiving],
        bought: Conditions,
        open_reader: Callable[[], Reader],
        stores: Stores,
        worker: str,
        counters: ChannelCounters,
    ) -> None:
        self.source = planned.source
        self._open_reader, self._stores, self._worker = open_reader, stores, worker
        self._counters = counters
        self._matcher = Matcher()
        self._receiving: dict[str, Receiving] = {}
        self._hold = ReaderHold(stores.holds.lease_seconds)
        self._stopping = asyncio.Event()
        self._bought = NOTHING
        self._cursor = self._kept_cursor = ""
        self._kept_at = float("-inf")
        self.update(planned, receiving, bought)

    @property
    def is_reading(self) -> bool:
        """Tell whether it may read now."""
        if self._stopping.is_set() or not self._hold.may_read(self._stores.steady()):
            return False
        return not self._stores.meter.is_over(self._bought.limits)

    @property
    def subscriptions(self) -> int:
        """Count those that it reads for."""
        return len(self._matcher)

    def update(
        self, planned: Planned, receiving: Mapping[str, Receiving], bought: Conditions
    ) -> None:
        """Take the subscriptions that it is to read for from now on; a soft reload.

        On the conditions ``bought`` the channel itself is read.
        """
        for gone in self._receiving.keys() - planned.filters.keys():
            self._matcher.drop(gone)
        self._matcher.put_all(planned.filters)
        self._receiving = {one: receiving[one] for one in planned.filters}
        self._bought = bought

    def stop(self) -> None:
        """Have it end: it reads no more, keeps its cursor, and releases its hold."""
        self._stopping.set()

    async def run(self) -> None:
        """Read whenever the channel can be held, until it is stopped."""
        name, holds = self.source.name, self._stores.holds
        while not self._stopping.is_set():
            if self._stores.meter.is_over(self._bought.limits):
                # Whoever plans is about to leave the channel out.
                await self._wait(KEEP_SECONDS)
                continue
            try:
                taken = await asyncio.to_thread(holds.take, name, self._worker)
            except StoreError:
                await self._wait(KEEP_SECONDS)
                continue
            if taken.fence is None:
                await self._wait(min(max(taken.again_seconds, 0.001), KEEP_SECONDS))
                continue
            self._hold.offered(taken.fence)
            await self._read_held(taken.fence)

    async def _read_held(self, fence: int) -> None:
        """Acknowledge an offer and read; whatever happens, what is held then is released."""
        keeping: asyncio.Task[None] | None = None
        try:
            await self._keep()
            if self._hold.fence is not None:
                keeping = asyncio.ensure_future(self._go_on_keeping())
                await self._read(fence)
        finally:
            if keeping is not None:
                keeping.cancel()
                await asyncio.wait((keeping,))
            self._hold.dropped()
            with suppress(StoreError):
                await asyncio.to_thread(
                    self._stores.holds.release, self.source.name, self._worker, fence
                )

    async def _go_on_keeping(self) -> None:
        pause = KEEP_SECONDS
        while self._hold.fence is not None:
            await asyncio.sleep(pause)
            pause = KEEP_SECONDS if await self._keep() else AGAIN_SECONDS

    async def _keep(self) -> bool:
        """Ask to keep the hold; False where there was no answer."""
        asked_at = self._stores.steady()
        fence = self._hold.ask(asked_at)
        if fence is None:
            return True
        try:
            is_kept = await asyncio.to_thread(
                self._stores.holds.keep, self.source.name, self._worker, fence
            )
        except StoreError:
            return False
        self._hold.answered(fence, asked_at, is_kept=is_kept)
        return True

    async def _read(self, fence: int) -> None:
        try:
            self._cursor = await self._done(lambda: self._stores.cursors.get(self.source))
            self._kept_cursor = self._cursor
            batches = self._open_reader().read(self._cursor, lambda: self.is_reading)
            async with aclosing(batches):
                async for batch in batches:
                    await self._take(batch)
                    self._cursor = batch.cursor
                    if self._stores.steady() - self._kept_at >= CURSOR_SECONDS:
                        await self._keep_cursor(fence)
            await self._keep_cursor(fence)
        except _EndedError:
            return

    async def _keep_cursor(self, fence: int) -> None:
        cursor = self._cursor
        if cursor == self._kept_cursor:
            return
        with suppress(StoreError):  # it is tried again with the next batch
            now = self._stores.clock()
            put = self._stores.cursors.put
            if await asyncio.to_thread(put, self.source, cursor, fence, now):
                self._kept_cursor = cursor
        self._kept_at = self._stores.steady()

    async def _take(self, batch: Batch) -> None:
        """Hand a batch to delivery, again and again until that has it."""
        counters, now = self._counters, self._stores.clock()
        counters.came(batch, now)
        wanted = self._matched(batch.items)
        counters.matched += len(wanted)
        price, ceilings, meter = self._bought.price, self._bought.limits, self._stores.meter
        admitted = await self._tried(lambda: meter.admit(len(batch.items), wanted, price, ceilings))
        if admitted.dropped:
            counters.dropped[OVER_QUOTA] += admitted.dropped
        fresh: set[bytes] | None = None
        try:
            fresh = await self._accepted(admitted, now)
        finally:
            meter.settle(admitted, fresh)
        self._stores.tally.read(
            batch.items,
            admitted.addressed,
            self._stores.clock(),
            batch.dropped,
            self.source.channel,
        )
        if batch.withdrawn:
            withdraw = self._stores.accepting.withdraw
            await self._done(lambda: withdraw(batch.withdrawn, now))

    async def _accepted(self, admitted: Admitted, now: datetime) -> set[bytes]:
        """Hand to delivery what was admitted; return which deliveries are new."""
        counters, addressed = self._counters, admitted.addressed
        accepting, fresh = self._stores.accepting, set[bytes]()
        if not addressed:
            return fresh
        noting = (fresh,) if admitted.owed else ()
        try:
            counters.delivered += await self._done(
                lambda: accepting.accept(addressed, now, *noting)
            )
        except CrawlfleetError:
            await self._accept_each(addressed, noting)
        counters.accepted((one.item.published_at for one in addressed), self._stores.clock())
        return fresh

    async def _accept_each(
        self, addressed: Sequence[Addressed], noting: tuple[set[bytes], ...]
    ) -> None:
        """Hand on one by one what no store takes at once: a single item is to be dropped."""
        for one in addressed:
            try:
                accept = self._stores.accepting.accept
                done = partial(accept, [one], self._stores.clock(), *noting)
                self._counters.delivered += await self._done(done)
            except CrawlfleetError as error:
                self._counters.dropped[UNSTORABLE] += 1
                log.warning(
                    "an item cannot be stored",
                    extra={"channel": self.source.channel, "reason": type(error).__name__},
                )

    def _matched(self, items: Sequence[StreamItem]) -> list[Wanted]:
        is_taking: dict[str, bool] = {}
        now, found = self._stores.clock(), []
        for place, item in enumerate(items):
            ids = self._matcher.match(item.seen)
            for one in ids:
                if one not in is_taking:
                    is_taking[one] = is_active(self._receiving[one].active, now)
            takers = [self._receiving[one].taker for one in ids if is_taking[one]]
            if takers:
                found.append(Wanted(item, takers, place))
        return found

    async def _done(self, call: Callable[[], T]) -> T:
        """Do something with a store, as :meth:`_tried`; it blocks."""
        return await self._tried(lambda: asyncio.to_thread(call))

    async def _tried(self, call: Callable[[], Awaitable[T]]) -> T:
        """Do something with a store, again until it answers; end when the channel is lost."""
        pause = AGAIN_SECONDS
        while True:
            try:
                return await call()
            except StoreUnavailableError:
                if not self.is_reading:
                    raise _EndedError from None
                await self._wait(pause)
                pause = min(2 * pause, KEEP_SECONDS)

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()


class _EndedError(Exception):
    """The channel is this reader's no more, and a store has not answered."""
