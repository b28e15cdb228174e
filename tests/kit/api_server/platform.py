"""Answers of the API server of the tests: the platform's health, the fleet, hosts."""

from datetime import UTC, datetime
from typing import Any

from tests.kit.kernel import VERSION

NOBODY = {
    "type": "urn:crawlfleet:problem:not-operator",
    "title": "Operators only",
    "status": 403,
    "detail": "the tenant is no operator",
}


def host(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "host": name,
        "throttled": False,
        "backing_off_until": None,
        "strain": 0,
        "interval_seconds": 0.0,
        "success_share": 1.0,
        "latency_seconds": 0.25,
        "waiting": 0,
        "window_seconds": 60.0,
        "asked": 60,
        "failed": 0,
        "strained": 0,
        "running": 1,
    } | changes


def proxy_pool(name: str, *away: str, size: int | None = 2, fault: str = "silent") -> dict:
    """A pool of proxies of which those at these places are away."""
    proxies = [
        {
            "place": place,
            "away": place in away,
            "until": "2026-03-01T12:00:00Z" if place in away else None,
            "cool_downs": 1,
            "success_share": 0.5,
            "latency_seconds": 0.25,
            "answered": 1,
            "failed": 1,
            "fault": fault,
            "seen_by": "w-1",
            "seen_at": "2026-03-01T11:59:00Z",
        }
        for place in (*away, "http://10.0.0.9:3128")
    ]
    return {"name": name, "size": size, "away": len(away), "proxies": proxies}


def biz(name: str, **changes: Any) -> dict[str, Any]:
    speeds = {"1s": 1.0, "5s": 2.0, "60s": 3.0}
    return {
        "tenant": "acme",
        "biz": name,
        "queued": 0,
        "leased": 0,
        "delayed": 0,
        "oldest_seconds": 0.0,
        "rates": {"submitted": speeds, "processed": speeds},
        "planned_seconds": None,
        "finish_seconds": 0.0,
        "late": False,
        "dead": 0,
        "expired": 0,
    } | changes


class Platform:
    """A stage that is well, unless a test changes it."""

    def __init__(self) -> None:
        self.operator = True
        self.status = "ok"
        self.parts = {"config": "ok", "redis": "ok", "mongodb:main": "ok"}
        self.workers: dict[str, Any] | None = {
            "alive": 1,
            "suspected": 0,
            "dead": 0,
            "unwatched": 0,
            "present": 1,
            "wanted": None,
        }
        self.running: dict[str, Any] = {
            "version": VERSION,
            "stage": "test",
            "revision": "r1",
            "config_digest": "0123456789ab",
            "config_refused": False,
            "tick": {"seconds_ago": 1.0, "took_seconds": 0.25, "faults": {}},
        }
        self.hosts: list[dict[str, Any]] = []
        self.proxies: list[dict[str, Any]] = []
        self.fleet: dict[str, Any] = {}

    def shown(self, what: str) -> dict[str, Any]:
        return {"pools": self.proxies} if what == "proxies" else {"hosts": self.hosts}

    def health(self, *, deep: bool) -> tuple[int, Any]:
        found: dict[str, Any] = {"status": self.status, "parts": self.parts}
        if deep:
            found["deep"] = {
                "at": datetime.now(UTC).isoformat(),
                "workers": self.workers,
                **self.running,
            }
        return (503 if self.status == "down" else 200), found

    def look(self) -> tuple[int, Any]:
        if not self.operator:
            return 403, NOBODY
        speeds = {"1s": 0.0, "5s": 0.0, "60s": 0.0}
        part = {
            "part": "redis",
            "name": "redis",
            "up": True,
            "problem": None,
            "figures": {"Latency": 0.0004, "MemoryRatio": 0.25, "Connections": 7.0},
            "missing": {"SlowOperations": "no right"},
        }
        return 200, {
            "at": datetime.now(UTC).isoformat(),
            "revision": "r1",
            "config_refused": None,
            "workers": self.workers,
            "pools": [],
            "totals": {
                "bizs": 2,
                "queued": 0,
                "leased": 0,
                "delayed": 0,
                "oldest_seconds": 0.0,
                "rates": {"submitted": speeds, "processed": speeds},
                "finish_seconds": 0.0,
                "late": 0,
            },
            "bizs": [],
            "hosts": self.hosts,
            "hosts_seen": len(self.hosts),
            "proxies": self.proxies,
            "parts": [part],
            "stray_items": 0,
            "stray_requests": 0,
            "unread": [],
        } | self.fleet
