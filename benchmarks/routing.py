"""The router over the run's own parts, and the events that API Gateway would send it."""

from typing import Any

import msgspec

from benchmarks.bench import Addresses
from benchmarks.house import API_KEY, BIZ, BenchParts
from crawlfleet.api.app import RestApi
from crawlfleet.apps.router import RouterContext
from crawlfleet.config.documents.biz import Tree


class Router:
    """The router's handler object, and events for it."""

    def __init__(self, addresses: Addresses, tree: Tree) -> None:
        self.parts = BenchParts(addresses, tree, "router")
        self._api = RestApi(lambda: RouterContext(self.parts), _fail)

    def answer(self, event: dict[str, Any]) -> dict[str, Any]:
        """Have one event answered, however that may be."""
        return self._api.answer(event, None)

    def call(self, event: dict[str, Any], expected: int) -> str:
        """Have one event answered as is expected; the answer's body."""
        answer = self.answer(event)
        if answer["statusCode"] != expected:
            raise AssertionError(answer)
        return str(answer["body"])

    def close(self) -> None:
        """Close what was opened."""
        self.parts.nodes.close()
        self.parts.redis.close()


def event(method: str, path: str, body: str | None = None) -> dict[str, Any]:
    """An API Gateway proxy event, as the REST API sends it."""
    return {
        "httpMethod": method,
        "path": path,
        "resource": "/{proxy+}",
        "headers": {"content-type": "application/json"},
        "multiValueHeaders": {"content-type": ["application/json"]},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "requestContext": {
            "resourcePath": "/{proxy+}",
            "httpMethod": method,
            "path": path,
            "stage": "bench",
            "identity": {"apiKeyId": API_KEY},
        },
        "body": body,
        "isBase64Encoded": False,
    }


def batch(urls: list[str]) -> dict[str, Any]:
    """The submission of many pages as one event."""
    entries = [{"url": url, "rule": "page"} for url in urls]
    return event("POST", f"/v1/{BIZ}/requests", msgspec.json.encode({"requests": entries}).decode())


def offers(urls: list[str]) -> dict[str, Any]:
    """Make an event that adds many pages as seeds: each is crawled once."""
    entries = [{"url": url, "rule": "page"} for url in urls]
    return event("POST", f"/v1/{BIZ}/seeds", msgspec.json.encode({"seeds": entries}).decode())


def single(url: str) -> dict[str, Any]:
    """The submission of one page as one event."""
    body = msgspec.json.encode({"url": url, "rule": "page"}).decode()
    return event("POST", f"/v1/{BIZ}/requests", body)


def _fail(error: Exception) -> None:
    raise error
