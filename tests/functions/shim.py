"""The router as a WSGI application: what API Gateway does between a client and a handler."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from http.client import responses
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from infra.local.proxy_event import Caller, HttpRequest, proxy_event
from tests.functions.http import OPEN, Answer
from tests.kit.kernel import names
from tests.kit.worlds.functions import KEYS, World

Start = Callable[[str, list[tuple[str, str]]], object]


def wsgi(world: World) -> Callable[[dict[str, Any], Start], Iterable[bytes]]:
    """The application; the header ``x-api-key`` carries a tenant's first name."""

    def application(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        raw_path = environ.get("REQUEST_URI") or quote(environ["PATH_INFO"].encode("latin-1"))
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
        key = environ.get("HTTP_X_API_KEY", "")
        resource = path if path in OPEN else "/{proxy+}"
        length = int(environ.get("CONTENT_LENGTH") or 0)
        event = proxy_event(
            HttpRequest(
                method=environ["REQUEST_METHOD"],
                raw_path=raw_path.partition("?")[0],
                query=environ.get("QUERY_STRING", ""),
                headers=[
                    (name.removeprefix("HTTP_").replace("_", "-").title(), value)
                    for name, value in environ.items()
                    if name.startswith("HTTP_")
                ],
                body=environ["wsgi.input"].read(length),
            ),
            Caller(api_key=key, api_key_id="" if path in OPEN else KEYS.get(key, key)),
            resource=resource,
            stage="test",
            request_id=str(uuid4()),
            at=datetime.now(UTC),
            domain="localhost",
        )
        answer = Answer(world.call(names.ROUTER, event))
        start(f"{answer.status} {responses[answer.status]}", list(answer.headers.items()))
        return [answer.text.encode()]

    return application
