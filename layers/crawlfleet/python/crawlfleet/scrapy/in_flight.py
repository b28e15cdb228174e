"""Keep what a process has of a crawl: its leased requests, and requests that Redis has not yet."""

import logging
from collections import deque
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING, Final

from crawlfleet.crawling.executors.scrapy_wire import NotPortableError, dump_request
from crawlfleet.scrapy.engine import CrawlSession
from crawlfleet.scrapy.journal import Journal, Kept
from crawlfleet.scrapy.redis import Marks, Pushed, RedisCrawl, Taken

if TYPE_CHECKING:
    from scrapy import Request, Spider
_log = logging.getLogger(__name__)

#: Requests that are sent at once, unless the engine asks for work before.
TOGETHER: Final = 200
#: Requests that wait for a Redis that is away; then the crawl ends.
MOST: Final = 10_000
#: Requests that stay in this process, because JSON cannot hold them.
MOST_LOCAL: Final = 10_000
#: Marks that are cached, so that Redis is not asked about every link to the front page.
_REMEMBERED: Final = 50_000


class InFlight:
    """The leased requests of a process: ready for the engine, under way, or done.

    ``under_way`` returns the requests that the engine is not done with.
    """

    def __init__(
        self,
        crawl: RedisCrawl,
        journal: Journal,
        under_way: "Callable[[], Container[Request]]",
    ) -> None:
        self._crawl, self._journal = crawl, journal
        self._under_way = under_way
        self._ready: deque[tuple[str, Request]] = deque()
        self._handed: dict[Request, str] = {}
        # With how many items had been yielded by then.
        self._done: dict[str, int] = {}
        self._spoiled: set[str] = set()
        self._lost: set[str] = set()
        self._alone: str | None = None

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def held(self) -> int:
        """The number of leased requests: ready, under way or done."""
        return len(self._ready) + len(self._handed) + len(self._done)

    @property
    def is_closed(self) -> bool:
        """Tell whether one is leased that is to be alone: it may be what ends processes."""
        return self._alone is not None and self._alone in self._ids()

    def lease(self, number: int, beside: int) -> tuple[list[Taken], int]:
        """Lease up to ``number`` requests, without those that this process has already.

        ``beside`` is how many requests are under way that are not leased.
        """
        taken, inherited = self._crawl.lease(number, self.held + beside)
        # Their leases had ended while this process could not renew them; it has them again.
        own = {*self._handed.values(), *self._done, *(id_ for id_, _ in self._ready)}
        return [each for each in taken if each.id not in own], inherited

    def keep(self, id_: str, request: "Request", *, alone: bool = False) -> None:
        """Have a leased request ready for the engine; ``alone`` keeps others from being leased."""
        self._ready.append((id_, request))
        if alone:
            self._alone = id_

    def dispatch(self) -> "Request | None":
        """Take the next request for the engine: from now on it is under way."""
        if not self._ready:
            return None
        id_, request = self._ready.popleft()
        self._handed[request] = id_
        return request

    def drop(self, id_: str) -> None:
        """Note that a request needs nothing more."""
        self._done[id_] = 0

    def settle(self, items_given: int) -> None:
        """Note which requests the engine is done with, when so many items have been yielded."""
        under_way = self._under_way()
        for request in [each for each in self._handed if each not in under_way]:
            self._done[self._handed.pop(request)] = items_given

    def spoil(self) -> None:
        """Have what is under way done again, as something that it yielded is lost."""
        self._spoiled.update(self._handed.values())

    def finish(self, items_sent: int) -> None:
        """Finish what was settled, as far as its items are among the first so many.

        What was spoiled is returned to the queue.
        """
        ended = [id_ for id_, items in self._done.items() if items <= items_sent]
        again = [id_ for id_ in ended if id_ in self._spoiled]
        finished = [id_ for id_ in ended if id_ not in self._spoiled]
        # What Redis has lost is queued again, under other ids.
        lost = sum(id_ in self._lost for id_ in finished)
        held = self._crawl.finish(finished) + lost
        self._journal.end(finished)
        self._lost.difference_update(ended)
        self._crawl.give_back(again)
        if held < len(finished):
            _log.warning(
                "%d requests took longer than their lease, and another process does them again: "
                "CRAWLFLEET_LEASE_SECONDS is too short, or something blocks the reactor",
                len(finished) - held,
            )
        for id_ in ended:
            del self._done[id_]
        self._spoiled.difference_update(again)

    def lose(self) -> None:
        """Note that Redis knows nothing of what is leased: what is not begun is leased anew."""
        self._ready.clear()
        self._lost.update(self._ids())

    def renew(self) -> None:
        """Renew all leases; a request that another process has by now is not begun."""
        lost = self._crawl.renew(list(self._ids()))
        if lost:
            self._ready = deque(each for each in self._ready if each[0] not in lost)

    def release(self) -> int:
        """Return what is not done to the queue; return how many that were."""
        back = self._crawl.give_back([id_ for id_, _ in self._ready] + list(self._handed.values()))
        self._ready.clear()
        self._handed.clear()
        return back

    def _ids(self) -> Iterable[str]:
        yield from (id_ for id_, _ in self._ready)
        yield from self._handed.values()
        yield from self._done


class SendBuffer:
    """Requests that callbacks have yielded and Redis does not have yet."""

    def __init__(self, session: CrawlSession, spider: "Spider") -> None:
        self._session = session
        self._spider = spider
        self._waiting: list[tuple[Pushed, Request]] = []
        # Insertion order is age.
        self._known: dict[bytes, None] = {}
        self._logged: set[str] = set()
        #: Requests that JSON cannot hold.
        self.local: deque[Request] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: "Request", marks: Marks, mark: bytes) -> bool:
        """Take a request, unless its mark is known here; return whether it was taken.

        Raises NotPortableError (only this process can do it; it is not taken).
        """
        if marks is Marks.SEEN and mark in self._known:
            return False
        content = dump_request(request, self._spider, self._session.settings.max_request_bytes)
        priority = request.priority if self._session.settings.by_priority else 0
        pushed = Pushed(content=content, marks=marks, mark=mark, priority=priority)
        self._waiting.append((pushed, request))
        if marks is Marks.SEEN:
            self._remember(mark)
        return True

    def keep_here(self, request: "Request", reason: NotPortableError) -> bool:
        """Keep a request in this process's memory; False if there is no room.

        It is lost when the process ends, which is logged once for each key.
        """
        if reason.place not in self._logged and len(self._logged) < TOGETHER:
            self._logged.add(reason.place)
            _log.warning(
                "%s stays in this process, which loses it when it ends: %s (logged once for "
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
        """Send what waits; return how many were queued, and the requests that were known.

        Raises StoreError (Redis is away; they still wait).
        """
        if not self._waiting:
            return 0, []
        sent = [pushed for pushed, _ in self._waiting]
        answers = self._session.crawl.push_each(sent)
        kept = (Kept(*each) for each in zip(answers, sent, strict=True) if each[0])
        self._session.journal.add(kept)
        pairs = zip(self._waiting, answers, strict=True)
        known = [request for (_, request), queued in pairs if not queued]
        count = len(self._waiting) - len(known)
        self._waiting.clear()
        return count, known

    def forget(self) -> None:
        """Forget the marks, as the crawl was forgotten."""
        self._known.clear()

    def _remember(self, mark: bytes) -> None:
        self._known[mark] = None
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
