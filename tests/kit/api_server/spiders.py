"""The server ``api_server`` answers of spiders by the product's own views over its twin."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec

from tests.fakes.spiders import MemorySpiders
from tests.kit.api import spider_view, versions_view
from tests.kit.spiders import ConfiguredSpider, SpiderPlan, problems_with

_NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
_PAGE = 2


class SpiderShelf:
    """Kept spiders, and one rule of the configuration. ``scheduled`` are not deleted."""

    def __init__(self) -> None:
        self.store = MemorySpiders()
        self.scheduled: set[str] = set()
        self.rule = ConfiguredSpider(
            name="article", version="0123456789ab", executor=None, description="An article."
        )

    def answer(self, method: str, rest: list[str], params: dict[str, str], body: bytes) -> Any:
        match (method, *rest):
            case ("GET",):
                return self._listed(params)
            case ("GET", name):
                version = params.get("version")
                number = None if version is None else int(version)
                found = self.store.get("acme", "news", name, number)
                if found is None:
                    return _gone(name)
                return 200, msgspec.to_builtins(spider_view(found))
            case ("PUT", name):
                plan = msgspec.convert(json.loads(body), SpiderPlan)
                if problems := problems_with(plan.start):
                    return 400, {
                        "type": "urn:crawlfleet:problem:invalid-request",
                        "title": "The request is not valid",
                        "status": 400,
                        "detail": "",
                        "errors": msgspec.to_builtins(problems),
                    }
                kept = self.store.put("acme", "news", name, plan, _NOW)
                return 201, msgspec.to_builtins(spider_view(kept))
            case ("GET", name, "versions"):
                kept_ones = self.store.versions("acme", "news", name, 200)
                if not kept_ones:
                    return _gone(name)
                return 200, msgspec.to_builtins(versions_view(name, kept_ones))
            case ("DELETE", name) if name in self.scheduled:
                kind = "urn:crawlfleet:problem:conflict"
                said = "schedules start it: nightly; delete or change them first"
                return 409, {"type": kind, "title": "x", "status": 409, "detail": said}
            case ("DELETE", name):
                gone = self.store.delete("acme", "news", name)
                return (204, None) if gone else _gone(name)
        return 404, {"title": "Not found", "status": 404, "detail": ""}

    def _listed(self, params: dict[str, str]) -> Any:
        every = [self.rule, *self.store.of_biz("acme", "news", None, 100)]
        first = int(params.get("cursor", "0"))
        page = [msgspec.to_builtins(spider_view(one)) for one in every[first : first + _PAGE]]
        more = len(every) > first + _PAGE
        return 200, {"spiders": page, "cursor": str(first + _PAGE), "more": more}


def _gone(name: str) -> Any:
    kind = "urn:crawlfleet:problem:not-found"
    said = f"this biz keeps no spider called {name!r}"
    return 404, {"type": kind, "title": "Not found", "status": 404, "detail": said}
