"""The spawner of readers as a worker has it: started, asked for readers, and ended."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Final

from crawlfleet.crawling.reading.spawning import ASKED, END, FORK, READY, SAID, Said
from crawlfleet.kernel.errors import NoReaderError

#: A spawner loads parsers, and forks, within these seconds.
START_SECONDS: Final = 30.0
FORK_SECONDS: Final = 10.0
#: It ends within these, once its channel has.
END_SECONDS: Final = 5.0
#: After a failure to start a reader requests wait so long.
AGAIN_SECONDS: Final = 15.0
#: Variables that say where libraries are and how text is written; nothing else is handed on.
HANDED_ON: Final = ("LD_LIBRARY_PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ")
#: Bytes of a page that are on their way to a reader at once.
_SENT: Final = 1_000_000
#: All that is imported stays, so nothing of it is looked through for rubbish (apps.process).
_BEGIN: Final = (
    "import gc; gc.disable(); import sys, json, importlib;"
    " told = json.loads(sys.argv[1]); sys.path[:] = told['path'];"
    " importlib.import_module(told['module']).main(told)"
)
#: Options of its interpreter: nothing of the environment or the user, and no search for packages,
#: as the path is handed on.
_ALONE: Final = ("-I", "-S")


class _Running:
    """The process of a spawner, if there is one."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.channel: socket.socket | None = None
        self.is_ready = False

    def end(self) -> None:
        """End it."""
        channel, self.channel = self.channel, None
        process, self.process = self.process, None
        if channel is not None:
            channel.close()
        if process is not None:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Spawner:
    """The process that readers are forked from; kept by a worker's process for all its work.

    ``module`` has the ``main`` of that process, which is ``told`` these things. Any event loop of
    any thread may ask it: one thread talks to it.
    """

    def __init__(
        self, module: str, environment: Mapping[str, str] | None = None, **told: Sequence[str]
    ) -> None:
        self._module = module
        self._told = told
        self._environment = os.environ if environment is None else environment
        self._running = _Running()
        self._numbers = count(READY + 1)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spawner")
        weakref.finalize(self, self._running.end)

    @property
    def pid(self) -> int | None:
        """Return its process id, where there is one."""
        process = self._running.process
        return None if process is None else process.pid

    def start(self) -> None:
        """Have it load parsers, without waiting for that."""
        self._thread.submit(self._begin)

    def close(self) -> None:
        """End it, and all readers with it."""
        self._thread.submit(self._running.end).result()

    async def fork(
        self, cpu_seconds: int, memory_mb: int, arena_fd: int | None = None
    ) -> tuple[socket.socket, int]:
        """Fork a reader; return our end of its channel and its process id; raises NoReaderError."""
        forked = self._thread.submit(self._fork, cpu_seconds, memory_mb, arena_fd)
        try:
            return await asyncio.wrap_future(forked)
        except asyncio.CancelledError:
            forked.add_done_callback(self._discard)
            raise

    async def end(self, pid: int) -> int:
        """End a reader, if it has not ended; return its exit status."""
        ended = self._thread.submit(self._ask, END, pid, 0, 0)
        return (await asyncio.shield(asyncio.wrap_future(ended))).status

    def _discard(self, forked: Future[tuple[socket.socket, int]]) -> None:
        """End a reader that was forked for somebody who has gone."""
        if not forked.cancelled() and forked.exception() is None:
            ours, pid = forked.result()
            ours.close()
            self._thread.submit(self._ask, END, pid, 0, 0)

    def _begin(self) -> socket.socket:
        """Start it, if it does not run; raises OSError."""
        running = self._running
        if running.channel is None:
            ours, theirs = socket.socketpair()
            with theirs:
                told = {
                    **self._told,
                    "module": self._module,
                    "path": sys.path,
                    "channel": theirs.fileno(),
                }
                environment = self._environment
                try:
                    running.process = subprocess.Popen(  # noqa: S603  this interpreter, our own code
                        [sys.executable, *_ALONE, "-c", _BEGIN, json.dumps(told)],
                        env={name: environment[name] for name in HANDED_ON if name in environment},
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        pass_fds=(theirs.fileno(),),
                        start_new_session=True,
                    )
                except BaseException:
                    ours.close()
                    raise
            running.channel = ours
            running.is_ready = False
        return running.channel

    def _fork(
        self, cpu_seconds: int, memory_mb: int, arena_fd: int | None
    ) -> tuple[socket.socket, int]:
        ours, theirs = socket.socketpair()
        try:
            for each in (ours, theirs):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SENT)
            handed = [theirs.fileno(), *([] if arena_fd is None else [arena_fd])]
            said = self._ask(FORK, 0, cpu_seconds, memory_mb, handed)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        if said.pid <= 0:
            ours.close()
            raise no_reader(f"none can be forked: {os.strerror(-said.pid)}")
        ours.setblocking(False)  # noqa: FBT003  its only parameter
        return ours, said.pid

    def _ask(
        self,
        kind: int,
        pid: int,
        cpu_seconds: int,
        memory_mb: int,
        handed: Sequence[int] = (),
    ) -> Said:
        number = next(self._numbers)
        asked = ASKED.pack(kind, number, pid, cpu_seconds, memory_mb)
        try:
            channel = self._begin()
            if not self._running.is_ready:
                channel.settimeout(START_SECONDS)
                _said(channel)
                self._running.is_ready = True
            channel.settimeout(FORK_SECONDS)
            if handed:
                socket.send_fds(channel, [asked], list(handed))
            else:
                channel.sendall(asked)
            said = _said(channel)
            if said.number != number:
                raise ConnectionError("it answers what was not asked")
        except OSError as error:
            self._running.end()
            raise no_reader(f"the process that forks them: {error!r}") from error
        return said


def _said(channel: socket.socket) -> Said:
    answer = b""
    while len(answer) < SAID.size:
        part = channel.recv(SAID.size - len(answer))
        if not part:
            raise ConnectionError("it has ended")
        answer += part
    return Said(*SAID.unpack(answer))


def no_reader(why: str) -> NoReaderError:
    """Make the error of a worker that can start no reader."""
    return NoReaderError(f"no reader of pages: {why}"[:500], again_seconds=AGAIN_SECONDS)
