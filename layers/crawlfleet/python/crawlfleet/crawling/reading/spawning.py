"""The spawner of readers: a clean process that has the parsers loaded, and forks.

A worker has secrets and threads, so it is not what readers are forked from. It starts this one by
``exec``, with an empty environment and no descriptor but a channel; over it the worker asks for a
reader, handing over the end that it is to serve, and for the end of one. What forks is small and
has one thread: that takes milliseconds.
"""

from __future__ import annotations

import gc
import mmap
import os
import signal
import socket
from collections.abc import Callable
from struct import Struct as Layout
from typing import Final, NamedTuple, NoReturn, TypeAlias

from crawlfleet.crawling.reading import arena
from crawlfleet.crawling.reading.defences import Limits

#: Serves a channel, with bodies in shared memory where there is some, within limits.
Serve: TypeAlias = Callable[[socket.socket, mmap.mmap | None, Limits], None]

FORK: Final = 1
END: Final = 2
#: What is asked, its number, a process id, CPU seconds, memory in MB.
ASKED: Final = Layout("!BIIII")
#: The number of the question, a process id or an error's number, its exit status, CPU seconds.
SAID: Final = Layout("!Iiid")
#: The number of the first answer: the spawner is ready.
READY: Final = 0


class Said(NamedTuple):
    """An answer of the spawner; ``pid`` is below 0 where it is an error's number."""

    number: int
    pid: int
    status: int
    cpu_seconds: float


def spawn(channel: socket.socket, serve: Serve, load: Callable[[], None]) -> NoReturn:
    """Fork readers, and end them, until the channel ends; then all of them end.

    The first one is forked as soon as can be, and loads by itself what its pages need beyond that;
    ``load`` loads it all for those that follow.
    """
    gc.freeze()
    gc.enable()
    readers: set[int] = set()
    forked = 0
    try:
        channel.sendall(SAID.pack(READY, 0, 0, 0.0))
        while True:
            asked, handed, _, _ = socket.recv_fds(channel, ASKED.size, 2)
            if len(asked) < ASKED.size:
                break
            kind, number, pid, cpu_seconds, memory_mb = ASKED.unpack(asked)
            if kind == FORK:
                if forked == 1:
                    load()
                    gc.freeze()
                forked += 1
                said = _fork(channel, handed, Limits(cpu_seconds, memory_mb), serve)
                if said[0] > 0:
                    readers.add(said[0])
            else:
                said = _end(pid) if pid in readers else (pid, 0, 0.0)
                readers.discard(pid)
            channel.sendall(SAID.pack(number, *said))
    except OSError:
        pass  # the worker has gone
    finally:
        for pid in readers:
            _end(pid)
        os._exit(0)


def _fork(
    channel: socket.socket,
    handed: list[int],
    limits: Limits,
    serve: Serve,
) -> tuple[int, int, float]:
    try:
        pid = os.fork()
    except OSError as error:
        _close(handed)
        return -(error.errno or 1), 0, 0.0
    if pid:
        _close(handed)
        return pid, 0, 0.0
    try:
        channel.close()
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        bodies = arena.opened(handed[1]) if len(handed) > 1 else None
        serve(socket.socket(fileno=handed[0]), bodies, limits)
    finally:
        os._exit(70)


def _close(handed: list[int]) -> None:
    for fd in handed:
        os.close(fd)


def _end(pid: int) -> tuple[int, int, float]:
    """End a reader, if it has not ended; return how it did, and the CPU seconds it took."""
    try:
        os.kill(pid, signal.SIGKILL)
        _, status, used = os.wait4(pid, 0)
    except OSError:
        return pid, 0, 0.0
    return pid, status, used.ru_utime + used.ru_stime
