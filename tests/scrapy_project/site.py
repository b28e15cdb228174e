"""A site of linked pages on this machine, served by threads, which counts what it is asked for."""

import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

PAGES = 300
#: Pages 1, 24, 47... answer 503 when they are first asked for; links to 1, 32, 63... redirect.
_FLAKY, _MOVED = 23, 31


class LinkedSite:
    """Page n links to 2n+1 and 2n+2, to the front page and to three others."""

    def __init__(self, pages: int = PAGES, seconds: float = 0.0) -> None:
        self.pages = pages
        self.seconds = seconds
        self.hits: Counter[str] = Counter()
        #: When each page was asked for, and the robots.txt, which there is none of unless set.
        self.asked: list[float] = []
        self.robots: bytes | None = None
        self._lock = threading.Lock()
        self._pause = threading.Event()
        self._open = threading.Event()
        self._open.set()
        self._held = 0
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.answer(self)

            def log_message(self, *_: Any) -> None:
                """Be quiet."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: Any) -> None:
                """A crawler that was killed leaves connections behind."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def served(self) -> int:
        """Return the number of requests received."""
        return self.hits.total()

    @property
    def held(self) -> int:
        """Return the number of requests that wait for an answer because the site is closed."""
        return self._held

    def close(self) -> None:
        """Take requests, and answer none before it is open again."""
        self._open.clear()

    def open(self) -> None:
        """Answer everything, also what has waited."""
        self._open.set()

    def answer(self, call: BaseHTTPRequestHandler) -> None:
        with self._lock:
            self.hits[call.path] += 1
            self.asked.append(time.monotonic())
            first = self.hits[call.path] == 1
            self._held += 1
        self._open.wait()
        with self._lock:
            self._held -= 1
        if self.seconds:
            self._pause.wait(self.seconds)
        if call.path == "/robots.txt" and self.robots is not None:
            self._send(call, 200, self.robots)
            return
        name = call.path.strip("/").removeprefix("moved-")
        if not name.isdigit() or int(name) >= self.pages:
            self._send(call, 404, b"there is no such page")
        elif int(name) % _FLAKY == 1 and first:
            self._send(call, 503, b"come back later")
        elif int(name) % _MOVED == 1 and call.path.startswith("/moved-"):
            call.send_response(302)
            call.send_header("Location", f"/{name}")
            call.send_header("Content-Length", "0")
            call.end_headers()
        else:
            self._send(call, 200, self._page(int(name)).encode())

    def _page(self, number: int) -> str:
        others = (2 * number + 1, 2 * number + 2, 0, number * 7 % self.pages, number * 13 % 97)
        links = "".join(
            f'<a href="/{"moved-" if other % _MOVED == 1 else ""}{other}">{other}</a>'
            for other in others
            if other < self.pages
        )
        return f"<html><body><h1>{number}</h1>{links}</body></html>"

    def _send(self, call: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
        call.send_response(status)
        call.send_header("Content-Type", "text/html; charset=utf-8")
        call.send_header("Content-Length", str(len(body)))
        call.end_headers()
        call.wfile.write(body)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.open()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
