"""A collector of OpenTelemetry that keeps what it was sent, on loopback."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer


@contextmanager
def collector(
    status: int = 200, key: str | None = None, given: list | None = None
) -> Iterator[tuple[str, list]]:
    """Serve with that status; yields the address, and the paths and bodies that were sent.

    With a ``key`` it answers 401 to whoever does not give it as ``X-Key``; what each has given is
    noted in ``given``.
    """
    asked: list = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            own = self.headers.get("X-Key")
            if given is not None:
                given.append(own)
            is_known = key is None or own == key
            if is_known:
                asked.append((self.path, json.loads(content)))
            self.send_response(status if is_known else 401)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()
