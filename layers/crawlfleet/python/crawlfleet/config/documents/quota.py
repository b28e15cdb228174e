"""Quotas: the most that a job, a biz, a tenant or a user of it may use (SPEC.md D9, H2)."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from crawlfleet.kernel.errors import Problem
from crawlfleet.kernel.validation import Document, Words

#: Quotas of one owner.
MOST_QUOTAS: Final = 8
#: Lua counts in doubles: up to this they are exact.
MOST_AMOUNT: Final = 10**15
#: Money is counted in these: a page costs some thousands of them, and a million dollars are exact.
NANO_DOLLARS: Final = 10**9
MOST_DOLLARS: Final = MOST_AMOUNT // NANO_DOLLARS


class QuotaUnit(StrEnum):
    """The unit of a quota.

    ``requests`` are attempts at a page, whatever redirects they follow; ``records`` those that are
    stored; ``bytes`` bodies of pages, decompressed, as ``fetch.max_body_bytes`` counts them;
    ``usd`` what pages cost, in US dollars, as the stage's prices say it, and what items of streams
    cost, as their channels say it; ``items`` are those of streams, one for each subscription that
    takes it.
    """

    REQUESTS = "requests"
    RECORDS = "records"
    BYTES = "bytes"
    USD = "usd"
    ITEMS = "items"


#: What streams use: limits in other units are none of theirs.
STREAM_UNITS: Final = frozenset({QuotaUnit.ITEMS, QuotaUnit.USD})


class QuotaPeriod(StrEnum):
    """The period of a quota: a day or a month of UTC, or all of its owner's life."""

    DAY = "day"
    MONTH = "month"
    ALL = "all"


class AtLimit(StrEnum):
    """The fate of requests at the limit; subscriptions to streams always wait.

    They ``wait`` for the next period, or for a higher limit; or they ``end``, as dead letters of
    the reason ``quota``, and further submissions are refused.
    """

    WAIT = "wait"
    END = "end"


class Quota(Document, frozen=True, kw_only=True):
    """The most of a unit that may be used in each period.

    Workers hold shares of it. All of them together use no more than it, and of a period's at most
    one share more for each worker that was cut off or died in it (fleet.quotas).
    """

    unit: QuotaUnit
    most: Annotated[int, Meta(ge=1, le=MOST_AMOUNT)] | Annotated[float, Meta(gt=0, le=MOST_AMOUNT)]
    per: QuotaPeriod = QuotaPeriod.ALL
    at_limit: AtLimit = AtLimit.WAIT

    def __post_init__(self) -> None:
        """Refuse parts of what is counted whole, and of nano-dollars."""
        if self.unit is not QuotaUnit.USD:
            if not isinstance(self.most, int):
                raise ValueError(f"most: expected a whole number of {self.unit} ({self.most})")
        elif self.most > MOST_DOLLARS:
            raise ValueError(f"most: expected at most {MOST_DOLLARS:,} US dollars ({self.most})")
        elif abs(self.amount / NANO_DOLLARS - self.most) > self.most * 1e-12:
            said = f"most: expected US dollars with at most nine decimal places ({self.most})"
            raise ValueError(said)

    @property
    def amount(self) -> int:
        """Return the most as it is counted: money in nano-dollars.

        >>> Quota(unit=QuotaUnit.USD, most=5.03).amount
        5030000000
        """
        return int(self.most) if self.unit is not QuotaUnit.USD else nano_dollars(self.most)


Quotas: TypeAlias = Annotated[tuple[Quota, ...], Meta(max_length=MOST_QUOTAS)]
#: A user: whom a tenant names as the one that a submission, a job or a schedule is for.
UserName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}\Z"),
    Words("up to 64 letters, digits, ., _, @ and -, a letter or a digit first"),
]


def nano_dollars(usd: float) -> int:
    """Count money in whole nano-dollars: from here on nothing of it is rounded any more.

    >>> nano_dollars(0.1) + nano_dollars(0.2) == nano_dollars(0.3)
    True
    """
    return round(usd * NANO_DOLLARS)


def stated(unit: QuotaUnit, amount: int) -> int | float:
    """Return an amount as documents and the API have it: money in dollars.

    >>> stated(QuotaUnit.USD, 5_030_000_000), stated(QuotaUnit.BYTES, 9)
    (5.03, 9)
    """
    return amount if unit is not QuotaUnit.USD else amount / NANO_DOLLARS


def written(unit: QuotaUnit, amount: int) -> str:
    """Write an amount of a unit for people, money as dollars with the places that say something.

    >>> written(QuotaUnit.BYTES, 1_000), written(QuotaUnit.USD, 5_030_000_000)
    ('1,000', '$5.03')
    >>> written(QuotaUnit.USD, 4_999_500_000), written(QuotaUnit.USD, 612_400)
    ('$4.9995', '$0.0006124')
    """
    if unit is not QuotaUnit.USD:
        return f"{amount:,}"
    usd = amount / NANO_DOLLARS
    if 0 < usd < 0.001:
        return f"${usd:.9f}".rstrip("0")
    return f"${usd:,.2f}" if amount % 10_000_000 == 0 else f"${usd:,.4f}"


def quota_problems(
    place: str,
    quotas: Sequence[Quota],
    largest_body: int | None = None,
    dearest_page: int | None = None,
) -> Iterator[Problem]:
    """Find quotas that are said twice, and those that are too small for one page.

    The worst case is reserved before a download begins: where not even one body of
    ``largest_body``, or one page of the ``dearest_page`` nano-dollars, fits, none ever would.
    """
    seen: set[tuple[QuotaUnit, QuotaPeriod]] = set()
    for index, quota in enumerate(quotas):
        if (quota.unit, quota.per) in seen:
            said = f"says {quota.unit} per {quota.per} a second time"
            yield Problem(f"{place}[{index}]", said)
        seen.add((quota.unit, quota.per))
        is_small = largest_body is not None and quota.amount < largest_body
        if quota.unit is QuotaUnit.BYTES and is_small:
            said = f"is less than one page may have (fetch.max_body_bytes is {largest_body:,}): "
            yield Problem(f"{place}[{index}].most", said + "no download could begin")
        is_poor = dearest_page is not None and quota.amount < dearest_page
        if quota.unit is QuotaUnit.USD and is_poor:
            usd = written(quota.unit, dearest_page or 0)
            said = f"is less than one page may cost ({usd}, by fetch.total_seconds, "
            said += "fetch.max_body_bytes and the stage's prices): no download could begin"
            yield Problem(f"{place}[{index}].most", said)
