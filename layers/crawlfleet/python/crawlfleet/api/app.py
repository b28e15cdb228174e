"""Dispatch of the REST API: an API Gateway proxy event in, its answer out.

Dispatch is powertools' resolver over the table of routes. Errors become problem documents here and
nowhere else.
"""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import msgspec
from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError as NoRouteError

from crawlfleet.api.inputs import known_parameters
from crawlfleet.api.responses import (
    CONTENT_TYPE,
    MethodNotAllowedError,
    document_of,
    is_fault,
    problem_of,
)
from crawlfleet.api.routing import Call, Context, Route, all_routes, resources_at, routes_of
from crawlfleet.config.lookup import must_be_active
from crawlfleet.kernel.errors import NotFoundError


class RestApi:
    """The API over its context.

    Args:
        open_context: Gives what the API works on; asked at each call until it succeeds, so that a
            part that cannot be opened is a problem document too.
        log: Called with every fault that is not the caller's: what is answered with 5xx.
    """

    def __init__(
        self, open_context: Callable[[], Context], log: Callable[[Exception], None]
    ) -> None:
        self._open = open_context
        self._opened: Context | None = None
        self._log = log
        self._app = APIGatewayRestResolver()
        self._app.not_found(self._no_route)
        self._dispatched: set[str] = set()

    def answer(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """Answer one proxy event; never raises."""
        try:
            for resource in resources_at(str(event.get("path"))):
                self._dispatch(resource)
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

    def _dispatch(self, resource: str) -> None:
        """Have powertools dispatch the calls of a resource."""
        if resource in self._dispatched:
            return
        for route in routes_of(resource):
            rule = re.sub(r"{(\w+)}", r"<\1>", route.path)
            self._app.route(rule, method=route.method)(self._guarded(route))
        self._dispatched.add(resource)

    def _context(self) -> Context:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _guarded(self, route: Route) -> Callable[..., Response[str]]:
        def guarded(**path: str) -> Response[str]:
            call = Call(self._app.current_event.raw_event, self._context)
            try:
                if not route.open:
                    # The key is checked before the parameters: a stranger learns nothing from us.
                    _ = call.tenant
                    if route.method != "GET":
                        must_be_active(call.tree, call.tenant)
                if not route.any_parameters:
                    known_parameters(call.parameters, route.names)
                return route.handler(call, **{name: unquote(value) for name, value in path.items()})
            except Exception as error:  # noqa: BLE001  becomes an answer; see responses.document_of
                if is_fault(error):
                    self._log(error)
                return problem_of(error)

        return guarded

    def _no_route(self, _: NoRouteError) -> Response[str]:
        event = self._app.current_event.raw_event
        method, path = event.get("httpMethod"), str(event.get("path"))
        message = f"there is no {method} {path[:200]!r}"
        allowed = tuple(
            route.method
            for route in all_routes()
            if re.fullmatch(re.sub(r"{\w+}", "[^/]+", route.path) + "/*", path)
        )
        if not allowed or method in allowed:  # the path holds signs that no route takes
            return problem_of(NotFoundError(message))
        refusal = problem_of(MethodNotAllowedError(message, allowed))
        refusal.headers["Allow"] = ", ".join(sorted(allowed))
        return refusal
