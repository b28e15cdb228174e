"""The stage whose state is kept: its configuration, and the web that its workers see.

Its tenants have the same names in every process, as hashes in the stores are made of them; so it
has servers of its own. Its sites have the same addresses, too: a proxy on a free port is all of
them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import urlsplit

from infra.local.mongo_server import MongoServer
from tests.kit.kernel import names
from tests.kit.worlds.functions import KEYS, STAGE, World, a_world, biz

#: A site that answers, one that asks to be left alone, and some that do not answer for now.
SHOP, BUSY = "http://127.0.1.1", "http://127.0.1.2"
SLOW = [f"http://127.0.2.{number}" for number in range(1, 6)]
#: The site that asks to be left alone does so for an hour.
BACK_OFF_SECONDS = 3600
_COOKIE = "visit=kept"


class Web:
    """Every site there is.

    Attributes:
        well: Whether pages that are gone, sites that are busy and sites that are slow answer.
        asked: Addresses that were asked for, each with its cookies and its condition.
        answer: Set when slow sites may answer.
    """

    def __init__(self, *, well: bool) -> None:
        self.well = well
        self.asked: list[tuple[str, str | None, str | None]] = []
        self.answer = Event()
        self.proxy = ""
        self._lock = Lock()

    @property
    def urls(self) -> list[str]:
        """Pages that were asked for."""
        return [url for url, _, _ in self.asked]

    def note(self, url: str, cookie: str | None, condition: str | None) -> None:
        """Remember what was asked for."""
        with self._lock:
            self.asked.append((url, cookie, condition))

    def status(self, url: str, condition: str | None) -> int:
        """The status that a page has; slow ones take their time."""
        parts = urlsplit(url)
        if not self.well:
            if url.startswith(tuple(SLOW)):
                self.answer.wait(60)
            if url.startswith(BUSY):
                return 429
            if parts.path.startswith("/gone"):
                return 404
        return 304 if condition else 200


@contextmanager
def a_web(*, well: bool) -> Iterator[Web]:
    """The sites, behind a proxy on this machine."""
    web = Web(well=well)

    class Pages(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url, condition = self.path, self.headers.get("If-None-Match")
            web.note(url, self.headers.get("Cookie"), condition)
            status = web.status(url, condition)
            body = f"<title>{urlsplit(url).path}</title>".encode() if status != 304 else b""
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", '"kept"')
            self.send_header("Set-Cookie", _COOKIE)
            if status == 429:
                self.send_header("Retry-After", str(BACK_OFF_SECONDS))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        server.daemon_threads = True
        web.proxy = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield web
        finally:
            web.answer.set()
            server.shutdown()
            thread.join()


@contextmanager
def a_kept_world(redis_url: str) -> Iterator[World]:
    """The stage's functions, on that Redis and a MongoDB of their own; nothing is stored yet."""
    with (
        MongoServer(cache_gb=0.25, own=True, volatile=True) as mongo,
        a_world(redis_url, mongo.uri, own_mongo=True) as world,
    ):
        world.tenants = {first: first for first in KEYS}
        world.secrets.create_secret(Name=names.proxy_secret(STAGE, "sites"), SecretString="-")
        yield world


def through(world: World, web: Web) -> None:
    """Have the world's workers see this web."""
    world.secrets.put_secret_value(
        SecretId=names.proxy_secret(STAGE, "sites"), SecretString=web.proxy
    )


def push(
    world: World,
    *,
    small: bool = False,
    waiting_seconds: float = 3600.0,
    later: bool = False,
    **stage: Any,
) -> None:
    """Put the stage's configuration in force.

    Args:
        world: The stage.
        small: Whether workers and jobs take small steps, so that much is half done.
        waiting_seconds: How long a request of ``docs`` may wait before that is an incident.
        later: Whether there is the biz that was not configured when the dump was written.
        stage: What else its document says.
    """
    bizs = {
        "acme": {
            "docs": biz(
                thresholds={"oldest_waiting_seconds": waiting_seconds},
                fetch={"cookies": True, "first_byte_seconds": 300.0, "total_seconds": 300.0},
                seeds={"ahead": 2},
                retry={"max_attempts": 2, "base_seconds": 0.01},
                states={"reviewed": 100},
            ),
            "news": biz(
                collection="news",
                recrawl={"schedule": True},
                generation={"databases": ["one", "two"], "shards": 2},
            ),
            "shop": biz(
                collection="shop",
                queue="slow",
                intake={"jobs_ahead": 3 if small else 1_000},
                id_kind="counter",
            ),
            "waits": biz(collection="waits", politeness={"concurrency": 1}),
        },
        "rival": {"docs": biz()},
    }
    if later:
        bizs["acme"]["later"] = biz(collection="later")
    pool = {"secret": names.proxy_secret(STAGE, "sites"), "allow_private": True}
    fleet = {"idle_seconds": 0.0, "max_consumers": 4, "concurrency": 2 if small else 40}
    fleet["batch"] = 1 if small else 20
    document = {
        "hosts": {"per_second": 100_000, "concurrency": 10_000, "adaptive": False},
        "fleet": {**fleet, "lease_seconds": 600.0},
        "proxies": {"sites": pool},
        "default_proxies": "sites",
        "alarms": {"bad_looks": 1, "good_looks": 1},
    }
    world.push(bizs, stage={**document, **stage})
