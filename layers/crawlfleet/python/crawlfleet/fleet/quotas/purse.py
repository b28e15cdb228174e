"""The share of one account that a worker holds: pure, times by the worker's steady clock.

All figures are sums since the purse was opened, so that a message that is lost, repeated or late
has no second effect: of what was told last the higher sum counts. The purse never takes more to be
granted than the ledger does: it lets go before it says so, and takes what it is given once it is
told. After the lease, which began before it was asked for, nothing of it is spent.
"""

import math
from typing import Final

from crawlfleet.fleet.quotas.models import LEASE_SECONDS, Ask, Booked

#: A share is what its worker spends in so long.
SHARE_SECONDS: Final = 10.0
#: What a dead worker held of a budget is lost to it: a share is no more than this part of that,
#: but for what is spent in a second.
BUDGET_PART: Final = 0.0005
BUDGET_SECONDS: Final = 1.0
#: The next share is asked for when so much of the last one is left, or of its lease has passed.
LOW: Final = 1 / 3
RENEWED: Final = 0.5
#: The weight of the latest exchange in the speed.
SPEED_WEIGHT: Final = 0.5
#: Who waits and got nothing asks again after this, doubled each time.
FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 5.0


def share_of(speed: float, most: int, *, is_rate: bool) -> int:
    """Compute a worker's share by its speed, in units a second.

    >>> share_of(20.0, 1_000_000, is_rate=True), share_of(20.0, 100_000, is_rate=False)
    (200, 50)
    >>> share_of(20.0, 1_000, is_rate=False)
    20
    """
    wanted = speed * SHARE_SECONDS
    if not is_rate:
        wanted = min(wanted, max(speed * BUDGET_SECONDS, most * BUDGET_PART))
    return math.ceil(wanted)


class Purse:
    """A worker's share of one account in one period, of a limit of ``most``."""

    def __init__(
        self, most: int, *, is_rate: bool, now: float, lease_seconds: float = LEASE_SECONDS
    ) -> None:
        self.most = most
        self._lease_seconds = lease_seconds
        self._is_rate = is_rate
        self.granted = self.spent = self.reserved = 0
        #: Amounts that wait for a share, by whoever waits.
        self.waiting: dict[object, int] = {}
        #: The ledger that shares come from now; None before the first.
        self.nonce: str | None = None
        self._before = 0
        self._number = 0
        self._share = 0
        self._speed = 0.0
        self._seen_at = self._used_at = now
        self._told = 0
        self._ends_at = self._renew_at = self._ask_at = now
        self._pause = 0.0
        # Whether a ceiling was just raised for it, of which its ledger is to hear.
        self._raised = False

    def free(self, now: float) -> int:
        """Return what may be reserved now."""
        return self.granted - self.spent - self.reserved if now < self._ends_at else 0

    def reserve(self, amount: int, now: float) -> bool:
        """Reserve an amount for what is about to begin; False if there is not so much."""
        if amount > self.free(now):
            return False
        self.reserved += amount
        self._used_at = now
        return True

    def settle(self, reserved: int, used: int) -> None:
        """Book what was used of what was reserved; the rest is free again."""
        self.reserved -= reserved
        self.spent += used

    def is_due(self, now: float, quiet_seconds: float) -> bool:
        """Tell whether there is something to say: more is needed, or nothing for a while."""
        if self._raised:
            return True
        if self.waiting and min(self.waiting.values()) > self.free(now):
            return now >= self._ask_at
        if self.spent == self._told and self.granted == self.spent:
            return False
        if self._is_quiet(now, quiet_seconds):
            return True
        is_low = self.free(now) < self._share * LOW
        return now >= self._ask_at and (is_low or now >= self._renew_at)

    @property
    def is_told(self) -> bool:
        """Tell whether the ledger knows all of it, and nothing is under way."""
        return not self.reserved and not self.waiting and self._told == self.spent

    @property
    def untold(self) -> int:
        """Return what was spent that the ledger does not know of, as far as is known here."""
        return self.spent - self._told

    def _is_quiet(self, now: float, quiet_seconds: float) -> bool:
        idle = not self.reserved and not self.waiting
        return idle and now - self._used_at >= quiet_seconds

    def ask(self, now: float, quiet_seconds: float = math.inf) -> Ask:
        """Say what was spent and is wanted; what is not wanted any more is let go at once.

        The share of who has used nothing for ``quiet_seconds`` is nothing.
        """
        if now > self._seen_at:
            seen = (self.spent - self._told) / (now - self._seen_at)
            self._speed += (seen - self._speed) * (SPEED_WEIGHT if self._speed else 1.0)
            self._seen_at = now
        self._told, self._raised = self.spent, False
        waiting = sum(self.waiting.values())
        self._share = 0
        if not self._is_quiet(now, quiet_seconds):
            share = share_of(self._speed, self.most, is_rate=self._is_rate)
            self._share = max(share, waiting)
        wanted = self.reserved + self._share
        self.granted = min(self.granted, self.spent + wanted)
        spent = max(0, self.spent - self._before)
        keep = max(0, self.spent + self.reserved - self._before) - spent
        least = self.reserved + min(self.waiting.values(), default=1)
        self._number += 1
        return Ask(number=self._number, spent=spent, keep=keep, wanted=wanted, least=least)

    def answered(self, booked: Booked, asked_at: float) -> None:
        """Take the share that an ask of that moment was answered with."""
        self.granted = self._before + booked.granted
        seconds = self._lease_seconds
        if booked.seconds_left is not None:
            seconds = max(0.0, min(seconds, booked.seconds_left))
        self._ends_at = asked_at + seconds
        self._renew_at = asked_at + seconds * RENEWED
        self._raised = booked.short_of > booked.ceiling
        is_short = self.free(asked_at) < min(self.waiting.values(), default=1)
        if is_short and booked.short_of <= booked.ceiling:
            pause = max(FIRST_PAUSE_SECONDS, 2 * self._pause if booked.short_of >= 0 else 0.0)
            self._pause = min(LONGEST_PAUSE_SECONDS, pause)
        else:
            self._pause = 0.0
        self._ask_at = asked_at + self._pause

    def follow(self, nonce: str) -> None:
        """Go on with a new ledger, which counts as used all that the lost one had granted."""
        if self.nonce is not None:
            self._before = self.granted
        self.nonce = nonce
        self._number = 0
        self._ask_at = -math.inf
