"""Links that a rule follows: from one page to a whole site, each page once, on real servers."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from tests.functions.http import ask, submit
from tests.kit.worlds.functions import biz

TICK = json.loads((Path(__file__).parents[3] / "events/scheduler/tick.json").read_text())["event"]
PAGES = 40


class Web:
    """A site of pages that link to their neighbours, to their parent and to the first one."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.url = ""
        self.lock = Lock()

    def page(self, number: int) -> str:
        others = {0, number // 2, 2 * number + 1, 2 * number + 2, number + 7} & set(range(PAGES))
        links = "".join(f'<a href="/{n}?utm_source=x#top">{n}</a>' for n in sorted(others))
        return f"<title>page {number}</title>{links}<a href='http://elsewhere.test/'>away</a>"


@contextmanager
def a_web() -> Iterator[Web]:
    web = Web()

    class Pages(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            with web.lock:
                web.asked[path] += 1
            if path == "/robots.txt":
                status, body = 200, b"User-agent: *\nDisallow: /13\n"
            else:
                status, body = 200, web.page(int(path.strip("/"))).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        server.daemon_threads = True
        web.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield web
        server.shutdown()
        thread.join()


def following(**changes: Any) -> dict[str, Any]:
    rule = {
        "fields": {"title": {"css": "title"}},
        "follow": [{"css": "a[href]", "max_depth": 50, **changes}],
    }
    # No segment ends while a test runs: each URL would be a seed once more.
    return biz(rules={"page": rule}, seeds={"span": "forever"})


def crawled(world: Any, web: Web) -> dict[str, Any]:
    for _ in range(12):
        world.work()
        totals = ask(world, "GET", "/v1/docs/stats").json["states"]
        if not any(totals.get(state) for state in ("pending", "leased", "waiting")):
            return totals
    raise AssertionError(f"the crawl does not end: {totals}")


def test_one_page_leads_to_the_whole_site_and_to_each_page_once(world):
    world.fresh({"acme": {"docs": following()}})
    with a_web() as web:
        submit(world, f"{web.url}/0")

        totals = crawled(world, web)

    asked = {path: count for path, count in web.asked.items() if path != "/robots.txt"}
    assert asked == {f"/{n}": 1 for n in range(PAGES) if n != 13}
    assert web.asked["/robots.txt"] == 1
    assert totals["done"] == PAGES - 1
    assert totals["dead"] == 1
    [dead_letter] = ask(world, "GET", "/v1/docs/dead-letters").json["dead_letters"]
    assert dead_letter["reason"] == "RobotsDenied"
    assert "Disallow: /13" in dead_letter["error"]


def test_a_url_of_the_crawl_is_explained_by_whatever_form_of_it(world):
    world.fresh({"acme": {"docs": following()}})

    def explained(url: str, key: str = "acme") -> Any:
        return ask(world, "GET", "/v1/docs/explain", query={"url": url}, key=key)

    with a_web() as web:
        submit(world, f"{web.url}/0")
        crawled(world, web)
        read = explained(f"{web.url}/7?utm_source=elsewhere#x").json
        denied = explained(f"{web.url}/13").json
        strange = explained(f"{web.url}/never").json
        away = explained("http://elsewhere.test/").json

    [seed] = [
        one
        for one in ask(world, "GET", "/v1/docs/seeds").json["seeds"]
        if one["key"] == read["keys"][0]
    ]
    facts = read["standing"]["facts"]
    assert (facts["seed"], facts["request_id"]) == (seed["id"], seed["request_id"])
    assert (facts["request_state"], facts["robots_allow"]) == ("done", True)
    assert "duplicate" in read["standing"]["sentence"]
    assert [step["kind"] for step in read["steps"]].count("seed") == 3
    assert f"request {seed['found_by']}" in {step["by"] for step in read["steps"]}
    assert "Disallow: /13" in denied["standing"]["sentence"]
    assert (denied["standing"]["facts"]["seed_state"]) == "failed"
    assert "elsewhere.test is outside of its domains (same_host" in away["standing"]["sentence"]
    assert (strange["steps"], strange["standing"]["facts"]["accepted_now"]) == ([], True)
    assert explained(f"{web.url}/7", key="rival").status == 404


def test_links_are_followed_as_deep_as_the_rule_says(world):
    world.fresh({"acme": {"docs": following(max_depth=1)}})
    with a_web() as web:
        submit(world, f"{web.url}/0")

        crawled(world, web)

    assert set(web.asked) == {"/robots.txt", "/0", "/1", "/2", "/7"}
