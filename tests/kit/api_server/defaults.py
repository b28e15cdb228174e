"""The defaults of ``api_server``: its answer of a thing where a test says no other."""

from typing import Any

BIZ = "news"

REQUEST: dict[str, Any] = {
    "biz": BIZ,
    "state": "pending",
    "flag": 0,
    "queued_at": "2026-01-01T00:00:00.000Z",
    "rule": "article",
    "rule_version": "0123456789ab",
    "method": "GET",
    "headers": {},
    "params": {},
    "body": None,
    "meta": {},
    "attempts": 0,
    "worker": None,
    "error": None,
    "records": 0,
    "due_at": None,
    "user": None,
    "timeline": [],
}
RECORD: dict[str, Any] = {
    "job": None,
    "rule": "article",
    "rule_version": "0123456789ab",
    "stored_at": "2026-01-01T00:00:01.500Z",
    "trace": None,
}
WORKER: dict[str, Any] = {"since": None, "pool": "main", "done": 0, "failed": 0, "version": ""}
COVERAGE: dict[str, Any] = {
    "current": False,
    "hours": [],
    "pages": 0,
    "records": 0,
    "rejected": 0,
    "fields": [],
    "empty": [],
    "mostly_empty": False,
}
