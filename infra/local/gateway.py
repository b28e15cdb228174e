"""API Gateway on one machine: HTTP in, proxy events to the functions, their answers back.

It refuses what API Gateway refuses before a function is asked: a missing or unknown API key, a
path outside the API, a body above 10 MB. It answers as API Gateway does for a function that
fails (502), takes too long (504) or is throttled (500).
"""

import json
import secrets
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from aiohttp import web

from infra.fleet import AUTHORIZED_BY, COMPRESSED_FROM_BYTES, Route
from infra.local.keys import ApiKeys
from infra.local.lambda_process import Result
from infra.local.lambda_service import LambdaService, ThrottledError
from infra.local.proxy_event import (
    API_ID,
    Caller,
    HttpRequest,
    HttpResponse,
    MalformedAnswerError,
    matches,
    proxy_event,
    response_of,
)

MAX_BODY_BYTES: Final = 10 * 1024 * 1024

_SIGN_IN: Final = "/console/session"
#: Wrong keys that may be tried there in so many seconds: nobody guesses one so.
_TRIES: Final = 20
_TRY_SECONDS: Final = 60.0
#: API Gateway sets these itself, whatever a function says.
_NOT_A_FUNCTIONS: Final = {"content-length", "transfer-encoding", "connection"}


class Gateway:
    """The REST API in front of the functions."""

    def __init__(
        self,
        routes: Sequence[Route],
        function_names: dict[str, str],
        service: LambdaService,
        keys: ApiKeys,
        stage: str,
    ) -> None:
        """Serve ``routes``; ``function_names`` maps their functions to deployed names."""
        # The most specific resource wins at API Gateway, whatever the order.
        self._routes = sorted(routes, key=lambda route: ("{" in route.path, -len(route.path)))
        self._function_names = function_names
        self._service = service
        self._keys = keys
        self._stage = stage
        self._tried: list[float] = []

    def application(self) -> web.Application:
        """The HTTP application."""
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.router.add_route("*", "/{path:.*}", self._answer)
        return application

    async def _answer(self, request: web.Request) -> web.Response:
        request_id = str(uuid.uuid4())
        response = await self._respond(request, request_id)
        answer = web.Response(status=response.status, body=response.body)
        for name, value in response.headers:
            if name.lower() not in _NOT_A_FUNCTIONS:
                answer.headers.add(name, value)
        if "Content-Type" not in {name.title() for name, _ in response.headers}:
            answer.headers["Content-Type"] = "application/json"
        answer.headers["x-amzn-RequestId"] = request_id
        if len(response.body) >= COMPRESSED_FROM_BYTES:
            answer.enable_compression()  # where the client takes it
        return answer

    async def _respond(self, request: web.Request, request_id: str) -> HttpResponse:
        path, raw_path = request.path, request.rel_url.raw_path
        route = self._route(request.method, path)
        key = request.headers.get("x-api-key", "")
        if route is not None and route.leads_to:
            signed_in = await self._authorize(route, request)
            if signed_in is None:
                return _refusal(401, "nobody is signed in", "UnauthorizedException")
            key, before = signed_in, route.path.removesuffix("{proxy+}")
            into = route.leads_to.removesuffix("{proxy+}")
            path, raw_path = into + path[len(before) :], into + raw_path[len(before) :]
            route = self._route(request.method, path)
        if route is None:
            return _refusal(403, "Missing Authentication Token", "MissingAuthenticationToken")
        key_id = self._keys.key_id(key) or ""
        if route.api_key_required and not key_id:
            return self._refuse_key(request)
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            return _refusal(413, "Request Too Long", "RequestTooLarge")
        event = proxy_event(
            HttpRequest(
                method=request.method,
                raw_path=raw_path,
                query=request.rel_url.raw_query_string,
                headers=(*_sent_headers(request), *_forwarded(request)),
                body=body,
            ),
            Caller(
                # An open path carries no identity, even if a key was sent along.
                api_key=key if route.api_key_required else "",
                api_key_id=key_id if route.api_key_required else "",
                source_ip=request.remote or "",
            ),
            resource=route.path,
            stage=self._stage,
            request_id=request_id,
            at=datetime.now(UTC),
            domain=request.host,
        )
        name = self._function_names[route.function]
        try:
            result = await self._service.invoke(name, json.dumps(event))
        except ThrottledError:
            return _refusal(500, "Internal server error", "InternalServerErrorException")
        return _response(result)

    async def _authorize(self, route: Route, request: web.Request) -> str | None:
        """Ask the route's function for the key of the caller's session; None where it has none.

        Without one of the headers that it goes by, API Gateway does not even ask.
        """
        if not all(request.headers.get(name) for name in AUTHORIZED_BY):
            return None
        event = {
            "type": "REQUEST",
            "methodArn": f"arn:aws:execute-api:::{API_ID}/{self._stage}/{request.method}",
            "path": request.path,
            "httpMethod": request.method,
            "headers": dict((*_sent_headers(request), *_forwarded(request))),
        }
        try:
            result = await self._service.invoke(
                self._function_names[route.function], json.dumps(event)
            )
        except ThrottledError:
            return None
        answer = {} if result.failed else json.loads(result.payload)
        allowed = answer.get("policyDocument", {}).get("Statement", [{}])[0].get("Effect")
        return str(answer["context"]["key"]) if allowed == "Allow" else None

    def _refuse_key(self, request: web.Request) -> HttpResponse:
        """Refuse a key that there is not; who tries to sign in with many of them has to wait."""
        now = time.monotonic()
        if request.path.rstrip("/") != _SIGN_IN:
            return _forbidden()
        self._tried = [at for at in self._tried[-_TRIES:] if now - at < _TRY_SECONDS] + [now]
        if len(self._tried) > _TRIES:
            return _refusal(429, "Too Many Requests", "TooManyRequestsException")
        return _forbidden()

    def _route(self, method: str, path: str) -> Route | None:
        for route in self._routes:
            # API Gateway takes a slash at the end for none.
            if route.method in {"ANY", method} and matches(route.path, path.rstrip("/") or "/"):
                return route
        return None


def _sent_headers(request: web.Request) -> list[tuple[str, str]]:
    """Headers as the client spelled them."""
    return [
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers
    ]


def _forwarded(request: web.Request) -> list[tuple[str, str]]:
    """Add what API Gateway adds."""
    return [
        ("X-Forwarded-For", request.remote or ""),
        ("X-Forwarded-Port", str(request.url.port or 80)),
        ("X-Forwarded-Proto", "http"),
        ("X-Amzn-Trace-Id", f"Root=1-{int(time.time()):08x}-{secrets.token_hex(12)}"),
    ]


def _response(result: Result) -> HttpResponse:
    if result.failed:
        error = json.loads(result.payload)
        if error.get("errorType") == "Sandbox.Timedout":
            return _refusal(504, "Endpoint request timed out", "IntegrationTimeout")
        return _refusal(502, "Internal server error", "InternalServerErrorException")
    try:
        return response_of(result.payload.encode())
    except MalformedAnswerError:
        return _refusal(502, "Internal server error", "InternalServerErrorException")


def _forbidden() -> HttpResponse:
    return _refusal(403, "Forbidden", "ForbiddenException")


def _refusal(status: int, message: str, kind: str) -> HttpResponse:
    """Answer in API Gateway's own words."""
    body = json.dumps({"message": message}).encode()
    headers = (("Content-Type", "application/json"), ("x-amzn-ErrorType", kind))
    return HttpResponse(status, body, headers)
