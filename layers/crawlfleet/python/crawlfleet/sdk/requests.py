"""Waiting until requests are in a final state, without asking for each of them all the time."""

import math
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import islice
from typing import Final, Protocol

from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.kernel.ids import issued_at, parse_id
from crawlfleet.sdk.errors import WaitTimeoutError
from crawlfleet.sdk.pages import Pages
from crawlfleet.sdk.results import RequestStatus, Stats
from crawlfleet.sdk.transport import Clock

#: Pause between two looks: from, up to, growing by.
_FIRST_PAUSE_SECONDS: Final = 0.1
_LAST_PAUSE_SECONDS: Final = 5.0
_PAUSE_GROWTH: Final = 1.5
#: Requests that are looked at one by one per round; more than these are swept up in pages first.
_WINDOW: Final = 32
#: A sweep gives up after as many list entries per request that it looks for, plus one page.
_SWEEP_FACTOR: Final = 4
_SWEEP_LEAST: Final = 1_000
#: A sweep starts this much before the earliest id: ids are issued in blocks, ahead of their use.
_SWEEP_MARGIN: Final = timedelta(seconds=5)

#: Called after each look: how many are finished, how many are waited for.
Progress = Callable[[int, int], None]


class Reader(Protocol):
    """What waiting asks of the client."""

    def get(self, biz: str, request_id: str) -> RequestStatus:
        """The request's state."""
        ...

    def stats(self, biz: str) -> Stats:
        """The biz at a glance."""
        ...

    def requests(self, biz: str, *, since: str | None = None) -> Pages[RequestStatus]:
        """The requests of a biz from a moment on."""
        ...


class Pauses:
    """Growing pauses up to a deadline; after the deadline the next one is refused."""

    def __init__(self, clock: Clock, timeout: float | None) -> None:
        self._clock = clock
        self._ends_at = None if timeout is None else clock.monotonic() + timeout
        self._seconds = _FIRST_PAUSE_SECONDS

    @property
    def over(self) -> bool:
        """Whether the time is up."""
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


def wait_for_biz(
    reader: Reader, biz: str, timeout: float | None, clock: Clock, progress: Progress | None
) -> Stats:
    """Look at the totals until nothing of the biz is unfinished."""
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
    reader: Reader,
    biz: str,
    ids: Sequence[str],
    timeout: float | None,
    clock: Clock,
    progress: Progress | None,
) -> list[RequestStatus]:
    """Look at the ids in their order until each is in a final state.

    Requests are worked on roughly in order, so each round asks for the oldest few that are left,
    after a sweep through the list when there are many.
    """
    pauses = Pauses(clock, timeout)
    left = dict.fromkeys(ids)
    final: dict[str, RequestStatus] = {}
    total = len(left)
    while True:
        busy = _sweep(reader, biz, left, final) if len(left) > _WINDOW else set()
        _look(reader, biz, left, final, busy, pauses)
        if progress is not None:
            progress(len(final), total)
        if not left:
            return [final[request_id] for request_id in ids]
        if not pauses.pause():
            raise WaitTimeoutError(timeout or 0.0, len(left), tuple(left), tuple(final.values()))


def _sweep(
    reader: Reader, biz: str, left: dict[str, None], final: dict[str, RequestStatus]
) -> set[str]:
    """Read the list from the oldest that is left; the ids seen in a state that is not final."""
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


def _look(
    reader: Reader,
    biz: str,
    left: dict[str, None],
    final: dict[str, RequestStatus],
    busy: set[str],
    pauses: Pauses,
) -> None:
    """Ask for the oldest that are left and not known to be busy, until a window of them is busy."""
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
    """The earliest moment that the ids carry, as the API writes it; None where one carries none."""
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
