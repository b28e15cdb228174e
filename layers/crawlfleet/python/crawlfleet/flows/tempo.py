"""How much of itself a worker uses, and what it gets done with that (policy.scaling).

What counts is what is done for good: a request that is put aside, or tried again later, costs the
time it took and is no page less to deal with.
"""

import time
from collections.abc import Awaitable, Callable
from typing import Final

from crawlfleet.flows.courtesy import Waiting
from crawlfleet.model.lane import Lane
from crawlfleet.model.outcome import Dead, Done, Outcome
from crawlfleet.model.staff import Shown
from crawlfleet.policy.scaling import capacity

#: A look at less than this says little: it is added to the next one.
LEAST_SECONDS: Final = 3.0
#: So many pages are one at least: fewer are chance.
LEAST_PAGES: Final = 3
#: What a lane has shown in so long without showing enough is forgotten: it is not of now.
LONGEST_SECONDS: Final = 60.0
#: Lanes that are told of at once, and of which account is kept.
LANES: Final = 50


class Tempo:
    """Counts what a worker's runners do. Used from its event loop.

    Args:
        runners: How many there are.
        steady: Seconds since some moment, on a clock that nobody sets.
    """

    def __init__(self, runners: int, steady: Callable[[], float] = time.perf_counter) -> None:
        self._runners = runners
        self._steady = steady
        #: Of all lanes together, from the first moment on.
        self._whole = _Account(steady(), 0.0)
        self._told = _Account(steady(), 0.0)
        self._lanes: dict[str, _Account] = {}

    async def timed(self, lane: Lane, attempt: Awaitable[Outcome | Waiting]) -> Outcome | Waiting:
        """Make the attempt, and count it."""
        self.began(lane)
        is_final = False
        try:
            end = await attempt
            is_final = isinstance(end, Done | Dead)
            return end
        finally:
            self.ended(lane, is_final=is_final)

    def began(self, lane: Lane) -> None:
        """A runner has begun with a request."""
        now = self._steady()
        self._whole.run(now, 1)
        account = self._lanes.get(lane.path)
        if account is None and (len(self._lanes) < LANES or self._forget_one()):
            account = self._lanes[lane.path] = _Account(now, self._whole.spent)
        if account is not None:
            account.run(now, 1)

    def ended(self, lane: Lane, *, is_final: bool) -> None:
        """A runner is free again; whether the request is dealt with for good."""
        now = self._steady()
        for account in (self._whole, self._lanes.get(lane.path)):
            # One that had begun before there was room for its lane is not in the account.
            if account is not None and account.running:
                account.run(now, -1)
                account.ended += is_final

    def pace(self) -> Shown | None:
        """What this worker can do in a second, by what it did since this was last told.

        None while that is nothing to go by.
        """
        now = self._steady()
        self._whole.run(now, 0)
        whole, told = self._whole, self._told
        passed, spent = now - told.since, whole.spent - told.spent
        if passed < LEAST_SECONDS or whole.ended - told.ended < LEAST_PAGES:
            return None
        found = capacity((whole.ended - told.ended) / passed, spent / (passed * self._runners))
        self._told = _Account(now, 0.0)
        self._told.spent, self._told.ended = whole.spent, whole.ended
        return found

    def paces(self) -> dict[str, Shown]:
        """What it could do in a second of a lane alone, by ``tenant/biz``, if that is known."""
        now = self._steady()
        self._whole.run(now, 0)
        found: dict[str, Shown] = {}
        for lane, account in list(self._lanes.items()):
            account.run(now, 0)
            passed = now - account.since
            if passed < LEAST_SECONDS or (account.ended < LEAST_PAGES and passed < LONGEST_SECONDS):
                continue
            spent = self._whole.spent - account.all_before
            if account.ended >= LEAST_PAGES and account.spent > 0:
                # With all of the time that any had, this one would have done so many.
                alone = account.ended / passed * spent / account.spent
                pace = capacity(alone, spent / (passed * self._runners))
                found |= {} if pace is None else {lane: pace}
            del self._lanes[lane]
            if account.running:
                self._lanes[lane] = _Account(now, self._whole.spent, account.running)
        return found

    def _forget_one(self) -> bool:
        """Make room for a lane, where one of which nothing runs has shown too little till now."""
        idle = next((lane for lane, one in self._lanes.items() if not one.running), None)
        return idle is not None and self._lanes.pop(idle) is not None


class _Account:
    """What runners do, of one lane or of all.

    Attributes:
        since: When the account was opened.
        all_before: What all runners had spent by then.
        running: How many run.
        spent: Seconds that runners have spent.
        ended: Requests that were dealt with for good.
    """

    __slots__ = ("_at", "all_before", "ended", "running", "since", "spent")

    def __init__(self, now: float, all_before: float, running: int = 0) -> None:
        self._at = self.since = now
        self.all_before = all_before
        self.running = running
        self.spent = 0.0
        self.ended = 0

    def run(self, now: float, more: int) -> None:
        """So many more run from now on."""
        self.spent += self.running * (now - self._at)
        self._at = now
        self.running += more
