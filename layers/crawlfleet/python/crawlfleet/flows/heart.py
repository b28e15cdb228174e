"""A worker's heartbeat (SPEC.md D1).

It beats from a thread of its own: a worker whose event loop reads a long page is slow, not dead,
and must not look as if it were. What keeps one whose loop never comes back from holding work for
ever is the end of its leases, which the loop renews.
"""

import threading
import time
from collections.abc import Callable

from crawlfleet.model.worker import Card
from crawlfleet.ports import Clock, Workers


class Heart:
    """The beats of one worker.

    Args:
        workers: Where it registers.
        worker: Its id.
        clock: The time.
        seconds: Between two beats.
        card: What it says of itself; called from the beating thread.
        warn: Is told when a beat does not arrive, once for each time that it begins to fail.
    """

    def __init__(
        self,
        workers: Workers,
        worker: str,
        *,
        clock: Clock,
        seconds: float,
        card: Callable[[], Card],
        warn: Callable[[str, Exception], None],
    ) -> None:
        self._workers = workers
        self._worker = worker
        self._clock = clock
        self._seconds = seconds
        self._card = card
        self._warn = warn
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._forgotten = threading.Event()
        self._beaten_at = time.monotonic()
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
        return time.monotonic() - self._beaten_at

    @property
    def forgotten(self) -> bool:
        """Whether a beat has found the worker unknown: buried, or lost with Redis."""
        return self._forgotten.is_set()

    def begin_anew(self) -> None:
        """The worker is about to look what it has left, as one that was forgotten must."""
        self._forgotten.clear()

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
        if self._beaten and not known:
            self._forgotten.set()
        self._beaten, self._failing = True, False
        self._beaten_at = time.monotonic()
