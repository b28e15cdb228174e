import itertools
import json

import pytest

from tests.kit.api_server import BIZ, FIRST_ID, KEY, Fault, problem
from tests.kit.kernel import (
    BacklogFullError,
    InvalidRequestError,
    KeyReusedError,
    UnknownBizError,
    UnknownTenantError,
)
from tests.kit.sdk import (
    BATCH_BYTES,
    AllRefusedError,
    ApiError,
    Client,
    Entry,
    PartlySubmittedError,
    Retries,
    Timeouts,
    UncertainError,
    UnreachableError,
)

URL = "https://example.org/a"


def test_one_url_gives_one_result(client, api):
    result = client.submit(BIZ, URL, rule="article")

    assert (result.id, result.state, result.url) == (str(FIRST_ID), "pending", URL)
    assert json.loads(api.calls[0].body) == {"url": URL, "rule": "article"}
    assert api.calls[0].headers["x-api-key"] == KEY


def test_every_call_of_a_submission_carries_the_callers_trace_and_none_without_one(client, api):
    traceparent = f"00-{'ab' * 16}-{'cd' * 8}-01"
    client.submit(BIZ, (f"https://example.org/{n}" for n in range(1001)), traceparent=traceparent)
    client.submit(BIZ, URL, traceparent=traceparent)
    client.submit(BIZ, URL)

    given = [call.headers.get("traceparent") for call in api.calls]
    assert given == [traceparent] * 3 + [None]


def test_an_entry_travels_with_all_its_fields_and_its_own_rule(client, api):
    entry = Entry(url=URL, rule="own", method="POST", body="x", params={"q": "1"}, meta={"n": 1})

    client.submit(BIZ, entry, rule="other")

    assert json.loads(api.calls[0].body) == {
        "url": URL,
        "rule": "own",
        "method": "POST",
        "body": "x",
        "params": {"q": "1"},
        "meta": {"n": 1},
    }


def test_many_are_cut_into_batches_of_a_thousand(client, api):
    results = client.submit(BIZ, (f"https://example.org/{n}" for n in range(2345)))

    assert [len(json.loads(call.body)["requests"]) for call in api.calls] == [1000, 1000, 345]
    assert [result.index for result in results] == list(range(2345))
    assert [result.id for result in results] == [str(FIRST_ID + n) for n in range(2345)]


def test_batches_keep_within_the_bytes_that_a_function_may_receive(client, api):
    api.held = False  # such a body is too long, by itself
    big = "x" * 1_500_000

    results = client.submit(BIZ, [{"url": URL, "body": big} for _ in range(5)])

    assert len(results) == 5
    assert [len(json.loads(call.body)["requests"]) for call in api.calls] == [2, 2, 1]
    assert all(len(call.body) <= BATCH_BYTES + 100 for call in api.calls)


def test_wrong_entries_are_answered_in_their_place_and_do_not_stop_the_others(client):
    urls = [URL] * 1001 + ["ftp://example.org"] + [URL]

    results = client.submit(BIZ, urls)

    assert [result.index for result in results if not result.accepted] == [1001]
    [error] = results[1001].error.errors
    assert error.field == "url"
    assert str(results[1001].error) == f"Invalid request: url: {error.message}"


def test_a_batch_without_one_acceptable_entry_gives_each_its_own_error(client, api):
    wrong = ["ftp://x", {"url": URL, "rule": "unheard-of"}]

    with pytest.raises(AllRefusedError) as caught:
        client.submit(BIZ, wrong)

    results = caught.value.results
    assert list(client.submit_each(BIZ, wrong)) == list(results)
    fields = [each.field for each in caught.value.problems]
    assert fields == ["requests[0].url", "requests[1].rule"]
    assert str(caught.value).startswith("requests[0].url: ")
    assert [result.accepted for result in results] == [False, False]
    assert results[0].error.errors[0].field == "url"
    assert results[1].error.errors[0].field == "rule"
    assert api.requests == {}


def test_a_batch_of_one_wrong_entry_is_answered_like_any_other(client, api):
    alone = problem("invalid-request", 400, "no", [{"field": "rule", "message": "is missing"}])
    api.faults.append(Fault(400, json.dumps(alone).encode()))

    with pytest.raises(InvalidRequestError, match=r"^requests\[0\]\.rule: is missing$") as caught:
        client.submit(BIZ, [URL])

    (result,) = caught.value.results
    assert [each.field for each in result.error.errors] == ["rule"]


def test_of_many_that_are_all_refused_the_first_are_named_and_the_others_counted(client, api):
    with pytest.raises(AllRefusedError) as caught:
        client.submit(BIZ, (f"ftp://x/{n}" for n in range(1_500)))

    assert len(caught.value.results) == 1_500
    assert len(caught.value.problems) == 11
    assert "1,490 more" in str(caught.value)
    assert (client.submit(BIZ, []), api.requests) == ([], {})


def test_a_single_wrong_entry_raises_with_the_field_named(client):
    with pytest.raises(InvalidRequestError) as caught:
        client.submit(BIZ, "ftp://x")

    assert [each.field for each in caught.value.problems] == ["url"]


def test_what_is_no_entry_is_refused_before_anything_is_sent(client, api):
    with pytest.raises(InvalidRequestError, match=r"requests\[1\]: .* int"):
        client.submit(BIZ, [URL, 5])
    with pytest.raises(InvalidRequestError, match=r"entry: .*JSON"):
        client.submit(BIZ, {"url": URL, "meta": {"x": object()}})
    assert api.calls == []


def test_an_unknown_biz_and_an_unknown_key_have_errors_of_their_own(client, api):
    with pytest.raises(UnknownBizError):
        client.submit("sports", URL)
    with Client(api.url, "wrong-key-000") as stranger, pytest.raises(UnknownTenantError):
        stranger.submit(BIZ, URL)


@pytest.mark.parametrize("biz", ["", ".", "..", " "])
def test_a_name_that_would_change_the_path_is_refused(client, api, biz):
    with pytest.raises(InvalidRequestError, match=r"^biz"):
        client.submit(biz, URL)
    assert api.calls == []


def test_an_endless_source_is_read_batch_by_batch(client, api):
    results = client.submit_each(BIZ, (f"https://example.org/{n}" for n in itertools.count()))

    assert [result.index for result in itertools.islice(results, 1500)] == list(range(1500))
    assert len(api.calls) == 2


LOST = pytest.mark.parametrize(
    "fault",
    [
        Fault(carry_out=True),
        Fault(carry_out=True, cut=True),
        Fault(502, carry_out=True),
        Fault(504),
    ],
    ids=["dropped", "cut short", "bad gateway", "gateway time-out"],
)


@LOST
@pytest.mark.parametrize("what", [URL, [URL, f"{URL}/2"]], ids=["one", "many"])
def test_a_submission_whose_answer_is_lost_is_sent_again_and_stored_once(client, api, fault, what):
    api.faults.append(fault)

    sent = client.submit(BIZ, what)

    results = sent if isinstance(sent, list) else [sent]
    assert [result.id for result in results] == list(api.requests)
    assert len({call.headers["idempotency-key"] for call in api.calls}) == 1
    assert all(result.repeated is fault.carry_out for result in results)


def test_a_submission_that_is_too_slow_each_time_is_uncertain_and_reports_its_key(api, clock):
    api.faults.extend([Fault(carry_out=True, hang=True), Fault(503)])
    timeouts = Timeouts(connect_seconds=2, read_seconds=0.2, total_seconds=2)
    fleet = Client(api.url, KEY, timeouts=timeouts, retries=Retries(attempts=2), clock=clock)

    with fleet, pytest.raises(UncertainError) as caught:
        fleet.submit(BIZ, URL)
    with fleet:
        again = fleet.submit(BIZ, URL, idempotency_key=caught.value.idempotency_key)

    assert (again.id, again.repeated, len(api.requests)) == (str(FIRST_ID), True, 1)
    assert again.state is None


def test_many_are_repeated_under_a_key_of_ones_own_batch_by_batch(client, api):
    urls = [f"https://example.org/{n}" for n in range(1500)]

    first = client.submit(BIZ, urls, idempotency_key="load-7")
    second = client.submit(BIZ, urls, idempotency_key="load-7")

    assert [result.id for result in first] == [result.id for result in second]
    assert all(result.repeated for result in second)
    assert len(api.requests) == 1500
    keys = [call.headers["idempotency-key"] for call in api.calls]
    assert keys == ["load-7", "load-7.1"] * 2


def test_a_key_that_stands_for_other_entries_is_refused(client):
    client.submit(BIZ, URL, idempotency_key="k")

    with pytest.raises(KeyReusedError, match="other entries"):
        client.submit(BIZ, f"{URL}/other", idempotency_key="k")


def test_every_call_has_a_key_of_its_own(client, api):
    client.submit(BIZ, URL)
    client.submit(BIZ, URL)

    assert len({call.headers["idempotency-key"] for call in api.calls}) == 2
    assert len(api.requests) == 2


def test_entries_carry_the_ids_and_the_job_that_the_caller_gives(client, api):
    client.submit(BIZ, [URL, {"url": URL, "job": "own"}], client_ids=["a", "b"], job="nightly")
    client.submit(BIZ, URL, client_ids="c")

    assert json.loads(api.calls[0].body)["requests"] == [
        {"url": URL, "client_id": "a", "job": "nightly"},
        {"url": URL, "client_id": "b", "job": "own"},
    ]
    assert json.loads(api.calls[1].body) == {"url": URL, "client_id": "c"}


def test_ids_that_are_not_one_an_entry_are_refused_before_anything_is_sent(client, api):
    with pytest.raises(InvalidRequestError, match=r"client_ids: .* 1 "):
        client.submit(BIZ, [URL, URL], client_ids=["a"])
    with pytest.raises(InvalidRequestError, match=r"client_ids: .* 1"):
        client.submit(BIZ, (url for url in [URL, URL]), client_ids=["a"])
    assert api.calls == []


FULL = Fault(
    429, json.dumps(problem("backlog-full", 429, "it is full")).encode(), {"retry-after": "7"}
)


def test_a_biz_that_is_full_is_waited_for_as_long_as_the_caller_says(client, api, clock):
    api.faults.extend([FULL] * 20)
    waits = []

    result = client.submit(BIZ, [URL], timeout=200, on_wait=waits.append)

    assert result[0].accepted
    assert waits == clock.slept == [7.0] * 20


def test_a_biz_that_stays_full_is_an_error_that_says_when_to_come_back(client, api, clock):
    api.faults.extend([FULL] * 20)

    with pytest.raises(BacklogFullError, match="it is full") as caught:
        client.submit(BIZ, URL, timeout=20)

    assert caught.value.retry_after_seconds == 7
    assert clock.slept == [7.0, 7.0, 6.0]
    assert api.requests == {}


def test_who_waits_for_room_asks_often_whatever_the_server_estimates(client, api, clock):
    api.faults.extend([Fault(429, FULL.body, {"retry-after": "300"})] * 3)

    assert client.submit(BIZ, URL, timeout=100).accepted
    assert clock.slept == [30.0, 30.0, 30.0]


def test_another_entry_is_named_by_its_place_in_what_was_given(client, api):
    message = "is that of requests[1] too, which is another entry"
    wrong = problem(
        "invalid-request", 400, "no", [{"field": "requests[2].client_id", "message": message}]
    )
    reused = problem("key-reused", 422, "requests[2].client_id: 'a' stands for another entry")
    answers = [{"id": "1"}, {"id": "2"}, {"error": wrong}, {"error": reused}]
    accepted = [{"id": str(number)} for number in range(1_000)]
    for each in (accepted, answers):
        document = {"accepted": 0, "rejected": 0, "requests": each}
        api.faults.append(Fault(202, json.dumps(document).encode()))

    results = client.submit(BIZ, [f"{URL}/{number}" for number in range(1_004)])

    [twin] = results[1002].error.errors
    assert (twin.field, "requests[1001]" in twin.message) == ("client_id", True)
    assert results[1003].error.detail.startswith("client_id: 'a'")


def test_without_a_time_of_the_callers_a_full_biz_is_asked_as_often_as_any(client, api, clock):
    api.faults.extend([FULL] * 20)

    with pytest.raises(BacklogFullError):
        client.submit(BIZ, URL)

    assert clock.slept == [7.0, 7.0]


@pytest.mark.parametrize("status", [429, 503])
def test_a_submission_that_was_turned_away_is_sent_again(client, api, clock, status):
    api.faults.append(Fault(status, headers={"retry-after": "7"}))

    result = client.submit(BIZ, URL)

    assert result.accepted
    assert clock.slept == [7.0]
    assert len(api.requests) == 1


def test_a_submission_to_a_dead_server_is_tried_again_and_then_given_up(client, api, clock):
    api.close()

    with pytest.raises(UnreachableError, match="connection refused"):
        client.submit(BIZ, URL)

    assert len(clock.slept) == 2


def test_a_submission_that_breaks_off_keeps_what_was_answered(client, api):
    def urls():
        for number in range(1500):
            if number == 1200:
                api.faults.extend([Fault(carry_out=True)] * 3)
            yield f"https://example.org/{number}"

    with pytest.raises(PartlySubmittedError) as caught:
        client.submit(BIZ, urls())

    assert len(caught.value.results) == 1000
    assert isinstance(caught.value.__cause__, UncertainError)
    assert "1000 entries" in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>welcome</html>",
        b'{"requests": "none"}',
        b'{"requests": [{"id": 5}]}',
        b'{"requests": [{"id": "1"}, {"id": "2"}]}',
        b"\xff\xfe",
        b"",
    ],
)
def test_an_acceptance_that_is_not_what_the_api_describes_is_an_error(client, api, body):
    api.faults.append(Fault(202, body))

    with pytest.raises(ApiError, match="not what this"):
        client.submit(BIZ, [URL])


def test_a_single_acceptance_without_an_id_is_an_error(client, api):
    api.faults.append(Fault(202, b"{}"))
    with pytest.raises(ApiError, match="without an id"):
        client.submit(BIZ, URL)

    refusal = {"error": problem("unknown-biz", 404, "gone meanwhile")}
    api.faults.append(Fault(202, json.dumps(refusal).encode()))
    with pytest.raises(UnknownBizError):
        client.submit(BIZ, URL)


def test_a_call_that_is_wrong_as_a_whole_is_not_taken_for_wrong_entries(client, api):
    whole = problem("invalid-request", 400, "no", [{"field": "requests", "message": "too many"}])
    api.faults.append(Fault(400, json.dumps(whole).encode()))

    with pytest.raises(InvalidRequestError, match="requests: too many"):
        client.submit(BIZ, [URL])


def test_a_priority_is_for_entries_that_have_none_and_zero_is_one(client, api):
    client.submit(BIZ, [URL, Entry(url=URL, priority=0)], priority=7)

    assert json.loads(api.calls[0].body)["requests"] == [
        {"url": URL, "priority": 7},
        {"url": URL, "priority": 0},
    ]
