"""A worker's heartbeat (SPEC.md D1).

It beats from a thread of its own: a worker whose event loop reads a long page is slow, not dead,
and must not look as if it were. What keeps one whose loop never comes back from holding work for
ever is the end of its leases, which the loop renews.
"""

import threading
from collections.abc import Callable

from crawlfleet.flows.pauses import STEADY, SteadyTime
from crawlfleet.model.worker import Card
from crawlfleet.ports import Clock, Workers


class Heart:
    """The beats of one worker.

    Args:
        workers: Where it registers.
        worker: Its id.
        clock: The time.
        seconds: Between two beats.
        doubt_seconds: After a silence of this length others may have taken it for dead.
        card: What it says of itself; called from the beating thread.
        warn: Is told when a beat does not arrive, once for each time that it begins to fail.
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
        card: Callable[[], Card],
        warn: Callable[[str, Exception], None],
        steady: SteadyTime = STEADY,
    ) -> None:
        self._workers = workers
        self._worker = worker
        self._clock = clock
        self._seconds = seconds
        self._doubt_seconds = doubt_seconds
        self._card = card
        self._warn = warn
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
            known = self._workers.beat(self._worker, self._clock(), self._card())
        except Exception as error:  # noqa: BLE001  whatever it is, the next beat may arrive
            if not self._failing:
                self._warn("the worker's heartbeat did not arrive", error)
            self._failing = True
            return
        # Counted before the silence ends, or for a moment nobody would be in doubt.
        if self._beaten and (not known or self.detached_seconds >= self._doubt_seconds):
            self._losses += 1
        self._beaten, self._failing = True, False
        self._beaten_at = self._now()
