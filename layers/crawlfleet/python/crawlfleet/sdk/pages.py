"""Lists that come in pages, read as one stream that can be taken up again."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Generic, Protocol, Self, TypeVar

from crawlfleet.sdk.errors import ApiError
from crawlfleet.sdk.results import ProblemDocument
from crawlfleet.sdk.transport import Clock

#: Ids remembered to drop repeats. A caught-up reader sees the last few seconds again.
_REMEMBERED: Final = 200_000
#: Pages in a row that may bring nothing new while the server says there is more.
_BARE_PAGES: Final = 1_000
#: Pause between two looks of a reader that follows: from, up to, growing by.
_FIRST_PAUSE_SECONDS: Final = 0.2
_LAST_PAUSE_SECONDS: Final = 2.0
_PAUSE_GROWTH: Final = 1.5


class HasId(Protocol):
    """Whatever has a stable id."""

    @property
    def id(self) -> str:
        """The id."""
        ...


ItemT = TypeVar("ItemT", bound=HasId)

#: Reads the page at a cursor: its items, the next cursor, whether more is there already.
ReadPage = Callable[[str | None], tuple[Sequence[ItemT], str | None, bool]]


class Pages(Generic[ItemT]):
    """An iterator over all items, page by page, each item once.

    ``cursor`` is where to take up again, for a later process too: give it to the same method. It
    moves on only when the next item after a page is asked for, so that what was read but perhaps
    not yet kept is read again rather than lost; ids are stable, so repeats can be told.

    ``identity`` tells what was seen already, of the last ``remembered`` items; ``bare_pages`` in a
    row that bring nothing new though there is said to be more are an error. With ``follow`` the
    iterator does not end: having caught up it looks again, at a growing interval that starts anew
    with each new item.
    """

    def __init__(
        self,
        read: ReadPage[ItemT],
        cursor: str | None = None,
        *,
        follow: bool = False,
        clock: Clock = time,
        identity: Callable[[ItemT], str] = lambda item: item.id,
        remembered: int = _REMEMBERED,
        bare_pages: int = _BARE_PAGES,
    ) -> None:
        self._identity = identity
        self._remembered, self._bare_pages = remembered, bare_pages
        self.cursor = cursor
        self._read = read
        self._follow = follow
        self._clock = clock
        self._items: Iterator[ItemT] = iter(())
        self._next: tuple[str | None, bool] = (cursor, True)
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._bare = 0
        self._pause = _FIRST_PAUSE_SECONDS

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ItemT:
        while True:
            for item in self._items:
                return item
            self.cursor, more = self._next
            if not more:
                if not self._follow:
                    raise StopIteration
                self._clock.sleep(self._pause)
                self._pause = min(_LAST_PAUSE_SECONDS, self._pause * _PAUSE_GROWTH)
            self._turn()

    def _turn(self) -> None:
        """Read the page at the cursor and keep what is new of it."""
        items, cursor, more = self._read(self.cursor)
        fresh = [item for item in items if self._is_new(self._identity(item))]
        if fresh:
            self._bare, self._pause = 0, _FIRST_PAUSE_SECONDS
        elif more:
            self._bare += 1
            if cursor == self.cursor or self._bare >= self._bare_pages:
                raise ApiError(
                    200,
                    ProblemDocument(
                        title="says there is more, but its pages bring nothing new", status=200
                    ),
                )
        self._items = iter(fresh)
        self._next = (cursor if cursor is not None else self.cursor, more)

    def _is_new(self, item_id: str) -> bool:
        if item_id in self._seen:
            return False
        self._seen[item_id] = None
        if len(self._seen) > self._remembered:
            self._seen.popitem(last=False)
        return True
