import json
from datetime import UTC, datetime

import pytest

from tests.kit.api_server import BIZ, SEGMENT, Fault, problem, seed_id
from tests.kit.kernel import BacklogFullError, InvalidRequestError

URL = "https://example.org/{}"


@pytest.fixture
def five(api):
    for number in range(5):
        state = "failed" if number < 3 else "ready"
        api.seeds.keep(URL.format(number), state=state, why="404" if number < 3 else None)
    return api


def urls(*numbers):
    return [URL.format(number) for number in numbers]


# ---- offered -----------------------------------------------------------------------------------


def test_urls_are_offered_and_answered_each(client, api):
    first, bad, twin = client.offer_seeds(BIZ, [URL.format(1), "ftp://x/", URL.format(1)])

    assert (first.accepted, first.duplicate, first.segment) == (True, False, SEGMENT)
    assert f"{first.segment}/{first.key}" == seed_id(URL.format(1))
    assert (bad.accepted, bad.duplicate, bad.url) == (False, False, "ftp://x/")
    assert [problem.field for problem in bad.error.errors] == ["url"]
    assert (twin.accepted, twin.duplicate, twin.why) == (False, True, f"known in segment {SEGMENT}")
    assert [each.index for each in (first, bad, twin)] == [0, 1, 2]


def test_what_entries_do_not_say_is_filled_in(client, api):
    entry = {"url": URL.format(2), "rule": "own", "meta": {"a": 1}}
    at = datetime(2026, 3, 2, 8, tzinfo=UTC)

    client.offer_seeds(BIZ, [URL.format(1), entry], rule="article", job="june", starts_at=at)

    sent = json.loads(api.calls[-1].body)["seeds"]
    common = {"job": "june", "starts_at": "2026-03-02T08:00:00Z"}
    assert sent == [{"url": URL.format(1), "rule": "article", **common}, {**entry, **common}]


def test_many_are_offered_in_batches_while_they_are_read(client, api):
    answers = client.offer_each_seed(BIZ, (URL.format(n) for n in range(2_500)))

    assert next(answers).index == 0
    assert len(api.made("POST")) == 1
    rest = list(answers)
    assert [len(json.loads(call.body)["seeds"]) for call in api.made("POST")] == [1000, 1000, 500]
    assert [each.index for each in rest] == list(range(1, 2_500))


def test_a_biz_that_is_full_is_waited_for_as_long_as_the_caller_says(client, api, clock):
    full = json.dumps(problem("backlog-full", 429, "it is full")).encode()
    api.faults.extend([Fault(429, full, {"retry-after": "7"})] * 20)
    waits = []

    [taken] = client.offer_seeds(BIZ, urls(1), timeout=141, on_wait=waits.append)
    assert taken.accepted
    assert waits == clock.slept
    assert waits == [7.0] * 20

    api.faults.extend([Fault(429, full, {"retry-after": "7"})] * 2)
    with pytest.raises(BacklogFullError, match="it is full"):
        client.offer_seeds(BIZ, urls(2), timeout=5)
    assert len(api.seeds.kept) == 1


def test_all_batches_are_in_the_trace_of_the_caller_where_there_is_one(client, api):
    traceparent = f"00-{'ab' * 16}-{'cd' * 8}-01"
    client.offer_seeds(BIZ, (URL.format(n) for n in range(1_001)), traceparent=traceparent)
    client.offer_seeds(BIZ, [URL.format(1)])

    given = [call.headers.get("traceparent") for call in api.made("POST")]
    assert given == [traceparent] * 2 + [None]


def test_a_batch_of_which_nothing_is_any_good_is_answered_too(client, api):
    first, second = client.offer_seeds(BIZ, ["ftp://x/", "gopher://x/"])

    assert [problem.field for problem in first.error.errors] == ["url"]
    assert (second.url, second.accepted, second.duplicate) == ("gopher://x/", False, False)


def test_a_call_that_is_wrong_as_a_whole_is_an_error(client, api):
    errors = [{"field": "seeds", "message": "is missing"}]
    problem = {"title": "no", "status": 400, "type": "t", "detail": "", "errors": errors}
    api.faults.append(Fault(400, json.dumps(problem).encode()))

    with pytest.raises(InvalidRequestError, match="is missing"):
        client.offer_seeds(BIZ, urls(1))


def test_an_offer_whose_answer_is_lost_is_a_duplicate_of_itself(client, api):
    api.faults.append(Fault(carry_out=True))

    [answer] = client.offer_seeds(BIZ, urls(1))

    assert answer.duplicate
    assert len(api.seeds.kept) == 1


def test_nothing_is_offered_by_nothing(client, api):
    assert client.offer_seeds(BIZ, []) == []
    with pytest.raises(InvalidRequestError):
        client.offer_seeds(BIZ, [7])
    assert api.calls == []


# ---- read --------------------------------------------------------------------------------------


def test_seeds_come_page_by_page_and_as_often_as_they_are_asked_for(client, five):
    seeds = client.seeds(BIZ, page_size=2)

    assert [seed.id for seed in seeds] == sorted(map(seed_id, urls(*range(5))))
    assert len(list(seeds)) == 5
    failed = list(client.seeds(BIZ, segment=SEGMENT, state="failed"))
    assert {seed.why for seed in failed} == {"404"}
    assert five.calls[-1].params == {"segment": SEGMENT, "state": "failed", "limit": "500"}


def test_totals_are_reported(client, five):
    [totals] = client.seed_totals(BIZ)

    assert (totals.segment, totals.ready, totals.failed) == (SEGMENT, 2, 3)
    assert totals.filter_bytes == 13_312


# ---- changed -----------------------------------------------------------------------------------


def test_named_seeds_are_released_and_forgotten(client, five):
    names = [seed_id(url) for url in urls(*range(5))]

    assert client.release_seeds(BIZ, names) == 3
    assert {seed["state"] for seed in five.seeds.kept.values()} == {"ready"}
    assert client.forget_seeds(BIZ, [*names[:2], seed_id("https://other.example/")]) == 2
    assert len(five.seeds.kept) == 3
    assert client.forget_seeds(BIZ, []) == 0


def test_all_that_are_meant_are_changed_call_by_call(client, five):
    reported = []

    done = client.seeds(BIZ, state="failed").release(
        progress=lambda count, of: reported.append((count, of))
    )

    assert (done.count, done.more) == (3, False)
    assert reported == [(2, None), (3, None)]
    cut = client.seeds(BIZ).forget(limit=3, everything=True)
    assert (cut.count, cut.more) == (3, True)
    assert client.seeds(BIZ).forget(everything=True, cursor=cut.cursor).count == 2


def test_nobody_changes_everything_by_a_slip(client, five):
    with pytest.raises(InvalidRequestError, match="say everything=True"):
        client.seeds(BIZ).forget()
    with pytest.raises(InvalidRequestError, match="every seed"):
        client.seeds(BIZ, state="failed").release(everything=True)
    assert five.made("POST") == []
