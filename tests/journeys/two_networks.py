"""A site of this machine that is far from whoever comes by 127.0.0.2: late, little at a time."""

import gzip
import threading
from collections import Counter
from contextlib import suppress
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count

from infra.local.parts import LOOPBACK

#: The address by which workers of the slow network leave.
FAR = "127.0.0.2"
#: Until the first byte of an answer that goes there; a machine that stands still for two seconds
#: answers all others sooner.
FAR_SECONDS = 2.5
#: Bytes of a body that go there at once, and how long until the next.
FAR_CHUNK, FAR_PAUSE_SECONDS = 8_192, 0.1
#: Of the page by which ways are measured: enough to tell a speed by.
LINK_BYTES = 32_768
#: Of the pages that are held back so many are answered all the same.
OPEN_PAGES = 8
#: So many heavy pages stay unfinished until all were asked for, and then for so long, so that they
#: are seen in a worker's memory.
HEAVY_PAGES = 28
HEAVY_SECONDS = 8.0


class Site:
    """Pages by their path.

    ``/link`` is what ways are measured by. ``/heavy/BYTES/n`` is as large once it is
    unpacked: it takes memory, not the way. ``/held/job/n`` is held back until the site is ``open``,
    but for the first of them. Whatever else is a small page.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.open = threading.Event()
        self.open.set()
        self.heavy = count(1)
        self.all_heavy = threading.Event()
        self.closing = threading.Event()
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                peer = self.client_address[0]
                site.asked.append((peer, self.path))
                if peer == FAR:
                    site.closing.wait(FAR_SECONDS)
                if self.path == "/robots.txt":
                    self.send_error(404)
                    return
                if self.path.startswith("/held/") and int(self.path.split("/")[3]) > OPEN_PAGES:
                    site.open.wait(120)
                self._answer(site.body(self.path), peer)

            def _answer(self, body, peer):
                is_heavy = self.path.startswith("/heavy/")
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                if is_heavy:
                    self.send_header("Content-Encoding", "gzip")
                self.end_headers()
                if is_heavy and len(body) > 1_000:
                    self.wfile.write(body[:-10])
                    if next(site.heavy) == HEAVY_PAGES:
                        site.all_heavy.set()
                    site.all_heavy.wait(60)
                    site.closing.wait(HEAVY_SECONDS)
                    self.wfile.write(body[-10:])
                elif peer == FAR and self.path == "/link":
                    for at in range(0, len(body), FAR_CHUNK):
                        self.wfile.write(body[at : at + FAR_CHUNK])
                        site.closing.wait(FAR_PAUSE_SECONDS)
                else:
                    self.wfile.write(body)

            def handle(self):
                with suppress(ConnectionError):  # the worker that asked was killed
                    super().handle()

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

        self._server = Server((LOOPBACK, 0), Handler)
        self.url = f"http://{LOOPBACK}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def pages(self, prefix: str) -> Counter[str]:
        """Count the requests for each page below the prefix."""
        return Counter(path for _, path in list(self.asked) if path.startswith(prefix))

    def peers(self, prefix: str) -> set[str]:
        """The addresses from which pages below it were asked for."""
        return {peer for peer, path in list(self.asked) if path.startswith(prefix)}

    def close(self) -> None:
        """Answer what is held, and end."""
        self.closing.set()
        self.all_heavy.set()
        self.open.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def body(self, path: str) -> bytes:
        parts = path.split("/")
        if parts[1] == "heavy":
            return packed(int(parts[2]))
        title = f"<title>page {path}</title>".encode()
        return title.ljust(LINK_BYTES) if path == "/link" else title


@lru_cache
def packed(size: int) -> bytes:
    """A page that is so large once it is unpacked."""
    return gzip.compress(b"<title>heavy</title><!--" + b"x" * size + b"-->", 1)
