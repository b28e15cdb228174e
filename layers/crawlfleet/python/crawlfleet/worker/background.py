"""Background tasks of a worker, for the fleet; and its departure when there is nothing to do.

In rounds, each of which blocks in a thread: it reaps workers that died and has them replaced, asks
whether it is one too many, recovers what is lost, ends cancelled jobs and awards those that wait
when it gets the lock, makes tasks of jobs, dispatches seeds, stores the items of the data queue.
A pool that takes bound work alone leaves recovery, seeds and items to the usual workers: what they
make is theirs to do.
"""

import asyncio
import math
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import limits_of, served_queues, shares_work
from crawlfleet.crawling.records.pipeline import Drainer
from crawlfleet.fleet.models import Throughput
from crawlfleet.fleet.recovery.service import LOCK as RECOVERY
from crawlfleet.fleet.redis.scheduler import decided
from crawlfleet.jobs.bidding.auction import OFF_EVERY
from crawlfleet.jobs.cancellation import ROUND_SECONDS
from crawlfleet.jobs.completion import LOCK as ADVANCING
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import to_ms
from crawlfleet.worker.affinity import HostAffinity
from crawlfleet.worker.heartbeat import Heartbeat
from crawlfleet.worker.session import Session
from crawlfleet.worker.telemetry import ThroughputMeter

#: The last part of their time, within which workers end one after the other. Each calls for the
#: next one as it ends. If all did at once there would be room for a few of those only, since the
#: places are taken until the last moment, and for some seconds nobody would work.
STAGGERED_PART: Final = 0.15
#: The lock of who searches the data queues of all bizs for items; it is never released, as it ends
#: when it may be had again.
SEARCHING: Final = "items"
#: A worker stays for a retry, and for a job that goes on, due within this. Without one, the next
#: tick finds them.
LINGER: Final = timedelta(seconds=10)
#: Of the time for making tasks of jobs, the part while several tenants have requests in flight.
ADVANCED_BESIDE: Final = 1 / 4
#: Between two looks at an empty queue it is so much longer for each other worker: a thousand look
#: five thousand times a second.
LOOK_EACH_SECONDS: Final = 0.0002


class BackgroundTasks:
    """The rounds of one worker, and its departure."""

    def __init__(
        self,
        session: Session,
        heartbeat: Heartbeat,
        affinity: HostAffinity,
        throughput: ThroughputMeter,
    ) -> None:
        services = self._services = session.services
        self._session = session
        self._id = session.worker
        self._report = session.report
        self._threaded = session.threaded
        self._heartbeat = heartbeat
        self._affinity = affinity
        self._throughput = throughput
        self._drainer = Drainer(services.draining, session.worker, services.clock, self._may_search)
        self.bidder = services.bidder(
            services.pool, session.worker, session.threaded, session.time_left
        )
        self._recovering = threading.Lock()
        self._dispatching = threading.Lock()
        self._advancing = threading.Lock()
        self._ending = False
        self._pauses, self._now = services.pauses, services.steady.now
        self._awarded_at = self._now()
        #: Whether this worker is to leave, whatever there is to do.
        self.is_surplus = False
        # How many other workers live, when it was last asked; None before that.
        self._others: int | None = None
        # How many workers are kept available by stated needs, as far as is known.
        self._floor = 0

    def start(self) -> list[asyncio.Task[None]]:
        """Start the rounds, each with its own pause."""
        pauses = self._pauses
        rounds: Sequence[tuple[float, Callable[[], object]]] = (
            (pauses.reap, self.reap),
            (pauses.recover, self.recover),
            (pauses.cancel, self.cancel),
            (pauses.dispatch_seeds, self.dispatch_seeds),
            (pauses.drain, self.drain),
            (pauses.advance, self.advance),
            (pauses.award, self.award),
        )
        tasks = [asyncio.create_task(self._repeat(*one)) for one in rounds]
        tasks.append(asyncio.create_task(self._report_throughput()))
        tasks.append(asyncio.create_task(self.bidder.run()))
        return tasks

    def stop(self) -> None:
        """Begin no round any more."""
        self._ending = True

    def close(self) -> None:
        """Let no round go on after this, and keep nobody else from it. Blocks.

        A round that does not end soon is frozen with this worker, and its lock would be with it.
        """
        services = self._services
        if not self._is_over(self._recovering):
            services.recovery.detector.release_lock(RECOVERY, self._id)
        # A batch stands written down, for others to go on with.
        if not self._is_over(self._advancing):
            services.advancing.detector.release_lock(ADVANCING, self._id)
        # Seeds that are dispatched here must have their requests before this is frozen.
        self._is_over(self._dispatching)

    def _is_over(self, running: threading.Lock) -> bool:
        """Wait for a round to end, for a while."""
        over = running.acquire(timeout=self._pauses.round_end)
        if over:
            running.release()
        return over

    async def _repeat(self, seconds: float, task: Callable[[], object]) -> None:
        while True:
            await self._services.steady.sleep(seconds)
            await self._session.call(task)

    async def _report_throughput(self) -> None:
        while True:
            await self._session.call(self._affinity.refresh, self._services.clock())
            await self._services.steady.sleep(self._pauses.report_throughput)
            # The meter is the event loop's: what it says is read here, and handed to the thread.
            meter = self._throughput
            await self._session.call(
                self.ask_whether_surplus, meter.throughput(), meter.throughputs()
            )

    def _time_left(self, most: float = math.inf) -> Callable[[], float]:
        """Return what tells a round how many seconds it may go on."""
        until = self._now() + most

        def left() -> float:
            return 0.0 if self._ending else min(self._session.time_left(), until - self._now())

        return left

    @property
    def are_shared(self) -> bool:
        """Tell whether this worker may dispatch seeds, store items and recover."""
        return shares_work(self._services.config.current().stage, self._services.pool)

    def reap(self) -> None:
        """Reap workers that have died; their places are filled at once."""
        services = self._services
        found = services.reaper.reap(services.config.current(), self._id, services.clock())
        self._report.buried += len(found.dead)
        if found.dead:
            services.scaling.replace_dead(found.pools, services.clock)

    def ask_whether_surplus(
        self, throughput: Throughput | None, throughputs: Mapping[str, Throughput]
    ) -> None:
        """Report what this worker can do in a second, and ask whether it is one too many."""
        services = self._services
        reply = services.scaling.report_throughput(
            self._id, throughput, services.clock(), throughputs
        )
        if reply is not None:
            self.is_surplus = self.is_surplus or reply.leaves
            self._others, self._floor = reply.others, reply.floor

    def recover(self) -> None:
        """Bring back what is lost, if this worker gets the lock."""
        services = self._services
        if self.are_shared:
            with self._recovering:
                tree, left = services.config.current(), self._time_left()
                services.recovery.recover(tree, self._id, services.clock(), left)

    def advance(self) -> None:
        """Make tasks of jobs, and end those that have none open, if this worker gets the lock."""
        services, session, most = self._services, self._session, self._pauses.advance_round
        # It keeps the processor busy, which others have pages for.
        left = self._time_left(most * ADVANCED_BESIDE if session.is_shared() else most)
        with self._advancing:
            if left() > 0:
                tree = services.config.current()
                charge = session.shares.charge
                done = services.advancing.advance(tree, self._id, services.clock, left, charge)
                self._report.tasks += done.tasks

    def dispatch_seeds(self) -> int:
        """Make requests of due seeds; returns how many."""
        # Who leaves has to see what the round before it has made: seeds that are dispatched are not
        # ready any more, and their requests are queued a moment later.
        with self._dispatching:
            if self._ending or not self.are_shared:
                return 0
            session = self._session
            return session.frontier.dispatch(
                self._services.config.current(),
                session.in_flight.by_tenant(),
                session.shares.charge,
            )

    def _may_search(self) -> bool:
        """Tell whether this worker is the one to search all data queues now."""
        every = timedelta(seconds=self._pauses.drain)
        detector = self._services.recovery.detector
        return detector.acquire_lock(SEARCHING, self._id, every, every)

    def drain(self) -> None:
        """Make records of the data queue's items."""
        if not self._ending and self.are_shared:
            self._report.items += self._drainer.drain(self._services.config.current())

    def cancel(self) -> None:
        """Go on with the jobs that are being cancelled, if this worker gets the lock."""
        services, left = self._services, self._time_left(ROUND_SECONDS)
        if not self._ending:
            tree, detector = services.config.current(), services.recovery.detector
            services.cancelling.run_round(detector, tree, self._id, services.clock(), left)

    def award(self) -> None:
        """Give jobs that wait to workers that applied, if this worker gets the lock."""
        services, now = self._services, self._now()
        tree = services.config.current()
        # Where jobs wait for nobody there is next to nothing to do.
        every = 0.0 if tree.stage.bidding is not None else OFF_EVERY.total_seconds()
        if now - self._awarded_at < every:
            return
        self._awarded_at, left = now, self._time_left(self._pauses.award_round)
        if left() > 0:
            services.awarding.run_round(tree, self._id, services.clock, left)

    @property
    def look_seconds(self) -> float:
        """Return the pause between two looks at an empty queue, by how many workers look."""
        return max(self._pauses.poll, (self._others or 0) * LOOK_EACH_SECONDS)

    @property
    def is_kept(self) -> bool:
        """Tell whether too few would be left without this worker, as far as is known.

        That costs nothing, and so may be asked often. Where it is not so any more, whoever leaves
        is decided in Redis.
        """
        return self._others is not None and self._others < self._least(self._floor)

    def _least(self, floor: int) -> int:
        """Return how many workers are to be there though there is nothing to do.

        ``floor`` of them are kept available by stated needs.
        """
        services = self._services
        return max(floor, limits_of(services.config.current().stage, services.pool).min_consumers)

    async def may_leave(self) -> bool:
        """Leave the fleet; False where somebody has to stay, or there is something to do."""
        # Leave first, then look again: a submission that saw this worker alive is then seen here.
        await self._threaded(self._heartbeat.stop)
        if await self._has_left() and not await self._is_missed():
            return True
        await self._threaded(self._heartbeat.start)
        return False

    async def _has_left(self) -> bool:
        services, least = self._services, self._least(self._floor)
        workers = services.workers
        try:
            if self._others is None:
                # It is not known yet what is kept available.
                targets = services.scaling.targets
                target = await self._threaded(decided, targets, services.pool)
                least = self._least(0 if target is None else target.floor)
            if least:
                # Others may be about to leave as well: not all of them may.
                return await self._threaded(workers.retire, self._id, services.clock(), least)
            await self._threaded(workers.leave, self._id)
        except Exception as error:  # noqa: BLE001  it asks again, or is forgotten in some seconds
            warn("the worker could not leave the fleet", error)
            return not least
        return True

    async def _is_missed(self) -> bool:
        services, threaded = self._services, self._threaded
        tree = services.config.current()
        items: list[int] = []
        try:
            # Tasks that are yet to be made are work, too. Those of a round that is under way are
            # queued after this, and so seen below.
            if await threaded(self._can_advance):
                return True
            made = await threaded(self.dispatch_seeds)
            if self.are_shared:
                items = await threaded(self._items_waiting, tree)
            return await threaded(self._is_something_ready, tree) or bool(made) or any(items)
        except Exception as error:  # noqa: BLE001  the tick finds what this one cannot see
            warn("whether there is more work is not known", error)
            return False

    def _is_something_ready(self, tree: Tree) -> bool:
        """Look into all queues; announce those with work, as this worker has not found them."""
        queue, now = self._services.queue, self._services.clock()
        blocks, soon = self._session.spending.blocks, to_ms(now + LINGER)
        # What a quota keeps waiting is no work: the tick sees when it is again.
        queues = [one for one in served_queues(tree, self._services.pool) if not blocks(one)]
        loads = queue.loads(queues, now)
        found = [
            queue_key
            for queue_key, load in zip(queues, loads, strict=True)
            if load.ready or (load.next_ts or soon) < soon
        ]
        queue.announce(found)
        return bool(found)

    def _items_waiting(self, tree: Tree) -> list[int]:
        """Count the items of all data queues; announce those, as nobody may have found them."""
        queue, queues = self._services.draining.queue, tree.queues()
        items = queue.waiting(queues)
        if any(items):
            counts = zip(queues, items, strict=True)
            queue.open.announce([queue_key for queue_key, count in counts if count])
        return items

    def _can_advance(self) -> bool:
        """Tell whether tasks can be made of a job soon, once this worker's round is over.

        What a round that is under way has made is queued when this returns. Whoever made none of a
        job as its biz is newer than the configuration in force knows it some seconds later.
        """
        with self._advancing:
            return self._services.advancing.can_advance(self._services.clock() + LINGER)


def early_seconds(worker: str, seconds: float) -> float:
    """Return how much of its ``seconds`` a worker leaves unused, by its id: spread evenly.

    >>> early_seconds("w", 900.0) == early_seconds("w", 900.0)
    True
    >>> 0 <= early_seconds("w", 900.0) < 135
    True
    """
    return max(0.0, seconds) * STAGGERED_PART * zlib.crc32(worker.encode()) / 2**32
