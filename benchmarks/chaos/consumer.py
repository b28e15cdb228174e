"""Consumers, one process an invocation, born of a nursery that has everything imported already.

``python -m benchmarks.chaos.consumer`` reads orders and answers with their outcomes, in lines of
JSON. It forks a child for each invocation, sends the signals it is asked to send, and reaps: as it
is the parent of them all, a signal never meets somebody else's process. When its input closes all
are killed.
"""

import ctypes
import gc
import os
import select
import signal
import sys
import time
from datetime import UTC, datetime
from functools import partial
from typing import Final, TypeAlias

import msgspec

from benchmarks.chaos.house import ITEMS, ChaosParts, World
from benchmarks.chaos.pages import page
from benchmarks.chaos.steps import Armed, Fuse, armed_fetcher, armed_queue, armed_store
from crawlfleet.apps import consumer as wiring
from crawlfleet.crawling.extract.extractor import RuleExtractor
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.redis.clock import ServerClock

_PR_SET_PDEATHSIG: Final = 1
#: Between two looks for children that have ended.
_LOOK_SECONDS: Final = 0.02


class ClockStep(msgspec.Struct, frozen=True, kw_only=True):
    """The consumer's clock is wrong by so much, from so long after its start on."""

    after_seconds: float
    by_seconds: float


class Invocation(msgspec.Struct, frozen=True, kw_only=True, tag="invoke"):
    """An invocation of the consumer's function, and the faults that befall it."""

    world: World
    worker: str
    seconds: float = 900.0
    armed: Armed | None = None
    clock: ClockStep | None = None


class Signal(msgspec.Struct, frozen=True, kw_only=True, tag="signal"):
    """Send a signal to a consumer that still lives."""

    pid: int
    number: int


class Born(msgspec.Struct, frozen=True, kw_only=True, tag="born"):
    """An invocation runs."""

    pid: int
    worker: str


class Stopped(msgspec.Struct, frozen=True, kw_only=True, tag="stopped"):
    """An invocation stands still from now on, after a SIGSTOP."""

    pid: int


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """An invocation is over; ``status`` is negative for a signal, as in subprocess."""

    pid: int
    status: int


class Woken(msgspec.Struct, frozen=True, kw_only=True, tag="woken"):
    """An invocation asks for so many others."""

    count: int


Order: TypeAlias = Invocation | Signal
News: TypeAlias = Born | Stopped | Ended | Woken


def work(invocation: Invocation, news: int) -> None:
    """Run an invocation over the product's own wiring; write its wake-ups of others to ``news``."""
    fuse = Fuse(invocation.armed)

    def wake(count: int) -> None:
        os.write(news, msgspec.json.encode(Woken(count=count)) + b"\n")

    parts = ChaosParts(invocation.world, "consumer", wake, _announce)
    vars(parts)["queue"] = armed_queue(parts.queue, fuse)
    vars(parts)["store"] = armed_store(parts.store, fuse)
    # What the wiring names is what it takes; both are looked up at the call.
    vars(wiring)["AiohttpFetcher"] = armed_fetcher(fuse)
    started = time.monotonic()
    if invocation.clock is not None:
        _step_clock(invocation.clock, started)
    end = started + invocation.seconds
    wiring.Consumer(parts).work(invocation.worker, lambda: end - time.monotonic())


def _step_clock(step: ClockStep, started: float) -> None:
    """Have this process's clock, the one that people set, show another time later on."""
    right = time.time

    def wrong() -> float:
        stepped = time.monotonic() - started >= step.after_seconds
        return right() + step.by_seconds * stepped

    vars(time)["time"] = wrong
    vars(wiring)["ServerClock"] = partial(
        ServerClock, wall=lambda: datetime.fromtimestamp(wrong(), UTC)
    )


def _announce(message: str) -> None:
    sys.stderr.write(f"{os.getpid()}: {message}\n")
    sys.stderr.flush()


def _be_born(invocation: Invocation) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        if sys.platform.startswith("linux"):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        news = os.dup(1)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        work(invocation, news)
        status = 0
    finally:
        os._exit(status)


class Nursery:
    """The parent of all consumers."""

    def __init__(self) -> None:
        self._children: set[int] = set()
        self._orders = msgspec.json.Decoder(Order)
        self._pending = b""

    def serve(self) -> None:
        """Do as ordered until standard input closes."""
        while True:
            ready, _, _ = select.select([0], [], [], _LOOK_SECONDS)
            if ready:
                read = os.read(0, 1 << 16)
                if not read:
                    break
                *lines, self._pending = (self._pending + read).split(b"\n")
                for line in lines:
                    self._obey(self._orders.decode(line))
            self._reap()
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)

    def _obey(self, order: Order) -> None:
        if isinstance(order, Invocation):
            pid = _be_born(order)
            self._children.add(pid)
            _say(Born(pid=pid, worker=order.worker))
        elif order.pid in self._children:
            os.kill(order.pid, order.number)

    def _reap(self) -> None:
        for pid in list(self._children):
            found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if found and os.WIFSTOPPED(status):
                _say(Stopped(pid=pid))
            elif found:
                self._children.discard(pid)
                _say(Ended(pid=pid, status=os.waitstatus_to_exitcode(status)))


def _say(news: News) -> None:
    os.write(1, msgspec.json.encode(news) + b"\n")


def _warm_up() -> None:
    """Have parsers loaded before the first child is born."""
    answer = Page(url="http://a/", status=200, headers={"content-type": "text/html"}, body=page(1))
    RuleExtractor().extract(ITEMS, answer)
    gc.freeze()


if __name__ == "__main__":
    _warm_up()
    Nursery().serve()
