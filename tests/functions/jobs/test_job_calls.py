"""Jobs by the real handlers: started once, looked at, cancelled in the middle, retried.

Their tasks are submitted under their name here: what makes them has tests of its own.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any

import pytest

from tests.functions.http import ask, submit
from tests.kit.kernel import names
from tests.kit.worlds.functions import Context, World, default_bizs
from tests.steady import SteadyClock
from tests.waiting import eventually

pytestmark = pytest.mark.measured

JOB = {"rule": "page", "urls": ["https://example.org/a", "https://example.org/b"], "name": "june"}
TICK = {"source": "aws.events", "detail-type": "Scheduled Event"}


class SlowSite(ThreadingHTTPServer):
    """A site whose pages take two minutes or until ``go`` is set; it records requested paths."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        self.go = Event()
        self.lock = Lock()
        self.asked: list[str] = []
        site = self

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with site.lock:
                    site.asked.append(self.path)
                site.go.wait(120)
                body = b"<title>late</title>"
                try:
                    self.send_response(200)
                    self.send_header("Content-Type", "text/html")
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass  # whoever asked has gone

            def log_message(self, *_: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Page)

    def handle_error(self, *_: Any) -> None:
        """The one who asked has gone."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def site() -> Iterator[SlowSite]:
    with SlowSite() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.go.set()
        server.shutdown()
        thread.join()


def start(world: World, **changes: Any):
    return ask(world, "POST", "/v1/docs/jobs", JOB | changes)


def job(world: World, name: str = "june") -> dict[str, Any]:
    found: dict[str, Any] = ask(world, "GET", f"/v1/docs/jobs/{name}").json
    return found


def busy(world: World) -> None:
    """Pages are downloaded fifty at a time, and robots.txt is nobody's concern."""
    bizs = default_bizs()
    patient = {"per_host": 50, "first_byte_seconds": 120, "total_seconds": 120}
    bizs["acme"]["docs"] |= {"politeness": {"robots": "ignore"}, "fetch": patient}
    fleet = {"idle_seconds": 0.0, "concurrency": 50, "batch": 50, "max_consumers": 1}
    world.push(bizs, stage={"fleet": fleet})


def test_a_job_of_2_000_slow_pages_stops_within_seconds_and_its_ledger_is_exact(world, site):
    busy(world)
    assert start(world).status == 201
    for first in range(0, 2_000, 1_000):
        submit(world, *(f"{site.url}/{n}" for n in range(first, first + 1_000)), job="june")
    reports: list[Any] = []
    worker = Thread(target=lambda: reports.append(world.call(names.CONSUMER, {}, Context(90))))
    worker.start()
    try:
        eventually(lambda: len(site.asked) == 50, what="fifty downloads are under way")

        with SteadyClock() as clock:
            cancelled_at = clock()
            answer = ask(world, "POST", "/v1/docs/jobs/june/cancel")
            assert answer.status == 200
            eventually(lambda: not worker.is_alive(), what="the worker has let all of it go")
            took = clock() - cancelled_at
    finally:
        site.go.set()
        worker.join(60)

    # Nothing was answered by the site, and no page is late before two minutes: so each download was
    # stopped in the middle. Seconds are two or three; all others are for machines that are slower.
    assert took < 20
    assert len(site.asked) == 50, "nothing is begun after that"
    [report] = reports
    assert (report["done"], report["dead"], report["stopped_because"]) == (0, 0, "idle")
    if job(world)["state"] == "cancelling":
        world.call(names.SCHEDULER, TICK)
    found = job(world)
    assert (found["state"], found["counts"]["cancelled"]) == ("cancelled", 2_000)
    ledger = ask(world, "GET", "/v1/docs/ledger", query={"job": "june"}).json
    assert (ledger["submitted"], ledger["cancelled"], ledger["balanced"]) == (2_000, 2_000, True)
    assert ask(world, "GET", "/v1/docs/records").json["records"] == []


def test_one_job_of_an_order_however_often_it_is_sent(world):
    first = start(world)
    again = start(world)

    assert (first.status, again.status) == (201, 200)
    assert first.json == again.json
    assert (first.json["state"], first.json["size"], first.json["by"]) == ("expanding", 2, "api")
    other = start(world, urls=["https://example.org/c"])
    assert (other.status, other.json["type"]) == (409, "urn:crawlfleet:problem:conflict")


def test_an_idempotency_key_names_a_job_that_has_no_name(world):
    order = {"rule": "page", "urls": ["https://example.org/"]}
    answers = [
        ask(world, "POST", "/v1/docs/jobs", order, headers={"Idempotency-Key": "k-1"})
        for _ in range(2)
    ]

    assert [answer.status for answer in answers] == [201, 200]
    assert answers[0].json["name"] == answers[1].json["name"]
    order["urls"].append("https://example.org/2")
    wrong = ask(world, "POST", "/v1/docs/jobs", order, headers={"Idempotency-Key": "k-1"})
    assert wrong.status == 422


def test_a_name_that_is_submitted_under_is_a_job_and_becomes_no_other(world):
    submit(world, "https://example.org/", job="june")

    [found] = ask(world, "GET", "/v1/docs/jobs").json["jobs"]
    assert (found["name"], found["by"]) == ("june", "submission")
    answer = start(world)
    assert answer.status == 409
    assert "submitted under" in answer.json["detail"]
    assert ask(world, "POST", "/v1/docs/jobs/june/cancel").json["state"] == "cancelled"


def test_a_biz_has_so_many_open_jobs(world):
    bizs = default_bizs()
    bizs["acme"]["docs"]["open_jobs"] = 1
    world.push(bizs)
    assert start(world).status == 201

    answer = start(world, name="july")

    assert (answer.status, answer.headers["Retry-After"]) == (429, "5")
    assert "1 open jobs" in answer.json["detail"]
    assert ask(world, "POST", "/v1/docs/jobs/june/cancel").json["state"] == "cancelled"
    assert start(world, name="july").status == 201


def test_nothing_of_another_tenants_jobs_is_reported_or_changed(world):
    start(world)

    for method, path in (
        ("GET", "/v1/docs/jobs/june"),
        ("POST", "/v1/docs/jobs/june/cancel"),
        ("POST", "/v1/docs/jobs/june/retry"),
    ):
        assert ask(world, method, path, key="rival").status == 404
    assert ask(world, "GET", "/v1/docs/jobs", key="rival").json["jobs"] == []
    assert job(world)["state"] == "expanding"


def test_jobs_are_listed_in_pages_and_by_state(world):
    for name in ("a", "b", "c"):
        assert start(world, name=name).status == 201
    ask(world, "POST", "/v1/docs/jobs/b/cancel")

    first = ask(world, "GET", "/v1/docs/jobs", query={"limit": "2"}).json
    rest = ask(world, "GET", "/v1/docs/jobs", query={"cursor": first["cursor"]}).json

    assert [each["name"] for each in first["jobs"] + rest["jobs"]] == ["c", "b", "a"]
    assert (first["more"], rest["more"]) == (True, False)
    ended = ask(world, "GET", "/v1/docs/jobs", query={"state": "done,cancelled"}).json
    assert [each["name"] for each in ended["jobs"]] == ["b"]


def test_failed_tasks_are_worked_on_again(world):
    busy(world)
    start(world, urls=["http://127.0.0.1:9/", "http://127.0.0.1:9/2"])
    bizs = default_bizs()
    bizs["acme"]["docs"]["retry"] = {"max_attempts": 1}
    world.push(bizs)
    world.work()
    assert job(world)["ledger"]["dead"] == 2
    progress = job(world)["progress"]
    assert (progress["ended"], progress["ends_at"]) == (2, progress["ends_at"])

    answer = ask(world, "POST", "/v1/docs/jobs/june/retry")

    assert (answer.status, answer.json["retried"], answer.json["more"]) == (200, 2, False)
    ledger = job(world)["ledger"]
    assert (ledger["dead"], ledger["pending"], ledger["submitted"]) == (0, 2, 2)


def test_the_tick_goes_on_with_what_is_being_cancelled(world):
    start(world)
    submit(world, "https://example.org/1", "https://example.org/2", job="june")
    # As if whoever cancelled it had died right after.
    jobs = world.control["jobs"]
    key = f"{world.tenants['acme']}/docs/june"
    change = {"state": "cancelling", "making": False, "sweep_at": datetime.now(UTC)}
    assert jobs.update_one({"_id": key}, {"$set": change}).modified_count == 1

    answer = world.call(names.SCHEDULER, TICK)

    assert answer["cancelled"] == 1
    found = job(world)
    assert (found["state"], found["ledger"]["cancelled"]) == ("cancelled", 2)


def test_a_job_of_a_biz_that_was_removed_can_be_cancelled(world):
    start(world)
    bizs = default_bizs()
    del bizs["acme"]["docs"]
    world.push(bizs)

    answer = ask(world, "POST", "/v1/docs/jobs/june/cancel")

    assert (answer.status, answer.json["state"]) == (200, "cancelling")
    assert ask(world, "POST", "/v1/docs/jobs/never/cancel").status == 404
