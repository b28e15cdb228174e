"""The server ``api_server`` answers of dead letters, reasons, the ledger and workers."""

import json
from typing import Any

TERMS = ("pending", "leased", "waiting", "done", "dead", "cancelled", "expired")


class Findings:
    """Answers over the requests of an API; ``letters`` are kept by id until purged or replayed."""

    def __init__(self) -> None:
        self.dead_letters: dict[str, dict[str, Any]] = {}
        #: Letters that a call changes at most, so that a client has to go on.
        self.most = 2
        self.replayed: list[tuple[str, str]] = []
        self.skipped = 0
        self.ledger: dict[str, Any] = {}
        self.workers: list[dict[str, Any]] = []
        self.visits: dict[str, dict[str, Any]] = {}
        self.coverage: list[dict[str, Any]] = []

    def dead_letter(self, number: int, **changes: Any) -> str:
        """Keep a letter; its id."""
        found = {
            "id": str(number),
            "queued_at": "2026-01-01T00:00:00.000Z",
            "url": f"https://example.org/{number}",
            "rule": "article",
            "rule_version": "v1",
            "job": None,
            "attempts": 3,
            "reason": "PageGone",
            "error": "PageGone: answered 404",
            "status": 404,
            "answer": {
                "url": f"https://example.org/{number}",
                "status": 404,
                "headers": {"content-type": "text/html"},
                "seconds": 0.25,
            },
            **changes,
        }
        self.dead_letters[found["id"]] = found
        return found["id"]

    def whole(self, dead_letter: dict[str, Any]) -> dict[str, Any]:
        return {
            **dead_letter,
            "biz": "news",
            "state": "dead",
            "method": "GET",
            "headers": {},
            "params": {},
            "body": None,
            "meta": {},
            "worker": "w-1",
            "sample": {"encoding": "text", "content": "<h1>gone</h1>"},
            "timeline": [
                {
                    "at": "2026-01-01T00:00:02Z",
                    "state": "dead",
                    "by": "w-1",
                    "why": "answered 404",
                    "peers": ["192.0.2.4"],
                }
            ],
        }

    def meant(self, given: dict[str, Any]) -> list[dict[str, Any]]:
        fields = ("reason", "status", "rule", "job")
        wanted = {name: str(given[name]) for name in fields if name in given}
        return [
            dead_letter
            for dead_letter in self.dead_letters.values()
            if all(str(dead_letter[name]) == value for name, value in wanted.items())
            and given.get("host", "") in dead_letter["url"]
            and given.get("text", "") in dead_letter["error"]
        ]

    def change(self, body: bytes) -> list[str] | None:
        """Take the next letters that a bulk call means; None if it means nothing."""
        given = json.loads(body)
        if bool(given.get("filter")) == bool(given.get("all")):
            return None
        meant = self.meant(given.get("filter", {}))[: min(self.most, given["limit"])]
        for dead_letter in meant:
            del self.dead_letters[dead_letter["id"]]
        self.replayed += [(dead_letter["id"], given.get("rule", "")) for dead_letter in meant]
        return [dead_letter["id"] for dead_letter in meant]

    def bulk(self, word: str, body: bytes) -> dict[str, Any] | None:
        changed = self.change(body)
        if changed is None:
            return None
        more = bool(self.meant(json.loads(body).get("filter", {})))
        first = "cursor" not in json.loads(body)
        return {
            word: len(changed),
            "skipped": self.skipped if first else 0,
            "cursor": changed[-1] if more else None,
            "more": more,
        }

    def explained(self, request: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": request["id"],
            "biz": "news",
            "url": request["url"],
            "state": request["state"],
            "flag": 0,
            "attempts": request["attempts"],
            "trace": None,
            "trace_url": None,
            "standing": {
                "sentence": "It has been waiting to be worked on for 3 s.",
                "facts": {"waited_seconds": 3.0, "workers_alive": 1},
            },
            "steps": [
                {
                    "at": "2026-01-01T00:00:00.000Z",
                    "kind": "request",
                    "state": "pending",
                    "by": "router",
                    "why": "submitted by tenant acme",
                    "peers": [],
                },
                {
                    "at": "2026-01-01T00:00:01.000Z",
                    "kind": "lane",
                    "state": None,
                    "by": "scheduler",
                    "why": "filled: the queue was lost",
                    "peers": [],
                },
            ],
            "missing": "only the last 50 changes are kept",
        }

    def explained_url(self, params: dict[str, str]) -> dict[str, Any]:
        return {
            "url": params["url"],
            "biz": "news",
            "keys": ["ab" * 16],
            "standing": {
                "sentence": "It is no seed that is kept.",
                "facts": {"accepted_now": True, "rule": params.get("rule")},
            },
            "steps": [
                {
                    "at": "2026-01-01T00:00:00.000Z",
                    "kind": "visit",
                    "state": None,
                    "by": "a worker",
                    "why": "read by article",
                    "peers": ["192.0.2.5"],
                }
            ],
            "missing": None,
        }

    def visit(self, url: str, **changes: Any) -> None:
        """Keep what is known of a page."""
        self.visits[url] = {
            "url": url,
            "key": "ab" * 16,
            "rule": "article",
            "rule_version": "v1",
            "depth": 0,
            "visited_at": "2026-01-01T00:00:00.000Z",
            "changed_at": "2025-12-24T00:00:00.000Z",
            "next_at": "2026-01-03T00:00:00.000Z",
            "interval_seconds": 172_800.0,
            "visits": 8,
            "changes": 2,
            "saved": 5,
            "spared": 2,
            "etag": 'W/"7"',
            "last_modified": None,
            "content": "cd" * 16,
            **changes,
        }

    def seen(self, url: str | None) -> tuple[int, dict[str, Any]]:
        """Tell what is known of one page, or of all."""
        if url is None:
            counts = {
                name: sum(each[name] for each in self.visits.values())
                for name in ("visits", "changes", "saved", "spared")
            }
            return 200, {"visit": None, "totals": {"pages": len(self.visits), **counts, "due": 0}}
        if url in self.visits:
            return 200, {"visit": self.visits[url], "totals": None}
        detail = "nothing is known of the page"
        found = {"type": "urn:crawlfleet:problem:not-found", "title": "", "status": 404}
        return 404, {**found, "detail": detail}

    def account(self, requests: dict[str, dict[str, Any]], job: str | None) -> dict[str, Any]:
        of_job = [each for each in requests.values() if job in {None, each.get("job")}]
        counts = dict.fromkeys(TERMS, 0)
        for request in of_job:
            counts[request["state"]] += 1
        account = {"job": job, "submitted": len(of_job), **counts, "others": 0, "difference": 0}
        account |= self.ledger
        return {**account, "balanced": account["difference"] == 0}
