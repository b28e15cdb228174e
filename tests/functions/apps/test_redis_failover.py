"""Redis' primary dies while a consumer is at work, and its replica takes over at the same address.

As ElastiCache does it: the address is a name, which leads to another server from some moment on.
"""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any

import pytest
import redis

from infra.local.parts import LOOPBACK
from infra.local.redis_server import RedisServer
from tests.functions.http import ask, submit
from tests.kit.broken_servers import Proxy
from tests.kit.kernel import names
from tests.kit.patience import patient
from tests.kit.redis_slots import port_of
from tests.kit.worlds.functions import World, a_world, biz
from tests.waiting import eventually

#: Downloads of the worker at once, fewer than the pages that it leases.
AT_ONCE = 8
PAGES = 40
#: How long each part of the story may take, on a machine that stands still in it too; all of it
#: takes some seconds.
SECONDS = 60


class Site(ThreadingHTTPServer):
    """Pages that are their titles. Some wait until pages of their kind may be answered."""

    daemon_threads = True

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.lock = Lock()
        self.opened = {"first": Event(), "held": Event()}
        super().__init__((LOOPBACK, 0), _Page)

    def url(self, kind: str, number: int) -> str:
        return f"http://{LOOPBACK}:{self.server_port}/{kind}/{number}"


class _Page(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        if self.path == "/robots.txt":
            self.send_error(404)
            return
        with self.server.lock:
            self.server.asked[self.path] += 1
        if opened := self.server.opened.get(self.path.split("/")[1]):
            opened.wait(3 * SECONDS)
        body = f"<title>{self.path}</title>".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Pair:
    """A primary and its replica, behind the address that leads to whichever of them is primary."""

    def __init__(self, primary: RedisServer, replica: RedisServer, endpoint: Proxy) -> None:
        self.primary, self._replica, self._endpoint = primary, replica, endpoint
        self.url = patient(f"redis://{endpoint.address}/0")

    def is_in_step(self) -> bool:
        with redis.Redis.from_url(self._replica.url) as client:
            reported = client.info("replication")
        return reported["role"] == "slave" and reported["master_link_status"] == "up"

    def fall_behind(self) -> None:
        """The replica hears of nothing any more: what follows is lost with the primary."""
        with redis.Redis.from_url(self._replica.url) as client:
            client.replicaof("NO", "ONE")

    def catch_up(self) -> None:
        """The replica has all that the primary has."""
        with redis.Redis.from_url(self.primary.url) as client:
            assert client.wait(1, 1_000 * SECONDS) == 1

    def promote(self) -> None:
        self.fall_behind()
        self._endpoint.lead_to(LOOPBACK, port_of(self._replica))


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        primary = stack.enter_context(RedisServer(own=True))
        of = ("--replicaof", LOOPBACK, str(port_of(primary)))
        replica = stack.enter_context(RedisServer(own=True, options=of))
        endpoint = Proxy(LOOPBACK, port_of(primary))
        stack.callback(endpoint.close)
        found = Pair(primary, replica, endpoint)
        eventually(found.is_in_step, SECONDS, "the replica does not follow")
        yield found


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        for opened in server.opened.values():
            opened.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def world(pair: Pair, mongo_uri: str) -> Iterator[World]:
    with a_world(pair.url, mongo_uri) as world:
        slow = biz(fetch=dict.fromkeys(("first_byte_seconds", "total_seconds"), 180.0))
        fleet = {"idle_seconds": 0.0, "concurrency": AT_ONCE, "batch": PAGES, "max_consumers": 4}
        world.fresh({"acme": {"docs": slow}}, stage={"fleet": fleet})
        yield world


def depth(world: World) -> dict[str, int]:
    queue: dict[str, int] = ask(world, "GET", "/v1/docs/stats").json["queue"]
    return queue


@pytest.mark.parametrize(
    "is_behind",
    [pytest.param(False, id="in step", marks=pytest.mark.long), pytest.param(True, id="behind")],
)
def test_a_primary_that_dies_under_a_leased_batch_costs_nothing(world, pair, site, is_behind):
    """Behind, the heir knows nothing of the leases: there all pages are still queued."""
    ids = submit(world, site.url("held", 0), *(site.url("first", n) for n in range(1, PAGES)))
    pair.catch_up()
    if is_behind:
        pair.fall_behind()
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(world.work)
        eventually(lambda: len(site.asked) == AT_ONCE, SECONDS, "no downloads")
        eventually(lambda: depth(world)["leased"] == PAGES, SECONDS, "the batch is not leased")
        if not is_behind:
            pair.catch_up()

        pair.primary.kill()
        # Downloads end, and are stored, while there is no Redis; what comes now is accepted.
        ids += submit(world, site.url("meanwhile", 0))
        site.opened["first"].set()
        eventually(lambda: len(site.asked) > AT_ONCE, SECONDS, "the worker stands still")
        pair.promote()

        # It goes on with what came meanwhile and with what comes now: one page holds it there.
        ids += submit(world, *(site.url("afterwards", n) for n in range(AT_ONCE)))
        world.call(names.SCHEDULER, {})
        eventually(lambda: len(site.asked) == len(ids), SECONDS, "the worker does not go on")
        site.opened["held"].set()
        report = working.result(3 * SECONDS)

    world.call(names.SCHEDULER, {})
    assert world.work()["done"] == 0
    assert (report["done"], report["stopped_because"]) == (len(ids), "idle")
    assert set(site.asked.values()) == {1}, "a page was downloaded twice"
    stats = ask(world, "GET", "/v1/docs/stats").json
    assert {state: count for state, count in stats["states"].items() if count} == {"done": len(ids)}
    assert stats["queue"] == {"queued": 0, "leased": 0, "delayed": 0, "oldest_at": None}
    records = ask(world, "GET", "/v1/docs/records", query={"limit": "1000"}).json["records"]
    assert sorted(record["request_id"] for record in records) == sorted(ids)
