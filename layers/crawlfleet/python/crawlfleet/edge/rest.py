"""The REST API: an API Gateway proxy event in, its answer out.

Dispatch is powertools' resolver over the table of routes. Each operation reads its input, calls the
:class:`Operations` that it was given, and renders what comes back; errors become problem documents
here and nowhere else.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Protocol
from urllib.parse import unquote

import msgspec
from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError as NoRouteError

from crawlfleet.edge import inputs, views
from crawlfleet.edge.openapi import document
from crawlfleet.edge.problems import (
    CONTENT_TYPE,
    RETRY_AFTER_SECONDS,
    MethodNotAllowedError,
    ProblemDocument,
    document_of,
)
from crawlfleet.edge.routes import ROUTES, Route
from crawlfleet.errors import CrawlfleetError, InvalidRequestError, NotFoundError, Problem
from crawlfleet.model.request import Tracked
from crawlfleet.model.schedule import Schedule
from crawlfleet.model.submission import Accepted, Receipt, Refused, Submission
from crawlfleet.model.totals import Stats

JSON: Final = "application/json"
#: A synchronous Lambda invocation answers with 6 MB at most, or not at all.
ANSWER_LIMIT: Final = 6_000_000
_SLUG: Final = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
_PATHS: Final = {
    route.path: re.compile(re.sub(r"{\w+}", "[^/]+", route.path) + "/*") for route in ROUTES
}


class Page(Protocol):
    """A page of a list."""

    @property
    def items(self) -> list[Any]:
        """Its entries."""
        ...

    @property
    def cursor(self) -> str | None:
        """Where to go on."""
        ...

    @property
    def more(self) -> bool:
        """Whether there is more now."""
        ...


class Operations(Protocol):
    """What the API can have done, each for the tenant of the call's API key."""

    def tenant(self, api_key_id: str | None) -> str:
        """The tenant of an API key, by the key's id."""
        ...

    def submit(
        self,
        tenant: str,
        biz: str,
        submissions: list[Submission | InvalidRequestError],
        *,
        single: bool,
    ) -> list[Receipt]:
        """Submit entries; one receipt each, in order."""
        ...

    def look_up(self, tenant: str, biz: str, request_id: str) -> Tracked:
        """One request."""
        ...

    def cancel(self, tenant: str, biz: str, request_id: str) -> Tracked:
        """Cancel a request that nobody works on."""
        ...

    def list_requests(
        self,
        tenant: str,
        biz: str,
        *,
        state: str | None,
        since: datetime | None,
        cursor: str | None,
        limit: int,
    ) -> Page:
        """A page of requests."""
        ...

    def list_records(
        self, tenant: str, biz: str, *, request: str | None, cursor: str | None, limit: int
    ) -> Page:
        """A page of records."""
        ...

    def stats(self, tenant: str, biz: str) -> Stats:
        """Totals, depth and rates."""
        ...

    def label(self, tenant: str, biz: str) -> Callable[[int], str]:
        """How this biz calls its states."""
        ...

    def put_schedule(self, schedule: Schedule) -> Schedule:
        """Create or replace a schedule."""
        ...

    def get_schedule(self, tenant: str, biz: str, name: str) -> Schedule:
        """One schedule."""
        ...

    def list_schedules(self, tenant: str, biz: str) -> list[Schedule]:
        """Every schedule of a biz."""
        ...

    def delete_schedule(self, tenant: str, biz: str, name: str) -> None:
        """Delete a schedule."""
        ...

    def health(self) -> dict[str, str]:
        """The parts that the router needs, each ``ok`` or what is wrong with it."""
        ...


class RestApi:
    """The API over its operations.

    Args:
        operations: Gives what the API works on; asked at each call until it succeeds, so that a
            part that cannot be opened is a problem document too.
        log: Is told of every fault that is not the caller's: what is answered with 5xx.
    """

    def __init__(
        self, operations: Callable[[], Operations], log: Callable[[Exception], None]
    ) -> None:
        self._open = operations
        self._opened: Operations | None = None
        self._log = log
        self._app = APIGatewayRestResolver()
        self._app.not_found(self._no_route)
        for route in ROUTES:
            handler = getattr(self, f"_{_snake(route.operation)}")
            self._app.route(re.sub(r"{(\w+)}", r"<\1>", route.path), method=route.method)(
                self._guarded(route, handler)
            )

    def answer(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Answer one proxy event; never raises."""
        try:
            return self._app.resolve(event, context)
        except Exception as error:  # noqa: BLE001  the last border: whatever it is becomes a 500
            self._log(error)
            problem = document_of(error)
            return {
                "statusCode": problem.status,
                "headers": {"Content-Type": CONTENT_TYPE},
                "body": msgspec.json.encode(problem).decode(),
                "isBase64Encoded": False,
            }

    # ---- operations ----------------------------------------------------------------------------

    def _submit_requests(self, tenant: str, biz: str) -> Response[str]:
        submissions, batch = inputs.submissions_in(inputs.body_of(self._event))
        receipts = self._operations.submit(tenant, biz, submissions, single=not batch)
        if not batch:
            receipt = receipts[0]
            if isinstance(receipt, Refused):
                raise receipt.error
            return _json(202, views.submitted_view(receipt))
        accepted = sum(isinstance(receipt, Accepted) for receipt in receipts)
        view = views.BatchView(
            accepted=accepted,
            rejected=len(receipts) - accepted,
            requests=[views.entry_view(receipt) for receipt in receipts],
        )
        if accepted == 0:
            raise _error_of_all(receipts)
        return _json(202, view)

    def _list_requests(self, tenant: str, biz: str) -> Response[str]:
        query = self._query()

        def ask(limit: int) -> Page:
            return self._operations.list_requests(
                tenant,
                biz,
                state=query.get("state"),
                since=inputs.since_in(query.get("since")),
                cursor=query.get("cursor"),
                limit=limit,
            )

        def view(page: Page) -> views.RequestsView:
            label = self._operations.label(tenant, biz)
            shown = [views.request_view(tracked, label) for tracked in page.items]
            return views.RequestsView(requests=shown, cursor=page.cursor, more=page.more)

        return _page(inputs.limit_in(query.get("limit")), ask, view)

    def _get_request(self, tenant: str, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
        tracked = self._operations.look_up(tenant, biz, id)
        return _json(200, views.request_view(tracked, self._operations.label(tenant, biz)))

    def _cancel_request(self, tenant: str, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
        tracked = self._operations.cancel(tenant, biz, id)
        return _json(200, views.request_view(tracked, self._operations.label(tenant, biz)))

    def _list_records(self, tenant: str, biz: str) -> Response[str]:
        query = self._query()

        def ask(limit: int) -> Page:
            return self._operations.list_records(
                tenant,
                biz,
                request=query.get("request_id"),
                cursor=query.get("cursor"),
                limit=limit,
            )

        def view(page: Page) -> views.RecordsView:
            shown = [views.record_view(record) for record in page.items]
            return views.RecordsView(records=shown, cursor=page.cursor, more=page.more)

        return _page(inputs.limit_in(query.get("limit")), ask, view)

    def _get_stats(self, tenant: str, biz: str) -> Response[str]:
        return _json(200, views.stats_view(self._operations.stats(tenant, biz)))

    def _list_schedules(self, tenant: str, biz: str) -> Response[str]:
        found = self._operations.list_schedules(tenant, biz)
        return _json(
            200, views.SchedulesView(schedules=[views.schedule_view(one) for one in found])
        )

    def _get_schedule(self, tenant: str, biz: str, name: str) -> Response[str]:
        found = self._operations.get_schedule(tenant, biz, name)
        return _json(200, views.schedule_view(found))

    def _put_schedule(self, tenant: str, biz: str, name: str) -> Response[str]:
        if not _SLUG.match(name):
            raise InvalidRequestError.of(
                "name", "must be 1 to 32 of a-z, 0-9 and -, beginning with a letter"
            )
        given = inputs.schedule_in(inputs.body_of(self._event))
        schedule = Schedule(
            tenant=tenant,
            biz=biz,
            name=name,
            cron=given.cron,
            time_zone=given.time_zone,
            rule=given.rule,
            urls=given.urls,
            missed=given.missed,
            enabled=given.enabled,
        )
        return _json(200, views.schedule_view(self._operations.put_schedule(schedule)))

    def _delete_schedule(self, tenant: str, biz: str, name: str) -> Response[str]:
        self._operations.delete_schedule(tenant, biz, name)
        return Response(204, JSON, "")

    def _get_health(self) -> Response[str]:
        parts = self._operations.health()
        well = all(state == "ok" for state in parts.values())
        # Redis alone may be away: submissions are persisted and queued later.
        able = well or all(state == "ok" for part, state in parts.items() if part != "redis")
        status = "ok" if well else "degraded" if able else "down"
        return _json(200 if able else 503, views.HealthView(status=status, parts=parts))

    def _get_open_api(self) -> Response[str]:
        return Response(200, JSON, document().decode())

    @property
    def _operations(self) -> Operations:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    # ---- the call at hand ------------------------------------------------------------------------

    @property
    def _event(self) -> Mapping[str, Any]:
        event: Mapping[str, Any] = self._app.current_event.raw_event
        return event

    def _tenant(self) -> str:
        identity = (self._event.get("requestContext") or {}).get("identity") or {}
        return self._operations.tenant(identity.get("apiKeyId"))

    def _query(self) -> Mapping[str, str]:
        return {name: values[-1] for name, values in self._parameters().items() if values}

    def _parameters(self) -> Mapping[str, Sequence[str]]:
        """Every value of each parameter.

        API Gateway's test page sends the last ones alone; other proxies send only all of them.
        """
        many: Mapping[str, Sequence[str]] = self._event.get("multiValueQueryStringParameters") or {}
        last: Mapping[str, str] = self._event.get("queryStringParameters") or {}
        return many or {name: (value,) for name, value in last.items()}

    def _guarded(
        self, route: Route, handler: Callable[..., Response[str]]
    ) -> Callable[..., Response[str]]:
        def guarded(**path: str) -> Response[str]:
            try:
                # Whose call it is comes before what it says: a stranger learns nothing from us.
                tenant = () if route.open else (self._tenant(),)
                inputs.known_parameters(self._parameters(), route.names)
                return handler(*tenant, **{name: unquote(value) for name, value in path.items()})
            except Exception as error:  # noqa: BLE001  becomes an answer; see problems.status_of
                problem = document_of(error)
                if problem.status >= 500:
                    self._log(error)
                return _problem(problem)

        return guarded

    def _no_route(self, _: NoRouteError) -> Response[str]:
        method, path = self._event.get("httpMethod"), str(self._event.get("path"))
        message = f"there is no {method} {path[:200]!r}"
        allowed = tuple(route.method for route in ROUTES if _PATHS[route.path].fullmatch(path))
        if not allowed or method in allowed:  # the path holds signs that no route takes
            return _problem(document_of(NotFoundError(message)))
        refusal = _problem(document_of(MethodNotAllowedError(message, allowed)))
        refusal.headers["Allow"] = ", ".join(sorted(allowed))
        return refusal


def _json(status: int, view: views.View) -> Response[str]:
    return Response(status, JSON, msgspec.json.encode(view).decode())


def _page(
    limit: int, ask: Callable[[int], Page], view: Callable[[Page], views.View]
) -> Response[str]:
    """A page that the answer of a Lambda can hold: one of fewer entries where they are large."""
    while True:
        page = ask(limit)
        answer = _json(200, view(page))
        if len(page.items) <= 1 or _fits(str(answer.body)):
            return answer
        limit = len(page.items) // 2


def _fits(body: str) -> bool:
    """Whether a body, as the string it becomes in the answer's JSON, is within the limit.

    A character is twelve there at most; only where that could be too much is it counted.
    """
    return len(body) * 12 <= ANSWER_LIMIT or len(json.dumps(body)) <= ANSWER_LIMIT


def _problem(problem: ProblemDocument) -> Response[str]:
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if problem.status in (429, 503) else {}
    try:
        text = msgspec.json.encode(problem).decode()
    except UnicodeEncodeError:  # it quotes half a surrogate pair, which UTF-8 cannot carry
        text = json.dumps(msgspec.to_builtins(problem))
    return Response(problem.status, CONTENT_TYPE, text, headers)


def _error_of_all(receipts: list[Receipt]) -> CrawlfleetError:
    """The one error of a batch of which nothing was stored: every entry's mistakes together."""
    errors = [receipt.error for receipt in receipts if isinstance(receipt, Refused)]
    problems: list[Problem] = []
    for error in errors:
        if not isinstance(error, InvalidRequestError):
            return error
        problems.extend(error.problems)
    return InvalidRequestError(problems)


def _snake(operation: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", operation).lower()
