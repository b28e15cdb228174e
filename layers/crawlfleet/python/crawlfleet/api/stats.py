"""The API's figures of a biz: totals, depth and rates, and the ledger with its difference."""

from typing import Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.inputs import job_in
from crawlfleet.api.responses import View, at, shown
from crawlfleet.api.routing import ANY, JOB, Call, Route
from crawlfleet.kernel.time import from_ms
from crawlfleet.requests.models import Ledger
from crawlfleet.requests.queue.stats import Rates, Stats


class QueueView(View, frozen=True, kw_only=True):
    """The queue's depth."""

    queued: int
    leased: int
    delayed: int
    oldest_at: str | None


class RatesView(View, frozen=True, kw_only=True):
    """Requests per second over the last full 1, 5 and 60 seconds."""

    submitted: dict[str, float]
    processed: dict[str, float]


class StatsView(View, frozen=True, kw_only=True):
    """Totals, depth, rates, and the workers' time by phase in seconds.

    ``submitted`` is how many there ever were, the sum of all states.
    """

    submitted: int
    states: dict[str, int]
    records: int
    queue: QueueView
    rates: RatesView
    phases: dict[str, float]


class LedgerView(View, frozen=True, kw_only=True):
    """Where everything is: ``submitted`` is the sum of the others, or ``difference`` tells."""

    job: str | None
    submitted: int
    pending: int
    leased: int
    waiting: int
    done: int
    dead: int
    cancelled: int
    expired: int
    others: int
    difference: int
    balanced: bool


def stats_view(stats: Stats) -> StatsView:
    """Totals, depth and rates."""
    oldest = stats.depth.oldest_ts
    return StatsView(
        submitted=stats.ledger.submitted,
        states=stats.states,
        records=stats.records,
        queue=QueueView(
            queued=stats.depth.queued,
            leased=stats.depth.leased,
            delayed=stats.depth.delayed,
            oldest_at=None if oldest is None else at(from_ms(oldest)),
        ),
        rates=RatesView(submitted=rates_of(stats.submitted), processed=rates_of(stats.processed)),
        phases={phase: round(seconds, 3) for phase, seconds in stats.phases.items()},
    )


def rates_of(rates: Rates) -> dict[str, float]:
    """Rates by their span."""
    return {"1s": rates.per_1s, "5s": rates.per_5s, "60s": rates.per_60s}


def ledger_view(ledger: Ledger, job: str | None) -> LedgerView:
    """Every term of the ledger."""
    return LedgerView(
        job=job,
        submitted=ledger.submitted,
        pending=ledger.pending,
        leased=ledger.leased,
        waiting=ledger.waiting,
        done=ledger.done,
        dead=ledger.dead,
        cancelled=ledger.cancelled,
        expired=ledger.expired,
        others=ledger.others,
        difference=ledger.difference,
        balanced=ledger.difference == 0,
    )


def _get_stats(call: Call, biz: str) -> Response[str]:
    found = call.context.tracking.stats(call.tree, call.tenant, biz, call.now)
    return shown(200, stats_view(found))


def _get_ledger(call: Call, biz: str) -> Response[str]:
    job, ports = job_in(call.query.get("job")), call.context.tracking
    return shown(200, ledger_view(ports.audit(call.tree, call.tenant, biz, job, call.now), job))


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="getStats",
        handler=_get_stats,
        method="GET",
        path="/v1/{biz}/stats",
        summary="Totals per state, queue depth, rates over 1, 5 and 60 seconds.",
        answers={200: StatsView},
        problems=ANY,
    ),
    Route(
        operation="getLedger",
        handler=_get_ledger,
        method="GET",
        path="/v1/{biz}/ledger",
        summary="Where everything that was ever submitted is: every term, and the difference.",
        parameters=(JOB,),
        answers={200: LedgerView},
        problems=ANY,
    ),
)
