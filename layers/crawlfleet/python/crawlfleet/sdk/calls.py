"""Calls and lists: send a call, read its answer as a type, read pages as one stream."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, ClassVar, Final, Generic, Self, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec

from crawlfleet.kernel.errors import InvalidRequestError, NotFoundError
from crawlfleet.sdk.errors import ApiError
from crawlfleet.sdk.transport import Answer, Clock, Patience, Transport
from crawlfleet.wire import Page, ProblemDocument

#: Ids remembered to drop repeats. A caught-up reader sees the last few seconds again.
_REMEMBERED: Final = 200_000
#: Pages in a row that may bring nothing new while the server says there is more.
_BARE_PAGES: Final = 1_000
#: Pause between two polls of a reader that follows: from, up to, growing by.
_FIRST_PAUSE_SECONDS: Final = 0.2
_LAST_PAUSE_SECONDS: Final = 2.0
_PAUSE_GROWTH: Final = 1.5
#: Called with the seconds that are waited before a full biz is asked again.
OnWait: TypeAlias = Callable[[float], None]
T = TypeVar("T")


def traced(traceparent: str | None) -> dict[str, str]:
    """Return the header of a call in the caller's trace; none without one."""
    return {} if traceparent is None else {"traceparent": traceparent}


class Calls:
    """Calls over one transport."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock

    def _get(self, path: str, kind: type[T], params: dict[str, str] | None = None) -> T:
        return self._read(self._transport.call("GET", path, params=params), kind)

    def _post(self, path: str, document: object, kind: type[T], lost: list[str]) -> T:
        body = msgspec.json.encode(document)
        return self._read(self._transport.call("POST", path, body=body, lost=lost), kind)

    def _remove(self, path: str) -> None:
        """Delete something; an earlier try whose answer was lost may have done it."""
        lost: list[str] = []
        try:
            self._transport.call("DELETE", path, lost=lost)
        except NotFoundError:
            if not lost:
                raise

    def _pages(
        self,
        path: str,
        kind: type[Page],
        params: dict[str, str],
        cursor: str | None = None,
        **options: Any,
    ) -> "Pages[Any]":
        """Read a list from a cursor on; ``options`` are those of :class:`Pages`."""

        def read(at: str | None) -> tuple[Sequence[Any], str | None, bool]:
            page = self._get(path, kind, {**params, **parameters(cursor=at)})
            pages.note = getattr(page, "note", None)
            return page.items, page.cursor, page.more

        pages: Pages[Any] = Pages(read, cursor, clock=self._clock, **options)
        return pages

    def _patience(self, timeout: float | None, on_wait: OnWait | None) -> Patience | None:
        if timeout is None and on_wait is None:
            return None
        seconds = math.inf if timeout is None else timeout
        return Patience(
            until=self._clock.monotonic() + seconds, on_pause=on_wait or (lambda _seconds: None)
        )

    def _read(self, answer: Answer, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._strange(answer, str(error)) from error

    def _strange(self, answer: Answer, what: str) -> ApiError:
        """Make the error of a success that is not what the API describes."""
        return ApiError(
            answer.status,
            ProblemDocument(
                title="which is not what this API describes",
                status=answer.status,
                detail=self._transport.redact(f"not what this API describes: {what}"),
            ),
        )


def path_of(biz: str, *rest: str) -> str:
    """Make the path of something below a biz; each segment is quoted and must be one.

    >>> path_of("news", "requests", "12 3")
    '/v1/news/requests/12%203'
    """
    for segment in (biz, *rest):
        if segment.strip() in {"", ".", ".."}:
            raise InvalidRequestError.of(
                "biz" if segment is biz else "id", f"{segment!r} cannot be a part of an address"
            )
    return "/v1/" + "/".join(quote(segment, safe="") for segment in (biz, *rest))


def parameters(**given: str | int | None) -> dict[str, str]:
    """Write the parameters that are given as texts."""
    return {name: str(value) for name, value in given.items() if value is not None}


#: Values of a place of a pattern: texts, or Python's ``range``, whose end is not in it.
Values: TypeAlias = Iterable[str] | range


def written(values: object) -> Any:
    """Write the values of a place as the API takes them.

    >>> written(range(1, 101, 10)), written(["a", 7]), written("a")
    ({'first': 1, 'last': 91, 'step': 10}, ['a', '7'], 'a')
    """
    if isinstance(values, range) and values and values.step > 0:
        return {"first": values[0], "last": values[-1], "step": values.step}
    if isinstance(values, Iterable) and not isinstance(values, str | Mapping):
        return [str(value) for value in values]
    return values


def filling(values: Mapping[str, Values] | None) -> dict[str, Any] | None:
    """Write what fills places; None where nothing does."""
    return {place: written(each) for place, each in values.items()} if values else None


def start_of(start: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Write a start, whose values may be ranges of Python."""
    if start is None or not isinstance(start.get("values"), Mapping):
        return None if start is None else dict(start)
    listed = {
        place: [each] if isinstance(each, str) else written(each)
        for place, each in start["values"].items()
    }
    return {**start, "values": listed}


def moment_of(value: datetime | str | None, field: str = "since") -> str | None:
    """Write a moment as the API reads it; a text is passed on for the API to judge."""
    if not isinstance(value, datetime):
        return value
    if value.tzinfo is None:
        raise InvalidRequestError.of(field, "needs a time zone")
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


ItemT = TypeVar("ItemT")

#: Reads the page at a cursor: its items, the next cursor, whether more is there already.
ReadPage = Callable[[str | None], tuple[Sequence[ItemT], str | None, bool]]


class Pages(Generic[ItemT]):
    """An iterator over all items, page by page, each item once.

    ``cursor`` is where to take up again, for a later process too: give it to the same method. It
    moves on only when the next item after a page is asked for, so that what was read but perhaps
    not yet kept is read again rather than lost; ids are stable, so repeats are recognised.

    ``identity`` recognises repeats among the last ``remembered`` items; ``bare_pages`` in a
    row that bring nothing new though there is said to be more are an error. With ``follow`` the
    iterator does not end: having caught up it polls, at a growing interval that starts anew
    with each new item.

    ``note`` is what the API says of the page read last: why a job has no records any more.
    """

    def __init__(
        self,
        read: ReadPage[ItemT],
        cursor: str | None = None,
        *,
        follow: bool = False,
        clock: Clock = time,
        identity: Callable[[Any], str] = attrgetter("id"),
        remembered: int = _REMEMBERED,
        bare_pages: int = _BARE_PAGES,
    ) -> None:
        self._identity = identity
        self._remembered, self._bare_pages = remembered, bare_pages
        self.cursor = cursor
        self.note: str | None = None
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
            self._read_page()

    def _read_page(self) -> None:
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


#: Called with how many are changed so far, and of how many where that is known.
Progress = Callable[[int, int | None], None]

#: Things that one call changes at most.
CHANGES: Final = 1_000
#: Entries of one page.
PAGE_SIZE: Final = 500


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """The count of a replay or a purge of many.

    ``skipped`` were meant but too old to be worked on: submit those anew. ``more`` says that a
    ``limit`` ended it; ``cursor`` is where another call goes on.
    """

    count: int
    skipped: int = 0
    cursor: str | None = None
    more: bool = False


class Selection(Calls):
    """The entries of a list that a filter selects; changed call by call, until none is left."""

    #: Singular of the entries, for messages.
    noun: ClassVar[str]

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        path: str,
        given: dict[str, str | int],
        page_size: int,
    ) -> None:
        super().__init__(transport, clock)
        self._path = path
        self._filter = given
        self._params = parameters(**given, limit=page_size)

    def _change(
        self,
        verb: str,
        kind: type[Any],
        limit: int | None,
        cursor: str | None,
        progress: Progress | None,
        *,
        everything: bool,
        **fields: str,
    ) -> Changed:
        """Call from one cursor to the next, up to the end or the limit.

        Raises:
            InvalidRequestError: there is no filter, and nothing says everything.
        """
        if everything == bool(self._filter):
            message = f"is empty: say everything=True if every {self.noun} is meant"
            if everything:
                message = f"is given: everything=True would mean every {self.noun}"
            raise InvalidRequestError.of("filter", message)
        scope: dict[str, object] = {"all": True} if everything else {"filter": self._filter}
        count = skipped = 0
        while True:
            most = CHANGES if limit is None else min(CHANGES, limit - count)
            place = {} if cursor is None else {"cursor": cursor}
            body = {**scope, **fields, "limit": most, **place}
            done = self._post(f"{self._path}/{verb}", body, kind, [])
            count += done.count
            skipped += done.skipped
            if progress is not None:
                progress(count, limit)
            ended = not done.more or done.cursor in {None, cursor}
            if ended or (limit is not None and count >= limit):
                return Changed(count=count, skipped=skipped, cursor=done.cursor, more=done.more)
            cursor = done.cursor
