"""A worker's heartbeat (SPEC.md D1).

It beats from a thread of its own: a worker whose event loop reads a long page is slow, not dead,
and must not look as if it were. What keeps one whose loop never comes back from holding work for
ever is the end of its leases, which the loop renews.

Whether what a worker holds is still its own: asked before each page, and looked up in the truth.

A worker that was frozen, or taken for dead, has a list full of what may be others' by now. So has
one whose leases are over because the truth could not be asked to renew them. It asks for no page of
those before it has looked, and a look that got no answer is none: a request waits for the next one,
until its lease is over, and is left to it then.
"""

import asyncio
import threading
from collections.abc import Callable

from crawlfleet.fleet.models import WorkerStatus, WorkReport
from crawlfleet.fleet.ports import Workers
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import PAUSES, STEADY, Clock, SteadyTime, Threaded
from crawlfleet.requests.leased import InFlight, LeasedRequest
from crawlfleet.worker.leases import Leasing


class Heartbeat:
    """The beats of one worker.

    Args:
        workers: Where it registers.
        worker: Its id.
        clock: The time.
        seconds: Between two beats.
        doubt_seconds: After a silence of this length others may have taken it for dead.
        card: What it says of itself; called from the beating thread.
        steady: What silences go by.
    """

    def __init__(
        self,
        workers: Workers,
        worker: str,
        *,
        clock: Clock,
        seconds: float,
        doubt_seconds: float,
        worker_status: Callable[[], WorkerStatus],
        steady: SteadyTime = STEADY,
    ) -> None:
        self._workers = workers
        self._worker = worker
        self._clock = clock
        self._seconds = seconds
        self._doubt_seconds = doubt_seconds
        self._worker_status = worker_status
        self._now = steady.now
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        # How often it may have lost what it holds, and up to which of these it has looked.
        self._losses = self._looked = 0
        self._beaten_at = self._now()
        self._beaten = self._failing = False

    def start(self) -> None:
        """Register, then go on beating."""
        self._stopped.clear()
        self._beaten = False
        self._beat()
        self._thread = threading.Thread(target=self._go_on, name="heart", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Beat no more; a beat under way is waited for, so that nothing follows what comes next."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @property
    def detached_seconds(self) -> float:
        """How long no beat has arrived."""
        return self._now() - self._beaten_at

    @property
    def may_have_lost(self) -> bool:
        """Whether what the worker holds may be others' by now, and it has not looked since.

        A beat has found it unknown, buried or lost with Redis; or it came after a long silence: the
        process was frozen, or Redis away.
        """
        return self._losses > self._looked

    @property
    def losses(self) -> int:
        """What to give to :meth:`looked` after looking."""
        return self._losses

    def looked(self, losses: int) -> None:
        """What is held was looked through; ``losses`` is from before. Later ones still count."""
        self._looked = max(self._looked, losses)

    def _go_on(self) -> None:
        while not self._stopped.wait(self._seconds):
            self._beat()

    def _beat(self) -> None:
        try:
            known = self._workers.beat(self._worker, self._clock(), self._worker_status())
        except Exception as error:  # noqa: BLE001  whatever it is, the next beat may arrive
            if not self._failing:
                warn("the worker's heartbeat did not arrive", error)
            self._failing = True
            return
        # Counted before the silence ends, or for a moment nobody would be in doubt.
        if self._beaten and (not known or self.detached_seconds >= self._doubt_seconds):
            self._losses += 1
        self._beaten, self._failing = True, False
        self._beaten_at = self._now()


class Ownership:
    """What one worker knows of its leases. Used from the event loop only.

    Args:
        heart: Says whether others may have taken the worker for dead.
        leasing: Renews leases, and so finds out which are left.
        holding: What is held.
        report: Counts what was lost, and what is left to its lease.
        threaded: Calls a part without stopping the event loop.
        doubt_seconds: Silent for less than this nobody can have taken it for dead.
        stop: Stops what is under way of what is not ours any more.
        again_seconds: Between two looks that a node did not answer.
        steady: What leases and silences go by.
    """

    def __init__(
        self,
        heartbeat: Heartbeat,
        leasing: Leasing,
        holding: InFlight,
        report: WorkReport,
        threaded: Threaded,
        doubt_seconds: float,
        stop: Callable[[LeasedRequest], None] = lambda _: None,
        again_seconds: float = PAUSES.owned,
        steady: SteadyTime = STEADY,
    ) -> None:
        self._stop = stop
        self._again_seconds = again_seconds
        self._steady = steady
        self._heartbeat = heartbeat
        self._leasing = leasing
        self._in_flight = holding
        self._report = report
        self._threaded = threaded
        self._doubt_seconds = doubt_seconds
        self._looked_at = self._steady.now()
        self._looking = asyncio.Lock()
        # Of these nobody knows: they were in doubt, and the look got no answer.
        self._unseen: set[LeasedRequest] = set()

    @property
    def in_doubt(self) -> bool:
        """Whether all that is held may be others' by now."""
        silent = min(self._heartbeat.detached_seconds, self._steady.now() - self._looked_at)
        return self._heartbeat.may_have_lost or silent >= self._doubt_seconds

    async def renew(self, after_seconds: float) -> None:
        """Renew the leases, if that is due or in doubt."""
        if self.in_doubt or self._steady.now() - self._looked_at >= after_seconds:
            async with self._looking:
                await self._look()

    async def still(self, held: LeasedRequest) -> bool:
        """Whether a request is still this worker's, as far as that can be known.

        The first who asks in doubt looks; all who ask meanwhile wait for the answer, too.
        """
        while self._in_flight.holds(held) and self._unsure_of(held):
            async with self._looking:
                if self._unsure_of(held) and not self._looked_in_vain(held):
                    await self._look()
                    if held not in self._unseen:
                        break
            if held in self._unseen:
                if self._steady.now() >= held.ends_at:
                    self._leave(held)
                else:
                    await self._steady.sleep(self._again_seconds)
        return self._in_flight.holds(held)

    def _unsure_of(self, held: LeasedRequest) -> bool:
        return self.in_doubt or held in self._unseen or self._steady.now() >= held.ends_at

    def _looked_in_vain(self, held: LeasedRequest) -> bool:
        """Whether that was a moment ago: many may wait for the same node."""
        just_now = self._steady.now() - self._looked_at < self._again_seconds
        return held in self._unseen and just_now and not self.in_doubt

    async def _look(self) -> None:
        """Renew the leases of what is held, and drop what is another's."""
        losses, started, in_doubt = self._heartbeat.losses, self._steady.now(), self.in_doubt
        # In one go: while pages are read, each return to the event loop takes a while.
        kept = await self._threaded(
            self._leasing.keep, self._in_flight.all(), self._in_flight.is_settled
        )
        for one, claim in kept.gone:
            # What is done is nobody's any more: of that which is being written the write tells.
            if self._in_flight.is_settled(one):
                continue
            if one.claim is claim and self._in_flight.drop(one):
                self._report.lost += 1
                self._stop(one)
        now, before = self._steady.now(), self._unseen
        self._unseen = {
            one
            for one in kept.unseen
            if self._in_flight.holds(one) and (in_doubt or one in before or now >= one.ends_at)
        }
        # Not before: until then whoever asks is in doubt, and waits.
        self._heartbeat.looked(losses)
        self._looked_at = started

    def _leave(self, held: LeasedRequest) -> None:
        self._unseen.discard(held)
        self._report.left += self._in_flight.drop(held)
        over = TimeoutError("its lease is over, and its node could not be asked whose it is")
        warn(f"request {held.claim.request.id} is left to its lease", over)
