"""Dead letters, made as they come about: a site that says 404, and a worker."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.functions.http import ask, submit
from tests.kit.worlds.functions import World


class Site:
    """A site whose pages are ``gone`` until they are not."""

    def __init__(self, url: str, gone: set[str]) -> None:
        self.url = url
        self.gone = gone


@contextmanager
def a_site(*gone: str) -> Iterator[Site]:
    """A site on this machine; the paths that are ``gone`` answer 404."""
    missing = set(gone)

    class Pages(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            status = 404 if self.path in missing else 503 if self.path == "/busy" else 200
            words = "nicht mehr für uns" if status == 404 else "da"
            body = f"<html><title>Page {self.path}</title>{words}</html>".encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield Site(f"http://127.0.0.1:{server.server_port}", missing)
        finally:
            server.shutdown()
            thread.join()


def dead_letters(world: World, count: int) -> list[str]:
    """Ids of dead letters of ``acme/docs``."""
    paths = [f"/{number}" for number in range(count)]
    with a_site(*paths) as site:
        ids = submit(world, *(f"{site.url}{path}" for path in paths))
        world.work()
    states = [ask(world, "GET", f"/v1/docs/requests/{each}").json["state"] for each in ids]
    assert states == ["dead"] * count
    return ids
