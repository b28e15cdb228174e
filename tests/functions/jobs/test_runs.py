"""Tests of a job's resource usage: measured by the real consumer, shown, learnt once."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from tests.functions.crawling.test_recrawl import an_edition
from tests.functions.http import ask, submit
from tests.kit.jobs import (
    GRACE,
    Job,
    JobState,
    MongoDemands,
    MongoJobs,
    RunUsage,
)
from tests.kit.kernel import names
from tests.kit.spiders import Start
from tests.kit.worlds.functions import World, biz

TICK = json.loads((Path(__file__).parents[3] / "events/scheduler/tick.json").read_text())["event"]


def end(world: World, name: str, ended: datetime) -> None:
    """End the job's run, as the end of a job does."""
    job = Job(
        tenant=world.tenants["acme"],
        biz="docs",
        name=name,
        state=JobState.RUNNING,
        rule="page",
        rule_version="v1",
        start=Start(urls=("https://a.example/",)),
        size=1,
        created_at=ended - timedelta(minutes=1),
        by="api",
    )
    nodes = world.own.nodes
    ports = RunUsage(demands=MongoDemands(nodes), jobs=MongoJobs(nodes))
    # It is as one that was started, and not of what was submitted under its name.
    nodes.control("jobs").delete_many({"tenant": job.tenant, "name": name})
    ports.end_run(job, {"done": 2}, ended)


def test_a_run_is_measured_shown_learnt_once_and_nobody_elses(world) -> None:
    with an_edition() as site:
        submit(world, f"{site.url}1", f"{site.url}2", job="nightly")
        submit(world, f"{site.url}3")
        world.work()

    shown = ask(world, "GET", "/v1/docs/jobs/nightly/run")
    assert shown.status == 200, shown.text
    run = shown.json
    assert (run["requests"], run["records"], run["errors"], run["workers"]) == (2, 2, 0, 1)
    assert run["bytes"] == 2 * len("<title>first</title>")
    assert run["seconds"] > 0
    assert run["usage"]["cpu"]["maximum"] >= run["usage"]["cpu"]["average"]
    assert (run["spider"], run["ended_at"], run["learnt_at"]) == (None, None, None)
    assert ask(world, "GET", "/v1/docs/demands").json["demands"] == []

    ended = datetime.now(UTC) - GRACE - timedelta(seconds=1)
    for _ in range(2):
        end(world, "nightly", ended)
    learnt = [world.call(names.SCHEDULER, TICK)["learnt"] for _ in range(2)]

    assert learnt == [1, 0]
    [demand] = ask(world, "GET", "/v1/docs/demands").json["demands"]
    assert (demand["spider"], demand["runs"]) == ("page", 1)
    assert demand == ask(world, "GET", "/v1/docs/demands/page").json
    assert demand["usage"]["bandwidth"] == run["usage"]["bandwidth"]
    run = ask(world, "GET", "/v1/docs/jobs/nightly/run").json
    assert (run["spider"], run["counts"], run["requests"]) == ("page", {"done": 2}, 2)
    assert run["learnt_at"] is not None
    for path in ("demands/page", "jobs/nightly/run"):
        assert ask(world, "GET", f"/v1/docs/{path}", key="rival").status == 404
    assert ask(world, "GET", "/v1/docs/demands", key="rival").json["demands"] == []


@contextmanager
def large_pages() -> Iterator[str]:
    """The address of a site whose every page has 1 MB of elements, and what is wanted at its end.

    To read it takes any processor far longer than the hundredth of a second in which its time is
    counted.
    """
    body = b"<p class=a>some <b>words</b>" * 40_000 + b"<h1 id=last>the end</h1>"

    class Pages(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer = b"" if self.path == "/robots.txt" else body
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def test_pages_that_are_work_to_read_take_cpu_which_is_learnt(world) -> None:
    rule = {"fields": {"end": {"css": "#last", "required": True}}}
    world.fresh({"acme": {"docs": biz(rules={"page": rule})}})
    with large_pages() as url:
        submit(world, *(f"{url}/{number}" for number in (1, 2)), job="heavy")
        world.work()

    run = ask(world, "GET", "/v1/docs/jobs/heavy/run").json
    assert (run["requests"], run["records"], run["errors"]) == (2, 2, 0)
    assert run["bytes"] > 2 * 1_000_000
    cpu = run["usage"]["cpu"]
    assert 0 < cpu["average"] <= cpu["maximum"] < 10.0 * (os.cpu_count() or 1)

    ended = datetime.now(UTC) - GRACE - timedelta(seconds=1)
    end(world, "heavy", ended)
    assert world.call(names.SCHEDULER, TICK)["learnt"] == 1
    [demand] = ask(world, "GET", "/v1/docs/demands").json["demands"]
    assert demand["usage"]["cpu"] == cpu


def test_demands_come_page_by_page(world) -> None:
    tenant = world.tenants["acme"]
    world.control["demands"].insert_many(
        {"_id": f"{tenant}/docs/{name}", "tenant": tenant, "biz": "docs", "spider": name}
        for name in ("a", "b", "c")
    )

    first = ask(world, "GET", "/v1/docs/demands", query={"limit": "2"}).json
    assert ([one["spider"] for one in first["demands"]], first["more"]) == (["a", "b"], True)
    then = ask(world, "GET", "/v1/docs/demands", query={"limit": "2", "cursor": first["cursor"]})
    assert [one["spider"] for one in then.json["demands"]] == ["c"]
    assert (then.json["cursor"], then.json["more"]) == (None, False)


def test_what_cannot_be_a_name_is_not_there(world) -> None:
    for path in ("demands/a%2Fb", "demands/%00", "jobs/a%20b/run"):
        answer = ask(world, "GET", f"/v1/docs/{path}")
        assert answer.status == 404, answer.text
