"""Seeds that are no GET: a search form is posted once for each of its texts, on real servers."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

from tests.functions.http import ask
from tests.kit.worlds.functions import biz


class Search(BaseHTTPRequestHandler):
    """A page that answers what was posted to it, and by which method it was asked."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[tuple[str, str]]] = []

    def do_GET(self) -> None:
        self._answer("")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def _answer(self, posted: str) -> None:
        if self.path != "/robots.txt":
            self.asked.append((self.command, posted))
        body = f"<title>{self.command} {posted}</title>".encode()
        self.send_response(404 if self.path == "/robots.txt" else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def test_a_post_is_fetched_once_for_each_of_its_bodies(world):
    world.fresh({"acme": {"docs": biz(seeds={"span": "forever"})}})
    Search.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Search) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        page = {"url": f"http://127.0.0.1:{server.server_port}/search", "rule": "page"}
        posts = [page | {"method": "POST", "body": text} for text in ("q=lamp", "q=chair")]
        accepted = []
        for _ in range(2):
            answers = ask(world, "POST", "/v1/docs/seeds", {"seeds": [page, *posts]}).json["seeds"]
            accepted.append([each["accepted"] for each in answers])
            world.work()
        server.shutdown()
        thread.join()

    assert accepted == [[True] * 3, [False] * 3]
    wanted = [("GET", ""), ("POST", "q=chair"), ("POST", "q=lamp")]
    assert sorted(Search.asked) == wanted
    records = ask(world, "GET", "/v1/docs/records").json["records"]
    titles = sorted(record["fields"]["title"].strip() for record in records)
    assert titles == [f"{method} {body}".strip() for method, body in wanted]
