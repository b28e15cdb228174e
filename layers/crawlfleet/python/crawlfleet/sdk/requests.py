"""Requests: follow them, wait for them, read their results."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, overload

from crawlfleet.kernel.errors import ConflictError, InvalidRequestError
from crawlfleet.kernel.ids import issued_at, parse_id
from crawlfleet.sdk.calls import Calls, Pages, moment_of, parameters, path_of
from crawlfleet.sdk.entries import BATCH_ENTRIES, Submitted
from crawlfleet.sdk.errors import WaitTimeoutError
from crawlfleet.sdk.transport import Clock
from crawlfleet.wire.explain import Explanation, UrlExplanation
from crawlfleet.wire.requests import (
    RequestsPage,
    RequestStatus,
    TransitionAnswer,
    TransitionsAnswer,
)
from crawlfleet.wire.results import Ledger, Record, RecordsPage, Stats

#: Seconds that :meth:`RequestCalls.wait` waits unless another time is given.
WAIT_SECONDS: Final = 600.0
#: Entries of one page of a list; the API gives up to 1,000, a function answers up to 6 MB.
PAGE_SIZE: Final = 500
#: Pause between two polls: from, up to, growing by.
_FIRST_PAUSE_SECONDS: Final = 0.1
_LAST_PAUSE_SECONDS: Final = 5.0
_PAUSE_GROWTH: Final = 1.5
#: Requests that are read one by one per round; more than these are swept up in pages first.
_WINDOW: Final = 32
#: A sweep ends after as many list entries per request that it seeks, plus one page.
_SWEEP_FACTOR: Final = 4
_SWEEP_LEAST: Final = 1_000
#: A sweep starts this much before the earliest id: ids are issued in blocks, ahead of their use.
_SWEEP_MARGIN: Final = timedelta(seconds=5)

#: Pages in a row of a search that may bring nothing.
_SEARCHED_PAGES: Final = 100_000

#: Called after each poll: how many are finished, how many are waited for.
Progress = Callable[[int, int], None]


class Pauses:
    """Growing pauses up to a deadline; after the deadline the next one is refused."""

    def __init__(self, clock: Clock, timeout: float | None) -> None:
        self._clock = clock
        self._ends_at = None if timeout is None else clock.monotonic() + timeout
        self._seconds = _FIRST_PAUSE_SECONDS

    @property
    def over(self) -> bool:
        """Tell whether the time is up."""
        return self._left() <= 0

    def pause(self) -> bool:
        """Wait; False, at once, when the time is up."""
        left = self._left()
        if left <= 0:
            return False
        self._clock.sleep(min(self._seconds, left))
        self._seconds = min(_LAST_PAUSE_SECONDS, self._seconds * _PAUSE_GROWTH)
        return True

    def _left(self) -> float:
        return math.inf if self._ends_at is None else self._ends_at - self._clock.monotonic()


class RequestCalls(Calls):
    """The calls about requests and their results."""

    def get(self, biz: str, request_id: str) -> RequestStatus:
        """Read a request: state, timeline, attempts, error, body.

        Raises:
            NotFoundError: no such request, or it has expired.
        """
        return self._get(path_of(biz, "requests", request_id), RequestStatus)

    def cancel(self, biz: str, request_id: str) -> RequestStatus:
        """Cancel a request that is open and that no worker has leased; return its last state.

        Raises:
            ConflictError: it is being worked on or in a final state.
            NotFoundError: no such request.
        """
        lost: list[str] = []
        try:
            path = path_of(biz, "requests", request_id)
            return self._read(self._transport.call("DELETE", path, lost=lost), RequestStatus)
        except ConflictError:
            # An earlier try may have cancelled it while its answer was lost.
            if lost and (status := self.get(biz, request_id)).state == "cancelled":
                return status
            raise

    def transition(
        self, biz: str, request_id: str, *, from_state: str, to_state: str, why: str = ""
    ) -> RequestStatus:
        """Change a request that is in one state to another one; return it as it then stands.

        One of the two is the biz's own; its document has the ``transitions`` that there may be.
        Repeated, it changes nothing more.

        ::

            fleet.transition("news", request_id, from_state="done", to_state="reviewed")

        Raises:
            InvalidRequestError: the biz has no such transition; the error names those it has.
            ConflictError: the request is in another state than ``from_state``.
            NotFoundError: no such request.
        """
        path = path_of(biz, "requests", request_id, "transition")
        asked = {"from_state": from_state, "to_state": to_state, "why": why}
        return self._post(path, asked, RequestStatus, [])

    def transition_each(
        self,
        biz: str,
        request_ids: Iterable[str],
        *,
        from_state: str,
        to_state: str,
        why: str = "",
    ) -> Iterator[TransitionAnswer]:
        """Change any number of requests while iterated, 1,000 a call; each is answered.

        One that is in another state than ``from_state``, or unknown, has an ``error`` and stays as
        it is: the others are changed. Repeated, nothing more is changed.

        Raises:
            InvalidRequestError: the biz has no such transition, or one of the ids is none; nothing
                of that call is changed.
        """
        path = path_of(biz, "requests", "transition")
        asked = {"from_state": from_state, "to_state": to_state, "why": why}
        left = iter(request_ids)
        while ids := list(islice(left, BATCH_ENTRIES)):
            yield from self._post(path, {**asked, "requests": ids}, TransitionsAnswer, []).requests

    def requests(
        self,
        biz: str,
        *,
        state: str | None = None,
        job: str | None = None,
        url: str | None = None,
        since: datetime | str | None = None,
        newest_first: bool = False,
        cursor: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Pages[RequestStatus]:
        """Read the requests of a biz in the order they came, or newest first, all pages.

        All that is given must hold: those in a ``state``, of a ``job``, for a page by any ``url``
        of it, queued ``since`` an aware datetime or RFC 3339 text. ``cursor`` continues an earlier
        iterator.
        """
        order = "newest" if newest_first else None
        of = parameters(state=state, job=job, url=url, since=moment_of(since), order=order)
        options: dict[str, Any] = {}
        if url is not None:  # a search looks at so many requests at once, which may all be others
            options["bare_pages"] = _SEARCHED_PAGES
        params = of | parameters(limit=page_size)
        return self._pages(path_of(biz, "requests"), RequestsPage, params, cursor, **options)

    @overload
    def wait(
        self,
        biz: str,
        ids: None = None,
        timeout: float | None = WAIT_SECONDS,
        *,
        progress: Progress | None = None,
    ) -> Stats: ...

    @overload
    def wait(
        self,
        biz: str,
        ids: str | Iterable[str | Submitted],
        timeout: float | None = WAIT_SECONDS,
        *,
        progress: Progress | None = None,
    ) -> list[RequestStatus]: ...

    def wait(
        self,
        biz: str,
        ids: str | Iterable[str | Submitted] | None = None,
        timeout: float | None = WAIT_SECONDS,
        *,
        progress: Progress | None = None,
    ) -> Stats | list[RequestStatus]:
        """Wait until the given requests, or all of the biz, are done, dead, cancelled or expired.

        ``ids`` may be ids or results of :meth:`submit`, of which the refused are passed over; the
        states come back in their order. Without ids the biz's totals come back. ``timeout`` is in
        seconds, None for no end. Polls come at a growing interval; ``progress`` is called after
        each with how many are finished, and of how many.

        Raises:
            WaitTimeoutError: the time is up; it holds what is still unfinished.
            NotFoundError: one of the ids is unknown, or expired while it was waited for.
        """
        if ids is None:
            return wait_for_biz(self, biz, timeout, self._clock, progress)
        given = [ids] if isinstance(ids, str) else list(ids)
        wanted = [each.id if isinstance(each, Submitted) else each for each in given]
        known = [each for each in wanted if each is not None]
        return wait_for_ids(self, biz, known, timeout, self._clock, progress)

    def explain(self, biz: str, request_id: str) -> Explanation:
        """Explain a request: every decision about it in order, and its present state.

        Raises:
            NotFoundError: no such request, or it has expired.
        """
        return self._get(path_of(biz, "requests", request_id, "explain"), Explanation)

    def explain_url(self, biz: str, url: str, *, rule: str | None = None) -> UrlExplanation:
        """Explain why a URL was or was not crawled: its seeds, their last request, its page.

        ``rule`` limits it to that rule or spider.
        """
        params = parameters(url=url, rule=rule)
        return self._get(path_of(biz, "explain"), UrlExplanation, params)

    def stats(self, biz: str) -> Stats:
        """Read totals per state, records, queue, rates, and workers' time by phase."""
        return self._get(path_of(biz, "stats"), Stats)

    def ledger(self, biz: str, *, job: str | None = None) -> Ledger:
        """Read the ledger of all that was ever submitted to the biz, or under one job of it."""
        return self._get(path_of(biz, "ledger"), Ledger, parameters(job=job))

    def records(
        self,
        biz: str,
        *,
        request_id: str | None = None,
        job: str | None = None,
        rule: str | None = None,
        rule_version: str | None = None,
        host: str | None = None,
        field: str | None = None,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        newest_first: bool = False,
        cursor: str | None = None,
        follow: bool = False,
        page_size: int = PAGE_SIZE,
    ) -> Pages[Record]:
        """Read the records of a biz in the order they were stored, or newest first; each once.

        All that is given must hold: those of one request, or of a ``job``, of a ``rule`` and a
        version of it, of a ``host``, stored ``since`` and before ``until``. ``field`` is one that
        has a value (``"price"``), or this value (``"colour=red"``).

        A record with a key of its own comes again, under the same id, when it was replaced. It is
        then that of the later job: where so nothing is left of a ``job``, ``note`` says so.

        Ends with the last record there is, or with ``follow`` goes on for ever. The iterator's
        ``cursor`` can be kept and given again to read on from there, in another process too; what
        comes twice then has the same ``id``.
        """
        wanted = parameters(
            job=job,
            rule=rule,
            rule_version=rule_version,
            host=host,
            field=field,
            since=moment_of(since),
            until=moment_of(until, "until"),
            order="newest" if newest_first else None,
        )
        params = parameters(request_id=request_id, limit=page_size) | wanted

        # One with a key of its own keeps its id when it is replaced, and is another one then.
        def state(record: Record) -> str:
            return record.id if "-" in record.id else f"{record.id} {record.stored_at}"

        path = path_of(biz, "records")
        options: dict[str, Any] = {"follow": follow, "identity": state}
        if wanted:  # a search looks at so many records at once, which may all be others
            options["bare_pages"] = _SEARCHED_PAGES
        return self._pages(path, RecordsPage, params, cursor, **options)


def wait_for_biz(
    reader: "RequestCalls", biz: str, timeout: float | None, clock: Clock, progress: Progress | None
) -> Stats:
    """Poll the totals until nothing of the biz is unfinished."""
    pauses = Pauses(clock, timeout)
    while True:
        stats = reader.stats(biz)
        total = sum(stats.states.values())
        if progress is not None:
            progress(total - stats.unfinished, total)
        if stats.unfinished == 0:
            return stats
        if not pauses.pause():
            raise WaitTimeoutError(timeout or 0.0, stats.unfinished)


def wait_for_ids(
    reader: "RequestCalls",
    biz: str,
    ids: Sequence[str],
    timeout: float | None,
    clock: Clock,
    progress: Progress | None,
) -> list[RequestStatus]:
    """Poll the ids in their order until each is in a final state.

    Requests are worked on roughly in order, so each round asks for the oldest few that are left,
    after a sweep through the list when there are many.
    """
    pauses = Pauses(clock, timeout)
    left = dict.fromkeys(ids)
    final: dict[str, RequestStatus] = {}
    total = len(left)
    while True:
        busy = _sweep(reader, biz, left, final) if len(left) > _WINDOW else set()
        _poll(reader, biz, left, final, busy, pauses)
        if progress is not None:
            progress(len(final), total)
        if not left:
            return [final[request_id] for request_id in ids]
        if not pauses.pause():
            raise WaitTimeoutError(timeout or 0.0, len(left), tuple(left), tuple(final.values()))


def _sweep(
    reader: "RequestCalls", biz: str, left: dict[str, None], final: dict[str, RequestStatus]
) -> set[str]:
    """Read the list from the oldest that is left; return the ids that are not final."""
    since = _oldest(left)
    busy: set[str] = set()
    if since is None:
        return busy
    allowed = len(left) * _SWEEP_FACTOR + _SWEEP_LEAST
    for status in islice(reader.requests(biz, since=since), allowed):
        if status.id not in left:
            continue
        if status.final:
            final[status.id] = status
            del left[status.id]
            if not left:
                break
        else:
            busy.add(status.id)
    return busy


def _poll(
    reader: "RequestCalls",
    biz: str,
    left: dict[str, None],
    final: dict[str, RequestStatus],
    busy: set[str],
    pauses: Pauses,
) -> None:
    """Read the oldest that are left and not known to be busy, until a window of them is busy."""
    unfinished = len(busy)
    for request_id in list(left):
        if unfinished >= _WINDOW or pauses.over:
            return
        if request_id in busy:
            continue
        status = reader.get(biz, request_id)
        if status.final:
            final[request_id] = status
            del left[request_id]
        else:
            unfinished += 1


def _oldest(ids: dict[str, None]) -> str | None:
    """Return the earliest moment that the ids carry; None where one carries none."""
    moments = []
    for request_id in ids:
        try:
            moment = issued_at(parse_id(request_id))
        except InvalidRequestError:
            return None
        if moment is None:
            return None
        moments.append(moment)
    return (min(moments) - _SWEEP_MARGIN).isoformat().replace("+00:00", "Z")
