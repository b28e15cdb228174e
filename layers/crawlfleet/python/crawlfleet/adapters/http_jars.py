"""The jars of the jobs that this worker has at hand, and their way to the other workers.

A jar is loaded before its first request, and exchanged with what the others have saved at most
every few seconds while it is used. A store that does not answer keeps no page from being fetched.
"""

import asyncio
import logging
from collections import OrderedDict
from typing import Final

from crawlfleet.adapters.http_cookies import Jar
from crawlfleet.errors import StoreError
from crawlfleet.model.lane import Lane
from crawlfleet.ports import Sessions

_log: Final = logging.getLogger(__name__)

#: Jobs whose cookies are at hand at once.
MAX_JARS: Final = 256
#: At most this often is a jar exchanged with the store.
EXCHANGE_SECONDS: Final = 3.0


class OpenJar:
    """A jar in use. ``exchanged_at`` is in the loop's time; ``loading`` ends when it is usable."""

    __slots__ = ("exchanged_at", "jar", "job", "lane", "loading", "turn")

    def __init__(self, lane: Lane, job: str) -> None:
        self.lane = lane
        self.job = job
        self.jar = Jar()
        self.exchanged_at = float("-inf")
        self.loading: asyncio.Task[None] | None = None
        self.turn = asyncio.Lock()


class Jars:
    """Jars by lane and job; those used the longest ago are saved and put away.

    Args:
        sessions: Where they are saved; None keeps them in this worker alone.
        exchange_seconds: How often, at most.
        most: Jobs whose jars are at hand at once.
    """

    def __init__(
        self,
        sessions: Sessions | None = None,
        *,
        exchange_seconds: float = EXCHANGE_SECONDS,
        most: int = MAX_JARS,
    ) -> None:
        self._sessions = sessions
        self._most = most
        self._every = exchange_seconds
        self._open: OrderedDict[tuple[Lane, str], OpenJar] = OrderedDict()
        self._due: set[OpenJar] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, lane: Lane, job: str) -> OpenJar:
        """The job's jar, with what other workers have saved of it."""
        key = lane, job
        found = self._open.get(key)
        if found is None:
            found = self._open[key] = OpenJar(lane, job)
            if self._sessions is not None:
                found.loading = self._start(found)
            while len(self._open) > self._most:
                _, put_away = self._open.popitem(last=False)
                self._due.discard(put_away)
                if self._sessions is not None and put_away.jar.changed:
                    self._start(put_away)
        else:
            self._open.move_to_end(key)
            now = asyncio.get_running_loop().time()
            if found.loading is None and now - found.exchanged_at > self._every:
                self.exchange(found)  # in a moment: what others have learned is wanted here too
        if found.loading is not None:
            await asyncio.shield(found.loading)
            found.loading = None
        return found

    def exchange(self, opened: OpenJar) -> None:
        """Exchange the jar with the store before long."""
        if self._sessions is None:
            return
        self._due.add(opened)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._every, self._begin)

    async def close(self) -> None:
        """Save what has not been saved."""
        if self._timer is not None:
            self._begin()
        while self._tasks:
            await asyncio.gather(*self._tasks)
        if self._timer is not None:  # what could not be saved would be tried again later
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self._timer = None
        due, self._due = self._due, set()
        for opened in due:
            self._start(opened)

    def _start(self, opened: OpenJar) -> asyncio.Task[None]:
        task = asyncio.create_task(self._exchange(opened))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _exchange(self, opened: OpenJar) -> None:
        sessions, jar = self._sessions, opened.jar
        if sessions is None:
            return
        async with opened.turn:
            opened.exchanged_at = asyncio.get_running_loop().time()
            try:
                saved = await asyncio.to_thread(sessions.load, opened.lane, opened.job)
                changed = jar.changed
                merged = jar.merge(saved)
                if changed:
                    await asyncio.to_thread(sessions.save, opened.lane, opened.job, merged)
                jar.exchanged()
            except StoreError as error:
                self.exchange(opened)
                about = {"job": opened.job}
                _log.warning("cookies of a job were not exchanged: %s", error, extra=about)
