"""What a process holds of a crawl: leased and waiting for the engine, under way, or done with."""

import logging
from collections import deque
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING

from crawlfleet.scrapy.redis import RedisCrawl, Taken

if TYPE_CHECKING:
    from scrapy import Request


_log = logging.getLogger(__name__)


class InFlight:
    """The leases of a process and what became of each.

    Args:
        crawl: Where they are leased.
        under_way: The requests that the engine is not done with.
    """

    def __init__(self, crawl: RedisCrawl, under_way: "Callable[[], Container[Request]]") -> None:
        self._crawl = crawl
        self._under_way = under_way
        self._ready: deque[tuple[str, Request]] = deque()
        self._handed: dict[Request, str] = {}
        # With how many items had been given by then.
        self._done: dict[str, int] = {}
        self._spoiled: set[str] = set()
        self._alone: str | None = None

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def held(self) -> int:
        """How many there are, ready, under way or done with."""
        return len(self._ready) + len(self._handed) + len(self._done)

    @property
    def is_closed(self) -> bool:
        """Whether nothing may come beside what is held: it may be what ends processes."""
        return self._alone is not None and self._alone in self._ids()

    def lease(self, number: int, beside: int) -> tuple[list[Taken], int]:
        """Lease up to ``number``; leaves out what this process is at already.

        ``beside`` is how many requests are under way that are not leased.
        """
        taken, inherited = self._crawl.lease(number, self.held + beside)
        # Its lease had ended while this process could not renew it; now it is this process's again.
        own = {*self._handed.values(), *self._done, *(id_ for id_, _ in self._ready)}
        return [each for each in taken if each.id not in own], inherited

    def keep(self, id_: str, request: "Request", *, alone: bool = False) -> None:
        """A leased request is ready for the engine; with ``alone`` nothing comes beside it."""
        self._ready.append((id_, request))
        if alone:
            self._alone = id_

    def dispatch(self) -> "Request | None":
        """The next one, from now on under way."""
        if not self._ready:
            return None
        id_, request = self._ready.popleft()
        self._handed[request] = id_
        return request

    def drop(self, id_: str) -> None:
        """There is nothing to do about this one; it is done."""
        self._done[id_] = 0

    def settle(self, items_given: int) -> None:
        """See which ones the engine is done with, while callbacks have given so many items."""
        under_way = self._under_way()
        for request in [each for each in self._handed if each not in under_way]:
            self._done[self._handed.pop(request)] = items_given

    def spoil(self) -> None:
        """What is under way has given something that is lost: it is to be done again."""
        self._spoiled.update(self._handed.values())

    def finish(self, items_sent: int) -> None:
        """Finish what was settled before, as far as its items are among the first so many.

        What was spoiled goes back into the queue.
        """
        ended = [id_ for id_, items in self._done.items() if items <= items_sent]
        again = [id_ for id_ in ended if id_ in self._spoiled]
        finished = [id_ for id_ in ended if id_ not in self._spoiled]
        held = self._crawl.finish(finished)
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

    def renew(self) -> None:
        """More time for everything held; what another process has by now is not begun any more."""
        lost = self._crawl.renew(list(self._ids()))
        if lost:
            self._ready = deque(each for each in self._ready if each[0] not in lost)

    def release(self) -> int:
        """Give back what is not done; returns how many that were."""
        back = self._crawl.give_back([id_ for id_, _ in self._ready] + list(self._handed.values()))
        self._ready.clear()
        self._handed.clear()
        return back

    def _ids(self) -> Iterable[str]:
        yield from (id_ for id_, _ in self._ready)
        yield from self._handed.values()
        yield from self._done
