"""Dead letters: read them, replay them, remove them."""

from collections.abc import Iterator
from datetime import datetime
from urllib.parse import unquote

import msgspec

from crawlfleet.kernel.errors import ConflictError
from crawlfleet.sdk.calls import (
    PAGE_SIZE,
    Calls,
    Changed,
    Pages,
    Progress,
    Selection,
    moment_of,
    parameters,
    path_of,
)
from crawlfleet.wire import Page
from crawlfleet.wire.dead_letters import DeadLetter, PurgedAnswer, ReplayedAnswer
from crawlfleet.wire.requests import RequestStatus


class DeadLettersPage(Page, frozen=True):
    """A page of dead letters."""

    dead_letters: tuple[DeadLetter, ...]


class DeadLetters(Selection):
    """The dead letters of a filter; iterate for them, oldest first, as often as you like.

    ``replay`` and ``purge`` change all of them, call by call, until none is left.
    """

    noun = "dead letter"

    def __iter__(self) -> Iterator[DeadLetter]:
        return self.pages()

    def pages(self, cursor: str | None = None) -> Pages[DeadLetter]:
        """Return an iterator with a ``cursor``, by which another one goes on elsewhere."""
        biz = unquote(self._path.split("/")[2])

        def read(at: str | None) -> tuple[tuple[DeadLetter, ...], str | None, bool]:
            params = {**self._params, **parameters(cursor=at)}
            page = self._get(self._path, DeadLettersPage, params)
            found = tuple(msgspec.structs.replace(one, biz=biz) for one in page.dead_letters)
            return found, page.cursor, page.more

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
        """Replay them, as if never tried; at most ``limit`` of them.

        ``rule`` is ``frozen``, as it was when they were submitted, or ``current``. Without a filter
        say ``everything=True``, so that it does not happen by a slip.

        Raises:
            InvalidRequestError: there is no filter, and nothing says everything.
        """
        return self._change(
            "replay", ReplayedAnswer, limit, cursor, progress, everything=everything, rule=rule
        )

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
        return self._change("purge", PurgedAnswer, limit, cursor, progress, everything=everything)


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
        """Select the dead letters of a biz for which every given condition holds.

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
        path = path_of(biz, "dead-letters")
        return DeadLetters(self._transport, self._clock, path, given, page_size)

    def dead_letter(self, biz: str, request_id: str) -> DeadLetter:
        """Read one dead letter whole: timeline, and the beginning of the last answer's body.

        Raises:
            NotFoundError: no such request, or it has been purged.
            ConflictError: it is not dead.
        """
        return self._get(path_of(biz, "dead-letters", request_id), DeadLetter)

    def replay(self, biz: str, request_id: str, *, rule: str = "frozen") -> RequestStatus:
        """Replay one dead letter; return the request as it is then.

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
