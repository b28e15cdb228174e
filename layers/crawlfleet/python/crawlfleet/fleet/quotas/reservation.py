"""Reservation of one attempt under its limits, and what of it is booked at its end."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from crawlfleet.config.documents.quota import QuotaUnit, nano_dollars
from crawlfleet.crawling.politeness.client import Waiting
from crawlfleet.fleet.quotas.models import Account, Standing, Use, Window, described
from crawlfleet.kernel import errors
from crawlfleet.requests.leased import Bill, LeasedRequest
from crawlfleet.requests.outcomes import Dead, Outcome

#: Then it waits for its host so long, unless its limit is used up (fleet.quotas.parking).
AGAIN: Final = timedelta(seconds=10)
NOTHING: Final = Use()


@dataclass(slots=True)
class Reservation:
    """An amount reserved of each account for one attempt, whose ``records`` so far are stored.

    Once the ``worst`` case is reserved it has that of each limit at least. ``over`` is the limit
    that kept it from storing more.
    """

    parts: dict[tuple[Account, Window], int]
    records: int = 0
    over: "OverLimitError | None" = None
    worst: Use = NOTHING

    def charged(self, bill: Bill) -> int:
        """Compute what a budget is charged for an attempt: its cost, up to what was reserved.

        Its own cost was asked for. What of the time before it goes beyond that no attempt has had.
        """
        reserved: dict[Account, int] = defaultdict(int)
        for (account, _), amount in self.parts.items():
            if account.unit is QuotaUnit.USD:
                reserved[account] += amount
        return min([nano_dollars(bill.usd + bill.idle_usd), *reserved.values()]) if reserved else 0


class OverLimitError(errors.NotReadyError):
    """A limit leaves a request no room: it is used up, or other workers hold the rest of it."""

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        super().__init__(described(standing), again_seconds=AGAIN.total_seconds())


#: The reason of a page whose body was given up in the middle: as much as it may have had arrived.
_TOO_LARGE: Final = errors.TooLargeError.__name__.removesuffix("Error")


def used_by(end: Outcome | Waiting, leased: LeasedRequest, worst: Use) -> Use:
    """Compute what an attempt has used but for records; one that waits has begun nothing."""
    if isinstance(end, Waiting):
        return Use(bytes=leased.received)
    is_too_large = isinstance(end, Dead) and end.reason == _TOO_LARGE
    return Use(requests=1, bytes=worst.bytes if is_too_large else leased.received)
