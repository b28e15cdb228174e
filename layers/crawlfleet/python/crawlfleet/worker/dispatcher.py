"""What a worker does first with a batch: each request gets its turn, once its site is known."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Sequence

from crawlfleet.crawling.politeness.local_scheduler import LocalScheduler
from crawlfleet.crawling.politeness.robots import RobotsBook
from crawlfleet.kernel.hosts import origin_of
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import Threaded
from crawlfleet.requests.leased import InFlight, LeasedRequest
from crawlfleet.worker.leases import Leasing


class Beginning:
    """Takes charge of what was leased. Used from the worker's event loop.

    Args:
        holding: What the worker holds.
        turns: Gets what has its turn.
        robots: Learns the rules of sites.
        leasing: Gets turns of hosts.
        threaded: Calls what blocks.
    """

    def __init__(
        self,
        holding: InFlight,
        scheduler: LocalScheduler,
        robots: RobotsBook,
        leasing: Leasing,
        threaded: Threaded,
    ) -> None:
        self._in_flight = holding
        self._scheduler = scheduler
        self._robots = robots
        self._leasing = leasing
        self._threaded = threaded
        #: Sites that are being learnt.
        self.tasks: set[asyncio.Task[None]] = set()

    def begin(self, held: Sequence[LeasedRequest]) -> None:
        """Take charge: of what has its turn, and of what waits until its site's rules are known."""
        unknown: dict[tuple[QueueKey, int, str], list[LeasedRequest]] = defaultdict(list)
        for one in held:
            if not self._in_flight.add(one):
                continue
            if one.slot_at is None or one.to_learn:
                key = one.queue_key, id(one.biz), origin_of(one.claim.request.body.url)
                unknown[key].append(one)
            else:
                self._scheduler.add(one)
        for part in unknown.values():
            task = asyncio.create_task(self._learn(part))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def _learn(self, held: Sequence[LeasedRequest]) -> None:
        """Learn the rules of the site that all these are of, then get them their turns.

        One that has its turn gives it for the robots.txt, if that must be fetched.
        """
        first = min(held, key=lambda one: math.inf if one.slot_at is None else one.slot_at)
        try:
            await self._robots.learn(first)
        except Exception as error:  # noqa: BLE001  each finds that out for itself in its turn
            warn("a site's rules could not be learnt", error)
        held = [one for one in held if self._in_flight.holds(one)]
        granted = [one for one in held if one.slot_at is not None]
        rest = [one for one in held if one.slot_at is None]
        try:
            granted += await self._threaded(self._leasing.admit, first.queue_key, first.biz, rest)
        except Exception as error:  # noqa: BLE001  they were handed back, or their leases end
            warn("work could not get its turn", error)
            self._leasing.rest(first.queue_key)
        for one in set(held).difference(granted):
            self._in_flight.drop(one)
        for one in granted:
            if self._in_flight.holds(one):
                self._scheduler.add(one)
