"""The API's records, oldest first."""

from typing import Any, Final

from aws_lambda_powertools.event_handler import Response

from crawlfleet.api.responses import View, at, page_of
from crawlfleet.api.routing import ANY, CURSOR, LIMIT, Call, Parameter, Route
from crawlfleet.requests.models import Record


class RecordView(View, frozen=True, kw_only=True):
    """A record."""

    id: str
    request_id: str
    url: str
    rule: str
    rule_version: str
    stored_at: str
    fields: dict[str, Any]


class RecordsView(View, frozen=True, kw_only=True):
    """A page of records; ``cursor`` is where to go on, now or later."""

    records: list[RecordView]
    cursor: str | None
    more: bool


def record_view(record: Record) -> RecordView:
    """A record."""
    return RecordView(
        id=record.id,
        request_id=str(record.request_id),
        url=record.url,
        rule=record.rule,
        rule_version=record.rule_version,
        stored_at=at(record.stored_at),
        fields=record.fields,
    )


def _list(call: Call, biz: str) -> Response[str]:
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
        lambda page: RecordsView(
            records=[record_view(record) for record in page.items],
            cursor=page.cursor,
            more=page.more,
        ),
    )


_REQUEST_ID: Final = Parameter(
    name="request_id",
    meaning="Only the records of this request.",
    shape={"type": "string", "maxLength": 36},
)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="listRecords",
        handler=_list,
        method="GET",
        path="/v1/{biz}/records",
        summary="Records by time of storing, oldest first. The cursor may be kept to come back.",
        parameters=(_REQUEST_ID, CURSOR, LIMIT),
        answers={200: RecordsView},
        problems=ANY,
    ),
)
