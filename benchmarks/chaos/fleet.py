"""The fleet as the run sees it: so many consumers are kept alive; some of them meet their end."""

import signal
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Self

import msgspec

from benchmarks.chaos.consumer import (
    Born,
    ClockStep,
    Ended,
    Invocation,
    News,
    Order,
    Signal,
    Stopped,
    Woken,
)
from benchmarks.chaos.house import World
from benchmarks.chaos.steps import Armed, Step
from infra.local.parts import PartError, python_environment

#: Ends of which the work in hand was lost.
KILLED: Final = -signal.SIGKILL
_END_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """The fate of the next consumer; the id of an earlier one makes two workers of one id."""

    worker: str | None = None
    armed: Armed | None = None
    clock: ClockStep | None = None
    seconds: float = 900.0


@dataclass(slots=True, kw_only=True)
class Member:
    """A consumer that lives.

    ``frozen`` ones are stopped, and of those some for so long that they lose their work; ``doomed``
    ones were sent a SIGKILL.
    """

    pid: int
    worker: str
    armed: Armed | None = None
    frozen: bool = False
    loses: bool = False
    doomed: bool = False


@dataclass(slots=True)
class Fleet:
    """Consumers of one run.

    Args:
        world: Where they work.
        size: How many are kept alive until :meth:`dismiss`; 0 leaves it to the product's waking.
        most: How many there may be at all, as Lambda's concurrency bounds it.
        on_loss: Gets the worker's id as soon as one was killed, or stands still for long.
        announce: Gets a line for each one that begins or ends, for who looks for a reason.
        log: Gets what goes wrong.
        cold_seconds: A consumer that is woken takes so long to begin.
    """

    world: World
    size: int
    most: int
    on_loss: Callable[[str], None]
    announce: Callable[[str], None] = lambda _: None
    log: Path | None = None
    cold_seconds: float = 0.0
    fates: deque[Fate] = field(default_factory=deque)
    killed: int = 0
    #: How many died by themselves, by the step they were armed for.
    died_at: Counter[Step] = field(default_factory=Counter)
    started: int = 0
    failed: int = 0
    _cold: int = 0
    _members: dict[int, Member] = field(default_factory=dict)
    _past: list[str] = field(default_factory=list)
    #: Invocations that are not born yet, in their order.
    _awaited: deque[Armed | None] = field(default_factory=deque)
    _process: "subprocess.Popen[bytes] | None" = None
    _reader: threading.Thread | None = None
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __enter__(self) -> Self:
        """Open the nursery."""
        log: IO[bytes] | int = self.log.open("ab") if self.log else subprocess.DEVNULL
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.chaos.consumer"],
            env=python_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
        )
        if not isinstance(log, int):
            log.close()
        self._reader = threading.Thread(target=self._read, name="fleet", daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill whoever is left."""
        process = self._process
        if process is None or process.stdin is None:
            return
        with self._changed:
            self.size = self.most = 0
            process.stdin.close()
        process.wait(_END_SECONDS)
        if self._reader is not None:
            self._reader.join(_END_SECONDS)
        if process.stdout is not None:
            process.stdout.close()

    def report_throughput(self) -> None:
        """Start what is missing of the wanted number."""
        with self._changed:
            while len(self._members) + len(self._awaited) < self.size:
                self._invoke()

    def wake(self, count: int) -> None:
        """Wake as the product does; beyond the bound Lambda would throttle."""
        with self._changed:
            for _ in range(count):
                if len(self._members) + len(self._awaited) + self._cold >= self.most:
                    break
                if not self.cold_seconds:
                    self._invoke()
                    continue
                self._cold += 1
                begins = threading.Timer(self.cold_seconds, self._begin)
                begins.daemon = True
                begins.start()

    def _begin(self) -> None:
        """Have a consumer begin whose cold start is over."""
        with self._changed:
            self._cold -= 1
            if len(self._members) + len(self._awaited) < self.most:
                self._invoke()

    def dismiss(self, seconds: float) -> bool:
        """Thaw everybody and start nobody any more; True once all have ended by themselves."""
        with self._changed:
            self.size = self.most = 0
            for member in self._members.values():
                self._send(Signal(pid=member.pid, number=signal.SIGCONT))
            return self._changed.wait_for(
                lambda: not self._members and not self._awaited, timeout=seconds
            )

    def living(self) -> list[Member]:
        """Return the living members that are not frozen, the oldest first."""
        with self._changed:
            return [member for member in self._members.values() if not member.frozen]

    def somebody_is_armed(self) -> bool:
        """Check whether a consumer is still to die at a step, alive or yet to start."""
        with self._changed:
            coming = [fate.armed for fate in self.fates] + list(self._awaited)
            return any([*coming, *(member.armed for member in self._members.values())])

    def past(self) -> list[str]:
        """Ids of workers that have ended, in the order of their ends."""
        with self._changed:
            return list(self._past)

    def kill(self, member: Member) -> None:
        """``kill -9``."""
        with self._changed:
            member.doomed = True
            self._send(Signal(pid=member.pid, number=signal.SIGKILL))

    def freeze(self, member: Member, *, loses: bool) -> None:
        """Stop a process, as the freezing of a Lambda or a paging machine does."""
        with self._changed:
            member.frozen, member.loses = True, loses
            self._send(Signal(pid=member.pid, number=signal.SIGSTOP))

    def thaw(self, member: Member) -> None:
        """Let it go on."""
        with self._changed:
            member.frozen = False
            self._send(Signal(pid=member.pid, number=signal.SIGCONT))

    def invoke(self, fate: Fate) -> None:
        """Start one now, whatever the bound."""
        with self._changed:
            self._invoke(fate)

    def _invoke(self, fate: Fate | None = None) -> None:
        if fate is None:
            fate = self.fates.popleft() if self.fates else Fate()
        self.started += 1
        worker = fate.worker or f"{self.world.tenant}-{self.started}"
        at = "" if fate.armed is None else f", to die at {fate.armed.step}"
        self.announce(f"{worker} begins{at}")
        self._awaited.append(fate.armed)
        self._send(
            Invocation(
                world=self.world,
                worker=worker,
                armed=fate.armed,
                clock=fate.clock,
                seconds=fate.seconds,
            )
        )

    def _send(self, order: Order) -> None:
        if self._process is None or self._process.stdin is None or self._process.stdin.closed:
            return
        try:
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise PartError("the consumers' nursery is gone") from error

    def _read(self) -> None:
        decoder = msgspec.json.Decoder(News)
        if self._process is None or self._process.stdout is None:
            return
        for line in self._process.stdout:
            news = decoder.decode(line)
            if isinstance(news, Born):
                with self._changed:
                    armed = self._awaited.popleft()
                    self._members[news.pid] = Member(pid=news.pid, worker=news.worker, armed=armed)
                    self._changed.notify_all()
            elif isinstance(news, Stopped):
                member = self._members[news.pid]
                if member.loses:
                    self.on_loss(member.worker)
            elif isinstance(news, Woken):
                self.wake(news.count)
            else:
                self._has_ended(news)

    def _has_ended(self, news: Ended) -> None:
        with self._changed:
            member = self._members.pop(news.pid)
            self._past.append(member.worker)
            self.announce(f"{member.worker} ended: {news.status}")
            self.killed += news.status == KILLED
            self.failed += news.status not in (0, KILLED)
            if news.status == KILLED:
                if member.armed is not None and not member.doomed:
                    self.died_at[member.armed.step] += 1
                self.on_loss(member.worker)
            if member.armed is not None and (member.doomed or news.status != KILLED):
                # It found no work, or met another end: the next one is to die there instead.
                self.fates.appendleft(Fate(armed=member.armed))
            if len(self._members) + len(self._awaited) < self.size:
                self._invoke()
            self._changed.notify_all()
