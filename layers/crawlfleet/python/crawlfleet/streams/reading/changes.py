"""Bound what changes of subscriptions take of a reader's time, whoever changes them how often.

A change of one has its own filter read, and no other's. What is computed of all is computed again
at once where it takes a moment; where it takes longer, for a tenth of the time at most.
"""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final

from crawlfleet.streams.filters import Filter
from crawlfleet.streams.subscriptions.models import Subscription

#: Less is a moment.
MOMENT_SECONDS: Final = 0.1
#: After what took longer nothing is computed for so many times as long.
REST: Final = 9


class KnownFilters:
    """The filters of subscriptions, each read once for its text."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, Filter]] = {}

    def of(self, key: str, one: Subscription) -> Filter:
        """Return the filter of a subscription; raises InvalidRequestError where it is none."""
        text, known = one.content.filter, self._known.get(key)
        if known is None or known[0] != text:
            known = self._known[key] = text, one.content.parsed()
        return known[1]

    def keep(self, keys: Collection[str]) -> None:
        """Forget all filters but those of some subscriptions."""
        for gone in self._known.keys() - keys:
            del self._known[gone]


class Changed:
    """Tell whether what is computed of all subscriptions is to be computed again, and may be now.

    ``spent`` are seconds of the processor: a busy machine makes no change a long one.
    """

    def __init__(
        self,
        now: Callable[[], float] = time.monotonic,
        spent: Callable[[], float] = time.thread_time,
    ) -> None:
        self._now, self._spent = now, spent
        self._again_at = 0.0
        self._is_noted = False

    def note(self) -> None:
        """Note a change."""
        self._is_noted = True

    @property
    def is_due(self) -> bool:
        """Tell whether changes are to be taken up now."""
        return self._is_noted and self._now() >= self._again_at

    @contextmanager
    def taken_up(self) -> Iterator[None]:
        """Take up what changed until now; rest for long after what takes long."""
        before, self._is_noted = self._spent(), False
        try:
            yield
        finally:
            if (took := self._spent() - before) > MOMENT_SECONDS:
                self._again_at = max(self._again_at, self._now()) + REST * took
