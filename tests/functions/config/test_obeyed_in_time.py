"""A running worker obeys what is pushed within ten seconds, on the clocks that stages have."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any

import pytest

from tests.functions.http import ask, submit
from tests.kit.config import POLL_SECONDS
from tests.kit.worlds.functions import World, a_world, biz
from tests.steady import SteadyClock
from tests.waiting import eventually

#: By when a change is obeyed.
SECONDS = 10.0
FEW, MORE = 2, 6


class Site:
    """Pages that are held until they are let go: how many are held at once, and which were asked.

    Robots.txt is answered at once.
    """

    def __init__(self) -> None:
        self.url, self.held, self.asked = "", 0, list[str]()
        self.go, self.lock = Event(), Lock()


@contextmanager
def a_site() -> Iterator[Site]:
    site = Site()

    class Pages(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            with site.lock:
                site.asked.append(self.path)
                site.held += 1
            site.go.wait(60)
            with site.lock:
                site.held -= 1
            body = b"<title>a page</title>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        server.daemon_threads = True
        site.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield site
        finally:
            site.go.set()
            server.shutdown()


@pytest.fixture
def world(own_redis: str, mongo_uri: str) -> Iterator[World]:
    with a_world(own_redis, mongo_uri, poll_seconds=POLL_SECONDS) as made:
        yield made


def stage(concurrency: int, *, private: bool, idle: float = 3600.0) -> dict[str, Any]:
    """A worker that stays as long as it may: what it obeys it has not read at its start."""
    fleet = {"idle_seconds": idle, "concurrency": concurrency, "max_consumers": 1}
    return {"allow_private_addresses": private, "fleet": fleet}


def open_requests(world: World) -> int:
    states = ask(world, "GET", "/v1/docs/stats").json["states"]
    return int(states["pending"]) + int(states["leased"])


BIZS = {"acme": {"docs": biz(politeness={"robots": "ignore"}, fetch={"total_seconds": 60.0})}}


def test_a_running_worker_obeys_the_guard_its_concurrency_and_when_to_leave_within_ten_seconds(
    world: World,
):
    world.fresh(BIZS, stage=stage(FEW, private=True))
    reports: list[dict[str, Any]] = []
    with a_site() as site, SteadyClock() as clock:
        submit(world, *(f"{site.url}/held/{n}" for n in range(2 * MORE)))
        worker = Thread(target=lambda: reports.append(world.work()), daemon=True)
        worker.start()
        eventually(lambda: site.held == FEW, what="the worker has begun")

        world.push(BIZS, stage=stage(MORE, private=True))
        pushed_at = clock()
        eventually(lambda: site.held == MORE, what="more are downloaded at once")
        grew = clock() - pushed_at

        site.go.set()
        eventually(lambda: open_requests(world) == 0, what="all are done")

        world.push(BIZS, stage=stage(MORE, private=False))
        pushed_at = clock()
        # One after another: each is a hop of its own.
        ended: dict[str, Any] = {"error": None}
        # One that is under way as the guard comes into force ends by that, and proves nothing.
        while "AddressRefused" not in (ended["error"] or "") and clock() - pushed_at < SECONDS:
            [one] = submit(world, f"{site.url}/after/{len(site.asked)}")
            eventually(lambda: open_requests(world) == 0, what="it has ended")
            ended = ask(world, "GET", f"/v1/docs/requests/{one}").json
        guarded, asked = clock() - pushed_at, len(site.asked)
        submit(world, f"{site.url}/never")
        eventually(lambda: open_requests(world) == 0, what="it has ended as well")

        world.push(BIZS, stage=stage(MORE, private=False, idle=0.0))
        pushed_at = clock()
        eventually(lambda: reports, what="the worker has left")
        left = clock() - pushed_at
        worker.join(60)

    assert "AddressRefused" in ended["error"]
    assert len(site.asked) == asked, "nothing is asked for once the guard holds"
    assert [report["stopped_because"] for report in reports] == ["idle"]
    assert max(grew, guarded, left) < SECONDS, (grew, guarded, left)
