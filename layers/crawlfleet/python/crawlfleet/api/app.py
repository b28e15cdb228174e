"""The REST API: an API Gateway proxy event in, its answer out.

Dispatch is powertools' resolver over the table of routes. Each operation reads its input, calls the
:class:`Operations` that it was given, and renders what comes back; errors become problem documents
here and nowhere else.
"""

import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError as NoRouteError

from crawlfleet.api import inputs
from crawlfleet.api import responses as views
from crawlfleet.api.dead_letters import LetterCalls
from crawlfleet.api.fleet import FleetCalls
from crawlfleet.api.incidents import IncidentCalls
from crawlfleet.api.jobs import JobCalls
from crawlfleet.api.openapi import document
from crawlfleet.api.operations import Operations
from crawlfleet.api.requests import InsightCalls
from crawlfleet.api.responses import (
    CONTENT_TYPE,
    JSON,
    MethodNotAllowedError,
    Page,
    document_of,
    is_fault,
    page_of,
    problem_of,
    shown,
)
from crawlfleet.api.routes import REPLAYED, ROUTES
from crawlfleet.api.routing import Route
from crawlfleet.api.rules import TrialCalls
from crawlfleet.api.schedules import ScheduleCalls
from crawlfleet.api.seeds import SeedCalls
from crawlfleet.api.spiders import SpiderCalls
from crawlfleet.api.usage import DemandCalls
from crawlfleet.kernel.errors import CrawlfleetError, InvalidRequestError, NotFoundError, Problem
from crawlfleet.requests.submission.models import Accepted, Receipt, Refused

_PATHS: Final = {
    route.path: re.compile(re.sub(r"{\w+}", "[^/]+", route.path) + "/*") for route in ROUTES
}


class RestApi(
    LetterCalls,
    InsightCalls,
    IncidentCalls,
    SeedCalls,
    SpiderCalls,
    TrialCalls,
    FleetCalls,
    JobCalls,
    ScheduleCalls,
    DemandCalls,
):
    """The API over its operations.

    Args:
        operations: Gives what the API works on; asked at each call until it succeeds, so that a
            part that cannot be opened is a problem document too.
        log: Is told of every fault that is not the caller's: what is answered with 5xx.
    """

    def __init__(
        self, operations: Callable[[], Operations], log: Callable[[Exception], None]
    ) -> None:
        super().__init__(operations)
        self._log = log
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
        key = inputs.idempotency_key_in(self._event)
        submissions, batch = inputs.submissions_in(inputs.body_of(self._event))
        receipts = self._operations.submit(tenant, biz, submissions, single=not batch, key=key)
        headers = {REPLAYED: "true"} if _repeated(receipts) else {}
        if not batch:
            receipt = receipts[0]
            if isinstance(receipt, Refused):
                raise receipt.error
            return shown(202, views.submitted_view(receipt), headers)
        accepted = sum(isinstance(receipt, Accepted) for receipt in receipts)
        view = views.BatchView(
            accepted=accepted,
            rejected=len(receipts) - accepted,
            requests=[views.entry_view(receipt) for receipt in receipts],
        )
        if accepted == 0:
            raise _error_of_all(receipts)
        return shown(202, view, headers)

    def _list_requests(self, tenant: str, biz: str) -> Response[str]:
        query = self._query()

        def ask(limit: int) -> Page:
            return self._operations.list_requests(
                tenant,
                biz,
                state=query.get("state"),
                since=inputs.time_in(query.get("since"), "since"),
                cursor=query.get("cursor"),
                limit=limit,
            )

        def view(page: Page) -> views.RequestsView:
            label = self._operations.label(tenant, biz)
            found = [views.request_view(tracked, label) for tracked in page.items]
            return views.RequestsView(requests=found, cursor=page.cursor, more=page.more)

        return page_of(inputs.limit_in(query.get("limit")), ask, view)

    def _get_request(self, tenant: str, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
        tracked = self._operations.look_up(tenant, biz, id)
        return shown(200, views.request_view(tracked, self._operations.label(tenant, biz)))

    def _cancel_request(self, tenant: str, biz: str, id: str) -> Response[str]:  # noqa: A002  the path's word
        tracked = self._operations.cancel(tenant, biz, id)
        return shown(200, views.request_view(tracked, self._operations.label(tenant, biz)))

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
            found = [views.record_view(record) for record in page.items]
            return views.RecordsView(records=found, cursor=page.cursor, more=page.more)

        return page_of(inputs.limit_in(query.get("limit")), ask, view)

    def _get_stats(self, tenant: str, biz: str) -> Response[str]:
        return shown(200, views.stats_view(self._operations.stats(tenant, biz)))

    def _get_open_api(self) -> Response[str]:
        return Response(200, JSON, document().decode())

    def _guarded(
        self, route: Route, handler: Callable[..., Response[str]]
    ) -> Callable[..., Response[str]]:
        def guarded(**path: str) -> Response[str]:
            try:
                # Whose call it is comes before what it says: a stranger learns nothing from us.
                tenant = () if route.open else (self._tenant(),)
                inputs.known_parameters(self._parameters(), route.names)
                return handler(*tenant, **{name: unquote(value) for name, value in path.items()})
            except Exception as error:  # noqa: BLE001  becomes an answer; see problems.document_of
                if is_fault(error):
                    self._log(error)
                return problem_of(error)

        return guarded

    def _no_route(self, _: NoRouteError) -> Response[str]:
        method, path = self._event.get("httpMethod"), str(self._event.get("path"))
        message = f"there is no {method} {path[:200]!r}"
        allowed = tuple(route.method for route in ROUTES if _PATHS[route.path].fullmatch(path))
        if not allowed or method in allowed:  # the path holds signs that no route takes
            return problem_of(NotFoundError(message))
        refusal = problem_of(MethodNotAllowedError(message, allowed))
        refusal.headers["Allow"] = ", ".join(sorted(allowed))
        return refusal


def _repeated(receipts: list[Receipt]) -> bool:
    """Whether all that was accepted had been accepted before."""
    accepted = [receipt for receipt in receipts if isinstance(receipt, Accepted)]
    return bool(accepted) and all(receipt.repeated for receipt in accepted)


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
