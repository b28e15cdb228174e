"""The server ``api_server`` answers of jobs, by the views of the API itself."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tests.kit.api import job_view, order_in, whole_job_view
from tests.kit.api_server.wire import Call
from tests.kit.jobs import ENDED, Job, JobState
from tests.kit.kernel import InvalidRequestError
from tests.kit.records import JobCoverage
from tests.kit.requests import Ledger
from tests.kit.spiders import LinkNeeds, Start, singles, size

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def problem(name: str, status: int, detail: str, errors: Any = ()) -> tuple[int, Any]:
    return status, {
        "type": f"urn:crawlfleet:problem:{name}",
        "title": detail,
        "status": status,
        "detail": detail,
        "errors": msgspec.to_builtins(errors),
    }


class JobDesk:
    """Jobs of one biz. With each look one more of their tasks is done, until all are."""

    def __init__(self) -> None:
        self.kept: dict[str, Job] = {}
        self.done: dict[str, int] = {}
        self.dead: dict[str, int] = {}
        self.read: dict[str, tuple[JobCoverage, ...]] = {}
        self.page = 2
        #: What a list says of jobs that go on; of others they could not be read.
        self.ledgers: dict[str, Ledger] = {}
        #: So many retries say that there is more.
        self.unfinished_retries = 0
        self.retried: list[Any] = []

    def keep(self, name: str, **changes: Any) -> Job:
        facts: dict[str, Any] = {
            "tenant": "acme",
            "biz": "news",
            "name": name,
            "state": JobState.RUNNING,
            "rule": "article",
            "rule_version": "v1",
            "start": Start(pattern="https://example.org/{n}"),
            "size": 3,
            "expanded": changes.get("size", 3),
            "created_at": START + timedelta(seconds=len(self.kept)),
            "by": "api",
        }
        job = self.kept[name] = Job(**(facts | changes))
        return job

    def answer(self, method: str, rest: list[str], call: Call) -> tuple[int, Any]:
        if method == "POST" and not rest:
            return self.start(call)
        if not rest:
            return self.list_all(call.params)
        job = self.kept.get(rest[0])
        if job is None:
            return problem("not-found", 404, f"there is no job {rest[0]!r}")
        match (method, *rest[1:]):
            case ("GET",):
                return 200, self.whole(self.go_on(job))
            case ("POST", "cancel"):
                if job.state in ENDED and job.state is not JobState.CANCELLED:
                    return problem("conflict", 409, f"the job is {job.state.value}: it has ended")
                job = msgspec.structs.replace(job, state=JobState.CANCELLED, ended_at=START)
                self.kept[job.name] = job
                return 200, self.whole(job)
            case ("POST", "retry"):
                return self.retry(job, json.loads(call.body))
        return problem("not-found", 404, "no such path")

    def start(self, call: Call) -> tuple[int, Any]:
        try:
            order = order_in(call.body, "acme", "news")
        except InvalidRequestError as error:
            return problem("invalid-request", 400, "not valid", error.problems)
        name = order.name or f"key.{call.headers['idempotency-key']}"
        known = self.kept.get(name)
        if known is not None:
            return 200, msgspec.to_builtins(job_view(known))
        start = order.start or Start(urls=("https://example.org/",))
        job = self.keep(
            name,
            start=start,
            size=size(start),
            spider=order.spider,
            values=singles(order.values),
            priority=5 if order.priority is None else order.priority,
            link=order.link or LinkNeeds(),
            demand=order.demand,
            segment=order.segment,
        )
        return 201, msgspec.to_builtins(job_view(job))

    def list_all(self, params: dict[str, str]) -> tuple[int, Any]:
        states = params.get("state", "").split(",")
        found = [
            job
            for job in sorted(self.kept.values(), key=lambda job: job.created_at, reverse=True)
            if states == [""] or job.state.value in states
        ]
        first = int(params.get("cursor", "0"))
        last = first + min(self.page, int(params["limit"]))
        more = len(found) > last
        now = START + timedelta(seconds=30)
        jobs = [
            msgspec.to_builtins(job_view(job, self.ledgers.get(job.name), now))
            for job in found[first:last]
        ]
        return 200, {"jobs": jobs, "cursor": str(last) if more else None, "more": more}

    def retry(self, job: Job, given: Any) -> tuple[int, Any]:
        if job.state is JobState.CANCELLED:
            return problem("conflict", 409, "the job is cancelled: nothing of it is retried")
        self.retried.append(given)
        more = self.unfinished_retries > 0
        self.unfinished_retries -= 1
        view = msgspec.to_builtins(job_view(job))
        return 200, {"retried": 2, "skipped": 1, "more": more, "job": view}

    def go_on(self, job: Job) -> Job:
        """The job, one of its tasks further on."""
        if job.state in ENDED:
            return job
        dead = self.dead.get(job.name, 0)
        done = self.done[job.name] = min(job.size - dead, self.done.get(job.name, -1) + 1)
        if done + dead == job.size:
            counts = {"done": done, "dead": dead, "cancelled": 0, "expired": 0, "refused": 0}
            job = msgspec.structs.replace(
                job, state=JobState.DONE, counts=counts, ended_at=START + timedelta(minutes=1)
            )
            self.kept[job.name] = job
        return job

    def whole(self, job: Job) -> Any:
        done, dead = self.done.get(job.name, 0), self.dead.get(job.name, 0)
        ledger = Ledger(
            submitted=job.size, done=done, dead=dead, pending=max(0, job.size - done - dead)
        )
        read = self.read.get(job.name, ())
        view = whole_job_view(job, ledger, START + timedelta(seconds=30), read)
        return msgspec.to_builtins(view)
