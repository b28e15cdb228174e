"""The ways to sites that a worker is finding out while it reads the board (SPEC.md B4)."""

import asyncio
from collections.abc import Sequence
from typing import Final

from crawlfleet.jobs.bidding.models import NotJudged, Offer, Probe, ProbeKey, Wanted
from crawlfleet.jobs.bidding.probing import ProbingPorts, probed
from crawlfleet.kernel.urls import origin_of

#: Ways that are found out at once, and how long a round waits for them: what takes longer is
#: judged by a later one, and keeps nobody.
MOST: Final = 12
PATIENCE_SECONDS: Final = 1.0


class Ways:
    """What one worker is finding out; what came of it is in its pool's book, too."""

    def __init__(self, ports: ProbingPorts, pool: str, worker: str) -> None:
        self._ports = ports
        self._pool = pool
        self._id = worker
        self._tasks: dict[ProbeKey, asyncio.Task[Probe | NotJudged]] = {}

    @property
    def is_looking(self) -> bool:
        """Whether something is still to be found out."""
        return bool(self._tasks)

    @property
    def room(self) -> int:
        """How many more may be looked at now."""
        return max(0, MOST - len(self._tasks))

    def is_new(self, offer: Offer, wanted: Wanted) -> bool:
        """Whether nobody here is finding it out yet.

        Raises:
            ValueError: the job's test link is none.
        """
        return self._key(offer, wanted) not in self._tasks

    def is_found(self, offer: Offer, wanted: Wanted) -> bool:
        """Whether a look at it has ended, well or not."""
        task = self._tasks.get(self._key(offer, wanted))
        return task is not None and task.done()

    async def look(self, looks: Sequence[tuple[Offer, Wanted]], keep_seconds: float) -> None:
        """Begin to find these out, and wait a little for what comes of it."""
        for offer, wanted in looks:
            key = self._key(offer, wanted)
            if key not in self._tasks:
                look = probed(self._ports, key, wanted.url, self._id, keep_seconds)
                self._tasks[key] = asyncio.create_task(look)
        open_looks = [task for task in self._tasks.values() if not task.done()]
        if open_looks:
            await asyncio.wait(open_looks, timeout=PATIENCE_SECONDS)

    def found(self, offer: Offer, wanted: Wanted) -> Probe | NotJudged | None:
        """What came of a look; None while it goes on.

        Raises:
            Exception: whatever the look has failed with.
        """
        task = self._tasks.get(self._key(offer, wanted))
        return task.result() if task is not None and task.done() else None

    def forget(self) -> None:
        """Let go what has ended: the next look there is answered by the book."""
        for task in self._tasks.values():
            if task.done() and not task.cancelled():
                task.exception()  # it is looked at, or of no job any more
        self._tasks = {key: task for key, task in self._tasks.items() if not task.done()}

    async def close(self) -> None:
        """Look no more."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks = {}

    def _key(self, offer: Offer, wanted: Wanted) -> ProbeKey:
        return ProbeKey(
            tenant=offer.tenant, biz=offer.biz, pool=self._pool, origin=origin_of(wanted.url)
        )
