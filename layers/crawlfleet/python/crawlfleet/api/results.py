"""Results in the API: records, totals with depth and rates, the ledger with its difference."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from aws_lambda_powertools.event_handler import Response
from msgspec.structs import replace

from crawlfleet.api.inputs import host_in, job_in, newest_first_in, time_in
from crawlfleet.api.responses import at, filled, page_of, shown
from crawlfleet.api.routing import CURSOR, JOB, LIMIT, Call, Parameter, Routes, order_by, word
from crawlfleet.config.lookup import biz_of
from crawlfleet.kernel.errors import InvalidRequestError, StoreUnavailableError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import from_ms
from crawlfleet.requests import models
from crawlfleet.requests.models import ALL_RECORDS, RecordFilter
from crawlfleet.requests.queue import stats as queue_stats
from crawlfleet.wire.results import Ledger, Queue, Rates, Record, RecordsPage, Speeds, Stats

if TYPE_CHECKING:
    from crawlfleet.requests.queue.redis.crawls import CrawlLedger


def record_view(record: models.Record) -> Record:
    """Shape a record."""
    return Record(
        id=record.id,
        request_id=str(record.request_id),
        job=record.job,
        url=record.url,
        rule=record.rule,
        rule_version=record.rule_version,
        stored_at=at(record.stored_at),
        fields=record.fields,
        trace=record.trace,
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


_FILTERS: Final = (
    JOB,
    word("rule", "Only those that this rule, or spider, has read."),
    word("rule_version", "Only those that were read by this version of it."),
    word("host", "Only those of this host; a port or a scheme does not matter."),
    word("field", "Only those in which this field has a value, or with =VALUE that one."),
    *(
        Parameter(
            name=name,
            meaning=f"Only those stored {when}: RFC 3339 with a zone, or epoch milliseconds.",
            shape={"type": "string", "maxLength": 40},
        )
        for name, when in (("since", "at this time or later"), ("until", "before this time"))
    ),
)
_ORDER: Final = order_by("By the time of storing")


def filter_in(query: Mapping[str, str]) -> RecordFilter:
    """Read which records are wanted.

    Raises:
        InvalidRequestError: names every parameter that is wrong.
    """
    newest = newest_first_in(query.get("order"))
    for name in ("rule", "rule_version", "host", "field"):
        if not 1 <= len(query.get(name, "x")) <= 255:
            raise InvalidRequestError.of(name, "must be 1 to 255 signs")
    field, equals, value = query.get("field", "").partition("=")
    if "field" in query and not field:
        raise InvalidRequestError.of("field", "has no name before its =")
    wanted = RecordFilter(
        job=job_in(query.get("job")),
        rule=query.get("rule"),
        rule_version=query.get("rule_version"),
        host=host_in(query.get("host"), "host"),
        field=field or None,
        value=value if equals else None,
        since=time_in(query.get("since"), "since"),
        until=time_in(query.get("until"), "until"),
        newest=newest,
    )
    if "request_id" in query and wanted != ALL_RECORDS:
        message = "names the page: no other filter and no order go with it"
        raise InvalidRequestError.of("request_id", message)
    return wanted


ROUTES: Final = Routes()


@ROUTES.add(
    "GET",
    "/v1/{biz}/records",
    RecordsPage,
    parameters=(_REQUEST_ID, *_FILTERS, _ORDER, CURSOR, LIMIT),
)
def list_records(call: Call, biz: str) -> Response[str]:
    """List records by time of storing, oldest first; all filters must hold.

    The cursor may be kept to come back, with the same filters and order. A page may be short, or
    empty, although ``more`` is true: a search looks at so many records at once.
    """
    wanted = filter_in(call.query)

    def page(found: tuple[Record, ...], *, cursor: str | None, more: bool) -> RecordsPage:
        note = None if found or more else _why_none(call, biz, wanted)
        return RecordsPage(found, note, cursor=cursor, more=more)

    return page_of(
        call.limit,
        lambda limit: call.context.tracking.list_records(
            call.tree,
            call.tenant,
            biz,
            request=call.query.get("request_id"),
            wanted=wanted,
            cursor=call.cursor,
            limit=limit,
            now=call.now,
        ),
        page,
        record_view,
    )


def _why_none(call: Call, biz: str, wanted: RecordFilter) -> str | None:
    """Say why there are no records of a job that has stored some under keys of their own."""
    narrowed = replace(wanted, job=None, rule=None, newest=False)
    if wanted.job is None or narrowed != ALL_RECORDS:
        return None
    queue_key, kept = biz_of(call.tree, call.tenant, biz)
    try:
        read = call.context.jobs.ledgers.coverage(queue_key, kept, wanted.job)
    except StoreUnavailableError as error:
        warn("it is not known why a job has no records", error)
        return None
    stored = sum(
        coverage.records
        for name, coverage in read.items()
        if wanted.rule in {None, name} and (reader := kept.reader(name)) is not None and reader.key
    )
    if not stored:
        return None
    return (
        f"the job {wanted.job} has stored {stored:,} records with a key of their own: such a "
        "record is that of the run that has saved it last, and these were saved anew by later "
        "runs, or have expired"
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
    found = None
    if job is not None and job.startswith(_OF_A_CRAWL):
        found = _crawl_ledger(call, biz, job.removeprefix(_OF_A_CRAWL))
    if found is None:
        found = ports.audit(call.tree, call.tenant, biz, job, call.now)
    if job is None:
        found = _with_crawls(call, biz, found)
    return shown(200, filled(Ledger, found, job=job, balanced=found.difference == 0))


#: Before the name of a crawl of Scrapy processes, which has a ledger as a job has.
_OF_A_CRAWL: Final = "scrapy."


def _crawl_ledger(call: Call, biz: str, name: str) -> models.Ledger | None:
    queue_key, _ = biz_of(call.tree, call.tenant, biz)
    crawl = call.context.crawls.of_crawl(queue_key.tenant, biz, name)
    return None if crawl is None else _sum(models.Ledger(), crawl)


def _with_crawls(call: Call, biz: str, found: models.Ledger) -> models.Ledger:
    """Add what Scrapy processes crawl for the biz; while Redis is away it is left out."""
    try:
        return _sum(found, call.context.crawls.of_biz(call.tenant, biz))
    except StoreUnavailableError as error:
        warn("a ledger is without its Scrapy crawls", error)
        return found


def _sum(found: models.Ledger, crawl: "CrawlLedger") -> models.Ledger:
    """Add a crawl: what is queued there is pending."""
    return replace(
        found,
        submitted=found.submitted + crawl.submitted,
        pending=found.pending + crawl.queued,
        leased=found.leased + crawl.leased,
        done=found.done + crawl.done,
        dead=found.dead + crawl.dead,
        cancelled=found.cancelled + crawl.cancelled,
    )
