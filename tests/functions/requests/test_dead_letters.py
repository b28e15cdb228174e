"""A dead letter's whole way through the real router: found, shown, mended, replayed, done."""

import pytest

from tests.functions.dead_letter_site import a_site, dead_letters
from tests.functions.http import ask, submit
from tests.kit.worlds.functions import biz, default_bizs

DEAD_LETTERS = "/v1/docs/dead-letters"


def listed(world, key: str = "acme", **query: str) -> list[str]:
    page = ask(world, "GET", DEAD_LETTERS, query=query, key=key)
    assert page.status == 200, page.text
    return [dead_letter["id"] for dead_letter in page.json["dead_letters"]]


def state_of(world, request_id: str) -> str:
    return ask(world, "GET", f"/v1/docs/requests/{request_id}").json["state"]


def test_a_dead_letter_is_found_shown_replayed_and_done(world):
    with a_site("/gone") as site:
        [gone, well] = submit(world, f"{site.url}/gone", f"{site.url}/well", job="nightly")
        world.work()

        assert listed(world) == [gone]
        whole = ask(world, "GET", f"{DEAD_LETTERS}/{gone}").json
        assert (whole["reason"], whole["status"], whole["job"]) == ("PageGone", 404, "nightly")
        assert whole["answer"]["headers"]["content-type"] == "text/html; charset=utf-8"
        assert whole["answer"]["url"] == f"{site.url}/gone"
        assert whole["sample"]["encoding"] == "text"
        assert "nicht mehr für uns" in whole["sample"]["content"]
        assert ask(world, "GET", f"{DEAD_LETTERS}/{well}").status == 409

        site.gone.clear()
        world.lambdas.woken.clear()
        again = ask(world, "POST", f"{DEAD_LETTERS}/{gone}/replay")
        assert (again.status, again.json["state"], again.json["attempts"]) == (200, "pending", 0)
        assert ask(world, "POST", f"{DEAD_LETTERS}/{gone}/replay").status == 409
        world.work()

    assert state_of(world, gone) == "done"
    assert listed(world) == []
    why = [event["by"] for event in ask(world, "GET", f"/v1/docs/requests/{gone}").json["timeline"]]
    assert f"api:{world.tenants['acme']}" in why
    ledger = ask(world, "GET", "/v1/docs/ledger", query={"job": "nightly"}).json
    assert (ledger["submitted"], ledger["done"], ledger["dead"]) == (2, 2, 0)
    assert (ledger["difference"], ledger["balanced"]) == (0, True)


def test_letters_are_distinguished_by_what_they_share(world):
    ids = dead_letters(world, 2)

    assert listed(world, reason="PageGone", status="404", rule="page", host="127.0.0.1") == ids
    assert listed(world, text="404", since="2026-01-01T00:00:00Z") == ids
    for name, value in (
        ("reason", "Throttled"),
        ("status", "500"),
        ("rule", "detail"),
        ("host", "example.org"),
        ("job", "nightly"),
        ("text", "certificate"),
        ("until", "2026-01-01T00:00:00Z"),
    ):
        assert listed(world, **{name: value}) == [], name


def test_pages_of_dead_letters_have_each_once(world):
    ids = dead_letters(world, 5)
    found, cursor, more = [], {}, True

    while more:
        page = ask(world, "GET", DEAD_LETTERS, query={"limit": "2", **cursor}).json
        found += [dead_letter["id"] for dead_letter in page["dead_letters"]]
        cursor, more = {"cursor": page["cursor"]}, page["more"]

    assert found == ids


def test_many_are_replayed_some_at_a_time(world):
    ids = dead_letters(world, 5)
    counts, body = [], {"filter": {"reason": "PageGone"}, "limit": 2}

    while True:
        done = ask(world, "POST", f"{DEAD_LETTERS}/replay", body).json
        counts.append(done["replayed"])
        if not done["more"]:
            break
        body["cursor"] = done["cursor"]

    assert sum(counts) == 5
    assert {state_of(world, each) for each in ids} == {"pending"}
    assert world.queued() == 5


def test_a_purge_removes_and_the_ledger_still_balances(world):
    [one, *rest] = dead_letters(world, 3)

    assert ask(world, "DELETE", f"{DEAD_LETTERS}/{one}").status == 204
    assert ask(world, "DELETE", f"{DEAD_LETTERS}/{one}").status == 404
    assert ask(world, "POST", f"{DEAD_LETTERS}/purge", {}).fields == ["filter"]
    assert listed(world) == rest
    purged = ask(world, "POST", f"{DEAD_LETTERS}/purge", {"all": True}).json

    assert (purged["purged"], purged["more"]) == (2, False)
    assert ask(world, "GET", f"/v1/docs/requests/{one}").status == 404
    ledger = ask(world, "GET", "/v1/docs/ledger").json
    assert (ledger["submitted"], ledger["dead"], ledger["difference"]) == (3, 3, 0)


def test_a_dead_letter_is_replayed_by_the_rule_as_it_is_now(world):
    with a_site() as site:
        needed = {"fields": {"title": {"css": "h6", "required": True}}}
        world.fresh({"acme": {"docs": biz({"page": needed})}, "rival": default_bizs()["rival"]})
        [frozen, current] = submit(world, f"{site.url}/1", f"{site.url}/2")
        world.work()
        assert listed(world, reason="Extract", status="200") == [frozen, current]

        world.push({"acme": {"docs": biz()}, "rival": default_bizs()["rival"]})
        ask(world, "POST", f"{DEAD_LETTERS}/{frozen}/replay", {"rule": "frozen"})
        ask(world, "POST", f"{DEAD_LETTERS}/{current}/replay", {"rule": "current"})
        world.work()

    assert (state_of(world, frozen), state_of(world, current)) == ("dead", "done")


@pytest.mark.parametrize("body", [{"rule": "newest"}, {"all": True}, [], "{"])
def test_a_replay_that_is_not_understood_changes_nothing(world, body):
    [one] = dead_letters(world, 1)

    assert ask(world, "POST", f"{DEAD_LETTERS}/{one}/replay", body).status == 400
    assert state_of(world, one) == "dead"


def test_nobody_sees_or_changes_another_tenants_dead_letters(world):
    [mine] = dead_letters(world, 1)

    assert listed(world, key="rival") == []
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/replay")):
        assert ask(world, method, f"{DEAD_LETTERS}/{mine}{path}", key="rival").status == 404
    for verb in ("replay", "purge"):
        done = ask(world, "POST", f"{DEAD_LETTERS}/{verb}", {"all": True}, key="rival").json
        assert [done[name] for name in done if name.endswith("ed")] == [0, 0]
    assert listed(world) == [mine]
