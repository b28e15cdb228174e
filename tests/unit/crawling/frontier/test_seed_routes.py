import json
from datetime import UTC, datetime

import pytest

from tests.kit.frontier import (
    AddResult,
    Seed,
    SeedsChanged,
    SeedSelection,
    SeedSpec,
    SeedState,
    SeedTotals,
)
from tests.kit.kernel import InvalidRequestError, Listing
from tests.unit.api.test_rest import NoServices, an_event, ask

AT = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)
KEY = "0123456789abcdef" * 2
ID = f"2026-03-01/{KEY}"
FIRE = "nightly.20261121T030000Z"
TAKEN = AddResult(accepted=True, segment="2026-03-01", key=KEY)
SEED = Seed(
    key=KEY,
    segment="2026-03-01",
    spec=SeedSpec(url="https://example.org/", rule="page", job="june", found_by=2**62),
    state=SeedState.FAILED,
    offered_at=AT,
    due_at=AT,
    request=2**62 + 1,
    handed_at=AT,
    tries=2,
    why="404",
)


def post(services, path, body):
    text = body if isinstance(body, str) else json.dumps(body)
    return ask(services, an_event("POST", f"/v1/docs/seeds{path}", body=text))


def test_no_seed_is_offered_under_a_name_that_a_fire_will_have():
    asked = []

    def add_seeds(tenant, biz, offers):
        asked.extend(offers)
        return [one if isinstance(one, InvalidRequestError) else TAKEN for one in offers]

    entries = [{"url": "https://example.org/", "job": job} for job in (FIRE, "june")]
    status, answer = post(NoServices(add_seeds=add_seeds), "", {"seeds": entries})

    assert isinstance(asked[0], InvalidRequestError)
    assert asked[1] == SeedSpec(url="https://example.org/", rule="", job="june")
    assert status == 200
    assert "seeds[0].job" in json.dumps(answer)


def test_offers_are_read_whole_and_answered_each():
    asked = []

    def add_seeds(tenant, biz, offers):
        asked.append((tenant, biz, offers))
        wrong = InvalidRequestError.of("seeds[2].rule", "is missing")
        return [
            AddResult(accepted=True, segment="2026-03-01", key=KEY),
            AddResult(accepted=False, segment="2026-03-01", key=KEY, why="known"),
            wrong,
        ]

    entry = {
        "url": "https://example.org/",
        "rule": "page",
        "meta": {"a": 1},
        "headers": {"X-A": "b"},
        "job": "june",
        "starts_at": "2026-03-01T09:30:00+01:00",
    }
    status, answer = post(
        NoServices(add_seeds=add_seeds), "", {"seeds": [entry, {"url": "u"}, {"url": "v"}]}
    )

    offers = asked[0][2]
    assert asked[0][:2] == ("acme", "docs")
    assert offers[0] == SeedSpec(
        url="https://example.org/",
        rule="page",
        meta={"a": 1},
        headers={"X-A": "b"},
        job="june",
        starts_at=AT,
    )
    assert offers[1] == SeedSpec(url="u", rule="")
    assert (status, answer["accepted"], answer["duplicates"], answer["rejected"]) == (200, 1, 1, 1)
    assert answer["seeds"][0]["key"] == KEY
    assert answer["seeds"][1]["why"] == "known"
    assert answer["seeds"][2]["error"]["errors"][0]["field"] == "seeds[2].rule"


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ("", ["body"]),
        ("[]", ["body"]),
        ({}, ["seeds"]),
        ({"seeds": None}, ["seeds"]),
        ({"seeds": []}, ["seeds"]),
        ({"seeds": [{"url": "u"}] * 1_001}, ["seeds"]),
        ({"url": "u", "seeds": [{"url": "u"}]}, ["url"]),
        ({"seed": [{"url": "u"}]}, ["seed", "seeds"]),
    ],
)
def test_what_is_no_batch_is_refused(body, fields):
    status, problem = post(NoServices(add_seeds=None), "", body)

    assert (status, sorted(error["field"] for error in problem["errors"])) == (400, fields)


def test_an_entry_that_is_wrong_does_not_stop_the_others():
    def add_seeds(tenant, biz, offers):
        assert [isinstance(one, InvalidRequestError) for one in offers] == [True, True, False, True]
        good = AddResult(accepted=True, segment="s", key=KEY)
        return [good if isinstance(one, SeedSpec) else one for one in offers]

    entries = [{"url": 5}, {"url": "u", "depth": 3}, {"url": "u"}, {"url": "u", "starts_at": "x"}]
    status, answer = post(NoServices(add_seeds=add_seeds), "", {"seeds": entries})

    named = [(each["error"] or {}).get("errors") for each in answer["seeds"]]
    assert (status, answer["rejected"]) == (200, 3)
    assert [errors and errors[0]["field"] for errors in named] == [
        "seeds[0].url",
        "seeds[1].depth",
        None,
        "seeds[3].starts_at",
    ]


def test_where_all_are_wrong_the_call_is():
    def add_seeds(tenant, biz, offers):
        return list(offers)

    status, problem = post(
        NoServices(add_seeds=add_seeds), "", {"seeds": [{"url": 5}, {"url": "u", "x": 1}]}
    )

    fields = [error["field"] for error in problem["errors"]]
    assert (status, fields) == (400, ["seeds[0].url", "seeds[1].x"])


def test_a_list_has_everything_of_each_seed():
    asked = []

    def list_seeds(tenant, biz, meant, *, cursor, limit):
        asked.append((tenant, biz, meant, cursor, limit))
        return Listing([SEED], "next", more=True)

    query = {"segment": "2026-03-01T05:00Z", "state": "failed", "cursor": "c", "limit": "2"}
    event = an_event(path="/v1/docs/seeds", queryStringParameters=query)
    status, page = ask(NoServices(list_seeds=list_seeds), event)

    meant = SeedSelection(segment="2026-03-01T05:00Z", state=SeedState.FAILED)
    assert asked == [("acme", "docs", meant, "c", 2)]
    assert (status, page["cursor"], page["more"]) == (200, "next", True)
    [seed] = page["seeds"]
    assert (seed["id"], seed["state"], seed["tries"], seed["why"]) == (ID, "failed", 2, "404")
    assert (seed["request_id"], seed["found_by"]) == (str(2**62 + 1), str(2**62))
    assert seed["due_at"] == seed["handed_at"] == "2026-03-01T08:30:00.000Z"


@pytest.mark.parametrize(
    ("name", "value"), [("state", "done"), ("segment", "a/b"), ("segment", ""), ("limit", "0")]
)
def test_a_wrong_filter_is_named(name, value):
    event = an_event(path="/v1/docs/seeds", queryStringParameters={name: value})

    status, problem = ask(NoServices(list_seeds=None), event)

    assert (status, [error["field"] for error in problem["errors"]]) == (400, [name])


def test_totals_are_reported_by_segment():
    totals = [SeedTotals(segment="b", waiting=3), SeedTotals(segment="a", ready=1, filter_bytes=9)]

    status, answer = ask(
        NoServices(seed_totals=lambda *_: totals), an_event(path="/v1/docs/seeds/totals")
    )

    assert status == 200
    assert [each["segment"] for each in answer["segments"]] == ["b", "a"]
    assert answer["segments"][0]["waiting"] == 3
    assert answer["segments"][1]["filter_bytes"] == 9


def test_one_seed_is_released_or_forgotten():
    done = []
    services = NoServices(
        release_seed=lambda tenant, biz, seed: done.append(("release", seed)) or SEED,
        forget_seed=lambda tenant, biz, seed: done.append(("forget", seed)),
    )
    path = f"/v1/docs/seeds/2026-03-01T05%3A00Z/{KEY}"

    status, seed = ask(services, an_event("POST", f"{path}/release"))
    gone, nothing = ask(services, an_event("DELETE", path))

    assert (status, seed["id"]) == (200, ID)
    assert (gone, nothing) == (204, None)
    named = f"2026-03-01T05:00Z/{KEY}"
    assert done == [("release", named), ("forget", named)]


@pytest.mark.parametrize("verb", ["release", "forget"])
def test_many_are_changed_by_name_or_by_filter(verb):
    asked = []

    def named(tenant, biz, seeds):
        asked.append(seeds)
        return SeedsChanged(count=1)

    def those(tenant, biz, meant, *, cursor, limit):
        asked.append((meant, cursor, limit))
        return SeedsChanged(count=2, cursor="next", more=True)

    services = NoServices(**{f"{verb}_seeds": named, f"{verb}_those": those})

    _, by_name = post(services, f"/{verb}", {"seeds": [ID]})
    given = {"filter": {"state": "finished"}, "cursor": "c", "limit": 7}
    _, by_filter = post(services, f"/{verb}", given)
    post(services, f"/{verb}", {"all": True})

    assert by_name == {"count": 1, "cursor": None, "more": False}
    assert by_filter == {"count": 2, "cursor": "next", "more": True}
    assert asked == [
        [ID],
        (SeedSelection(state=SeedState.FINISHED), "c", 7),
        (SeedSelection(), None, 500),
    ]


@pytest.mark.parametrize("verb", ["release", "forget"])
@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["filter"]),
        ({"filter": {}}, ["filter"]),
        ({"seeds": [], "all": False}, ["filter"]),
        ({"seeds": [ID], "all": True}, ["seeds"]),
        ({"filter": {"state": "failed"}, "all": True}, ["filter"]),
        ({"seeds": ["x"]}, ["seeds[0]"]),
        ({"filter": {"state": "done"}}, ["filter.state"]),
        ({"seeds": [ID], "limit": 0}, ["limit"]),
        ({"other": 1}, ["other"]),
    ],
)
def test_which_seeds_are_meant_is_never_guessed(verb, body, fields):
    status, problem = post(NoServices(), f"/{verb}", body)

    assert (status, [error["field"] for error in problem["errors"]]) == (400, fields)
