"""Proxy events as API Gateway makes them, and their answers read back."""

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from infra.local.proxy_event import Caller, HttpRequest, proxy_event
from tests.kit.kernel import names
from tests.kit.worlds.functions import KEYS, World

OPEN = {"/health", "/openapi.json"}


class Answer:
    """A response as a client receives it."""

    def __init__(self, answer: dict[str, Any]) -> None:
        assert set(answer) >= {"statusCode", "body", "isBase64Encoded"}, answer
        assert answer["isBase64Encoded"] is False
        self.status: int = answer["statusCode"]
        many = answer.get("multiValueHeaders") or {}
        self.headers: dict[str, str] = {
            **(answer.get("headers") or {}),
            **{name: values[0] for name, values in many.items()},
        }
        self.text: str = answer["body"] or ""

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def fields(self) -> list[str]:
        """Names of the wrong fields in a problem document."""
        return [error["field"] for error in self.json.get("errors", [])]


def event(
    method: str,
    path: str,
    body: Any = None,
    *,
    query: dict[str, str] | str | None = None,
    key: str | None = "acme",
    headers: dict[str, str] | None = None,
) -> dict[str, Any]:
    """The event of a call; ``body`` is text, bytes or something to write as JSON."""
    if body is None:
        content = b""
    elif isinstance(body, bytes | str):
        content = body.encode() if isinstance(body, str) else body
    else:
        content = json.dumps(body).encode()
    resource = path if path in OPEN else "/{proxy+}"
    key_id = KEYS.get(key, key) if key and resource not in OPEN else ""
    return proxy_event(
        HttpRequest(
            method=method,
            raw_path=path,
            query=query if isinstance(query, str) else urlencode(query or {}),
            headers=[
                ("Accept", "application/json"),
                ("Content-Type", "application/json"),
                ("Host", "api.example.org"),
                ("User-Agent", "curl/8.5.0"),
                *([("x-api-key", "an-opaque-key")] if key_id else []),
                *(headers or {}).items(),
            ],
            body=content,
        ),
        Caller(api_key="an-opaque-key" if key_id else "", api_key_id=key_id or ""),
        resource=resource,
        stage="test",
        request_id="77375676-1111-4b79-853a-f982474efe18",
        at=datetime(2026, 3, 10, tzinfo=UTC),
        domain="api.example.org",
    )


def ask(
    world: World,
    method: str,
    path: str,
    body: Any = None,
    *,
    query: dict[str, str] | str | None = None,
    key: str | None = "acme",
    headers: dict[str, str] | None = None,
) -> Answer:
    """Call the router."""
    asked = event(method, path, body, query=query, key=key, headers=headers)
    return Answer(world.call(names.ROUTER, asked))


def submit(world: World, *urls: str, biz: str = "docs", **fields: Any) -> list[str]:
    """Submit pages; their ids."""
    entries = [{"url": url, **fields} for url in urls]
    answer = ask(world, "POST", f"/v1/{biz}/requests", {"requests": entries})
    assert answer.status == 202, answer.text
    return [entry["id"] for entry in answer.json["requests"]]
