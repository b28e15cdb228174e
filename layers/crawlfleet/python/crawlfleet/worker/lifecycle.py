"""When a worker ends whose time is up (SPEC.md C1): workers of one start not all at one moment.

Each calls for the next one as it ends. If all did at once there would be room for a few of those
only, since the places are taken until the last moment, and for some seconds nobody would work.

Whether a worker that has nothing to do ends (SPEC.md C1, A12).
"""

import zlib
from datetime import timedelta
from typing import Final

from crawlfleet.config.lookup import limits_of, served_queues
from crawlfleet.fleet.scaling import decided
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import Threaded, to_ms
from crawlfleet.worker.background import BackgroundTasks
from crawlfleet.worker.heartbeat import Heartbeat
from crawlfleet.worker.ports import WorkPorts

#: The last part of their time, within which workers end one after the other.
PART: Final = 0.15


def early_seconds(worker: str, seconds: float) -> float:
    """How much of its ``seconds`` a worker leaves unused, by its id: evenly spread over workers.

    >>> early_seconds("w", 900.0) == early_seconds("w", 900.0)
    True
    >>> 0 <= early_seconds("w", 900.0) < 135
    True
    """
    return max(0.0, seconds) * PART * zlib.crc32(worker.encode()) / 2**32


#: A worker stays for a retry that is due within this. Without one, the next tick finds it.
LINGER: Final = timedelta(seconds=10)


class Leaving:
    """The good-bye of one worker.

    Args:
        ports: What it looks through.
        worker: Who says good-bye.
        heart: Its beats: whoever has said good-bye must not be taken to live.
        chores: Know how many others there are, and what was made of seeds.
        threaded: Calls a part without stopping the loop.
    """

    def __init__(
        self,
        ports: WorkPorts,
        worker: str,
        heartbeat: Heartbeat,
        background: BackgroundTasks,
        threaded: Threaded,
    ) -> None:
        self._ports = ports
        self._id = worker
        self._heartbeat = heartbeat
        self._background = background
        self._threaded = threaded

    @property
    def is_kept(self) -> bool:
        """Whether too few would be left without this worker, as far as it was told.

        That costs nothing, and so may be asked at each look. Where it is not so any more, whoever
        leaves is decided in Redis.
        """
        others = self._background.others
        return others is not None and others < self._least(self._background.floor)

    def _least(self, floor: int) -> int:
        """How many workers are to be there though there is nothing to do.

        ``floor`` is what of them is kept available by stated needs.
        """
        ports = self._ports
        return max(floor, limits_of(ports.config.current().stage, ports.pool).min_consumers)

    async def may_leave(self) -> bool:
        """Say good-bye; False where somebody has to stay, or there is something to do after all."""
        # Leave first, then look again: a submission that saw this worker alive is then seen here.
        await self._threaded(self._heartbeat.stop)
        if await self._has_left() and not await self._is_missed():
            return True
        await self._threaded(self._heartbeat.start)
        return False

    async def _has_left(self) -> bool:
        workers, least = self._ports.workers, self._least(self._background.floor)
        try:
            if self._background.others is None:
                # Nobody has told this worker yet what is kept available.
                target = await self._threaded(
                    decided, self._ports.targets.targets, self._ports.pool
                )
                least = self._least(0 if target is None else target.floor)
            if least:
                # Others may be about to leave as well: not all of them may.
                now = self._ports.clock()
                return await self._threaded(workers.retire, self._id, now, least)
            await self._threaded(workers.leave, self._id)
        except Exception as error:  # noqa: BLE001  it asks again, or is forgotten in some seconds
            warn("the worker could not say good-bye", error)
            return not least
        return True

    async def _is_missed(self) -> bool:
        tree = self._ports.config.current()
        queues = served_queues(tree, self._ports.pool)
        items: list[int] = []
        try:
            # Tasks that are yet to be made are work, too. Those of a round that is under way are
            # queued after this, and so seen below.
            if await self._threaded(self._background.can_advance):
                return True
            made = await self._threaded(self._background.dispatch_seeds)
            if self._background.are_shared:
                items = await self._threaded(self._ports.draining.queue.waiting, tree.queues())
            now = self._ports.clock()
            loads = await self._threaded(self._ports.queue.loads, queues, now)
            soon = to_ms(now + LINGER)
            if made or any(items):
                return True
            return any(load.ready or (load.next_ts or soon) < soon for load in loads)
        except Exception as error:  # noqa: BLE001  the tick finds what this one cannot see
            warn("whether there is more work is not known", error)
            return False
