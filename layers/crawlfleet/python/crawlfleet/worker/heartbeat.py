"""A worker's heartbeat (SPEC.md D1), and whether its leases are still its own.

It beats from a thread of its own: a worker whose event loop reads a long page is slow, not dead,
and must not look as if it were. What keeps one whose loop never comes back from holding work for
ever is the end of its leases, which the loop renews.

A worker that was frozen, or taken for dead, has requests that may be others' by now. So has one
whose leases are over because MongoDB could not be asked to renew them. It asks for no page of those
before it has looked, and a look that got no answer is none: a request waits for the next one, until
its lease is over, and is left to it then.
"""

import asyncio
import threading
from typing import Final

from crawlfleet.crawling.politeness.client import LocalScheduler
from crawlfleet.fleet.failure_detector import worth_a_look
from crawlfleet.fleet.models import WorkerStatus
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.worker.leases import Leases
from crawlfleet.worker.session import Session

#: Hosts that a worker names with each beat, so that others may go on there if it dies.
STATUS_HOSTS: Final = 200


class Heartbeat:
    """The beats of one worker, which name the hosts of ``scheduler``.

    After a silence of ``doubt_seconds`` others may have taken it for dead. That a beat does not
    arrive is warned of once, each time that it begins to fail.
    """

    def __init__(self, session: Session, scheduler: LocalScheduler) -> None:
        services = session.services
        detector = services.config.current().stage.detector
        self._session = session
        self._scheduler = scheduler
        self._workers = services.workers
        self._clock, self._now = services.clock, services.steady.now
        self._seconds = detector.beat_seconds
        self.doubt_seconds = worth_a_look(detector).total_seconds()  # silent for less, it lives
        self._detached_seconds = detector.detached_seconds
        self._started_ms = to_ms(services.clock())
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        # How often it may have lost its leases, and up to which of these it has looked.
        self._losses = self._looked = 0
        self._beaten_at = self._now()
        self._beaten = self._failing = False

    def start(self) -> None:
        """Register, then go on beating."""
        self._stopped.clear()
        self._beaten = False
        self._beat()
        self._thread = threading.Thread(target=self._go_on, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Beat no more; a beat under way is waited for, so that nothing follows what comes next."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    @property
    def detached_seconds(self) -> float:
        """Return for how long no beat has arrived."""
        return self._now() - self._beaten_at

    @property
    def is_cut_off(self) -> bool:
        """Tell whether others are about to take this worker for dead."""
        return self.detached_seconds >= self._detached_seconds

    @property
    def may_have_lost(self) -> bool:
        """Tell whether the requests in flight may be others' by now; it has not looked since.

        A beat has found it unknown, reaped or lost with Redis; or it came after a long silence: the
        process was frozen, or Redis away.
        """
        return self._losses > self._looked

    @property
    def losses(self) -> int:
        """Return what is to be given to :meth:`looked` after looking."""
        return self._losses

    def looked(self, losses: int) -> None:
        """Note that leases were looked through; ``losses`` is from before that."""
        self._looked = max(self._looked, losses)

    def _go_on(self) -> None:
        while not self._stopped.wait(self._seconds):
            self._beat()

    def _beat(self) -> None:
        try:
            known = self._workers.beat(self._session.worker, self._clock(), self._status())
        except Exception as error:  # noqa: BLE001  whatever it is, the next beat may arrive
            if not self._failing:
                warn("the worker's heartbeat did not arrive", error)
            self._failing = True
            return
        # Counted before the silence ends, or for a moment nobody would be in doubt.
        if self._beaten and (not known or self.detached_seconds >= self.doubt_seconds):
            self._losses += 1
        self._beaten, self._failing = True, False
        self._beaten_at = self._now()

    def _status(self) -> WorkerStatus:
        return WorkerStatus(
            started_ms=self._started_ms,
            held=self._session.in_flight.by_biz(),
            done=self._session.report.done,
            failed=self._session.report.dead,
            pool=self._session.services.pool,
            hosts=self._scheduler.hosts(STATUS_HOSTS),
        )


class Ownership:
    """The leases of one worker, as far as they are still its own. Used from the event loop only."""

    def __init__(self, session: Session, heartbeat: Heartbeat, leases: Leases) -> None:
        self.heartbeat = heartbeat
        self._session = session
        self._in_flight = session.in_flight
        self._leases = leases
        self._again_seconds = session.services.pauses.owned
        self._renew_seconds = session.limits.lease_seconds / 3
        self._steady = session.services.steady
        self._looked_at = self._steady.now()
        self._looking = asyncio.Lock()
        # Of these nobody knows: they were in doubt, and the look got no answer.
        self._unknown: set[LeasedRequest] = set()

    @property
    def in_doubt(self) -> bool:
        """Tell whether all requests in flight may be others' by now."""
        silent = min(self.heartbeat.detached_seconds, self._steady.now() - self._looked_at)
        return self.heartbeat.may_have_lost or silent >= self.heartbeat.doubt_seconds

    async def renew(self) -> None:
        """Renew the leases, if that is due or they are in doubt."""
        if self.in_doubt or self._steady.now() - self._looked_at >= self._renew_seconds:
            async with self._looking:
                await self._look()

    async def still(self, leased: LeasedRequest) -> bool:
        """Tell whether a request is still this worker's, as far as that can be known.

        The first who asks in doubt looks; all who ask meanwhile wait for the answer, too.
        """
        while leased in self._in_flight and self._unsure_of(leased):
            async with self._looking:
                if self._unsure_of(leased) and not self._looked_in_vain(leased):
                    await self._look()
                    if leased not in self._unknown:
                        break
            if leased in self._unknown:
                if self._steady.now() >= leased.ends_at:
                    self._leave(leased)
                else:
                    await self._steady.sleep(self._again_seconds)
        return leased in self._in_flight

    def _unsure_of(self, leased: LeasedRequest) -> bool:
        return self.in_doubt or leased in self._unknown or self._steady.now() >= leased.ends_at

    def _looked_in_vain(self, leased: LeasedRequest) -> bool:
        """Tell whether a look at it failed a moment ago: many may wait for the same node."""
        just_now = self._steady.now() - self._looked_at < self._again_seconds
        return leased in self._unknown and just_now and not self.in_doubt

    async def _look(self) -> None:
        """Renew the leases of requests in flight, and drop those that are another's."""
        losses, started, in_doubt = self.heartbeat.losses, self._steady.now(), self.in_doubt
        # In one go: while pages are read, each return to the event loop takes a while.
        renewed = await self._session.threaded(self._leases.renew, self._in_flight.all())
        for one, claim in renewed.lost:
            # What is done is nobody's any more: of that which is being written the write tells.
            if self._in_flight.is_settled(one):
                continue
            if one.claim is claim and self._in_flight.drop(one):
                self._session.report.lost += 1
                self._session.stopper.stop(one)
        now, before = self._steady.now(), self._unknown
        self._unknown = {
            one
            for one in renewed.unknown
            if one in self._in_flight and (in_doubt or one in before or now >= one.ends_at)
        }
        # Not before: until then whoever asks is in doubt, and waits.
        self.heartbeat.looked(losses)
        self._looked_at = started

    def _leave(self, leased: LeasedRequest) -> None:
        self._unknown.discard(leased)
        self._session.report.left += self._in_flight.drop(leased)
        over = TimeoutError("its lease is over, and its node could not be asked whose it is")
        warn(f"request {leased.claim.request.id} is left to its lease", over)
