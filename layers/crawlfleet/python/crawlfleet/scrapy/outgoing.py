"""Requests on their way into Redis, some together; and those that cannot go there."""

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from crawlfleet.crawling.executors.scrapy_wire import NotPortableError, dump_request
from crawlfleet.scrapy.engine import CrawlSession
from crawlfleet.scrapy.redis import Marks, Pushed

if TYPE_CHECKING:
    from scrapy import Request, Spider


_log = logging.getLogger(__name__)

#: So many are sent at once, if the engine has not asked for work before.
TOGETHER: Final = 200
#: So many wait for a Redis that is away; then the crawl is ended.
MOST: Final = 10_000
#: Requests of this process alone, because JSON cannot hold them.
MOST_LOCAL: Final = 10_000
#: Marks that are remembered here, so that Redis is not asked about every link to the front page.
_REMEMBERED: Final = 50_000


class SendBuffer:
    """What callbacks gave and Redis does not have yet."""

    def __init__(self, session: CrawlSession, spider: "Spider") -> None:
        self._session = session
        self._spider = spider
        self._waiting: list[tuple[Pushed, Request]] = []
        # Insertion order is age.
        self._known: dict[bytes, None] = {}
        self._reported: set[str] = set()
        #: Requests that JSON cannot hold.
        self.local: deque[Request] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: "Request", marks: Marks, mark: bytes) -> bool:
        """Take a request; tells whether it is none that is known here.

        Raises:
            NotPortableError: it can only be done by this process, and is not taken.
        """
        if marks is Marks.SEEN and mark in self._known:
            return False
        content = dump_request(request, self._spider, self._session.settings.max_request_bytes)
        pushed = Pushed(content=content, marks=marks, mark=mark, priority=request.priority)
        self._waiting.append((pushed, request))
        if marks is Marks.SEEN:
            self._remember(mark)
        return True

    def keep_here(self, request: "Request", reason: NotPortableError) -> bool:
        """Keep a request in this process's memory; False if there is no room.

        It is lost when the process ends, so people are told which key it was, once for each.
        """
        if reason.place not in self._reported and len(self._reported) < TOGETHER:
            self._reported.add(reason.place)
            _log.warning(
                "%s stays in this process, which loses it when it ends: %s (no more are told of "
                "this key; the stat scheduler/unserializable counts)",
                *(request, reason),
                extra={"spider": self._spider},
            )
        if len(self.local) >= MOST_LOCAL:
            _log.error("%s is dropped: %d like it wait already", request, MOST_LOCAL)
            return False
        self.local.append(request)
        return True

    def flush(self) -> "tuple[int, list[Request]]":
        """Send what waits; how many were queued, and the requests that were known.

        Raises:
            StoreError: Redis is away; they still wait.
        """
        if not self._waiting:
            return 0, []
        answers = self._session.crawl.push([pushed for pushed, _ in self._waiting])
        known = [
            request
            for (_, request), queued in zip(self._waiting, answers, strict=True)
            if not queued
        ]
        sent = len(self._waiting) - len(known)
        self._waiting.clear()
        return sent, known

    def forget(self) -> None:
        """The crawl was forgotten, and with it what is known."""
        self._known.clear()

    def _remember(self, mark: bytes) -> None:
        self._known[mark] = None
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
