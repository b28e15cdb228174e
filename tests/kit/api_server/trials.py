"""The server ``api_server`` answers whoever tries a rule."""

import json
from typing import Any

TRIED: dict[str, Any] = {
    "version": "0123456789ab",
    "fetched": None,
    "error": None,
    "problems": [],
    "records": [{"name": "Nut", "price": 1.5}, {"name": "Bolt", "price": None}],
    "record_count": 2,
    "rejected": [],
    "rejected_count": 0,
    "left_out": [],
    "left_out_count": 0,
    "coverage": [
        {"name": "name", "count": 2, "share": 1.0, "why": None},
        {"name": "price", "count": 1, "share": 0.5, "why": None},
    ],
    "links": [{"url": "https://example.org/nut", "rule": None, "depth": 1, "meta": {}}],
    "link_count": 1,
    "refused": {"nofollow": 2},
    "cut": False,
    "seconds": 0.0015,
}


class Trials:
    """Answers with ``TRIED`` and these ``changes``; ``asked`` are the bodies of the calls."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.changes: dict[str, Any] = {}
        self.mistakes: list[dict[str, str]] = []

    def answer(self, body: bytes) -> tuple[int, Any]:
        self.asked.append(json.loads(body))
        if self.mistakes:
            return 400, {
                "type": "urn:crawlfleet:problem:invalid-request",
                "title": "The request is not valid",
                "status": 400,
                "detail": "",
                "errors": self.mistakes,
            }
        return 200, {**TRIED, **self.changes}
