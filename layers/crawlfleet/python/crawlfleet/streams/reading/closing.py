"""Find what is left out of reading now: it is none of its hours, or a quota is used up.

All workers that read find the same, as they ask the same ledgers: what is left out of the plan
leaves its channel, and nothing else is touched. It comes back with its hours, with the next period
of its quota, or when that is raised.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

from crawlfleet.fleet.quotas.models import Limit, Standing, described
from crawlfleet.fleet.quotas.service import QuotaLedgers
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import STEADY, SteadyTime
from crawlfleet.streams.reading.metering import Taker
from crawlfleet.streams.subscriptions.models import Active, is_active
from crawlfleet.streams.subscriptions.service import kept_by

#: Between two looks at how quotas stand.
LOOK_SECONDS: Final = 2.0


class Conditions(NamedTuple):
    """The conditions of a subscription or a channel; ``price`` is an item's, in nano-dollars."""

    active: Active | None = None
    limits: tuple[Limit, ...] = ()
    price: int = 0


#: Those of what is free, at any time.
NOTHING: Final = Conditions()


class Receiving(NamedTuple):
    """A subscription as a reader needs it: whom its items go to, and on which conditions."""

    taker: Taker
    conditions: Conditions = NOTHING

    @property
    def active(self) -> Active | None:
        """Return the hours at which it takes items."""
        return self.conditions.active


class Closing:
    """Keep what is left out, as one process knows it; ``is_over`` is of limits it met itself."""

    def __init__(
        self,
        ledgers: QuotaLedgers | None = None,
        is_over: Callable[[Iterable[Limit]], bool] = lambda _: False,
        steady: SteadyTime = STEADY,
    ) -> None:
        self._ledgers, self._is_over, self._steady = ledgers, is_over, steady
        self._standings: dict[Limit, Standing] = {}
        self._looked_at = float("-inf")
        # What the hours were looked up for: whose, and in which minute.
        self._hours: tuple[Mapping[str, Conditions], datetime] | None = None
        #: What is outside of its hours.
        self.resting: frozenset[str] = frozenset()
        #: What a quota keeps, and why.
        self.over: dict[str, str] = {}

    def look(self, terms: Mapping[str, Conditions], now: datetime) -> bool:
        """Look at what is left out; tell whether that is other than before. It may block."""
        resting, minute = self.resting, now.replace(second=0, microsecond=0)
        if self._hours is None or self._hours[0] is not terms or self._hours[1] != minute:
            resting = frozenset(one for one, its in terms.items() if not is_active(its.active, now))
            self._hours = terms, minute
        over = self._over(terms, now)
        is_changed = (resting, over.keys()) != (self.resting, self.over.keys())
        self.resting, self.over = resting, over
        return is_changed

    def __contains__(self, one: str) -> bool:
        return one in self.resting or one in self.over

    def _over(self, terms: Mapping[str, Conditions], now: datetime) -> dict[str, str]:
        limited = {one: its for one, its in terms.items() if its.limits}
        if self._ledgers is None or not limited:
            return {}
        limits = dict.fromkeys(limit for its in limited.values() for limit in its.limits)
        ended = [
            one
            for one in self._standings.values()
            if one.window.ends_at is not None and one.window.ends_at <= now
        ]
        is_known = not ended and limits.keys() == self._standings.keys()
        if not is_known or self._steady.now() - self._looked_at >= LOOK_SECONDS:
            try:
                found = self._ledgers.standings(list(limits), now)
                self._standings = dict(zip(limits, found, strict=True))
            except StoreUnavailableError as error:
                warn("how much of quotas is used could not be asked", error)
            self._looked_at = self._steady.now()
        found_over = {}
        for one, its in limited.items():
            known = (self._standings[limit] for limit in its.limits if limit in self._standings)
            kept = kept_by(known, its.price)
            if kept is not None:
                found_over[one] = described(kept)
            elif self._is_over(its.limits):
                found_over[one] = "a quota is used up"
        return found_over
