import json
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.kit.kernel import InvalidRequestError
from tests.kit.requests import Keyed, KeyKind, KeyName, Submission
from tests.kit.submission import (
    digest_of_call,
    digest_of_entry,
    is_old,
    kept_until,
    outlived,
    reused,
)
from tests.kit.worlds.memory import START, make_biz

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
SUBMISSIONS = st.builds(
    Submission,
    url=TEXT,
    rule=st.none() | TEXT,
    method=st.sampled_from(["GET", "POST"]),
    params=st.dictionaries(TEXT, TEXT, max_size=3),
    body=st.none() | TEXT,
    meta=st.dictionaries(TEXT, TEXT | st.integers(-(2**63), 2**63 - 1) | st.booleans(), max_size=3),
)


@given(one=SUBMISSIONS, other=SUBMISSIONS)
@example(Submission(url="a", meta={"n": True}), Submission(url="a", meta={"n": 1}))
@example(Submission(url="a", method="GET"), Submission(url="a"))
def test_entries_have_one_digest_only_if_they_say_the_same(one, other):
    def said(entry):
        return json.dumps(msgspec.to_builtins(entry), sort_keys=True)

    assert (digest_of_entry(one) == digest_of_entry(other)) == (said(one) == said(other))


@given(one=SUBMISSIONS)
def test_the_order_in_which_a_client_writes_is_no_difference(one):
    turned = replace(
        one,
        params=dict(reversed(one.params.items())),
        meta=dict(reversed(one.meta.items())),
    )

    assert digest_of_entry(turned) == digest_of_entry(one)
    assert digest_of_call([turned]) == digest_of_call([one])


@given(calls=st.lists(SUBMISSIONS, max_size=3), cut=st.integers(0, 3))
def test_a_call_is_another_one_with_its_entries_in_another_order_or_number(calls, cut):
    turned = list(reversed(calls))

    assert (digest_of_call(turned) == digest_of_call(calls)) == (turned == calls)
    assert (digest_of_call(calls[:cut]) == digest_of_call(calls)) == (cut >= len(calls))


def test_the_client_id_is_the_key_of_an_entry_and_part_of_a_call():
    one, other = (Submission(url="https://a.example/", client_id=i) for i in ("a", "b"))

    assert digest_of_entry(one) == digest_of_entry(other)
    assert digest_of_call([one]) != digest_of_call([other])


def test_an_entry_that_could_not_be_read_counts_as_its_error():
    first, second = (InvalidRequestError.of("requests[0].url", what) for what in ("a", "\ud800"))

    assert digest_of_call([first]) == digest_of_call([InvalidRequestError(first.problems)])
    assert digest_of_call([first]) != digest_of_call([second])


@given(
    ttl=st.integers(60, 31_536_000),
    grace=st.integers(0, 604_800),
)
def test_a_key_outlives_its_requests_and_a_day(ttl, grace):
    biz = make_biz(ttl_seconds=ttl, expiry_grace_seconds=grace)

    life = kept_until(biz, START) - START

    assert life == max(timedelta(seconds=ttl + grace), timedelta(days=1))


@pytest.mark.parametrize(("age", "old"), [(0, False), (29.9, False), (30, True), (61, True)])
def test_a_key_is_old_when_its_requests_would_have_less_than_half_of_their_life(age, old):
    keyed = Keyed(
        name=KeyName(KeyKind.CALL, "k"),
        digest=b"",
        ids=(1,),
        rules=(None,),
        queued_at=datetime(2026, 1, 1, tzinfo=UTC),
    )

    moment = keyed.queued_at + timedelta(seconds=age)

    assert is_old(keyed, make_biz(ttl_seconds=60), moment) == old


def test_the_errors_name_the_key_and_say_what_to_do():
    call, entry = KeyName(KeyKind.CALL, "k-1"), KeyName(KeyKind.ENTRY, "c-1")

    assert str(reused(call)).startswith("Idempotency-Key 'k-1' ")
    assert str(reused(entry, "requests[3].")).startswith("requests[3].client_id: 'c-1'")
    assert "too old" in str(outlived(call))
