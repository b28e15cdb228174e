"""How a worker stops what it does of a job that is being cancelled (SPEC.md C2).

It hears of it each second (ports.Cancellations), or finds out when it renews its leases. Then it
lets go what it holds of the job: what has not begun is not begun, a download or a reading in the
middle is stopped, and nothing of it is stored. What it leases of the job afterwards it lets go at
once. In the truth these requests are nobody's or the cancelling makes them so; should that never
happen, their leases end and they are somebody's again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from crawlfleet.fleet.models import WorkReport
from crawlfleet.jobs.cancellation import CANCELLATION_SECONDS, Cancellations, JobKey
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import PAUSES, STEADY, SteadyTime, Threaded
from crawlfleet.requests.leased import InFlight, LeasedRequest, by_queue
from crawlfleet.worker.leases import Leasing

T = TypeVar("T")


class Stopper:
    """Stops attempts in the middle. Used from the event loop only."""

    def __init__(self) -> None:
        self._tasks: dict[LeasedRequest, asyncio.Task[object]] = {}
        self._stopped: set[LeasedRequest] = set()

    async def run(self, held: LeasedRequest, attempt: Awaitable[T]) -> T | None:
        """What the attempt gives; None where it was stopped."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  it is a coroutine that runs
        self._tasks[held] = task
        try:
            return await attempt
        except asyncio.CancelledError:
            # The worker's end cancels its runners too, perhaps at the same moment: that goes on.
            if held not in self._stopped or task.cancelling() > 1:
                raise
            return None
        finally:
            del self._tasks[held]
            if held in self._stopped:
                self._stopped.discard(held)
                task.uncancel()

    def stop(self, held: LeasedRequest) -> None:
        """Stop the attempt at this, if one is under way; the caller's own goes on to its end."""
        task = self._tasks.get(held)
        if task is None or held in self._stopped or task is asyncio.current_task():
            return
        self._stopped.add(held)
        task.cancel()


class CancellationWatcher:
    """What one worker knows of jobs that are being cancelled. Used from the event loop only.

    Args:
        cancellations: Says which.
        holding: What is held.
        stopper: Stops what is under way.
        leasing: Lets go what is leased.
        report: Counts what is let go.
        threaded: Calls what blocks.
        seconds: Between two looks.
        steady: What those go by.
    """

    def __init__(
        self,
        cancellations: Cancellations,
        holding: InFlight,
        stopper: Stopper,
        leasing: Leasing,
        report: WorkReport,
        threaded: Threaded,
        seconds: float = PAUSES.cancellations,
        steady: SteadyTime = STEADY,
    ) -> None:
        self._cancellations = cancellations
        self._in_flight = holding
        self._stopper = stopper
        self._leasing = leasing
        self._report = report
        self._threaded = threaded
        self._seconds = seconds
        self._steady = steady
        self._reached = 0
        # Until when each is heeded, by the steady clock.
        self._jobs: dict[JobKey, float] = {}

    async def run(self, report_hosts: Callable[[], Awaitable[None]]) -> None:
        """Look each second; others wait for the permits of what is let go."""
        while True:
            if await self.look():
                await report_hosts()
            await self._steady.sleep(self._seconds)

    async def look(self) -> bool:
        """Ask which jobs are being cancelled, and let go what is held of them; whether any was."""
        try:
            heard = await self._threaded(self._cancellations.heard, self._reached)
        except Exception as error:  # noqa: BLE001  the renewal of the leases finds them gone
            warn("jobs that are being cancelled could not be heard of", error)
            return False
        self._reached = heard.reached
        now = self._steady.now()
        self._jobs = {job: until for job, until in self._jobs.items() if until > now}
        self._jobs |= dict.fromkeys(heard.jobs, now + CANCELLATION_SECONDS)
        if not self._jobs:
            return False
        held = [one for one in self._in_flight.all() if self._is_cancelled(one)]
        await self._let_go(held)
        return bool(held)

    async def kept(self, held: Sequence[LeasedRequest]) -> Sequence[LeasedRequest]:
        """Those of what was just leased that are to be worked on; the others are let go."""
        if not self._jobs:
            return held
        now = self._steady.now()
        gone = {one for one in held if self._is_cancelled(one) and self._jobs[_job_of(one)] > now}
        if not gone:
            return held
        await self._let_go([one for one in held if one in gone])
        return [one for one in held if one not in gone]

    def _is_cancelled(self, held: LeasedRequest) -> bool:
        return _job_of(held) in self._jobs

    async def _let_go(self, held: Sequence[LeasedRequest]) -> None:
        # Before anything is awaited: no runner may begin one of them meanwhile.
        for one in held:
            self._in_flight.drop(one)
            self._stopper.stop(one)
        self._report.cancelled += len(held)
        for (queue_key, _), part in by_queue(held).items():
            claims = [one.claim for one in part]
            try:
                await self._threaded(self._leasing.forget, queue_key, claims)
            except Exception as error:  # noqa: BLE001  the index forgets them when the leases end
                warn("leases of a cancelled job could not be ended", error)


def _job_of(held: LeasedRequest) -> JobKey:
    # What has no job is of none that has a name.
    return held.queue_key.tenant, held.queue_key.biz, held.claim.request.job or ""
