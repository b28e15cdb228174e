"""Asking many parts at once, without waiting for those that do not come to an end.

Whoever looks at everything has a time of its own to keep. A call that hangs costs it one thread and
one entry among the failures. Where many calls go to the same part, and would all hang with it, they
share a few threads, so that the others' answers come all the same.
"""

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Generic, TypeVar

import msgspec

from crawlfleet.errors import CrawlfleetError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Gathered(msgspec.Struct, Generic[K, T], frozen=True):
    """What was answered, and why the rest was not, in words; each in the order of asking."""

    answers: dict[K, T]
    failures: dict[K, Exception | str]


class Sharing(msgspec.Struct, frozen=True):
    """Of calls ``of`` the same, up to ``at_once`` are made at once; others have no such bound."""

    of: Mapping[Any, Hashable]
    at_once: int


def gather(
    calls: Mapping[K, Callable[[], T]],
    *,
    threads: int,
    seconds: float,
    sharing: Sharing | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Gathered[K, T]:
    """Make all calls, ``threads`` at a time, the first ones first; give up after ``seconds``.

    Calls that share take turns with all others: the first of each, then the second of each.

    What has not begun by then never does. What has begun goes on by itself, so it must be harmless
    and bounded; nobody hears of it any more.
    """
    if not calls:
        return Gathered({}, {})
    ends_at = clock() + seconds
    turns = _Turns(calls, sharing)
    pool = ThreadPoolExecutor(min(threads, len(calls)), thread_name_prefix="gather")
    keys: dict[Future[T], K] = {}
    pending: set[Future[T]] = set()
    while True:
        while len(pending) < threads and turns.ready:
            key = turns.take()
            future = pool.submit(calls[key])
            keys[future] = key
            pending.add(future)
        left = ends_at - clock()
        if not pending or left <= 0:
            break
        done, pending = wait(pending, timeout=left, return_when=FIRST_COMPLETED)
        for future in done:
            turns.end(keys[future])
    pool.shutdown(wait=False, cancel_futures=True)
    ended = {key: future for future, key in keys.items() if future not in pending}
    return _gathered(calls, ended, f"not answered within {seconds:g} s")


def _gathered(
    calls: Mapping[K, Callable[[], T]], ended: Mapping[K, Future[T]], too_late: str
) -> Gathered[K, T]:
    answers: dict[K, T] = {}
    failures: dict[K, Exception | str] = {}
    for key in calls:
        future = ended.get(key)
        if future is None:
            failures[key] = too_late
            continue
        error = future.exception()
        if error is None:
            answers[key] = future.result()
        elif isinstance(error, Exception):
            failures[key] = error
        else:  # the process is to end
            raise error
    return Gathered(answers, failures)


class _Turns(Generic[K]):
    """Whose turn it is.

    Attributes:
        ready: What the calls that may begin have in common, each once, the next one first.
    """

    def __init__(self, calls: Mapping[K, object], sharing: Sharing | None) -> None:
        of: Mapping[Any, Hashable] = {} if sharing is None else sharing.of
        self._at_once = 1 if sharing is None else sharing.at_once
        # A call that shares with nobody is among its own kind.
        self._group = {key: (True, of[key]) if key in of else (False, key) for key in calls}
        self._waiting: defaultdict[Hashable, deque[K]] = defaultdict(deque)
        self._running: Counter[Hashable] = Counter()
        for key, group in self._group.items():
            self._waiting[group].append(key)
        self.ready: deque[Hashable] = deque(self._waiting)

    def take(self) -> K:
        """The next call; it has begun."""
        group = self.ready.popleft()
        self._running[group] += 1
        key = self._waiting[group].popleft()
        self._offer(group)
        return key

    def end(self, key: K) -> None:
        """It has ended."""
        group = self._group[key]
        full = self._running[group] == self._at_once
        self._running[group] -= 1
        if full:
            self._offer(group)

    def _offer(self, group: Hashable) -> None:
        if self._waiting[group] and self._running[group] < self._at_once:
            self.ready.append(group)


def in_words(failure: Exception | str) -> str:
    """Why, for people. What nobody foresaw is told by its kind too.

    >>> in_words("too late"), in_words(ZeroDivisionError("odd"))
    ('too late', 'ZeroDivisionError: odd')
    """
    if isinstance(failure, CrawlfleetError | str):
        return str(failure)
    return f"{type(failure).__name__}: {failure}"
