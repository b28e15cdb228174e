"""The schedules of the API that SDK and CLI are tested against."""

import json
from typing import Any

import msgspec

from tests.kit.api import schedule_in, schedule_view
from tests.kit.api_server.wire import Call
from tests.kit.schedules import ScheduleState


class ScheduleDesk:
    """Keeps schedules, and tells what it was asked to run."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}
        #: The keys under which jobs were asked for.
        self.ran: list[str] = []

    def answer(self, call: Call, rest: list[str]) -> tuple[int, Any]:
        match (call.method, *rest):
            case ("GET",):
                return 200, {"schedules": list(self.kept.values())}
            case ("POST", "preview"):
                return _wrong(json.loads(call.body)) or (200, _runs(call.params))
            case ("PUT", name):
                return self._put(name, json.loads(call.body))
            case (_, name, *_) if name not in self.kept:
                return _problem("not-found", 404, f"there is no schedule {name!r}")
            case ("GET", name):
                return 200, self.kept[name]
            case ("DELETE", name):
                del self.kept[name]
                return 204, None
            case (_, name, verb):
                return self._do(verb, self.kept[name], call)
        return _problem("not-found", 404, "there is no such call")

    def _put(self, name: str, document: dict[str, Any]) -> tuple[int, Any]:
        wrong = _wrong(document)
        if wrong:
            return wrong
        given = schedule_in(json.dumps(document).encode(), "acme", "news", name)
        view = schedule_view(given, ScheduleState.WAITING)
        self.kept[name] = {
            **msgspec.to_builtins(view),
            "version": self.kept.get(name, {}).get("version", 0) + 1,
            "next_at": "2026-01-02T00:00:00Z",
        }
        return 200, self.kept[name]

    def _do(self, verb: str, found: dict[str, Any], call: Call) -> tuple[int, Any]:
        match (call.method, verb):
            case ("POST", "pause" | "resume"):
                found["enabled"] = verb == "resume"
                found["state"] = "waiting" if found["enabled"] else "paused"
                found["next_at"] = "2026-01-03T00:00:00Z" if found["enabled"] else None
                return 200, found
            case ("GET", "next"):
                return 200, _runs(call.params)
            case ("GET", "versions"):
                kept = [{**found, "version": 2, "put_at": "2026-01-01T00:00:00Z"}, found]
                return 200, {"versions": kept[: int(call.params.get("limit", "50"))]}
            case ("POST", "run") if found.get("overlap") == "skip":
                return _problem("conflict", 409, "an earlier job has not ended")
            case ("POST", "run"):
                key = call.headers.get("idempotency-key", "")
                self.ran.append(key)
                return 202, {
                    "job": f"{found['name']}.now.{key[:4]}",
                    "schedule": found["name"],
                    "state": "expanding",
                    "size": 1234,
                    "created_at": "2026-01-01T00:00:00Z",
                }
        return _problem("not-found", 404, "there is no such call")


def _wrong(document: dict[str, Any]) -> tuple[int, Any] | None:
    if len(document["cron"].split()) == 5:
        return None
    error = {"field": "cron", "message": "is no cron expression"}
    return _problem("invalid-request", 400, "The schedule is not valid", [error])


def _problem(kind: str, status: int, detail: str, errors: Any = ()) -> tuple[int, Any]:
    return status, {
        "type": f"/problems/{kind}",
        "title": kind,
        "status": status,
        "detail": detail,
        "errors": list(errors),
    }


def _runs(params: dict[str, str]) -> dict[str, Any]:
    run = {
        "fire_at": "2026-03-29T01:00:00.000Z",
        "at": "2026-03-29T01:00:05.000Z",
        "local_at": "2026-03-29T03:00:05+02:00",
        "shift_seconds": 3600,
        "state": "due",
    }
    back = {
        **run,
        "state": "waiting",
        "local_at": "2026-10-25T02:30:00+01:00",
        "shift_seconds": -3600,
    }
    still = {**back, "local_at": run["local_at"], "shift_seconds": 0}
    return {"time_zone": "Europe/Berlin", "runs": [run, back, still][: int(params["count"])]}
