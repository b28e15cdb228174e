"""A rule tried by the API: the router's handler asks the consumer's, on real servers."""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from tests.functions.http import ask
from tests.functions.refusals import refused_for_now
from tests.kit.ceilings import PermitAsk, RedisCeilings
from tests.kit.kernel import names
from tests.kit.queue import room_keys
from tests.kit.worlds.functions import STAGE, World, biz, default_bizs, throttled
from tests.waiting import in_time

TRY = "/v1/docs/rules/try"
HTML = "<title>Nüsse</title><ul><li>Hex <a href=/hex>more</a></li><li>Wing</li></ul>"
RULE = {
    "items": {"css": "li"},
    "fields": {"name": {"css": "li"}, "link": {"css": "a", "attribute": "href", "absolute": True}},
    "follow": [{"css": "a"}],
}


class Shop:
    """A site that records the paths of its requests and serves ``robots`` as robots.txt."""

    def __init__(self, url: str, robots: str) -> None:
        self.url = url
        self.robots = robots
        self.asked: list[str] = []


@contextmanager
def a_shop(robots: str = "") -> Iterator[Shop]:
    class Pages(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            shop.asked.append(self.path)
            statuses = {"/gone": 404, "/busy": 429, "/moved": 302}
            body = (shop.robots if self.path == "/robots.txt" else HTML).encode()
            self.send_response(statuses.get(self.path, 200))
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            if self.path == "/moved":
                self.send_header("Location", "/list")
            if self.path == "/busy":
                self.send_header("Retry-After", "7")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        server.daemon_threads = True
        shop = Shop(f"http://127.0.0.1:{server.server_port}", robots)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield shop
        finally:
            server.shutdown()
            thread.join()


def tried(world: World, rule: Any = RULE, *, key: str = "acme", **asked: Any) -> Any:
    answer = ask(world, "POST", TRY, {"rule": rule, **asked}, key=key)
    assert answer.status == 200, answer.text
    return answer.json


def page(body: str = HTML, **more: Any) -> dict[str, Any]:
    return {"body": body, "url": "https://shop.example/list", **more}


def test_a_rule_that_is_in_no_document_is_tried_on_a_page_that_is_sent_along(world):
    found = tried(world, page=page())

    assert found["records"] == [
        {"name": "Hex more", "link": "https://shop.example/hex"},
        {"name": "Wing", "link": None},
    ]
    assert (found["record_count"], found["link_count"], found["cut"]) == (2, 1, False)
    assert found["links"] == [
        {"url": "https://shop.example/hex", "rule": None, "depth": 1, "meta": {}}
    ]
    assert found["coverage"] == [
        {"name": "link", "count": 1, "share": 0.5, "why": None},
        {"name": "name", "count": 2, "share": 1.0, "why": None},
    ]
    assert (found["fetched"], found["error"], found["problems"]) == (None, None, [])
    assert found["seconds"] > 0
    assert (world.stored(), world.redis_keys(), world.lambdas.woken) == (0, [], [])


def test_a_text_is_utf_8_and_bytes_are_what_their_type_says(world):
    latin = base64.b64encode("<title>Nüsse</title>".encode("latin-1")).decode()

    text = tried(world, "page", page=page(content_type="text/html; charset=latin-1"))
    raw = tried(
        world, "page", page={"body_base64": latin, "content_type": "text/html; charset=latin-1"}
    )

    assert text["records"] == raw["records"] == [{"title": "Nüsse"}]


def test_a_url_is_fetched_as_a_worker_would_and_its_way_is_reported(world):
    with a_shop("User-agent: *\nDisallow: /secret\n") as shop:
        found = tried(world, "page", url=f"{shop.url}/moved")
        denied = tried(world, "page", url=f"{shop.url}/secret")

    fetched = found["fetched"]
    assert found["records"] == [{"title": "Nüsse"}]
    assert (fetched["url"], fetched["status"]) == (f"{shop.url}/list", 200)
    assert fetched["redirects"] == [f"{shop.url}/moved"]
    assert fetched["bytes"] == len(HTML.encode())
    assert denied["error"]["reason"] == "RobotsDenied"
    assert "Disallow: /secret" in denied["error"]["message"]
    assert shop.asked == ["/robots.txt", "/moved", "/list"]
    # What the fleet knows of the site is all that stays.
    sizes = {key.encode() for key in room_keys(world.tenants["acme"], "robots")}
    left = {key for key in world.redis_keys() if b"127.0.0.1" not in key}
    assert left <= sizes
    assert (world.stored(), world.lambdas.woken) == (0, [])


def test_a_list_of_proxies_that_has_changed_is_in_force_in_the_next_trial(world):
    secret = names.proxy_secret(STAGE, "tried")
    world.push(
        {"acme": {"docs": biz(fetch={"proxies": "tried"})}},
        stage={"proxies": {"tried": {"secret": secret}}},
    )
    with a_shop() as one, a_shop() as other:  # each stands in for a proxy, too
        world.secrets.create_secret(Name=secret, SecretString=one.url)
        tried(world, "page", url=f"{one.url}/list")
        world.secrets.put_secret_value(SecretId=secret, SecretString=other.url)
        tried(world, "page", url=f"{one.url}/list")

    assert one.asked == ["/robots.txt", f"{one.url}/list"]
    assert other.asked == [f"{one.url}/list"]


def test_a_page_that_cannot_be_fetched_is_an_answer_that_says_why(world):
    with a_shop() as shop:
        gone = tried(world, "page", url=f"{shop.url}/gone")
    world.redis.flushall()
    nobody = tried(world, "page", url=f"{shop.url}/list")

    assert (gone["error"]["reason"], gone["error"]["status"]) == ("PageGone", 404)
    assert (gone["fetched"]["url"], gone["fetched"]["status"]) == (f"{shop.url}/gone", 404)
    assert (nobody["error"]["reason"], nobody["error"]["status"]) == ("ConnectFailed", 0)
    assert "robots.txt" in nobody["error"]["message"]
    assert gone["error"]["retryable"] is False
    assert nobody["error"]["retryable"] is True
    assert gone["records"] == nobody["records"] == []


def test_a_site_that_asks_for_fewer_requests_is_left_alone_by_the_next_trial_too(world):
    with a_shop() as shop:
        busy = tried(world, "page", url=f"{shop.url}/busy")
        started = time.monotonic()
        world.push(default_bizs(), stage={"hosts": {"backoff_seconds": 60}})
        tried(world, "page", page=page())
        again = tried(world, "page", url=f"{shop.url}/busy")
        took = time.monotonic() - started
        asked = list(shop.asked)

    assert (busy["error"]["reason"], busy["error"]["status"]) == ("Throttled", 429)
    assert busy["error"]["retry_after_seconds"] == 7
    assert asked.count("/busy") == 2
    assert took > 5, "the Retry-After of the first answer was waited for"
    assert again["error"]["status"] == 429


def test_a_host_without_a_slot_soon_is_reported_with_the_wait(world):
    world.push(default_bizs(), stage={"hosts": {"per_second": 0.01, "concurrency": 1}})
    with a_shop() as shop, in_time(5, "it waits for the turn, which is in a hundred seconds"):
        busy = tried(world, "page", url=f"{shop.url}/list")

    assert shop.asked == ["/robots.txt"]
    assert (busy["error"]["reason"], busy["error"]["status"]) == ("Throttled", 0)
    assert 60 < busy["error"]["retry_after_seconds"] <= 100
    assert "127.0.0.1 " in busy["error"]["message"]


def test_a_stage_that_keeps_addresses_to_itself_does_so_in_trials(world):
    world.push(default_bizs(), stage={"allow_private_addresses": False})
    with a_shop() as shop:
        found = tried(world, "page", url=f"{shop.url}/list")

    assert found["error"]["reason"] == "AddressRefused"
    assert shop.asked == []


def test_trials_ask_no_port_that_the_stage_does_not_name_and_no_store(world):
    [(host, port), *_] = world.own.redis.places()
    store = tried(world, "page", url=f"http://{host}:{port}/")
    world.push(default_bizs(), stage={"ports": [80, 443]})
    with a_shop() as shop:
        found = tried(world, "page", url=f"{shop.url}/list")

    assert [store["error"]["reason"], found["error"]["reason"]] == ["AddressRefused"] * 2
    assert "a store of the platform" in store["error"]["message"]
    assert "(ports of the stage)" in found["error"]["message"]
    assert shop.asked == []


def test_a_rule_is_looked_up_with_the_caller_and_nobody_else(world):
    own = {"fields": {"mine": {"css": "title"}}}
    world.fresh({"acme": {"docs": biz({"own": own})}, "rival": default_bizs()["rival"]})

    mine = tried(world, "own", page=page())
    theirs = ask(world, "POST", TRY, {"rule": "own", "page": page()}, key="rival")

    assert mine["records"] == [{"mine": "Nüsse"}]
    assert (theirs.status, theirs.json["type"]) == (400, "urn:crawlfleet:problem:unknown-rule")
    assert "it has page" in theirs.json["detail"]


def test_a_spider_is_tried_by_its_name(world):
    rows = {"executor": "csv", "parameters": {}}
    world.fresh({"acme": {"docs": biz(spiders={"rows": rows})}, "rival": default_bizs()["rival"]})

    found = tried(world, "rows", page=page("a,b\n1,2\n3,\n", content_type="text/csv"))

    assert [record["a"] for record in found["records"]] == ["1", "3"]
    assert {each["name"]: each["count"] for each in found["coverage"]}["a"] == 2


def test_what_a_schema_would_keep_from_being_stored_is_reported(world):
    rule = {
        "items": {"css": "li"},
        "fields": {"link": {"css": "a", "attribute": "href"}},
        "schema": {"properties": {"link": {"type": "string", "minLength": 5}}},
    }

    found = tried(world, rule, page=page())

    assert (found["records"], found["rejected_count"]) == ([], 2)
    assert [reported.partition(":")[0] for reported in found["rejected"]] == [
        "record 0, link",
        "record 1, link",
    ]
    assert found["coverage"][0]["count"] == 1


def test_a_large_answer_is_cut_and_says_so(world):
    many = "".join(f"<li>{n}<a href=/{n}>x</a></li>" for n in range(1_500))
    wide = f"<li>{'x' * 100_000}</li>" * 9

    found = tried(world, RULE | {"follow": [{"css": "a", "limit": 1000}]}, page=page(many))
    large = tried(world, page=page(wide))

    assert (len(found["records"]), found["record_count"], found["cut"]) == (200, 1500, True)
    assert (len(found["links"]), found["link_count"]) == (1000, 1000)
    assert (len(large["records"]), large["record_count"], large["cut"]) == (6, 9, True)


def test_a_page_the_rule_cannot_read_is_a_problem_with_its_field(world):
    found = tried(world, {"fields": {"n": {"css": "title", "type": "integer"}}}, page=page())

    assert [problem["field"] for problem in found["problems"]] == ["n"]
    assert (found["records"], found["error"]) == ([], None)


@pytest.mark.parametrize(
    "fault",
    [throttled(), b'{"errorMessage":"Task timed out"}', b""],
    ids=["busy", "timeout", "dead"],
)
def test_a_function_that_does_not_answer_is_a_part_that_cannot_be_used_now(world, fault):
    world.lambdas.faults[names.TRIALS] = fault

    refused_for_now(ask(world, "POST", TRY, {"rule": "page", "page": page()}))


def test_too_many_trials_are_reported_as_such_after_one_more_try(world):
    world.lambdas.faults[names.TRIALS] = throttled()

    answer = ask(world, "POST", TRY, {"rule": "page", "page": page()})

    refused_for_now(answer)
    assert answer.json["type"] == "urn:crawlfleet:problem:trials-busy"
    assert "come back in 5 s" in answer.json["detail"]
    assert "without --remote" in answer.json["detail"]
    assert world.lambdas.calls == [names.TRIALS] * 2


def test_a_flood_of_trials_is_refused_beyond_its_tenants_ceiling_and_is_nobody_elses(world):
    assert tried(world, page=page())["record_count"] == 2
    under_way = RedisCeilings(world.parts[-1].redis)
    wish = PermitAsk(held=0, wanted=1, in_flight=4)
    for number in range(4):
        assert under_way.trials(world.tenants["acme"], f"other{number}", wish).count == 1

    full = ask(world, "POST", TRY, {"rule": "page", "page": page()})

    assert (full.status, full.headers["Retry-After"]) == (429, "1")
    said = {name: full.json[name] for name in ("limit", "used", "allowed")}
    assert said == {"limit": "ceilings.trials", "used": 4, "allowed": 4}
    assert tried(world, page=page(), key="rival")["record_count"] == 2
    under_way.trials(world.tenants["acme"], "other0", PermitAsk(held=0))
    assert tried(world, page=page())["record_count"] == 2
    assert tried(world, page=page())["record_count"] == 2


def test_a_worker_is_not_disturbed_by_what_it_wakes_up_with(world):
    assert world.call(names.CONSUMER, {"detail": {"trial": 1}})["stopped_because"] == "idle"


def test_the_largest_page_travels_and_a_larger_one_is_refused(world):
    # Each of these signs takes six bytes in JSON.
    largest = "\x01" * 999_000 + "<li>end</li>"
    found = tried(world, page=page(largest.ljust(1_000_000)))
    refused = ask(world, "POST", TRY, json.dumps({"rule": "page", "page": page("x" * 1_000_001)}))

    assert found["record_count"] == 1
    assert refused.status == 413
