"""Results in the API: records, totals with depth and rates, the ledger with its difference."""

from typing import Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.inputs import job_in
from crawlfleet.api.responses import at, filled, page_of, shown
from crawlfleet.api.routing import CURSOR, JOB, LIMIT, Call, Parameter, Routes
from crawlfleet.kernel.time import from_ms
from crawlfleet.requests import models
from crawlfleet.requests.queue import stats as queue_stats
from crawlfleet.wire.results import Ledger, Queue, Rates, Record, RecordsPage, Speeds, Stats


def record_view(record: models.Record) -> Record:
    """Shape a record."""
    return Record(
        id=record.id,
        request_id=str(record.request_id),
        url=record.url,
        rule=record.rule,
        rule_version=record.rule_version,
        stored_at=at(record.stored_at),
        fields=record.fields,
    )


def stats_view(stats: queue_stats.Stats) -> Stats:
    """Shape totals, depth and rates."""
    oldest = stats.depth.oldest_ts
    return Stats(
        submitted=stats.ledger.submitted,
        states=stats.states,
        records=stats.records,
        queue=filled(Queue, stats.depth, oldest_at=None if oldest is None else from_ms(oldest)),
        rates=rates_view(stats.submitted, stats.processed),
        phases={phase: round(seconds, 3) for phase, seconds in stats.phases.items()},
    )


def rates_view(submitted: queue_stats.Rates, processed: queue_stats.Rates) -> Rates:
    """Shape the rates of what came in and of what was worked off."""
    return Rates(submitted=filled(Speeds, submitted), processed=filled(Speeds, processed))


_REQUEST_ID: Final = Parameter(
    name="request_id",
    meaning="Only the records of this request.",
    shape={"type": "string", "maxLength": 36},
)

ROUTES: Final = Routes()


@ROUTES.add("GET", "/v1/{biz}/records", RecordsPage, parameters=(_REQUEST_ID, CURSOR, LIMIT))
def list_records(call: Call, biz: str) -> Response[str]:
    """List records by time of storing, oldest first. The cursor may be kept to come back."""
    return page_of(
        call.limit,
        lambda limit: call.context.tracking.list_records(
            call.tree,
            call.tenant,
            biz,
            request=call.query.get("request_id"),
            cursor=call.cursor,
            limit=limit,
            now=call.now,
        ),
        RecordsPage,
        record_view,
    )


@ROUTES.add("GET", "/v1/{biz}/stats", Stats)
def get_stats(call: Call, biz: str) -> Response[str]:
    """Get totals per state, queue depth, rates over 1, 5 and 60 seconds."""
    found = call.context.tracking.stats(call.tree, call.tenant, biz, call.now)
    return shown(200, stats_view(found))


@ROUTES.add("GET", "/v1/{biz}/ledger", Ledger, parameters=(JOB,))
def get_ledger(call: Call, biz: str) -> Response[str]:
    """Get the ledger: every term, counted by itself, and the difference."""
    job, ports = job_in(call.query.get("job")), call.context.tracking
    found = ports.audit(call.tree, call.tenant, biz, job, call.now)
    return shown(200, filled(Ledger, found, job=job, balanced=found.difference == 0))
