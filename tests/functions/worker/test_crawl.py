"""Tests of a crawl from submission to records: router, consumer, router, on a small site."""

import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.functions.http import ask, submit
from tests.kit.kernel import names
from tests.kit.worlds.functions import STAGE, Context, biz
from tests.waiting import eventually

pytestmark = pytest.mark.measured

WAKE_UP = json.loads(
    (Path(__file__).parents[3] / "events" / "consumer" / "wake-up.json").read_text()
)["event"]


class Pages(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        status = 404 if self.path == "/gone" else 500 if self.path == "/broken" else 200
        body = f"<html><title>Page {self.path}</title><h1>Head</h1></html>".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def get(world, request_id: str) -> dict[str, Any]:
    found: dict[str, Any] = ask(world, "GET", f"/v1/docs/requests/{request_id}").json
    return found


def test_a_wake_up_downloads_extracts_stores_and_finishes(world, site):
    ids = submit(world, *(f"{site}/{n}" for n in range(12)))
    assert world.lambdas.woken == [names.CONSUMER]

    report = world.call(names.CONSUMER, WAKE_UP)

    assert (report["done"], report["records"], report["stopped_because"]) == (12, 12, "idle")
    records = ask(world, "GET", "/v1/docs/records").json["records"]
    assert {record["fields"]["title"] for record in records} == {f"Page /{n}" for n in range(12)}
    assert {record["request_id"] for record in records} == set(ids)
    first = get(world, ids[0])
    assert (first["state"], first["flag"], first["attempts"], first["records"]) == ("done", 1, 1, 1)
    assert [event["state"] for event in first["timeline"]] == ["pending", "leased", "done"]
    assert first["worker"] == report["worker"]
    mine = ask(world, "GET", "/v1/docs/records", query={"request_id": ids[0]}).json["records"]
    assert [record["url"] for record in mine] == [f"{site}/0"]
    stats = ask(world, "GET", "/v1/docs/stats").json
    assert (stats["states"]["done"], stats["states"]["pending"], stats["records"]) == (12, 0, 12)
    assert stats["queue"] == {"queued": 0, "leased": 0, "delayed": 0, "oldest_at": None}
    assert {"lease", "claim", "fetch", "extract", "store"} <= set(stats["phases"])


def test_records_are_listed_by_job_rule_host_field_and_time_from_either_end(world, site):
    for job, path in (("may", "/m"), ("june", "/j")):
        body = {"requests": [{"url": f"{site}{path}{n}", "job": job} for n in range(3)]}
        assert ask(world, "POST", "/v1/docs/requests", body).status == 202
        world.work()
    submit(world, f"{site}/alone")
    world.work()

    def listed(**query: str) -> list[str]:
        found, query = [], {"limit": "2"} | query
        while True:
            answer = ask(world, "GET", "/v1/docs/records", query=query).json
            found += [record["url"].removeprefix(site) for record in answer["records"]]
            if not answer["more"]:
                return found
            query["cursor"] = answer["cursor"]

    everything = ask(world, "GET", "/v1/docs/records").json["records"]
    assert {each["url"].removeprefix(site)[:2]: each["job"] for each in everything} == {
        "/m": "may",
        "/j": "june",
        "/a": None,
    }
    of_june = ask(world, "GET", "/v1/docs/requests", query={"job": "june"}).json["requests"]
    assert [each["url"].removeprefix(site) for each in of_june] == ["/j0", "/j1", "/j2"]
    done = ask(
        world, "GET", "/v1/docs/requests", query={"job": "may", "state": "done", "limit": "2"}
    )
    assert (len(done.json["requests"]), done.json["more"]) == (2, True)
    assert ask(world, "GET", "/v1/docs/requests", query={"job": "a b"}).fields == ["job"]
    in_order = [each["url"].removeprefix(site) for each in everything]
    assert listed(order="newest") == in_order[::-1]
    assert sorted(listed(job="june")) == ["/j0", "/j1", "/j2"]
    assert listed(job="july") == []
    version = everything[0]["rule_version"]
    assert len(listed(rule="page", rule_version=version, host="127.0.0.1:1")) == 7
    assert listed(rule="other") == listed(rule_version="0") == listed(host="a.example") == []
    assert listed(field="title=Page /m1") == ["/m1"]
    assert (len(listed(field="title")), listed(field="price")) == (7, [])
    last = everything[-1]["stored_at"]
    assert (len(listed(since=last)), len(listed(until=last))) == (1, 6)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"order": "size"}, "order"),
        ({"job": "a b"}, "job"),
        ({"host": "a b"}, "host"),
        ({"rule": "r" * 256}, "rule"),
        ({"field": "=5"}, "field"),
        ({"since": "noon"}, "since"),
        ({"until": "noon"}, "until"),
        ({"request_id": "1", "job": "june"}, "request_id"),
        ({"request_id": "1", "order": "newest"}, "request_id"),
        ({"jobs": "june"}, "jobs"),
    ],
)
def test_a_wrong_filter_of_records_is_named(world, query, field):
    answer = ask(world, "GET", "/v1/docs/records", query=query)

    assert (answer.status, answer.fields) == (400, [field])


def test_a_cursor_of_records_goes_with_its_order(world, site):
    submit(world, *(f"{site}/{n}" for n in range(3)))
    world.work()
    query = {"limit": "1", "order": "newest"}
    cursor = ask(world, "GET", "/v1/docs/records", query=query).json["cursor"]

    other = ask(world, "GET", "/v1/docs/records", query={"cursor": cursor})

    assert (other.status, other.fields) == (400, ["cursor"])
    assert ask(world, "GET", "/v1/docs/records", query=query | {"cursor": cursor}).status == 200


def test_a_list_of_proxies_that_has_changed_is_in_force_in_the_next_invocation(world, site):
    secret = names.proxy_secret(STAGE, "lent")
    world.push(
        {"acme": {"docs": biz(fetch={"proxies": "lent"}, retry={"max_attempts": 1})}},
        stage={"proxies": {"lent": {"secret": secret}}},
    )
    world.secrets.create_secret(Name=secret, SecretString="http://127.0.0.1:1")
    [failed] = submit(world, f"{site}/a")
    world.work()
    assert get(world, failed)["state"] == "dead"

    world.secrets.put_secret_value(SecretId=secret, SecretString=site)
    [served] = submit(world, f"{site}/b")
    world.work()

    # What stands in for a proxy is asked for the whole URL.
    [record] = ask(world, "GET", "/v1/docs/records", query={"request_id": served}).json["records"]
    assert record["fields"] == {"title": f"Page {site}/b"}


FAR = json.dumps([{"name": "far", "function": "crawlfleet-test-consumer-far", "ceiling": 2}])


@pytest.mark.parametrize(
    ("own", "served"), [(None, True), ("nobody", False)], ids=["of its pool", "of its biz"]
)
def test_workers_of_a_pool_download_through_its_proxies_unless_the_biz_has_its_own(
    world, site, monkeypatch, own, served
):
    for name, address in {"lent": site, "nobody": "http://127.0.0.1:1"}.items():
        secret = f"{names.proxy_secret(STAGE, name)}-{served}"
        world.secrets.create_secret(Name=secret, SecretString=address)
    pools = {
        name: {"secret": f"{names.proxy_secret(STAGE, name)}-{served}"}
        for name in ("lent", "nobody")
    }
    monkeypatch.setenv(names.ENV_POOLS, FAR)
    monkeypatch.setenv(names.ENV_POOL, "far")
    world.end_environments()
    world.push(
        {"acme": {"docs": biz(fetch={"proxies": own}, retry={"max_attempts": 1})}},
        stage={
            "proxies": pools,
            "default_proxies": "nobody",
            "pools": {"far": {"bound_only": False, "proxies": "lent"}},
        },
    )

    [request_id] = submit(world, f"{site}/a")
    world.work()

    assert get(world, request_id)["state"] == ("done" if served else "dead")
    if served:
        # What stands in for a proxy is asked for the whole URL.
        query = {"request_id": request_id}
        [record] = ask(world, "GET", "/v1/docs/records", query=query).json["records"]
        assert record["fields"] == {"title": f"Page {site}/a"}
    monkeypatch.undo()
    world.end_environments()


def test_what_has_ended_is_not_cancelled(world, site):
    [request_id] = submit(world, f"{site}/a")
    world.work()

    answer = ask(world, "DELETE", f"/v1/docs/requests/{request_id}")

    assert (answer.status, answer.json["type"]) == (409, "urn:crawlfleet:problem:conflict")
    assert get(world, request_id)["state"] == "done"


def test_a_cancelled_request_is_never_downloaded(world, site):
    gone, stays = submit(world, f"{site}/a", f"{site}/b")
    assert ask(world, "DELETE", f"/v1/docs/requests/{gone}").status == 200

    report = world.work()

    assert (report["done"], report["skipped"]) == (1, 1)
    assert get(world, gone)["state"] == "cancelled"
    assert get(world, stays)["state"] == "done"


def test_a_page_that_is_gone_is_a_dead_letter_and_a_broken_one_waits_for_its_turn(world, site):
    # The worker does not stay that long for another attempt.
    world.fresh({"acme": {"docs": biz(retry={"base_seconds": 600})}})
    gone, broken = submit(world, f"{site}/gone", f"{site}/broken")

    report = world.work()

    assert (report["dead"], report["retried"], report["done"]) == (1, 1, 0)
    assert get(world, gone)["state"] == "dead"
    assert "404" in get(world, gone)["error"]
    waiting = get(world, broken)
    assert (waiting["state"], waiting["attempts"]) == ("waiting", 1)
    assert waiting["due_at"] > waiting["queued_at"]
    listed = ask(world, "GET", "/v1/docs/requests", query={"state": "waiting"}).json["requests"]
    assert [request["id"] for request in listed] == [broken]


def test_with_hardly_any_time_left_a_worker_takes_nothing(world, site):
    submit(world, f"{site}/a")

    report = world.call(names.CONSUMER, WAKE_UP, Context(seconds=20))

    assert (report["stopped_because"], report["leased"]) == ("time", 0)
    assert world.queued() == 1


def test_a_private_address_is_refused_where_the_stage_does_not_allow_it(world, site):
    world.fresh({"acme": {"docs": biz()}}, stage={"allow_private_addresses": False})
    [request_id] = submit(world, f"{site}/a")

    world.work()

    assert get(world, request_id)["state"] == "dead"
    assert "AddressRefused" in get(world, request_id)["error"]


def test_whom_an_attempt_asked_is_in_its_timeline_and_its_explanation(world, site):
    read, gone = submit(world, f"{site}/a", f"{site}/gone")

    world.work()

    for request_id in (read, gone):
        assert [event["peers"] for event in get(world, request_id)["timeline"]] == [
            [],
            [],
            ["127.0.0.1"],
        ]
        explained = ask(world, "GET", f"/v1/docs/requests/{request_id}/explain").json
        assert [step["peers"] for step in explained["steps"] if step["state"] in {"done", "dead"}]
        assert explained["steps"][-1]["peers"] == ["127.0.0.1"]


def test_a_port_that_the_stage_does_not_name_is_asked_by_no_worker(world, site):
    world.fresh({"acme": {"docs": biz()}}, stage={"ports": [80, 443]})
    [request_id] = submit(world, f"{site}/a")

    world.work()

    assert get(world, request_id)["state"] == "dead"
    assert "(ports of the stage)" in get(world, request_id)["error"]


@pytest.mark.parametrize("store", ["redis", "mongo"])
def test_the_platforms_own_stores_are_asked_by_no_worker(world, store):
    world.fresh({"acme": {"docs": biz()}})
    places = {
        "redis": world.own.redis.places(),
        "mongo": world.own.nodes.places("main"),
    }
    [(host, port), *_] = places[store]
    [request_id] = submit(world, f"http://{host}:{port}/")

    world.work()

    assert get(world, request_id)["state"] == "dead"
    assert "a store of the platform" in get(world, request_id)["error"]


@pytest.mark.parametrize("kind", ["snowflake", "uuid", "objectid", "counter"])
def test_ids_of_every_kind_go_the_whole_way(world, site, kind):
    world.fresh({"acme": {"docs": biz(id_kind=kind, generation={"shards": 3})}})
    ids = submit(world, *(f"{site}/{n}" for n in range(6)))

    assert world.work()["done"] == 6

    assert len(set(ids)) == 6
    assert all(get(world, request_id)["state"] == "done" for request_id in ids)
    listed, cursor = [], None
    for _ in range(3):
        query = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        answer = ask(world, "GET", "/v1/docs/requests", query=query).json
        listed += [request["id"] for request in answer["requests"]]
        cursor = answer["cursor"]
    assert sorted(listed) == sorted(ids)
    records, cursor = [], None
    for _ in range(3):
        query = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        answer = ask(world, "GET", "/v1/docs/records", query=query).json
        records += [record["request_id"] for record in answer["records"]]
        cursor = answer["cursor"]
    assert sorted(records) == sorted(ids)


# ---- priorities -------------------------------------------------------------------------------

#: One at a time, so that pages are asked for in the order in which they are served.
ONE_BY_ONE = {"fleet": {"batch": 1, "concurrency": 1}}


def served(world, ids: dict[str, str]) -> list[str]:
    """The names of these in the order in which they were claimed."""
    begun = {name: get(world, an_id)["timeline"][1]["at"] for name, an_id in ids.items()}
    return sorted(begun, key=lambda name: begun[name])


def test_a_submission_of_priority_ten_overtakes_those_of_zero(world, site):
    world.fresh({"acme": {"docs": biz()}}, stage=ONE_BY_ONE)
    zeros = submit(world, *(f"{site}/{n}" for n in range(5)), priority=0)
    [ten] = submit(world, f"{site}/ten", priority=10)
    [usual] = submit(world, f"{site}/usual")

    assert world.work()["done"] == 7

    each = {"ten": ten, "usual": usual, **{f"{n}": one for n, one in enumerate(zeros)}}
    assert served(world, each) == ["ten", "usual", "0", "1", "2", "3", "4"]
    assert [get(world, one)["priority"] for one in (ten, usual, zeros[0])] == [10, 5, 0]


def test_one_of_priority_zero_that_has_aged_is_served_before_a_newcomer_of_ten(world, site):
    world.fresh({"acme": {"docs": biz(ageing={"interval_seconds": 0.05})}}, stage=ONE_BY_ONE)
    [old] = submit(world, f"{site}/old", priority=0)
    then = time.time() + 5 * 0.05
    eventually(lambda: time.time() > then)
    [ten] = submit(world, f"{site}/ten", priority=10)

    assert world.work()["done"] == 2

    assert served(world, {"ten": ten, "old": old}) == ["old", "ten"]


@pytest.mark.parametrize("priority", [-1, 11, 2.5, "high"])
def test_a_priority_that_is_none_is_refused_by_its_name(world, priority):
    entry = {"url": "https://example.org/", "priority": priority}
    answer = ask(world, "POST", "/v1/docs/requests", entry)

    assert answer.status == 400
    assert [error["field"] for error in answer.json["errors"]] == ["priority"]
    assert world.queued() == 0
