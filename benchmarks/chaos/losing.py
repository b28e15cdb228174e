"""Measure total losses on the real clock: of all consumers, of the scheduler, of both.

The stores stay. Consumers and the scheduler are processes, killed by ``kill -9``; each one that
begins anew takes a cold start. The scheduler gets its events whoever is alive. Each loss comes at
the worst moment: when a tick has just ended, or, of the scheduler alone, in the middle of one, in a
round of recovery that has the fleet's lock. Nobody submits anything in the meantime.
"""

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final, Self

import msgspec
import redis

from benchmarks.chaos.busy import WORKERS, busy_fleet, until, until_busy
from benchmarks.chaos.consumer import Woken
from benchmarks.chaos.fleet import Fleet
from benchmarks.chaos.house import World
from benchmarks.chaos.runs import Servers
from benchmarks.chaos.stored import StoredRequests
from benchmarks.chaos.ticker import DYING, TICK, Ready, Said, Ticked
from crawlfleet.config.documents.biz import FleetLimits
from crawlfleet.fleet.recovery.service import LOCK
from crawlfleet.kernel.redis.server import fleet_keys
from infra.local.parts import PartError, python_environment

COLD_SECONDS: Final = 3.0
_WINDOW: Final = 1_000
_IN_HAND: Final = 40
_PATIENCE_SECONDS: Final = 240.0


class Losses(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from each loss until everything ran again."""

    consumers: float
    scheduler: float
    everything: float

    @property
    def worst(self) -> float:
        """The longest of them."""
        return max(self.consumers, self.scheduler, self.everything)


class Ticker:
    """The scheduler's function: its environment, cold when it begins, and the events it gets."""

    def __init__(
        self, world: World, every: float, cold_seconds: float, wake: Callable[[int], None]
    ) -> None:
        self._world, self._every, self._cold = world, every, cold_seconds
        self._wake = wake
        self._process: subprocess.Popen[bytes] | None = None
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._clock = threading.Thread(target=self._run, name="clock", daemon=True)
        self._ended = 0

    def __enter__(self) -> Self:
        self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._clock.join()
        self.kill()

    @property
    def ended(self) -> int:
        """Ticks that have ended."""
        with self._changed:
            return self._ended

    @property
    def is_alive(self) -> bool:
        """Tell whether there is an environment."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """``kill -9``."""
        process = self._process
        if process is None:
            return
        process.kill()
        process.wait()
        if process.stdin is not None:
            with suppress(OSError):  # what was not sent yet nobody reads
                process.stdin.close()

    def doom(self) -> None:
        """Have it die in the middle of its next tick."""
        self._send(DYING)

    def after_a_tick(self) -> None:
        """Wait until the next tick has just ended."""
        with self._changed:
            before = self._ended
            if not self._changed.wait_for(lambda: self._ended > before, _PATIENCE_SECONDS):
                raise PartError("the scheduler does not tick")

    def _send(self, line: str) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            try:
                process.stdin.write(f"{line}\n".encode())
                process.stdin.flush()
            except (OSError, ValueError):
                return  # it has died, or its pipe is closed; the next event finds that out

    def _run(self) -> None:
        due = time.monotonic()
        while True:
            if not self.is_alive:
                self._begin()
            self._send(TICK)
            due += self._every
            if self._stopping.wait(max(0.0, due - time.monotonic())):
                return

    def _begin(self) -> None:
        """Begin an environment: a cold start is over no sooner than it would be on Lambda."""
        began = time.monotonic()
        self.kill()
        process = self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.chaos.ticker", msgspec.json.encode(self._world)],
            env=python_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        ready = threading.Event()
        threading.Thread(target=self._read, args=(process, ready), daemon=True).start()
        if not ready.wait(_PATIENCE_SECONDS):
            raise PartError("the scheduler does not begin")
        self._stopping.wait(max(0.0, began + self._cold - time.monotonic()))

    def _read(self, process: "subprocess.Popen[bytes]", ready: threading.Event) -> None:
        decoder = msgspec.json.Decoder(Said)
        if process.stdout is None:
            return
        with process.stdout as lines:
            for line in lines:
                if not line.startswith(b'{"type"'):
                    continue  # its metrics
                said = decoder.decode(line)
                if isinstance(said, Ready):
                    ready.set()
                elif isinstance(said, Woken):
                    self._wake(said.count)
                elif isinstance(said, Ticked):
                    with self._changed:
                        self._ended += 1
                        self._changed.notify_all()


def lose(
    servers: Servers,
    announce: Callable[[str], None],
    *,
    every_seconds: float,
    cold_seconds: float = COLD_SECONDS,
    lease_seconds: float = 60.0,
) -> Losses:
    """Lose one after the other, and measure how long it takes until everything runs again.

    Raises:
        PartError: it did not, or no work came about.
    """
    limits = FleetLimits(
        min_consumers=WORKERS,
        max_consumers=WORKERS,
        concurrency=32,
        batch=50,
        idle_seconds=10.0,
        lease_seconds=lease_seconds,
    )
    found = {}
    crowd = busy_fleet(
        servers, limits, size=0, window=_WINDOW, dice=Random(1), cold_seconds=cold_seconds
    )
    with (
        crowd as (world, stored, fleet),
        Ticker(world, every_seconds, cold_seconds, fleet.wake) as ticker,
    ):
        scene = _Scene(world, fleet, stored, ticker)
        for what, loss in (
            ("consumers", scene.lose_consumers),
            ("scheduler", scene.lose_scheduler),
            ("everything", scene.lose_everything),
        ):
            found[what] = loss()
            announce(f"lost {what}: {found[what]:.1f} s")
    return Losses(**found)


class _Scene:
    def __init__(self, world: World, fleet: Fleet, stored: StoredRequests, ticker: Ticker) -> None:
        self._fleet, self._stored, self._ticker = fleet, stored, ticker
        self._redis = redis.Redis.from_url(world.redis)

    def lose_consumers(self) -> float:
        """Kill all consumers when a tick has just ended."""
        self._at_work()
        self._ticker.after_a_tick()
        return self._kill_consumers()

    def lose_everything(self) -> float:
        """Kill all consumers and the scheduler when a tick has just ended."""
        self._at_work()
        self._ticker.after_a_tick()
        self._ticker.kill()
        return self._kill_consumers()

    def lose_scheduler(self) -> float:
        """Kill the scheduler in the middle of a tick.

        It runs again when another tick has ended, and somebody has done a round of recovery.
        """
        self._at_work()
        self._ticker.after_a_tick()
        self._ticker.doom()
        _until(lambda: not self._ticker.is_alive, "the scheduler did not die")
        killed, ticks, locked = time.monotonic(), self._ticker.ended, self._locked_at()
        _until(lambda: self._ticker.ended > ticks, "the scheduler did not tick again")
        _until(lambda: self._locked_at() > locked, "nobody recovers")
        return time.monotonic() - killed

    def _at_work(self) -> None:
        until_busy(self._stored, _IN_HAND, _PATIENCE_SECONDS)

    def _locked_at(self) -> int:
        said = self._redis.hget(fleet_keys().turns, LOCK)
        return int(said.split()[0]) if isinstance(said, bytes) else 0

    def _kill_consumers(self) -> float:
        victims, ticks = self._fleet.living(), self._ticker.ended
        dead = [victim.worker for victim in victims]
        killed = time.monotonic()
        for victim in victims:
            self._fleet.kill(victim)
        _until(lambda: not {*dead} & {m.worker for m in self._fleet.living()}, "nobody died")
        held = {page for worker in dead for page in self._stored.owned_by(worker)}

        def runs() -> bool:
            leased = self._stored.leased()
            return (
                not {*dead} & leased.keys()
                and len(self._fleet.living()) >= WORKERS
                and not self._stored.undone(held)
                and self._ticker.ended > ticks
            )

        _until(runs, "not everything runs again")
        return time.monotonic() - killed


def _until(holds: Callable[[], bool], failure: str) -> None:
    until(holds, failure, _PATIENCE_SECONDS)
