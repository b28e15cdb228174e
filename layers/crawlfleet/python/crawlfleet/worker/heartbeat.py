"""A worker's heartbeat (SPEC.md D1), and when it has been silent for too long.

It beats from a thread of its own: a worker whose event loop reads a long page is slow, not dead,
and must not look as if it were. What keeps one whose loop never comes back from holding work for
ever is the end of its leases, which the loop renews. With each beat it tells what it has seen of
proxies, and hears what others have.
"""

import threading
from typing import Final

from crawlfleet import __version__
from crawlfleet.config.documents.biz import DetectorLimits
from crawlfleet.crawling.fetching.proxy_exchange import ProxyExchange
from crawlfleet.crawling.politeness.local_scheduler import LocalScheduler
from crawlfleet.fleet.failure_detector import worth_a_look
from crawlfleet.fleet.models import WorkerStatus
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import to_ms
from crawlfleet.worker.session import Session

#: Hosts that a worker names with each beat, so that others may go on there if it dies.
STATUS_HOSTS: Final = 200
#: Everybody hears of a push within this.
SLOWER_AFTER_SECONDS: Final = 6.0


class Heartbeat:
    """The beats of one worker, which name the hosts of ``scheduler``.

    After a silence of ``doubt_seconds`` others may have taken it for dead. That a beat does not
    arrive is warned of once, each time that it begins to fail.
    """

    def __init__(self, session: Session, scheduler: LocalScheduler) -> None:
        services = session.services
        self._session = session
        self._scheduler = scheduler
        self._workers = services.workers
        self._clock, self._now = services.clock, services.steady.now
        self._seconds = self._detector.beat_seconds
        self._slower_since: float | None = None
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
            # What it has found of proxies since its last beat would be lost with it.
            if self._session.services.proxies.has_changes and self._proxies():
                self._beat()

    @property
    def detached_seconds(self) -> float:
        """Return for how long no beat has arrived."""
        return self._now() - self._beaten_at

    @property
    def is_cut_off(self) -> bool:
        """Tell whether others are about to take this worker for dead."""
        return self.detached_seconds >= self._detector.detached_seconds

    @property
    def doubt_seconds(self) -> float:
        """Return the silence below which it lives."""
        return worth_a_look(self._detector).total_seconds()

    @property
    def _detector(self) -> DetectorLimits:
        return self._session.services.config.current().stage.detector

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
        while not self._stopped.wait(self.pause()):
            self._beat()

    def pause(self) -> float:
        """Return the seconds until the next beat, which are the configuration's.

        Longer ones hold once those who listen have heard of them as well: by the shorter ones a
        worker that takes its time is dead.
        """
        wanted, now = self._detector.beat_seconds, self._now()
        if wanted <= self._seconds:
            self._seconds, self._slower_since = wanted, None
        elif self._slower_since is None:
            self._slower_since = now
        elif now - self._slower_since >= SLOWER_AFTER_SECONDS:
            self._seconds, self._slower_since = wanted, None
        return self._seconds

    def _beat(self) -> None:
        try:
            known = self._workers.beat(
                self._session.worker, self._clock(), self._status(), *self._proxies()
            )
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

    def _proxies(self) -> tuple[ProxyExchange, ...]:
        """Return what is told of proxies with the beat; nothing where the stage has none."""
        services = self._session.services
        return (services.proxies,) if services.config.current().stage.proxies else ()

    def _status(self) -> WorkerStatus:
        return WorkerStatus(
            started_ms=self._started_ms,
            held=self._session.in_flight.by_biz(),
            done=self._session.report.done,
            failed=self._session.report.dead,
            pool=self._session.services.pool,
            hosts=self._scheduler.hosts(STATUS_HOSTS),
            version=__version__,
        )
