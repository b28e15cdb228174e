import http.server
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.cli_program import program
from tests.kit.api_server import KEY, ApiServer


@pytest.fixture
def pausing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[float], None]], None]:
    """Takes what is done where the program pauses; a driver's threads beside it sleep as ever."""
    program_thread, sleep = threading.current_thread(), time.sleep

    def instead(pause: Callable[[float], None]) -> None:
        def paused(seconds: float) -> None:
            (pause if threading.current_thread() is program_thread else sleep)(seconds)

        monkeypatch.setattr("time.sleep", paused)

    return instead


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, pausing) -> Iterator[ApiServer]:
    server = ApiServer()
    monkeypatch.setenv("CRAWLFLEET_API_URL", server.url)
    monkeypatch.setenv("CRAWLFLEET_API_KEY", KEY)
    pausing(lambda _: None)  # the program is patient, and we are not
    yield server
    server.close()


@pytest.fixture
def crawlfleet(capfdbinary):
    """Runs the program; what it wrote, and its exit code."""
    return program(capfdbinary)


@pytest.fixture
def site():
    """A site that answers by path; ``heard`` has the headers of what it was asked."""

    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.heard.append((self.path, dict(self.headers)))
            if self.path == "/robots.txt":
                self.send_response(self.server.robots[0])
                self.end_headers()
                self.wfile.write(self.server.robots[1])
                return
            if self.path.startswith("/to"):
                self.send_response(302)
                self.send_header("Location", self.path.removeprefix("/to") or "/to")
                self.end_headers()
                return
            self.send_response(404 if self.path == "/gone" else 200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            if self.path == "/endless":
                while self.server.open:
                    try:
                        self.wfile.write(b"x" * 65_536)
                    except OSError:
                        return
            elif self.path == "/slow":
                while self.server.open:
                    try:
                        self.wfile.write(b"x")
                        time.sleep(0.05)  # a site that trickles
                    except OSError:
                        return
            else:
                self.wfile.write(self.server.page)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.heard, server.open, server.robots = [], True, (404, b"")
    server.page = b""
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.open = False
    server.shutdown()
    thread.join()
    server.server_close()
