"""The API over operations that a test makes: dispatch, and the last border."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.kit.api import RestApi
from tests.kit.kernel import (
    ConfigError,
    ConsumersBusyError,
    InvalidRequestError,
    Listing,
    NotFoundError,
    Problem,
    StoreUnavailableError,
)
from tests.kit.requests import Accepted, Record, Refused


class NoOperations:
    """Operations of which each test gives what it needs."""

    def __init__(self, **methods: Any) -> None:
        self.__dict__.update({"tenant": lambda _: "acme", **methods})


def an_event(method: str = "GET", path: str = "/v1/docs/stats", **changes: Any) -> dict[str, Any]:
    return {
        "httpMethod": method,
        "path": path,
        "headers": {},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "requestContext": {"identity": {"apiKeyId": "k"}},
        "body": None,
        "isBase64Encoded": False,
        **changes,
    }


def ask(operations: Any, event: Any, log: list[Exception] | None = None) -> tuple[int, Any]:
    api = RestApi(lambda: operations, (log if log is not None else []).append)
    answer = api.answer(event, None)
    return answer["statusCode"], json.loads(answer["body"]) if answer["body"] else None


def test_operations_that_cannot_be_opened_are_asked_for_again():
    tries = []

    def opened() -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise ConfigError([Problem("x", "is not set")])
        return NoOperations(list_schedules=lambda *_: [])

    log: list[Exception] = []
    api = RestApi(opened, log.append)
    event = an_event(path="/v1/docs/schedules")

    assert [api.answer(event, None)["statusCode"] for _ in range(3)] == [503, 200, 200]
    assert len(tries) == 2
    assert [type(error) for error in log] == [ConfigError]


@pytest.mark.parametrize("identity", [None, {}, {"apiKeyId": None}])
def test_a_call_without_an_identity_has_no_key(identity):
    asked = []

    def tenant(key: str | None) -> str:
        asked.append(key)
        raise NotFoundError("x")

    event = an_event(requestContext={"identity": identity})

    assert ask(NoOperations(tenant=tenant), event)[0] == 404
    assert asked == [None]


def test_what_is_expected_is_not_logged_and_what_is_not_is():
    def missing(*_: Any) -> None:
        raise NotFoundError("x")

    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    def busy(*_: Any) -> Any:
        raise ConsumersBusyError

    log: list[Exception] = []
    assert ask(NoOperations(stats=missing), an_event(), log)[0] == 404
    assert ask(NoOperations(stats=busy), an_event(), log)[0] == 503
    assert log == []
    assert ask(NoOperations(stats=broken), an_event(), log)[0] == 500
    assert [type(error) for error in log] == [ZeroDivisionError]


@pytest.mark.parametrize(
    "event",
    [None, [], "x", {}, {"httpMethod": "GET"}, an_event(path=None), an_event(requestContext=7)],
)
def test_whatever_comes_in_an_answer_goes_out(event):
    assert ask(NoOperations(), event)[0] in {404, 500}


WRONG = Refused(InvalidRequestError.of("requests[0].url", "is missing"))
DOWN = Refused(StoreUnavailableError("mongodb", "10.0.0.7 refuses"))


@pytest.mark.parametrize(
    ("receipts", "status"),
    [
        ([WRONG, WRONG], 400),
        ([WRONG, DOWN], 503),
        ([DOWN, WRONG], 503),
        ([WRONG, DOWN, Accepted(7)], 202),
    ],
)
def test_a_batch_of_which_nothing_is_stored_has_one_answer(receipts, status):
    entries = [{"url": "https://example.org/"}] * len(receipts)
    event = an_event("POST", "/v1/docs/requests", body=json.dumps({"requests": entries}))
    log: list[Exception] = []

    answer, body = ask(NoOperations(submit=lambda *_, **__: receipts), event, log)

    assert answer == status
    assert len(log) == (status == 503)
    if status == 202:
        found = [entry.get("error", {}).get("status", 202) for entry in body["requests"]]
        assert found == [400, 503, 202]


def test_half_a_surrogate_pair_in_a_name_or_path_is_quoted_escaped():
    event = an_event(multiValueQueryStringParameters={"\ud800": ["1"]})

    status, body = ask(NoOperations(), event)

    assert status == 400
    assert body["errors"][0]["field"] == "\ud800"
    assert ask(NoOperations(), an_event(path="/\ud800"))[0] == 404


@pytest.mark.parametrize(
    ("parts", "status", "word"),
    [
        ({"config": "ok", "redis": "ok", "mongodb:main": "ok"}, 200, "ok"),
        ({"config": "ok", "redis": "does not answer", "mongodb:main": "ok"}, 200, "degraded"),
        ({"config": "ok", "redis": "ok", "mongodb:main": "does not answer"}, 503, "down"),
        ({"config": "cannot be read"}, 503, "down"),
    ],
)
def test_health_is_down_when_nothing_can_be_persisted(parts, status, word):
    event = an_event(path="/health", requestContext={})

    assert ask(NoOperations(health=lambda: parts), event) == (
        status,
        {"status": word, "parts": parts},
    )


@pytest.mark.parametrize(
    "parameters",
    [
        {"queryStringParameters": {"limit": "0"}},
        {"multiValueQueryStringParameters": {"limit": ["0"]}},
    ],
    ids=["last values alone", "all values alone"],
)
def test_parameters_are_read_whichever_form_a_proxy_sends(parameters):
    operations = NoOperations(list_requests=None)

    status, problem = ask(operations, an_event(path="/v1/docs/requests", **parameters))

    assert (status, problem["errors"][0]["field"]) == (400, "limit")


def stored(count: int, text: str) -> list[Record]:
    return [
        Record(
            request_id=number,
            index=0,
            biz="docs",
            url="https://example.org/",
            rule="page",
            rule_version="1",
            stored_at=datetime(2026, 3, 1, tzinfo=UTC),
            fields={"text": text},
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("sign", ["x", '"', "文", "🕷"])
def test_a_page_of_large_records_holds_as_many_as_a_lambda_can_answer(sign):
    records = stored(1_000, sign * 10_000)
    asked = []

    def list_records(*_: Any, limit: int, **__: Any) -> Listing[Record]:
        asked.append(limit)
        return Listing(records[:limit], "next", more=limit < len(records))

    event = an_event(path="/v1/docs/records", queryStringParameters={"limit": "1000"})
    api = RestApi(lambda: NoOperations(list_records=list_records), [].append)
    answer = api.answer(event, None)

    assert len(json.dumps(answer)) < 6 * 1024 * 1024
    page = json.loads(answer["body"])
    assert (len(page["records"]), page["cursor"], page["more"]) == (asked[-1], "next", True)
    assert asked[-1] >= 31


def test_a_page_of_small_records_is_asked_for_once():
    asked = []

    def list_records(*_: Any, limit: int, **__: Any) -> Listing[Record]:
        asked.append(limit)
        return Listing(stored(limit, "x" * 500), None, more=False)

    event = an_event(path="/v1/docs/records", queryStringParameters={"limit": "1000"})

    assert ask(NoOperations(list_records=list_records), event)[0] == 200
    assert asked == [1_000]
