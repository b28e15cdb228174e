"""A worker's end of one reader: questions out, answers in, and the blame where it dies.

Answers come in the order of questions. So when a reader dies, the oldest question without an answer
is what it was at: that one is to blame, and all others are asked again of another reader.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from crawlfleet.config.documents.stage import ReadingLimits
from crawlfleet.crawling.reading import messages
from crawlfleet.crawling.reading.arena import LAID_MOST, Arena
from crawlfleet.kernel.errors import CrawlfleetError

CPU: Final = "cpu"
MEMORY: Final = "memory"
TIME: Final = "time"
CRASH: Final = "crash"

#: The niceness of a reader of long pages: it gets half of what others get, where they want it.
LESS_URGENT: Final = 3
#: Bytes that are taken of a socket at once.
_TAKEN: Final = 65_536
#: Pieces that are handed to a socket at once; the system takes 1,024.
_PIECES: Final = 64
#: The deadline is looked at so often, in parts of itself.
_LOOKS: Final = 8


class LostError(Exception):
    """The reader has died of another question; this one is to be asked of another reader."""


class BlamedError(Exception):
    """The reader has died of this question, by a ``limit``."""

    def __init__(self, limit: str, why: str) -> None:
        self.limit, self.why = limit, why
        super().__init__(why)


@dataclass(slots=True, eq=False)
class _Asked:
    number: int
    kinds: tuple[type[messages.Answer], ...]
    answer: asyncio.Future[messages.Answer]
    tenant: str = ""  #: Whose page it is of.
    is_laid: bool = False  #: Its body lies in shared memory.


class Channel:
    """One reader. ``end`` ends its process and returns its status; ``seconds`` is the deadline."""

    def __init__(
        self,
        ours: socket.socket,
        bodies: Arena | None,
        end: Callable[[], Awaitable[int]],
        limits: ReadingLimits,
        seconds: float,
        pid: int,
    ) -> None:
        self._pid = pid
        self._loop = asyncio.get_running_loop()
        self._socket = ours
        self._bodies = bodies
        self._end = end
        self._seconds = seconds
        self.limits = limits
        self._asked: deque[_Asked] = deque()
        self._out: deque[memoryview] = deque()
        self._waiting: deque[tuple[_Asked, bytes, bytes]] = deque()
        self._in = bytearray()
        self._taken = bytearray(_TAKEN)
        self._writing = False
        self._soon = False
        self._head_since = 0.0
        self._look_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        self.alive = True
        self.pages = 0  #: Pages that were asked about.
        self.begun = 0  #: Pages of spiders that are being read.
        self.retiring = False
        self._loop.add_reader(ours, self._readable)

    @property
    def is_idle(self) -> bool:
        """Tell whether nobody waits for an answer, or reads a long page."""
        return not self._asked and not self.begun

    def expect(
        self, number: int, kinds: tuple[type[messages.Answer], ...]
    ) -> asyncio.Future[messages.Answer]:
        """Wait for an answer of that number, and of these kinds, after those waited for."""
        future = self._loop.create_future()
        asked = _Asked(number, kinds, future)
        self._asked.append(asked)
        if len(self._asked) == 1:
            self._watch()
        return future

    def others_before(
        self, tenant: str, answer: asyncio.Future[messages.Answer] | None = None
    ) -> int:
        """Count the questions of other tenants that come before an answer, or before any more."""
        found = 0
        for one in self._asked:
            if one.answer is answer:
                break
            found += one.tenant != tenant
        return found

    def held_up_by(self, tenant: str) -> str:
        """Return the other tenant whose page is being read, or nothing."""
        head = self._asked[0] if self._asked else None
        return "" if head is None or head.tenant == tenant else head.tenant

    def yield_to_others(self) -> None:
        """Have the reader take less of a processor than others that want it, for good."""
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self._pid, LESS_URGENT)

    def ask(
        self, question: messages.Question, content: bytes, tenant: str = ""
    ) -> asyncio.Future[messages.Answer]:
        """Ask; the answer is a future, which raises LostError or BlamedError."""
        header = messages.header_of(question)
        self.pages += isinstance(question, messages.OF_PAGES)
        future = self.expect(question.number, messages.ANSWERED_BY[type(question)])
        self._asked[-1].tenant = tenant
        if not self.alive:
            self._asked.pop()
            future.set_exception(LostError())
            return future
        self._waiting.append((self._asked[-1], header, content))
        if not self._soon and not self._writing:
            # What others ask in the same round of the loop goes along.
            self._soon = True
            self._loop.call_soon(self._write)
        return future

    async def close(self) -> None:
        """End the reader; whoever waits for an answer gets LostError."""
        if self._ending is None:
            self._begin_end(None)
        if self._ending is not None:
            await asyncio.shield(self._ending)

    def _lay(self) -> None:
        """Have as many questions ready to be sent as there is room for bodies."""
        waiting, bodies = self._waiting, self._bodies
        while waiting:
            asked, header, content = waiting[0]
            size = len(content)
            if bodies is not None and 0 < size <= LAID_MOST:
                place = bodies.lay(content)
                if place is None:
                    return  # an answer makes room
                asked.is_laid = True
                self._out.append(memoryview(messages.frame(header, size, place)))
            else:
                self._out.append(memoryview(messages.frame(header, size)))
                if size:
                    self._out.append(memoryview(content))
            waiting.popleft()

    def _write(self) -> None:
        self._soon = False
        if not self.alive:
            return
        self._lay()
        out = self._out
        try:
            while out:
                sent = self._socket.sendmsg([out[at] for at in range(min(len(out), _PIECES))])
                while sent:
                    if sent >= len(out[0]):
                        sent -= len(out.popleft())
                    else:
                        out[0] = out[0][sent:]
                        sent = 0
        except (BlockingIOError, InterruptedError):
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._socket, self._write)
            return
        except OSError:
            # It has died; what it says till then is still read.
            out.clear()
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._socket)

    def _readable(self) -> None:
        try:
            size = self._socket.recv_into(self._taken)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            size = 0
        if not size:
            self._begin_end(None)
            return
        with memoryview(self._taken) as view:
            self._in += view[:size]
        try:
            self._take()
        except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
            why = f"answered with what is no answer ({type(error).__name__}: {error})"[:300]
            self._begin_end((CRASH, why))

    def _take(self) -> None:
        """Take whole answers; raises ValueError at what cannot be one."""
        at, size, head = 0, len(self._in), messages.ANSWER.size
        while size - at >= head:
            (length,) = messages.ANSWER.unpack_from(self._in, at)
            if length > messages.ANSWER_BYTES_MAX:
                raise ValueError(f"{length:,} bytes")
            if size - at < head + length:
                break
            with memoryview(self._in) as view:
                answer = messages.answers.decode(view[at + head : at + head + length])
            at += head + length
            head_asked = self._asked[0] if self._asked else None
            if head_asked is None or head_asked.number != answer.number:
                raise ValueError("of another question")
            if not isinstance(answer, head_asked.kinds):
                raise ValueError("of another kind")  # noqa: TRY004  it is what came, not our own
            asked = self._asked.popleft()
            if asked.is_laid and self._bodies is not None:
                self._bodies.free()
            if self._asked:
                self._watch()
            if not asked.answer.done():
                asked.answer.set_result(answer)
        if at:
            del self._in[:at]
        if self._waiting and not self._soon and not self._writing:
            self._write()

    def _watch(self) -> None:
        """Count the deadline of the oldest question from now on."""
        self._head_since = self._loop.time()
        if self._timer is None:
            self._look_later()

    def _look_later(self) -> None:
        self._look_at = self._loop.time() + self._seconds / _LOOKS
        self._timer = self._loop.call_at(self._look_at, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._asked or not self.alive:
            return
        # While the worker stood still itself no answer could be taken.
        self._head_since += self._loop.time() - self._look_at
        if self._loop.time() - self._head_since > self._seconds:
            self._begin_end((TIME, f"gave no answer for {self._seconds:g} seconds"))
            return
        self._look_later()

    def _begin_end(self, blame: tuple[str, str] | None) -> None:
        if not self.alive:
            return
        self.alive = False
        self._loop.remove_reader(self._socket)
        if self._writing:
            self._loop.remove_writer(self._socket)
        self._out.clear()
        self._waiting.clear()
        if self._bodies is not None:
            self._bodies.close()
        if self._timer is not None:
            self._timer.cancel()
        self._socket.close()
        self._ending = self._loop.create_task(self._ended(blame))

    async def _ended(self, blame: tuple[str, str] | None) -> None:
        asked, self._asked = self._asked, deque()
        try:
            status = await self._end()
            blame = blame or reason_of_status(status)
        except CrawlfleetError:
            pass  # how it ended nobody knows any more: the spawner has gone, and it with that
        for place, one in enumerate(asked):
            if one.answer.done():
                continue
            if place or blame is None:
                one.answer.set_exception(LostError())
            else:
                one.answer.set_exception(BlamedError(*blame))


def reason_of_status(status: int) -> tuple[str, str]:
    """Return the limit that ended a process, and why in words, by its exit status.

    >>> reason_of_status(signal.SIGXCPU)
    ('cpu', 'took more CPU seconds than a page may')
    >>> reason_of_status(messages.NO_MEMORY << 8)
    ('memory', 'took more memory than a page may')
    >>> reason_of_status(signal.SIGSEGV)
    ('crash', 'was ended by SIGSEGV')
    """
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGXCPU:
            return CPU, "took more CPU seconds than a page may"
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = f"signal {number}"
        return CRASH, f"was ended by {name}"
    code = os.WEXITSTATUS(status)
    if code == messages.NO_MEMORY:
        return MEMORY, "took more memory than a page may"
    return CRASH, f"ended with status {code}"
