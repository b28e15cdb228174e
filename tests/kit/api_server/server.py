"""A small real HTTP server that speaks the API, and can be dead, slow or lying on demand."""

import json
import re
import ssl
import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache
from http.server import ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

from tests.kit.api import openapi
from tests.kit.api_server.defaults import BIZ, COVERAGE, RECORD, REQUEST, WORKER
from tests.kit.api_server.findings import Findings
from tests.kit.api_server.jobs import JobDesk
from tests.kit.api_server.platform import Platform
from tests.kit.api_server.schedules import ScheduleDesk
from tests.kit.api_server.seeds import SeedDesk
from tests.kit.api_server.spiders import SpiderShelf
from tests.kit.api_server.trials import Trials
from tests.kit.api_server.wire import Call, Fault, Handler
from tests.open_api import ApiDocument

KEY = "k-3f9a61c27d-secret"
FIRST_ID = 400_000_000_000_000_000


@cache
def the_document() -> ApiDocument:
    """Give the document of the product's API."""
    return ApiDocument(json.loads(openapi.document()))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves early is what some tests are about."""


class ApiServer:
    """The API over dictionaries. ``faults`` are used up first, one per call that they fit.

    It is held to the product's OpenAPI document: what it answers, and what it takes, but for
    faults. ``drifts`` are where it differs, and closing it fails where there is one.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.calls: list[Call] = []
        self.drifts: list[str] = []
        #: Whether it is held: not where a test has it answer as another version would.
        self.held = True
        self.faults: deque[Fault] = deque()
        self.requests: dict[str, dict[str, Any]] = {}
        self.records: list[dict[str, Any]] = []
        self.records_note: str | None = None
        self.schedule_desk = ScheduleDesk()
        self.schedules = self.schedule_desk.kept
        self.findings = Findings()
        self.seeds = SeedDesk()
        self.spiders = SpiderShelf()
        self.jobs = JobDesk()
        self.trials = Trials()
        self.platform = Platform()
        self.incidents: list[dict[str, Any]] = []
        self.shares: list[dict[str, Any]] = []
        self.overview: dict[str, Any] = {}
        #: Keys of tenants that calls which died have left.
        self.leftovers: list[dict[str, Any]] = []
        self.bizs: list[dict[str, Any]] = []
        self.demands: list[dict[str, Any]] = []
        self.runs: dict[str, dict[str, Any]] = {}
        #: What was answered under each idempotency key, and the body it was for.
        self.keys: dict[str, tuple[bytes, Any]] = {}
        self.page = 1000
        #: Reads after which requests turn done, so that a waiting client sees them change.
        self.done_after: int | None = None
        self.final_state: Callable[[dict[str, Any]], str] = lambda request: "done"
        self.lock = threading.Lock()
        self.released = threading.Event()
        self._reads = 0
        self._server = _Server(("127.0.0.1", 0), type("Handler", (Handler,), {"api": self}))
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        assert not self.drifts, "\n".join(self.drifts)

    def hold(self, call: Call, status: int, kind: str, body: bytes) -> None:
        """Note where an answer, or a call that was carried out, is none of the API's."""
        if not self.held:
            return
        document = the_document()
        try:
            document.hold_answer(call.method, call.path, status, kind, body.decode())
            if status < 300:
                document.hold_call(call.method, call.path, call.params, call.body)
        except AssertionError as error:
            self.drifts.append(f"{call.method} {call.path}: {error}")

    def made(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    # ---- the API -------------------------------------------------------------------------------

    def answer(self, call: Call) -> tuple[int, Any]:
        if call.path == "/health":
            return self.platform.health(deep=False)
        if call.headers.get("x-api-key") != KEY:
            shown = call.headers.get("x-api-key", "")
            return 403, problem("unknown-tenant", 403, f"the key {shown} belongs to nobody")
        if call.path in {"/v1/incidents", "/v1/bizs"}:
            bizs = call.path == "/v1/bizs"
            return (200, {"bizs": self.bizs}) if bizs else self.list_incidents(call.params)
        parts = [unquote(part) for part in call.path.strip("/").split("/")]
        what = "/".join(parts[1:])
        if what in {"health", "fleet", "overview", "shares", "fleet/tenants"}:
            seen = {
                "health": self.platform.health(deep=True),
                "fleet": self.platform.look(),
                "overview": (200, self.overview),
                "shares": (200, {"tenants": self.shares}),
                "fleet/tenants": (200, {"tenants": [], "leftovers": self.leftovers}),
            }
            return seen[what]
        if parts[:1] != ["v1"] or parts[1] != BIZ:
            unknown = 404, problem("unknown-biz", 404, f"there is no biz {parts[1]!r}")
            return self.handle(call, *parts[2:]) if parts[1] == "incidents" else unknown
        match (call.method, *parts[2:]):
            case ("POST", "requests", *rest):
                return self.transition(call, rest[:-1]) if rest else self.post_once(call)
            case ("GET", "requests"):
                return self.list_requests(call.params)
            case ("GET", "requests", request_id):
                self.read()
                if request_id not in self.requests:
                    return 404, problem("not-found", 404, "no request")
                return 200, REQUEST | self.requests[request_id]
            case ("DELETE", "requests", request_id):
                return self.cancel(request_id)
            case ("GET", "records"):
                return self.list_records(call.params)
            case ("GET", "stats"):
                self.read()
                return 200, self.stats()
            case (_, "schedules", *rest):
                return self.schedule_desk.answer(call, rest)
        return self.find_out(call, parts[2:])

    def handle(self, call: Call, incident: str, verb: str) -> tuple[int, Any]:
        """Acknowledge or silence an incident, or take that back."""
        known = next((each for each in self.incidents if each["id"] == incident), None)
        if known is None:
            return 404, problem("not-found", 404, f"there is no incident {incident!r}")
        if known["state"] != "open":
            return 409, problem("conflict", 409, "the incident is over")
        given, at = json.loads(call.body or b"{}"), "2026-03-01T12:00:00Z"
        said = {"by": "acme", "at": at, "why": given.get("why", "")}
        if verb == "silence":
            until = datetime.fromisoformat(at) + timedelta(seconds=given["seconds"])
            known["silenced"] = {**said, "until": f"{until:%Y-%m-%dT%H:%M:%SZ}"}
        else:
            known |= {"silenced": None, "acknowledged": None}
            known["acknowledged"] = said if verb == "acknowledge" else None
        return 200, known

    def list_incidents(self, params: dict[str, str]) -> tuple[int, Any]:
        every = params.get("state") == "all"
        found = [each for each in self.incidents if every or each["state"] == "open"]
        start, size = int(params.get("cursor", "0")), min(int(params["limit"]), 2)
        more = len(found) > start + size
        page = found[start : start + size]
        return 200, {
            "incidents": page,
            "cursor": str(start + size) if more else None,
            "more": more,
        }

    def find_out(self, call: Call, parts: list[str]) -> tuple[int, Any]:
        match (call.method, *parts):
            case ("GET", "requests", request_id, "explain") if request_id in self.requests:
                return 200, self.findings.explained(self.requests[request_id])
            case ("GET", "explain"):
                return 200, self.findings.explained_url(call.params)
            case (method, "dead-letters", *rest):
                return self.dead_letters(method, rest, call)
            case ("GET", "ledger"):
                return 200, self.findings.account(self.requests, call.params.get("job"))
            case ("GET", "demands", *rest) | ("GET", "jobs", *rest, "run"):
                return self.of_runs(rest, call)
            case (method, "jobs", *rest):
                return self.jobs.answer(method, rest, call)
            case (method, "seeds", *rest):
                return self.of_seeds(method, rest, call)
            case (method, "spiders", *rest):
                return self.spiders.answer(method, rest, call.params, call.body)
            case ("GET", "visits"):
                return self.findings.seen(call.params.get("url"))
            case ("POST", "rules", "try"):
                return self.trials.answer(call.body)
            case ("GET", "coverage"):
                return 200, {"coverage": [COVERAGE | each for each in self.findings.coverage]}
            case ("GET", "proxies" | "hosts" as what):
                return 200, self.platform.shown(what)
            case ("GET", "workers"):
                return 200, {"workers": [WORKER | each for each in self.findings.workers]}
        return 404, problem("not-found", 404, "no such path")

    def of_runs(self, rest: list[str], call: Call) -> tuple[int, Any]:
        if not rest:
            items, cursor, more = self.cut(self.demands, call.params)
            return 200, {"demands": items, "cursor": cursor, "more": more}
        if rest[0] in self.runs:
            return 200, self.runs[rest[0]]
        found = [one for one in self.demands if one["spider"] == rest[0]]
        return (200, found[0]) if found else (404, problem("not-found", 404, "none such"))

    def of_seeds(self, method: str, rest: list[str], call: Call) -> tuple[int, Any]:
        match (method, *rest):
            case ("GET",):
                items, cursor, more = self.cut(self.seeds.meant(call.params), call.params)
                return 200, {"seeds": items, "cursor": cursor, "more": more}
            case ("POST",):
                return self.seeds.offer(call.body)
            case ("GET", "totals"):
                return 200, {"segments": self.seeds.totals()}
            case ("POST", "release" | "forget" as verb):
                return self.seeds.change(verb, call.body)
        return 404, problem("not-found", 404, "no such path")

    def post_once(self, call: Call) -> tuple[int, Any]:
        key = call.headers.get("idempotency-key", "")
        with self.lock:
            body, answer = self.keys.get(key, (call.body, None))
        if body != call.body:
            return 422, problem("key-reused", 422, f"the key {key} stands for other entries")
        if answer is None:
            status, answer = self.post(json.loads(call.body))
            if status == 202 and key:
                with self.lock:
                    self.keys[key] = call.body, answer
            return status, answer
        if "requests" not in answer:
            return 202, {"id": answer["id"], "repeated": True}
        again = [
            {"id": each["id"], "repeated": True} if "id" in each else each
            for each in answer["requests"]
        ]
        return 202, {**answer, "requests": again}

    def dead_letters(self, method: str, rest: list[str], call: Call) -> tuple[int, Any]:
        dead_letters = self.findings.dead_letters
        if method == "GET" and not rest:
            items, cursor, more = self.cut(self.findings.meant(call.params), call.params)
            return 200, {"dead_letters": items, "cursor": cursor, "more": more}
        if method == "POST" and rest[0] in {"replay", "purge"}:
            done = self.findings.bulk("replayed" if rest[0] == "replay" else "purged", call.body)
            if done is None:
                error = {"field": "filter", "message": "is empty"}
                return 400, problem("invalid-request", 400, "not valid", [error])
            return 200, done
        if rest[0] not in dead_letters:
            if rest[0] in self.requests:
                return 409, problem("conflict", 409, "the request is not dead")
            return 404, problem("not-found", 404, "no request")
        if method == "GET":
            return 200, self.findings.whole(dead_letters[rest[0]])
        dead_letter = dead_letters.pop(rest[0])
        if method == "DELETE":
            return 204, None
        self.findings.replayed.append((rest[0], json.loads(call.body)["rule"]))
        self.requests[rest[0]] = {**dead_letter, "state": "pending"}
        return 200, REQUEST | self.requests[rest[0]]

    def post(self, document: dict[str, Any]) -> tuple[int, Any]:
        if "requests" not in document:
            errors = check(document, "")
            if errors:
                return 400, problem("invalid-request", 400, "The request is not valid", errors)
            return 202, self.accept(document)
        entries = document["requests"]
        checked = [check(entry, f"requests[{at}].") for at, entry in enumerate(entries)]
        if all(checked):
            mistakes = [error for errors in checked for error in errors]
            return 400, problem("invalid-request", 400, "Nothing is acceptable", mistakes)
        answers = [
            {"error": problem("invalid-request", 400, "The entry is not valid", errors)}
            if errors
            else self.accept(entry)
            for entry, errors in zip(entries, checked, strict=True)
        ]
        rejected = sum("error" in answer for answer in answers)
        return 202, {
            "accepted": len(answers) - rejected,
            "rejected": rejected,
            "requests": answers,
        }

    def accept(self, entry: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            request_id = str(FIRST_ID + len(self.requests))
            accepted = {
                "at": "2026-01-01T00:00:00.000Z",
                "state": "pending",
                "by": "router",
                "why": "accepted",
                "peers": [],
            }
            self.requests[request_id] = {
                **REQUEST,
                "id": request_id,
                **entry,
                "timeline": [accepted],
            }
        return {"id": request_id, "state": "pending"}

    def read(self) -> None:
        self._reads += 1
        if self.done_after is not None and self._reads >= self.done_after:
            self.finish()

    def finish(self) -> None:
        for request in self.requests.values():
            if request["state"] == "pending":
                request["state"] = self.final_state(request)

    def cancel(self, request_id: str) -> tuple[int, Any]:
        found = self.requests.get(request_id)
        if found is None:
            return 404, problem("not-found", 404, "no request")
        if found["state"] not in {"pending", "waiting"}:
            return 409, problem("conflict", 409, f"it is {found['state']}")
        found["state"] = "cancelled"
        return 200, REQUEST | found

    def transition(self, call: Call, path: list[str]) -> tuple[int, Any]:
        """One own state, of what is done: reviewed."""
        asked = json.loads(call.body)
        if (asked["from_state"], asked["to_state"]) != ("done", "reviewed"):
            error = {"field": "to_state", "message": "done may become reviewed"}
            return 400, problem("invalid-request", 400, "not valid", [error])
        answers = [self._review(one) for one in path or asked["requests"]]
        if path:
            [answer] = answers
            refused = answer.get("error")
            return (refused["status"], refused) if refused else (200, self.requests[path[0]])
        counts = {
            "refused": sum("error" in one for one in answers),
            "repeated": sum(one.get("repeated", False) for one in answers),
        }
        changed = len(answers) - sum(counts.values())
        return 200, {"changed": changed, **counts, "requests": answers}

    def _review(self, request_id: str) -> dict[str, Any]:
        found = self.requests.get(request_id)
        if found is None:
            return {"id": request_id, "error": problem("not-found", 404, "no request")}
        state = found["state"]
        if state not in {"done", "reviewed"}:
            said = f"request {request_id} is {state}, not done"
            return {"id": request_id, "error": problem("conflict", 409, said)}
        found |= {"state": "reviewed", "flag": 1_000}
        again = {"repeated": True} if state == "reviewed" else {}
        return {"id": request_id, "state": "reviewed", **again}

    def list_requests(self, params: dict[str, str]) -> tuple[int, Any]:
        if "cursor" not in params:
            self.read()
        wanted = [
            request
            for request in self.requests.values()
            if params.get("state") in {None, request["state"]}
            if params.get("job") in {None, request.get("job")}
            if params.get("url") in {None, request.get("url")}
        ]
        if params.get("order") == "newest":
            wanted.reverse()
        items, cursor, more = self.cut([REQUEST | each for each in wanted], params)
        return 200, {"requests": items, "cursor": cursor, "more": more}

    def list_records(self, params: dict[str, str]) -> tuple[int, Any]:
        wanted = [
            record
            for record in self.records
            if params.get("request_id") in {None, record["request_id"]}
        ]
        items, cursor, more = self.cut([RECORD | each for each in wanted], params)
        note = None if items or more else self.records_note
        return 200, {"records": items, "note": note, "cursor": cursor, "more": more}

    def cut(self, items: list[Any], params: dict[str, str]) -> tuple[list[Any], str, bool]:
        """A page; a caught-up cursor stays one behind, so that the last item is seen again."""
        start = int(params.get("cursor", "0"))
        size = min(self.page, int(params.get("limit", self.page)))
        page = items[start : start + size]
        more = start + size < len(items)
        return page, str(start + size if more else max(start, len(items) - 1)), more

    def stats(self) -> dict[str, Any]:
        names = ("pending", "leased", "waiting", "done", "dead", "cancelled", "expired")
        states = dict.fromkeys(names, 0)
        for request in self.requests.values():
            states[request["state"]] += 1
        speeds = {"1s": 3.0, "5s": 2.5, "60s": 1.25}
        return {
            "states": states,
            "submitted": len(self.requests),
            "records": len(self.records),
            "queue": {
                "queued": states["pending"],
                "leased": 0,
                "delayed": 0,
                "oldest_at": "2026-01-01T00:00:00Z" if states["pending"] else None,
            },
            "rates": {"submitted": speeds, "processed": speeds},
            "phases": {"fetch": 12.5, "extract": 1.5},
        }


def check(entry: Any, at: str) -> list[dict[str, str]]:
    if not isinstance(entry, dict):
        return [{"field": at.rstrip("."), "message": "must be an object"}]
    if not re.match(r"https?://", str(entry.get("url", ""))):
        return [{"field": f"{at}url", "message": "must be an http or https URL"}]
    if entry.get("rule") == "unheard-of":
        return [{"field": f"{at}rule", "message": "is no rule of this biz"}]
    return []


def problem(kind: str, status: int, detail: str, errors: list[Any] | None = None) -> dict[str, Any]:
    return {
        "type": f"/problems/{kind}",
        "title": kind.replace("-", " ").capitalize(),
        "status": status,
        "detail": detail,
        **({"errors": errors} if errors else {}),
    }


def record(request_id: str, index: int, **fields: Any) -> dict[str, Any]:
    return {
        "id": f"{request_id}-{index}",
        "request_id": request_id,
        "url": f"https://example.org/{request_id}",
        "rule": "article",
        "rule_version": "0123456789ab",
        "stored_at": "2026-01-01T00:00:01.500Z",
        "fields": fields,
        "trace": None,
    }
