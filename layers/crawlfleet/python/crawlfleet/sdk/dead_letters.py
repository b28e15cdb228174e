"""Dead letters: read them, have them worked on again, remove them."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

import msgspec

from crawlfleet.kernel.errors import ConflictError, InvalidRequestError
from crawlfleet.sdk.calls import Calls, Pages, moment_of, parameters, path_of
from crawlfleet.sdk.transport import Clock, Transport
from crawlfleet.wire import Page
from crawlfleet.wire.dead_letters import DeadLetter, PurgedAnswer, ReplayedAnswer
from crawlfleet.wire.requests import RequestStatus

#: Called with how many are changed so far, and of how many where that is known.
Progress = Callable[[int, int | None], None]

#: Letters that one call changes at most.
CHANGES: Final = 1_000
#: Letters of one page.
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


class DeadLettersPage(Page, frozen=True):
    """A page of dead letters."""

    dead_letters: tuple[DeadLetter, ...]


class DeadLetters(Calls):
    """The dead letters that a filter means; iterate for them, oldest first, as often as you like.

    ``replay`` and ``purge`` change all that are meant, call by call, until none is left.
    """

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        biz: str,
        meant: dict[str, str | int],
        page_size: int,
    ) -> None:
        super().__init__(transport, clock)
        self._biz = biz
        self._path = path_of(biz, "dead-letters")
        self._meant = meant
        self._page_size = page_size

    def __iter__(self) -> Iterator[DeadLetter]:
        return self.pages()

    def pages(self, cursor: str | None = None) -> Pages[DeadLetter]:
        """The same iterator with its ``cursor``, to take it up again elsewhere."""
        params = {**parameters(**self._meant), **parameters(limit=self._page_size)}

        def read(at: str | None) -> tuple[tuple[DeadLetter, ...], str | None, bool]:
            page = self._get(self._path, DeadLettersPage, {**params, **parameters(cursor=at)})
            dead_letters = (
                msgspec.structs.replace(one, biz=self._biz) for one in page.dead_letters
            )
            return tuple(dead_letters), page.cursor, page.more

        return Pages(read, cursor, clock=self._clock)

    def replay(
        self,
        *,
        rule: str = "frozen",
        limit: int | None = None,
        cursor: str | None = None,
        everything: bool = False,
        progress: Progress | None = None,
    ) -> Changed:
        """Have them worked on again, as if never tried; at most ``limit`` of them.

        ``rule`` is ``frozen``, as it was when they were submitted, or ``current``. Without a filter
        say ``everything=True``: nobody shall do it by a slip.

        Raises:
            InvalidRequestError: there is no filter, and nothing says everything.
        """
        scope = {**self._scope(everything=everything), "rule": rule}

        def ask(place: dict[str, str | int]) -> Changed:
            said = self._post(f"{self._path}/replay", {**scope, **place}, ReplayedAnswer, [])
            return Changed(
                count=said.replayed, skipped=said.skipped, cursor=said.cursor, more=said.more
            )

        return change_all(ask, cursor, limit, progress)

    def purge(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        everything: bool = False,
        progress: Progress | None = None,
    ) -> Changed:
        """Remove them, for ever; at most ``limit`` of them. The ledger still counts them as dead.

        Raises:
            InvalidRequestError: there is no filter, and nothing says everything.
        """
        scope = self._scope(everything=everything)

        def ask(place: dict[str, str | int]) -> Changed:
            said = self._post(f"{self._path}/purge", {**scope, **place}, PurgedAnswer, [])
            return Changed(
                count=said.purged, skipped=said.skipped, cursor=said.cursor, more=said.more
            )

        return change_all(ask, cursor, limit, progress)

    def _scope(self, *, everything: bool) -> dict[str, object]:
        if everything == bool(self._meant):
            message = "is empty: say everything=True if every dead letter is meant"
            if everything:
                message = "is given: everything=True would mean every dead letter"
            raise InvalidRequestError.of("filter", message)
        return {"all": True} if everything else {"filter": self._meant}


class DeadLetterCalls(Calls):
    """The calls about dead letters."""

    def dead_letters(
        self,
        biz: str,
        *,
        reason: str | None = None,
        status: int | None = None,
        rule: str | None = None,
        host: str | None = None,
        job: str | None = None,
        text: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> DeadLetters:
        """The dead letters of a biz of which all that is given holds.

        ``reason`` is the error's kind, such as ``PageGone``; ``status`` the site's last answer, 0
        for none; ``host`` may be a URL, whose host is meant; ``text`` stands somewhere in the error
        or the URL; ``since`` and ``until`` are about when the request was queued.

        ::

            gone = fleet.dead_letters("news", host="example.org", reason="PageGone")
            for dead_letter in gone:
                print(dead_letter.url, dead_letter.error)
            gone.purge()
        """
        meant = {
            "reason": reason,
            "status": status,
            "rule": rule,
            "host": host,
            "job": job,
            "text": text,
            "since": moment_of(since),
            "until": moment_of(until, "until"),
        }
        given = {name: value for name, value in meant.items() if value is not None}
        return DeadLetters(self._transport, self._clock, biz, given, page_size)

    def dead_letter(self, biz: str, request_id: str) -> DeadLetter:
        """One dead letter with everything: timeline, and the beginning of the last answer's body.

        Raises:
            NotFoundError: no such request, or it has been purged.
            ConflictError: it is not dead.
        """
        return self._get(path_of(biz, "dead-letters", request_id), DeadLetter)

    def replay(self, biz: str, request_id: str, *, rule: str = "frozen") -> RequestStatus:
        """Have one dead letter worked on again; the request as it stands then.

        Raises:
            NotFoundError: no such request.
            ConflictError: it is not dead; or its rule is not there any more.
        """
        lost: list[str] = []
        path = path_of(biz, "dead-letters", request_id, "replay")
        try:
            return self._post(path, {"rule": rule}, RequestStatus, lost)
        except ConflictError:
            # An earlier try may have replayed it while its answer was lost.
            status = self._get(path_of(biz, "requests", request_id), RequestStatus)
            if lost and status.state != "dead":
                return status
            raise

    def purge(self, biz: str, request_id: str) -> None:
        """Remove one dead letter, for ever.

        Raises:
            NotFoundError: no such request.
            ConflictError: it is not dead.
        """
        self._remove(path_of(biz, "dead-letters", request_id))


def change_all(
    ask: Callable[[dict[str, str | int]], Changed],
    cursor: str | None,
    limit: int | None,
    progress: Progress | None,
) -> Changed:
    """Ask from one cursor to the next, up to the end or the limit."""
    count = skipped = 0
    while True:
        most = CHANGES if limit is None else min(CHANGES, limit - count)
        done = ask({"limit": most, **({} if cursor is None else {"cursor": cursor})})
        count += done.count
        skipped += done.skipped
        if progress is not None:
            progress(count, limit)
        ended = not done.more or done.cursor in {None, cursor}
        if ended or (limit is not None and count >= limit):
            return Changed(count=count, skipped=skipped, cursor=done.cursor, more=done.more)
        cursor = done.cursor
