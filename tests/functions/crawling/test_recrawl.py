"""Pages that are read again: from the first visit to the saved download, on real servers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests.functions.http import ask, submit
from tests.kit.apps import now
from tests.kit.frontier import seed_key
from tests.kit.kernel import names
from tests.kit.worlds.functions import biz, default_bizs

TICK = json.loads((Path(__file__).parents[3] / "events/scheduler/tick.json").read_text())["event"]


class Edition:
    """A site of one page: how it reads now, and what it was asked for."""

    def __init__(self) -> None:
        self.text = "first"
        self.url = ""
        self.asked: list[tuple[str | None, int]] = []


@contextmanager
def an_edition() -> Iterator[Edition]:
    """A site that knows ETags."""
    edition = Edition()

    class Pages(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            tag = f'"{edition.text}"'
            wanted = self.headers.get("If-None-Match")
            if self.path == "/robots.txt":
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            status = 304 if wanted == tag else 200
            edition.asked.append((wanted, status))
            body = f"<title>{edition.text}</title>".encode() if status == 200 else b""
            self.send_response(status)
            self.send_header("ETag", tag)
            if status == 200:
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        server.daemon_threads = True
        edition.url = f"http://127.0.0.1:{server.server_port}/"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield edition
        finally:
            server.shutdown()


def recrawling(world, **policy: Any) -> None:
    world.fresh({"acme": {"docs": biz(recrawl=policy)}, "rival": default_bizs()["rival"]})


def visit(world, url: str) -> dict[str, Any]:
    answer = ask(world, "GET", "/v1/docs/visits", query={"url": url})
    assert answer.status == 200, answer.text
    found: dict[str, Any] = answer.json["visit"]
    return found


def test_a_page_that_has_not_changed_is_not_downloaded_again(world):
    recrawling(world)
    with an_edition() as site:
        for _ in range(3):
            submit(world, site.url)
            world.work()
        site.text = "second"
        submit(world, site.url)
        world.work()

    assert [status for _, status in site.asked] == [200, 304, 304, 200]
    assert [wanted for wanted, _ in site.asked] == [None, '"first"', '"first"', '"first"']
    seen = visit(world, site.url)
    assert (seen["visits"], seen["saved"], seen["changes"]) == (4, 2, 1)
    assert (seen["etag"], seen["next_at"]) == ('"second"', None)
    totals = ask(world, "GET", "/v1/docs/visits").json["totals"]
    counts = {"visits": 4, "changes": 1, "saved": 2, "spared": 0}
    assert totals == {"pages": 1, **counts, "due": 0}
    records = ask(world, "GET", "/v1/docs/records").json["records"]
    assert [record["fields"]["title"] for record in records] == ["first", "second"]
    assert ask(world, "GET", "/v1/docs/ledger").json["done"] == 4


def test_a_page_that_is_due_is_submitted_and_read_by_itself(world):
    recrawling(world, schedule=True)
    with an_edition() as site:
        submit(world, site.url, meta={"list_page": 3})
        world.work()
        seen = visit(world, site.url)
        kept = world.mongo[f"cf_{world.tenants['acme']}_db"]["docs.requests_visits"]
        assert kept.update_one({}, [{"$set": {"next": "$at"}}]).modified_count == 1
        due = ask(world, "GET", "/v1/docs/visits").json["totals"]["due"]

        done = world.call(names.SCHEDULER, TICK)
        again = world.call(names.SCHEDULER, TICK)
        world.work()

    assert (seen["visits"], due) == (1, 1)
    assert (done["recrawled"], again["recrawled"]) == (1, 0)
    assert [status for _, status in site.asked] == [200, 304]
    now = visit(world, site.url)
    assert (now["visits"], now["saved"]) == (2, 1)
    assert now["next_at"] > seen["next_at"]
    [_, second] = ask(world, "GET", "/v1/docs/requests").json["requests"]
    assert second["job"].startswith("recrawl.")
    assert second["meta"] == {"list_page": 3}


def test_a_page_that_is_not_due_is_not_asked_for_again_because_a_new_segment_began(world):
    recrawling(world, due_only=True)
    seeds = {"seeds": [{"url": "", "rule": "page"}]}

    def offered(url: str) -> dict[str, Any]:
        seeds["seeds"][0]["url"] = url
        [answer] = ask(world, "POST", "/v1/docs/seeds", seeds).json["seeds"]
        world.work()
        return answer

    with an_edition() as site:
        world.clocks[names.ROUTER] = lambda: now() - timedelta(days=1)
        yesterday = offered(site.url)
        world.clocks.clear()
        today, another = offered(site.url), offered(f"{site.url}another")

    assert yesterday["segment"] != another["segment"]
    accepted = [each["accepted"] for each in (yesterday, today, another)]
    assert accepted == [True, False, True]
    assert "not due before" in today["why"]
    assert len(site.asked) == 2, "it was asked for once, and the other page once"
    assert (visit(world, site.url)["visits"], visit(world, site.url)["spared"]) == (1, 1)
    totals = ask(world, "GET", "/v1/docs/visits").json["totals"]
    assert (totals["pages"], totals["spared"]) == (2, 1)


def test_another_rule_reads_a_page_in_full(world):
    recrawling(world)
    with an_edition() as site:
        submit(world, site.url)
        world.work()
        other = {"fields": {"whole": {"css": "title"}}}
        world.push(
            {
                "acme": {"docs": biz({"page": other}, recrawl={})},
                "rival": default_bizs()["rival"],
            }
        )
        submit(world, site.url)
        world.work()

    assert [wanted for wanted, _ in site.asked] == [None, None]
    assert visit(world, site.url)["changes"] == 0


def test_what_is_known_of_pages_is_each_tenants_own(world):
    recrawling(world)
    with an_edition() as site:
        submit(world, site.url)
        world.work()

        theirs = ask(world, "GET", "/v1/docs/visits", query={"url": site.url}, key="rival")

    assert theirs.status == 404
    assert ask(world, "GET", "/v1/docs/visits", key="rival").json["totals"]["pages"] == 0


def by_last_part(url: str, rules: Any = None, **_: Any) -> bytes:
    return seed_key("https://one.example/" + url.rpartition("/")[2])


def test_a_page_under_two_forms_of_its_url_is_one_to_its_rules_own_resolver(
    world, tmp_path, monkeypatch
):
    """The same decides for seeds and for visits: what a package says is one page is read as one."""
    package = tmp_path / "last_part-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Name: last-part\nVersion: 1\n")
    point = f"last-part = {__name__}:{by_last_part.__name__}"
    (package / "entry_points.txt").write_text(f"[crawlfleet.seed_keys]\n{point}\n")
    monkeypatch.syspath_prepend(tmp_path)
    document = biz(recrawl={}, seeds={"resolvers": {"page": "last-part"}})
    world.fresh({"acme": {"docs": document}, "rival": default_bizs()["rival"]})
    with an_edition() as site:
        for place in ("list/7", "shop/7"):
            submit(world, f"{site.url}{place}")
            world.work()
        offered = [
            ask(world, "POST", "/v1/docs/seeds", {"seeds": [{"url": f"{site.url}{place}"}]}).json
            for place in ("list/7", "shop/7")
        ]

    assert [status for _, status in site.asked] == [200, 304]
    assert ask(world, "GET", "/v1/docs/visits").json["totals"]["pages"] == 1
    assert visit(world, f"{site.url}anywhere/7")["visits"] == 2
    assert [each["accepted"] for each in offered] == [1, 0]
    assert offered[0]["seeds"][0]["key"] == visit(world, f"{site.url}list/7")["key"]
