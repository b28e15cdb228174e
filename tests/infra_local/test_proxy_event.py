"""Events look as API Gateway's, and answers are read as API Gateway reads them."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from infra.local.proxy_event import (
    Caller,
    HttpRequest,
    MalformedAnswerError,
    proxy_event,
    response_of,
)

RECORDED = json.loads(Path(__file__).with_name("recorded_rest_event.json").read_text())
AT = datetime(2026, 3, 10, 0, 3, 59, 428_000, tzinfo=UTC)


def event(request, caller=Caller(), resource="/{proxy+}"):  # noqa: B008  a frozen value
    return proxy_event(
        request,
        caller,
        resource=resource,
        stage="prod",
        request_id="77375676-0000-4b79-853a-f982474efe18",
        at=AT,
        domain="127.0.0.1:8080",
    )


def shape(value):
    """Keys and types of an event; what a caller names himself is left out."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    return type(value).__name__


def test_an_event_has_the_keys_and_types_of_a_recorded_one():
    headers = list(RECORDED["headers"].items())
    request = HttpRequest(
        method="POST",
        raw_path="/path/to/resource",
        query="foo=bar",
        headers=headers,
        body=b'{"test":"body"}',
    )

    made = event(request, Caller(api_key="9fK2example", api_key_id="a1b2c3d4e5"))

    assert shape(made) == shape(RECORDED)
    for key in ("path", "httpMethod", "headers", "multiValueHeaders", "pathParameters", "body"):
        assert made[key] == RECORDED[key]
    assert made["requestContext"]["identity"] == RECORDED["requestContext"]["identity"]
    assert made["requestContext"]["requestTime"] == "10/Mar/2026:00:03:59 +0000"
    assert made["requestContext"]["path"] == "/prod/path/to/resource"


def test_what_is_absent_is_null_and_an_open_path_names_no_key():
    made = event(HttpRequest(method="GET", raw_path="/health"), resource="/health")

    assert made["body"] is None
    assert made["queryStringParameters"] is None
    assert made["multiValueQueryStringParameters"] is None
    assert made["pathParameters"] is None
    assert "apiKeyId" not in made["requestContext"]["identity"]


def test_repeated_names_keep_the_last_value_beside_all_of_them():
    request = HttpRequest(
        method="GET",
        raw_path="/v1/a%20b",
        query="state=done&state=dead&cursor=&q=a%26b",
        headers=[("Accept", "a"), ("Accept", "b")],
    )

    made = event(request)

    assert made["path"] == "/v1/a b"
    assert made["queryStringParameters"] == {"state": "dead", "cursor": "", "q": "a&b"}
    assert made["multiValueQueryStringParameters"]["state"] == ["done", "dead"]
    assert made["headers"] == {"Accept": "b"}
    assert made["multiValueHeaders"] == {"Accept": ["a", "b"]}


def test_an_answer_becomes_a_response():
    answer = {
        "statusCode": "202",
        "headers": {"x-two": "lost", "X-One": 1},
        "multiValueHeaders": {"X-Two": ["a", "b"]},
        "body": "aGk=",
        "isBase64Encoded": True,
    }

    response = response_of(json.dumps(answer).encode())

    assert response.status == 202
    assert response.body == b"hi"
    assert response.headers == (("X-Two", "a"), ("X-Two", "b"), ("X-One", "1"))
    assert response_of(b'{"statusCode": 204}').body == b""


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"not json", "no JSON"),
        (b"[]", "no object"),
        (b'{"body": "x"}', "no statusCode"),
        (b'{"statusCode": "many"}', "no statusCode"),
        (b'{"statusCode": 200, "body": {}}', "body is no text"),
        (b'{"statusCode": 200, "body": "%", "isBase64Encoded": true}', "no base64"),
    ],
)
def test_an_answer_that_is_none_is_refused(answer, reason):
    with pytest.raises(MalformedAnswerError, match=reason):
        response_of(answer)
