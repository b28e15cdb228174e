"""A biz's own states through the real router: changed, shown, listed, counted, explained."""

import json

import pytest

from infra.local.parts import free_port
from tests.functions.dead_letter_site import a_site
from tests.functions.http import ask, submit
from tests.kit.kernel import names
from tests.kit.worlds.functions import World, biz, default_bizs

OWN = {
    "states": {"held": 100, "reviewed": 1_000, "exported": 1_001},
    "transitions": {
        "pending": ["held"],
        "held": ["pending", "cancelled"],
        "done": ["reviewed"],
        "reviewed": ["exported", "done"],
    },
}
REQUESTS = "/v1/docs/requests"


@pytest.fixture
def own(world: World) -> World:
    world.push({"acme": {"docs": biz(**OWN)}, "rival": default_bizs()["rival"]})
    return world


def change(world: World, request_id: str, before: str, after: str, **more: object):
    body = {"from_state": before, "to_state": after, **more}
    return ask(world, "POST", f"{REQUESTS}/{request_id}/transition", body)


def change_all(world: World, ids: list[str], before: str, after: str, **more: object):
    body = {"requests": ids, "from_state": before, "to_state": after, **more}
    return ask(world, "POST", f"{REQUESTS}/transition", body)


def crawled(world: World, count: int = 1) -> list[str]:
    with a_site() as site:
        ids = submit(world, *(f"{site.url}/{n}" for n in range(count)))
        world.work()
    return ids


def test_a_page_that_is_done_is_reviewed_and_every_read_shows_it(own):
    [one, other] = crawled(own, 2)
    before = ask(own, "GET", "/v1/docs/records", query={"request_id": one}).json["records"]

    done = change(own, one, "done", "reviewed", why="read by Ann")

    assert (done.status, done.json["state"], done.json["flag"]) == (200, "reviewed", 1_000)
    shown = ask(own, "GET", f"{REQUESTS}/{one}").json
    last = shown["timeline"][-1]
    assert (last["state"], last["why"]) == ("reviewed", "read by Ann")
    assert last["by"] == f"api:{own.tenants['acme']}"
    assert shown["records"] == 1
    assert ask(own, "GET", "/v1/docs/records", query={"request_id": one}).json["records"] == before
    listed = ask(own, "GET", REQUESTS, query={"state": "reviewed"}).json["requests"]
    assert [each["id"] for each in listed] == [one]
    every = ask(own, "GET", REQUESTS).json["requests"]
    assert {each["id"]: each["state"] for each in every} == {one: "reviewed", other: "done"}
    states = ask(own, "GET", "/v1/docs/stats").json["states"]
    assert (states["done"], states["reviewed"], states["held"]) == (1, 1, 0)
    ledger = ask(own, "GET", "/v1/docs/ledger").json
    assert (ledger["done"], ledger["others"], ledger["difference"]) == (1, 1, 0)
    explained = ask(own, "GET", f"{REQUESTS}/{one}/explain").json
    assert explained["state"] == "reviewed"
    assert [step["state"] for step in explained["steps"]][-2:] == ["done", "reviewed"]
    sentence = explained["standing"]["sentence"]
    assert "it has ended" in sentence
    assert "exported or done" in sentence


def test_what_is_held_is_worked_on_when_it_is_let_go_and_not_before(own):
    with a_site() as site:
        [held] = submit(own, f"{site.url}/a")
        assert change(own, held, "pending", "held").status == 200
        own.work()
        assert ask(own, "GET", f"{REQUESTS}/{held}").json["state"] == "held"
        assert own.queued() == 0
        explained = ask(own, "GET", f"{REQUESTS}/{held}/explain").json["standing"]
        assert "no worker takes it" in explained["sentence"]
        assert explained["facts"]["may_become"] == "pending, cancelled"

        own.lambdas.woken.clear()
        assert change(own, held, "held", "pending").json["state"] == "pending"
        assert own.lambdas.woken == ["consumer"]
        assert own.queued() == 1
        own.work()

    states = [event["state"] for event in ask(own, "GET", f"{REQUESTS}/{held}").json["timeline"]]
    assert states == ["pending", "held", "pending", "leased", "done"]
    assert ask(own, "GET", "/v1/docs/ledger").json["balanced"]


def test_a_transition_that_comes_twice_is_one(own):
    [one] = crawled(own)
    first = change(own, one, "done", "reviewed").json

    again = change(own, one, "done", "reviewed")

    assert again.status == 200
    assert again.json["timeline"] == first["timeline"]
    assert change_all(own, [one], "done", "reviewed").json == {
        "changed": 0,
        "repeated": 1,
        "refused": 0,
        "requests": [{"id": one, "state": "reviewed", "repeated": True}],
    }


def test_a_state_that_is_not_the_expected_one_is_named_and_stays(own):
    [one] = crawled(own)

    refused = change(own, one, "pending", "held")

    assert refused.status == 409
    assert refused.json["detail"] == f"request {one} is done, not pending"
    assert ask(own, "GET", f"{REQUESTS}/{one}").json["state"] == "done"
    assert change(own, "17", "pending", "held").status == 404


@pytest.mark.parametrize(
    ("before", "after", "field", "said"),
    [
        ("done", "archived", "to_state", "held, reviewed, exported"),
        ("finished", "reviewed", "from_state", "must be one of pending, done"),
        ("pending", "reviewed", "to_state", "pending may not become it; it may become held"),
        ("dead", "reviewed", "from_state", "its transitions begin at"),
        ("reviewed", "pending", "to_state", "it may become exported, done"),
    ],
)
def test_a_transition_that_the_biz_has_not_is_refused_with_those_it_has(
    own, before, after, field, said
):
    for refused in (
        change(own, "17", before, after),
        change_all(own, ["17"], before, after),
    ):
        assert refused.status == 400
        assert refused.fields == [field]
        assert said in refused.json["errors"][0]["message"]


def test_many_are_changed_in_one_call_and_each_is_answered(own):
    [one, other] = crawled(own, 2)
    [waits] = submit(own, "https://example.org/waits")

    done = change_all(own, [one, waits, "17", other], "done", "reviewed", why="as a batch")

    assert done.status == 200
    assert [done.json[name] for name in ("changed", "repeated", "refused")] == [2, 0, 2]
    answers = done.json["requests"]
    assert [each["id"] for each in answers] == [one, waits, "17", other]
    assert [each.get("state") for each in answers] == ["reviewed", None, None, "reviewed"]
    assert [each["error"]["status"] for each in answers[1:3]] == [409, 404]
    assert ask(own, "GET", "/v1/docs/ledger").json["others"] == 2


def test_wrong_ids_and_fields_of_a_batch_are_named_and_nothing_is_changed(own):
    [one] = crawled(own)

    refused = change_all(own, [one, "none", one], "done", "reviewed")

    assert (refused.status, refused.fields) == (400, ["requests[1]", "requests[2]"])
    assert "requests[0]" in refused.json["errors"][1]["message"]
    for body, field in (
        ({"requests": [], "from_state": "done", "to_state": "reviewed"}, "requests"),
        ({"requests": ["1"] * 1_001, "from_state": "done", "to_state": "reviewed"}, "requests"),
        ({"requests": [one], "from_state": "done"}, "to_state"),
        ({"requests": [one], "from_state": "done", "to_state": "x", "if": 1}, "if"),
        ({"requests": [one], "from_state": "a", "to_state": "b", "why": "w" * 501}, "why"),
    ):
        assert ask(own, "POST", f"{REQUESTS}/transition", body).fields == [field], field
    assert ask(own, "GET", f"{REQUESTS}/{one}").json["state"] == "done"


def test_another_tenant_neither_sees_nor_changes_it(own):
    [one] = crawled(own)
    own.push({name: {"docs": biz(**OWN)} for name in ("acme", "rival")})
    body = {"from_state": "done", "to_state": "reviewed"}

    assert ask(own, "POST", f"{REQUESTS}/{one}/transition", body, key="rival").status == 404
    assert ask(own, "GET", f"{REQUESTS}/{one}").json["state"] == "done"


def test_what_a_configuration_has_forgotten_is_read_listed_and_counted_by_its_number(own):
    [one] = crawled(own)
    change(own, one, "done", "reviewed")
    own.push(default_bizs())

    shown = ask(own, "GET", f"{REQUESTS}/{one}").json

    assert (shown["state"], shown["timeline"][-1]["state"]) == ("1000", "1000")
    assert [each["id"] for each in ask(own, "GET", REQUESTS).json["requests"]] == [one]
    listed = ask(own, "GET", REQUESTS, query={"state": "1000"}).json["requests"]
    assert [each["id"] for each in listed] == [one]
    assert ask(own, "GET", "/v1/docs/stats").json["states"]["1000"] == 1
    assert ask(own, "GET", f"{REQUESTS}/{one}/explain").json["state"] == "1000"
    assert ask(own, "GET", "/v1/docs/ledger").json["balanced"]


def test_a_dead_letter_shows_the_own_states_it_has_been_in(own):
    with a_site("/gone") as site:
        [held] = submit(own, f"{site.url}/gone")
        change(own, held, "pending", "held")
        change(own, held, "held", "pending")
        own.work()

    whole = ask(own, "GET", f"/v1/docs/dead-letters/{held}")

    assert whole.status == 200, whole.text
    assert [event["state"] for event in whole.json["timeline"]][:3] == [
        "pending",
        "held",
        "pending",
    ]


def test_a_cancel_takes_what_is_held(own):
    [held] = submit(own, "https://example.org/a")
    change(own, held, "pending", "held")

    assert ask(own, "DELETE", f"{REQUESTS}/{held}").json["state"] == "cancelled"
    ledger = ask(own, "GET", "/v1/docs/ledger").json
    assert (ledger["cancelled"], ledger["others"], ledger["balanced"]) == (1, 0, True)


def test_a_job_with_a_held_page_goes_on_and_one_whose_pages_are_reviewed_ends(own):
    with a_site() as site:
        body = {"rule": "page", "urls": [f"{site.url}/a", f"{site.url}/b"]}
        job = ask(own, "POST", "/v1/docs/jobs", body).json["name"]
        own.call("scheduler", {})
        ids = [
            each["id"] for each in ask(own, "GET", REQUESTS).json["requests"] if each["job"] == job
        ]
        assert len(ids) == 2
        change(own, ids[0], "pending", "held")
        own.work()
        change(own, ids[1], "done", "reviewed")
        found = ask(own, "GET", f"/v1/docs/jobs/{job}").json
        assert (found["state"], found["ledger"]["others"]) == ("running", 2)
        assert found["progress"]["ended"] == 1


def test_while_redis_is_away_what_is_let_go_is_pending_all_the_same(own):
    [held] = submit(own, "https://example.org/a")
    change(own, held, "pending", "held")
    own.work()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(names.ENV_REDIS_URL, f"redis://127.0.0.1:{free_port()}/0")
        own.end_environments()
        let_go = change(own, held, "held", "pending")
    own.end_environments()

    assert (let_go.status, let_go.json["state"]) == (200, "pending")
    own.call("scheduler", {})
    assert own.queued() == 1


def test_while_mongodb_is_away_the_caller_is_to_try_again(own):
    [one] = crawled(own)
    with own.node_at("mongodb://127.0.0.1:1/?directConnection=true"):
        refused = change(own, one, "done", "reviewed")

    assert refused.status == 503
    assert int(refused.headers["Retry-After"]) > 0
    assert change(own, one, "done", "reviewed").json["state"] == "reviewed"
    assert json.loads(refused.text)["type"] == "urn:crawlfleet:problem:store-unavailable"


def test_a_dead_letter_that_became_a_state_of_ones_own_is_replayed_once_it_is_dead_again(own):
    docs = {**OWN, "states": {**OWN["states"], "written-off": 1_002, "lost": 1_003}}
    docs["transitions"] = {
        **OWN["transitions"],
        "dead": ["written-off", "lost"],
        "written-off": ["dead"],
    }
    docs["retry"] = {"max_attempts": 1}
    own.push({"acme": {"docs": biz(**docs)}})
    ids = submit(own, *(f"http://127.0.0.1:9/{n}" for n in range(3)))
    own.work()
    off, lost, _ = ids
    assert change(own, off, "dead", "written-off").status == 200
    assert change(own, lost, "dead", "lost").status == 200

    refused = ask(own, "POST", f"/v1/docs/dead-letters/{off}/replay", {})
    assert refused.status == 409
    call = f"`crawlfleet transition docs {off} --from written-off --to dead`"
    assert refused.json["detail"].endswith(f"only dead ones are replayed; {call} makes it one")
    nowhere = ask(own, "POST", f"/v1/docs/dead-letters/{lost}/replay", {})
    said = "the biz has no transition from lost to dead"
    assert (nowhere.status, said in nowhere.json["detail"]) == (409, True)
    all_of_them = ask(own, "POST", "/v1/docs/dead-letters/replay", {"all": True})
    assert (all_of_them.status, all_of_them.json["replayed"]) == (200, 1), all_of_them.text

    assert change(own, off, "written-off", "dead").status == 200
    again = ask(own, "POST", f"/v1/docs/dead-letters/{off}/replay", {})
    assert (again.status, again.json["state"]) == (200, "pending")


def test_what_is_held_says_which_call_has_it_worked_on_anew(own):
    [held] = submit(own, "http://127.0.0.1:9/a")
    assert change(own, held, "pending", "held").status == 200

    refused = ask(own, "POST", f"/v1/docs/dead-letters/{held}/replay", {})

    call = f"`crawlfleet transition docs {held} --from held --to pending`"
    assert refused.status == 409
    assert refused.json["detail"].endswith(f"; {call} has it worked on anew")
