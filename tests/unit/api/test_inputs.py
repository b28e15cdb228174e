import base64
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kit.api import TooLargeBodyError, inputs, schedule_inputs
from tests.kit.kernel import InvalidRequestError
from tests.kit.requests import BATCH_LIMIT, Submission

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(["url", "rule", "method", "headers", "params", "body", "meta", "other"])
NEARLY = st.dictionaries(FIELDS, JSON, max_size=5)


def fields(caught: pytest.ExceptionInfo[InvalidRequestError]) -> list[str]:
    return [problem.field for problem in caught.value.problems]


def read(body: bytes) -> None:
    """Read a body that may be anything; it is entries, or it is invalid for stated reasons."""
    entries: list[Submission | InvalidRequestError]
    try:
        entries, batch = inputs.submissions_in(body)
    except InvalidRequestError as error:
        entries, batch = [error], False
    assert batch or len(entries) == 1
    assert 1 <= len(entries) <= BATCH_LIMIT
    for entry in entries:
        assert isinstance(entry, Submission | InvalidRequestError)
        if isinstance(entry, InvalidRequestError):
            assert entry.problems
            assert all(problem.message for problem in entry.problems)


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_but_that_they_are_invalid(body):
    read(body)


@given(st.binary(max_size=40), st.sampled_from([b'{"url":"', b'{"requests":[', b'{"meta":{"']))
def test_no_broken_ending_does(tail, head):
    read(head + tail)


@given(st.one_of(JSON, NEARLY, st.builds(lambda entries: {"requests": entries}, st.lists(NEARLY))))
def test_no_json_does(value):
    read(json.dumps(value).encode("utf-8", "surrogatepass"))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10**6)), min_size=1, max_size=30))
def test_entries_keep_their_order_and_wrong_ones_their_places(pattern):
    entries = [
        {"url": f"https://example.org/{number}"} if right else {"url": number}
        for right, number in pattern
    ]

    found, batch = inputs.submissions_in(json.dumps({"requests": entries}).encode())

    assert batch
    for index, ((right, number), entry) in enumerate(zip(pattern, found, strict=True)):
        if right:
            assert isinstance(entry, Submission)
            assert entry.url == f"https://example.org/{number}"
        else:
            assert isinstance(entry, InvalidRequestError)
            assert [problem.field for problem in entry.problems] == [f"requests[{index}].url"]


@pytest.mark.parametrize("count", [1, 2, BATCH_LIMIT])
def test_a_batch_has_up_to_a_thousand_entries(count):
    body = json.dumps({"requests": [{"url": "https://example.org/"}] * count}).encode()

    assert len(inputs.submissions_in(body)[0]) == count


@pytest.mark.parametrize("count", [0, BATCH_LIMIT + 1])
def test_a_batch_of_none_or_of_more_is_refused(count):
    body = json.dumps({"requests": [{"url": "https://example.org/"}] * count}).encode()

    with pytest.raises(InvalidRequestError, match=f"1,000 entries, has {count:,}"):
        inputs.submissions_in(body)


def test_a_field_of_the_entries_beside_them_is_reported_its_place():
    with pytest.raises(InvalidRequestError) as caught:
        inputs.submissions_in(
            b'{"requests": [{"url": "https://a.example/"}], "job": "j", "urls": 1}'
        )

    assert fields(caught) == ["job", "urls"]
    assert '"requests"' in caught.value.problems[0].message


@pytest.mark.parametrize("name", ["request", "reqeusts", "Requests"])
def test_a_misspelled_requests_is_reported_what_it_was_meant_to_be(name):
    with pytest.raises(InvalidRequestError) as caught:
        inputs.submissions_in(json.dumps({name: [{"url": "https://a.example/"}]}).encode())

    message = 'is no field; a batch is {"requests": [...]}: did you mean requests?'
    assert [(each.field, each.message) for each in caught.value.problems] == [(name, message)]


def test_an_entry_with_a_url_is_judged_as_one_though_a_field_is_nearly_requests():
    with pytest.raises(InvalidRequestError, match=r"^request: "):
        inputs.submissions_in(b'{"url": "https://a.example/", "request": 1}')


def test_a_field_beside_the_entries_is_named_and_the_right_entries_are_not():
    with pytest.raises(InvalidRequestError) as caught:
        inputs.submissions_in(b'{"requests":[{"url":"https://example.org/"}],"rule":"x","a b":1}')

    assert fields(caught) == ['["a b"]', "rule"]


@pytest.mark.parametrize("wrong", ["null", "{}", "7", '"x"'])
def test_entries_that_are_no_list_are_refused_as_such(wrong):
    with pytest.raises(InvalidRequestError, match="requests: expected a list"):
        inputs.submissions_in(f'{{"requests":{wrong}}}'.encode())


def test_a_right_single_entry_has_what_was_sent():
    [entry], batch = inputs.submissions_in(
        b'{"url":"https://example.org/","rule":"page","headers":{"X-A":"1"},"meta":{"n":null}}'
    )

    assert not batch
    assert entry == Submission(
        url="https://example.org/", rule="page", headers={"X-A": "1"}, meta={"n": None}
    )


# ---- bodies --------------------------------------------------------------------------------------


def test_a_body_is_text_or_base64():
    assert inputs.body_of({"body": "ü"}) == "ü".encode()
    encoded = base64.b64encode(b"\xff\x00").decode()
    assert inputs.body_of({"body": encoded, "isBase64Encoded": True}) == b"\xff\x00"
    assert inputs.body_of({"body": None}) == inputs.body_of({}) == b""


def test_a_body_that_is_no_base64_is_refused():
    with pytest.raises(InvalidRequestError, match="body: "):
        inputs.body_of({"body": "{}", "isBase64Encoded": True})


@pytest.mark.parametrize(
    "text", ["x" * (inputs.BODY_LIMIT + 1), "ü" * (inputs.BODY_LIMIT // 2 + 1)]
)
def test_the_limit_counts_bytes(text):
    with pytest.raises(TooLargeBodyError, match="6,000,000"):
        inputs.body_of({"body": text})


def test_the_limit_itself_is_allowed():
    assert len(inputs.body_of({"body": "x" * inputs.BODY_LIMIT})) == inputs.BODY_LIMIT


# ---- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        (None, None),
        ("1767225600123", datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)),
        ("0", datetime(1970, 1, 1, tzinfo=UTC)),
        ("2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-01-01T01:30:00+01:30", datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_since_is_a_moment(text, moment):
    assert inputs.time_in(text, "since") == moment


@pytest.mark.parametrize(
    "text",
    [
        *("", "now", "-1", "1.5", "\u0663", "9" * 15),
        *("2026-01-01", "2026-01-01T00:00:00", "2026-13-01T00:00:00Z"),
        "0001-01-01T00:00:00+14:00",
    ],
)
def test_what_is_no_moment_is_refused(text):
    with pytest.raises(InvalidRequestError) as caught:
        inputs.time_in(text, "since")

    assert fields(caught) == ["since"]


@given(st.text(max_size=30))
def test_no_text_breaks_since_or_limit(text):
    for reads in (lambda text: inputs.time_in(text, "since"), inputs.limit_in):
        try:
            found = reads(text)
        except InvalidRequestError:
            continue
        assert found is not None


@pytest.mark.parametrize(("text", "limit"), [(None, 100), ("1", 1), ("1000", 1000), ("007", 7)])
def test_limit_is_a_number(text, limit):
    assert inputs.limit_in(text) == limit


@pytest.mark.parametrize("text", ["", "0", "1001", "-1", "1.0", "ten", "\u0661", "9" * 5000])
def test_what_is_no_limit_is_refused(text):
    with pytest.raises(InvalidRequestError, match=r"limit: .* 1 to 1,000"):
        inputs.limit_in(text)


def test_unknown_and_repeated_parameters_are_all_named():
    given_ = {"limit": ["1", "2"], "state": ["done"], "sate": ["x"]}

    with pytest.raises(InvalidRequestError) as caught:
        inputs.known_parameters(given_, frozenset({"limit", "state"}))

    assert fields(caught) == ["limit", "sate"]
    assert "limit, state" in str(caught.value)


def test_known_parameters_pass():
    inputs.known_parameters({"limit": ["1"]}, frozenset({"limit", "state"}))
    inputs.known_parameters({}, frozenset())


# ---- schedules -----------------------------------------------------------------------------------


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_body_breaks_a_schedule(body):
    with pytest.raises(InvalidRequestError):
        schedule_inputs.schedule_in(body, "t", "b", "n")


def test_a_schedule_names_every_error():
    with pytest.raises(InvalidRequestError) as caught:
        schedule_inputs.schedule_in(
            b'{"cron":5,"rule":"","urls":["",7],"missed":"no","zone":"UTC"}', "t", "b", "n"
        )

    assert sorted(fields(caught)) == ["cron", "missed", "rule", "urls[0]", "urls[1]", "zone"]


@pytest.mark.parametrize(
    ("document", "wrong"),
    [
        ({"cron": "* * * * *", "jitter_seconds": 3_601}, ["jitter_seconds"]),
        ({"cron": "* * * * *", "jitter_seconds": -1}, ["jitter_seconds"]),
        ({"cron": "* * * * *", "tolerance_seconds": 59}, ["tolerance_seconds"]),
        ({"cron": "* * * * *", "overlap": "never"}, ["overlap"]),
        ({"cron": "* * * * *", "priority": 11}, ["priority"]),
        ({"cron": "* * * * *", "version": 0}, ["version"]),
        ({"cron": "* * * * *", "spider": "No Such"}, ["spider"]),
        ({"cron": "* * * * *", "start": {"patern": "x"}}, ["start.patern"]),
        ({"cron": "* * * * *", "next_at": "2026-01-01T00:00:00Z"}, ["next_at"]),
    ],
)
def test_what_a_schedule_may_say_is_bounded(document, wrong):
    with pytest.raises(InvalidRequestError) as caught:
        schedule_inputs.schedule_in(json.dumps(document).encode(), "t", "b", "n")

    assert fields(caught) == wrong


@pytest.mark.parametrize("name", ["", "Nightly", "a.b", "a" * 33, "-a", "a/b", "a\n"])
def test_what_is_no_name_of_a_schedule_is_refused(name):
    with pytest.raises(InvalidRequestError, match="beginning with a letter"):
        schedule_inputs.schedule_in(b'{"cron": "* * * * *"}', "t", "b", name)


def test_a_preview_needs_a_line_alone():
    schedule = schedule_inputs.preview_in(b'{"cron": "* * * * *", "name": "x"}', "t", "b")

    assert (schedule.key, schedule.time_zone, schedule.jitter_seconds) == (
        ("t", "b", "x"),
        "UTC",
        0,
    )
    with pytest.raises(InvalidRequestError):
        schedule_inputs.preview_in(b'{"cron": "* * * * *", "rule": "x"}', "t", "b")
