"""Submissions that are repeated, or too many, at the edge."""

import json

import pytest

from tests.kit.kernel import BacklogFullError
from tests.kit.requests import Accepted
from tests.unit.api.test_rest import NoServices, an_event, answer_of


def post(services, headers=None, many=None) -> dict:
    event = an_event(
        "POST",
        "/v1/docs/requests",
        body='{"url": "https://example.org/"}',
        headers=headers or {},
        multiValueHeaders=many,
    )
    return answer_of(services, event)


@pytest.mark.parametrize(
    "sent",
    [
        {"headers": {"idempotency-key": "k-1"}},
        {"headers": {"IDEMPOTENCY-KEY": "k-1"}},
        {"many": {"Idempotency-Key": ["k-1"]}},
    ],
    ids=["lower", "upper", "all values alone"],
)
def test_the_key_is_read_from_whichever_form_a_proxy_sends(sent):
    keys = []

    def submit(*_, single, key):
        keys.append(key)
        return [Accepted(7, repeated=True)]

    answer = post(NoServices(submit=submit), **sent)

    assert keys == ["k-1"]
    assert answer["multiValueHeaders"]["Idempotent-Replayed"] == ["true"]
    assert json.loads(answer["body"]) == {"id": "7", "repeated": True}


def test_without_a_key_there_is_none_and_what_is_new_is_not_called_repeated():
    keys = []

    def submit(*_, single, key):
        keys.append(key)
        return [Accepted(7)]

    answer = post(NoServices(submit=submit))

    assert keys == [None]
    assert "Idempotent-Replayed" not in answer["multiValueHeaders"]


@pytest.mark.parametrize(
    "sent",
    [
        {"headers": {"Idempotency-Key": ""}},
        {"headers": {"Idempotency-Key": "k" * 256}},
        {"headers": {"Idempotency-Key": "two words"}},
        {"headers": {"Idempotency-Key": "schlüssel"}},
        {"many": {"Idempotency-Key": ["a", "b"]}},
    ],
)
def test_a_wrong_key_is_named_by_its_header(sent):
    answer = post(NoServices(submit=None), **sent)

    assert answer["statusCode"] == 400
    assert json.loads(answer["body"])["errors"][0]["field"] == "Idempotency-Key"


@pytest.mark.parametrize(("seconds", "reported"), [(0.0, "1"), (7.2, "8"), (300.0, "300")])
def test_a_full_biz_says_after_how_many_whole_seconds_to_come_back(seconds, reported):
    def submit(*_, **__):
        raise BacklogFullError("the biz is full", retry_after_seconds=seconds)

    answer = post(NoServices(submit=submit))

    assert answer["statusCode"] == 429
    assert answer["multiValueHeaders"]["Retry-After"] == [reported]
    assert json.loads(answer["body"])["type"] == "urn:crawlfleet:problem:backlog-full"
