"""The scheduler's clock, faster than a minute: its ticks are the product's own."""

import threading
from collections.abc import Callable
from typing import Final

from benchmarks.chaos.house import ChaosParts, World
from crawlfleet.apps.scheduler import Scheduler
from crawlfleet.kernel.errors import CrawlfleetError

#: What Lambda would say of the time left.
_TIME_LEFT: Final = 290.0


class Ticks:
    """Schedulers in threads; the first one ticks by itself, the others when they are asked to."""

    def __init__(
        self,
        world: World,
        every_seconds: float,
        wake: Callable[[int], None],
        announce: Callable[[str], None],
    ) -> None:
        self._every = every_seconds
        self._announce = announce
        self._parts = [ChaosParts(world, "scheduler", wake, announce) for _ in range(2)]
        self._schedulers = [Scheduler(parts) for parts in self._parts]
        self._stopping = threading.Event()
        self._both = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ticks", daemon=True)
        self.ticks = 0
        #: What ticks did, summed.
        self.sums: dict[str, int] = {}

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def both(self) -> None:
        """Have the next tick done by two schedulers at once."""
        self._both.set()

    def stop(self) -> None:
        """Tick no more."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(60)
        for parts in self._parts:
            parts.close()

    def _run(self) -> None:
        while not self._stopping.wait(self._every):
            second = None
            if self._both.is_set():
                self._both.clear()
                second = threading.Thread(target=self._tick, args=(self._schedulers[1],))
                second.start()
            self._tick(self._schedulers[0])
            if second is not None:
                second.join()

    def _tick(self, scheduler: Scheduler) -> None:
        self.ticks += 1
        try:
            done = scheduler.tick(f"scheduler-{self.ticks}", lambda: _TIME_LEFT)
        except CrawlfleetError as error:
            self._announce(f"a tick failed: {type(error).__name__}: {error}")
            return
        for name, count in done.items():
            self.sums[name] = self.sums.get(name, 0) + count
