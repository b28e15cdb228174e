"""Costs in the API: of a tenant and its bizs, by day and month (SPEC.md H2)."""

import re
from calendar import monthrange
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.responses import filled, shown
from crawlfleet.api.routing import Call, Parameter, Routes
from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.documents.quota import Quota, QuotaUnit
from crawlfleet.config.lookup import biz_of
from crawlfleet.fleet.prices import cost_of, prices_of
from crawlfleet.jobs.costs.forecast import reach_of
from crawlfleet.jobs.costs.mongo import BizDay
from crawlfleet.jobs.models import Job, JobForecast, RunFigures
from crawlfleet.jobs.usage import together
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.wire.costs import (
    Band,
    BizCost,
    BudgetForecast,
    Cost,
    CostsAnswer,
    DayCost,
    Forecast,
    Took,
)

_PERIOD: Final = re.compile(r"\d{4}-\d{2}(-\d{2})?\Z", re.ASCII)
#: Smaller parts of a dollar are of nobody's interest.
_PLACES: Final = 12
PERIOD: Final = Parameter(
    name="period",
    meaning="A month or a day of UTC, such as 2026-11 or 2026-11-23. Default: this month. Days are "
    "kept for 400 days.",
    shape={"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}(-[0-9]{2})?$"},
)

ROUTES: Final = Routes()


def cost_view(tree: Tree, figures: RunFigures) -> Cost:
    """Shape the cost of what was measured, at the stage's prices."""
    found = cost_of(figures, prices_of(tree.stage.prices))
    each = found.per_1000_pages
    return Cost(
        usd=round(found.usd, _PLACES),
        pages=found.pages,
        per_1000_pages=None if each is None else round(each, _PLACES),
        lines={line: round(usd, _PLACES) for line, usd in found.lines.items()},
    )


def forecast_view(found: JobForecast) -> Forecast:
    """Shape a forecast."""
    bands = {name: filled(Band, getattr(found, name)) for name in Took.__struct_fields__}
    return filled(Forecast, found, budget=None, **bands)


def budget_view(found: JobForecast, quotas: Iterable[Quota]) -> BudgetForecast | None:
    """Shape what the smallest budget of money of a job pays for; None where it has none."""
    budgets = [float(one.most) for one in quotas if one.unit is QuotaUnit.USD]
    if not budgets:
        return None
    reach = reach_of(found, min(budgets))
    bands = {name: filled(Band, band) for name, band in reach._asdict().items()}
    return BudgetForecast(usd=min(budgets), **bands)


def took_view(tree: Tree, job: Job, figures: RunFigures, now: datetime) -> Took:
    """Shape what a run took, beside its forecast."""
    until = now if job.ended_at is None else job.ended_at
    return Took(
        pages=figures.requests,
        bytes=figures.bytes,
        seconds=round((until - job.created_at).total_seconds(), 3),
        usd=cost_view(tree, figures).usd,
    )


@ROUTES.add("GET", "/v1/costs", CostsAnswer, parameters=(PERIOD,))
def get_costs(call: Call) -> Response[str]:
    """Get the cost of the tenant's work in a month or a day, by biz and by day."""
    return _shown(call, None)


@ROUTES.add("GET", "/v1/{biz}/costs", CostsAnswer, parameters=(PERIOD,))
def get_costs_of_biz(call: Call, biz: str) -> Response[str]:
    """Get the cost of a biz's work in a month or a day, by day."""
    biz_of(call.tree, call.tenant, biz)
    return _shown(call, biz)


def _shown(call: Call, biz: str | None) -> Response[str]:
    period, first, last = period_in(call.query.get("period"), call.now)
    found = call.context.costs.days(call.tenant, biz, first, last)
    prices = prices_of(call.tree.stage.prices)

    def of(some: Iterable[BizDay]) -> Cost:
        return cost_view(call.tree, together(one.figures for one in some))

    answer = CostsAnswer(
        period=period,
        region=prices.region,
        prices_of=prices.as_of,
        cost=of(found),
        bizs=tuple(
            BizCost(biz=name, cost=of(one for one in found if one.biz == name))
            for name in sorted({one.biz for one in found})
        ),
        days=tuple(
            DayCost(day=day.isoformat(), cost=of(one for one in found if one.day == day))
            for day in sorted({one.day for one in found})
        ),
    )
    return shown(200, answer)


def period_in(text: str | None, now: datetime) -> tuple[str, date, date]:
    """Read a period: its name, its first and its last day.

    Raises:
        InvalidRequestError: it is neither a month nor a day.
    """
    said = f"{now.astimezone(UTC):%Y-%m}" if text is None else text
    try:
        if not _PERIOD.match(said):
            raise ValueError(said)  # noqa: TRY301  as the calendar says of others
        if len(said) > len("2026-11"):
            day = date.fromisoformat(said)
            return said, day, day
        first = date.fromisoformat(f"{said}-01")
    except ValueError:
        problem = "must be a month or a day of the calendar, such as 2026-11 or 2026-11-23"
        raise InvalidRequestError.of("period", problem) from None
    return said, first, first.replace(day=monthrange(first.year, first.month)[1])
