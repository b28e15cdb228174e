"""Costs, in US dollars."""

import msgspec


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of work: ``usd`` in all and by line, ``per_1000_pages`` that were read.

    ``pages`` were read; attempts that failed are in the cost, and null is said of no page at all.
    Lines are compute, calls, network, stores, storage and proxies.
    """

    usd: float = 0.0
    pages: int = 0
    per_1000_pages: float | None = None
    lines: dict[str, float] = {}


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """The range of a forecast: from ``low`` to ``high``, and what is ``likely``."""

    low: float
    likely: float
    high: float


class BudgetForecast(msgspec.Struct, frozen=True, kw_only=True):
    """The reach of a job's own budget of ``usd``.

    It pays for a ``part`` of the run, from 0 to 1, that is for ``pages``, and the run or the budget
    ends after ``seconds``.
    """

    usd: float
    part: Band
    pages: Band
    seconds: Band


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """A forecast of a run, from what earlier ones took.

    ``pages`` are attempts at pages, ``bytes`` as they travel, ``seconds`` from its start to its
    end, ``usd`` its cost. ``runs`` of the same spider are known; the middle one of their latest
    forecasts was wrong by ``error`` of what was paid, null where none was forecast. ``why`` says
    what it rests on where that is little. ``budget`` says what the job's own budget of money pays
    for, null where it has none.
    """

    pages: Band
    bytes: Band
    seconds: Band
    usd: Band
    runs: int = 0
    error: float | None = None
    why: tuple[str, ...] = ()
    budget: BudgetForecast | None = None


class Took(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts of a run, up to now or in all, as its forecast has them."""

    pages: int
    bytes: int
    seconds: float
    usd: float


class BizCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a biz's work in a period."""

    biz: str
    cost: Cost


class DayCost(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a day of UTC."""

    day: str
    cost: Cost


class CostsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The cost of a ``period``: a day, or a month; in all, by biz, by day.

    It is computed with the prices of the ``region`` as they were listed on ``prices_of``, but for
    those that the stage says itself.
    """

    period: str
    region: str
    prices_of: str
    cost: Cost
    bizs: tuple[BizCost, ...] = ()
    days: tuple[DayCost, ...] = ()
