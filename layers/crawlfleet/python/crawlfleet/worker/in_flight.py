"""What a worker holds and will not do now goes back (SPEC.md A7): for others, or for later."""

from collections.abc import Sequence
from typing import Final

from crawlfleet.crawling.politeness.client import Waiting
from crawlfleet.fleet.models import WorkReport
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import Threaded
from crawlfleet.requests.leased import InFlight, LeasedRequest, by_queue
from crawlfleet.worker.leases import Leasing

#: What a request's timeline says of the worker that stopped because of this.
WHY_HANDED_BACK: Final = {
    "time": "the worker's time is up",
    "surplus": "its worker is one too many",
    "cut off": "its worker is cut off from Redis",
}


class GivingBack:
    """The ways in which one worker lets go what it holds; none of them raises."""

    def __init__(
        self,
        holding: InFlight,
        leasing: Leasing,
        report: WorkReport,
        threaded: Threaded,
    ) -> None:
        self._in_flight = holding
        self._leasing = leasing
        self._report = report
        self._threaded = threaded

    async def put_aside(self, held: LeasedRequest, waiting: Waiting) -> None:
        """Have a request wait for its host's turn."""
        try:
            await self._threaded(self._leasing.put_aside, held.queue_key, held.biz, [waiting])
        except Exception as error:  # noqa: BLE001  whoever has it when its lease ends goes on
            warn("work could not be put aside; its lease will end", error)
        self._in_flight.drop(held)

    async def hand_back(self, held: Sequence[LeasedRequest], why: str) -> None:
        """Give up what has not begun, for others to have at once."""
        # Before anything is awaited: no runner may begin what is another's a moment later.
        for one in held:
            self._in_flight.drop(one)
        for (queue_key, _), part in by_queue(held).items():
            claims = [one.claim for one in part]
            try:
                await self._threaded(self._leasing.release, queue_key, part[0].biz, claims, why)
                self._report.handed_back += len(part)
            except Exception as error:  # noqa: BLE001  the others are to be handed back too
                warn("work could not be handed back; its leases will end", error)
