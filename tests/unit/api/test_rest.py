"""The API over services that a test makes: dispatch, and the last border."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from tests.kit.api import ROUTES, SERVICE_CLASSES, SERVICES, RestApi, resources_at, routes_of
from tests.kit.config import Biz, Generation, Stage, Tenant, Tree
from tests.kit.kernel import (
    ConfigError,
    InvalidRequestError,
    Listing,
    NotFoundError,
    Problem,
    StoreUnavailableError,
    TrialsBusyError,
)
from tests.kit.requests import Accepted, Record, Refused

NOW = datetime(2026, 3, 1, tzinfo=UTC)
_SINCE = Generation(starts_at=NOW, nodes=("main",), databases=("docs",), shards=1)
_TREE = Tree(
    revision="1",
    stage=Stage(),
    tenants={"acme": Tenant(api_keys=("k",))},
    bizs={"acme": {"docs": Biz(generations=(_SINCE,))}},
)


class NoServices:
    """The API's context, with services of which each test gives what it needs.

    A service is called without its ports and the configuration; a test's own has as many of the
    other arguments as it cares for.
    """

    config = SimpleNamespace(current=lambda: _TREE)
    settings = SimpleNamespace(default_api_key_id=None)

    def __init__(self, health: Any = None, **services: Any) -> None:
        self.health = health
        self._services = {"dispatch_added": lambda: 0, "note": lambda: None, **services}

    def now(self) -> datetime:
        return NOW

    def __getattr__(self, ports: str) -> Any:
        if service := SERVICE_CLASSES.get(ports):
            return object.__new__(service)
        store = SimpleNamespace(quota_terms_of=lambda *_: {})  # no job has quotas
        return SimpleNamespace(resolver=None, schedules=None, starter=SimpleNamespace(jobs=store))

    @contextmanager
    def in_force(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name, service in self._services.items():
                patch.setattr(*SERVICES[name], service and _cut(service))
            yield


def _cut(service: Any) -> Any:
    code = service.__code__

    def cut(_ports: Any, _tree: Any, *given: Any, **named: Any) -> Any:
        if not code.co_flags & CO_VARARGS:
            given = given[: code.co_argcount]
        if not code.co_flags & CO_VARKEYWORDS:
            named = {name: named[name] for name in named.keys() & set(code.co_varnames)}
        return service(*given, **named)

    return cut


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


def answer_of(services: NoServices, event: Any, log: list[Exception] | None = None) -> Any:
    api = RestApi(lambda: services, (log if log is not None else []).append)
    with services.in_force():
        return api.answer(event, None)


def ask(services: NoServices, event: Any, log: list[Exception] | None = None) -> tuple[int, Any]:
    answer = answer_of(services, event, log)
    return answer["statusCode"], json.loads(answer["body"]) if answer["body"] else None


def test_a_context_that_cannot_be_opened_is_asked_for_again():
    tries = []
    services = NoServices(list_schedules=lambda *_: [])

    def opened() -> Any:
        tries.append(1)
        if len(tries) == 1:
            raise ConfigError([Problem("x", "is not set")])
        return services

    log: list[Exception] = []
    api = RestApi(opened, log.append)
    event = an_event(path="/v1/docs/schedules")

    with services.in_force():
        assert [api.answer(event, None)["statusCode"] for _ in range(3)] == [503, 200, 200]
    assert len(tries) == 2
    assert [type(error) for error in log] == [ConfigError]


@pytest.mark.parametrize("identity", [None, {}, {"apiKeyId": None}])
def test_a_call_without_an_identity_is_nobodys(identity):
    event = an_event(requestContext={"identity": identity})

    assert ask(NoServices(stats=None), event)[0] == 403


def test_each_call_is_its_own_keys_and_not_that_of_the_call_before():
    asked = []
    services = NoServices(list_schedules=lambda tenant: asked.append(tenant) or [])
    both = {"acme": Tenant(api_keys=("k",)), "rival": Tenant(api_keys=("r",))}
    tree = structs.replace(_TREE, tenants=both)
    services.config = SimpleNamespace(current=lambda: tree)
    api = RestApi(lambda: services, [].append)

    with services.in_force():
        for key in "kr":
            identity = {"identity": {"apiKeyId": key}}
            api.answer(an_event(path="/v1/docs/schedules", requestContext=identity), None)

    assert asked == ["acme", "rival"]


def test_every_route_is_found_by_a_word_of_its_path_and_few_others_are_imported_for_it():
    for route in ROUTES:
        found = tuple(resources_at(route.path))
        assert route in tuple(routes_of(*found))
        # Of tenants a function of its own answers, which may begin more slowly.
        assert len(found) <= (3 if route.path.startswith("/v1/fleet/tenants") else 2)


def test_what_is_expected_is_not_logged_and_what_is_not_is():
    def missing(*_: Any) -> None:
        raise NotFoundError("x")

    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    def busy(*_: Any) -> Any:
        raise TrialsBusyError(5.0)

    log: list[Exception] = []
    assert ask(NoServices(stats=missing), an_event(), log)[0] == 404
    assert ask(NoServices(stats=busy), an_event(), log)[0] == 503
    assert log == []
    assert ask(NoServices(stats=broken), an_event(), log)[0] == 500
    assert [type(error) for error in log] == [ZeroDivisionError]


@pytest.mark.parametrize(
    "event",
    [None, [], "x", {}, {"httpMethod": "GET"}, an_event(path=None), an_event(requestContext=7)],
)
def test_whatever_comes_in_an_answer_goes_out(event):
    assert ask(NoServices(), event)[0] in {404, 500}


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

    answer, body = ask(NoServices(submit=lambda *_, **__: receipts), event, log)

    assert answer == status
    assert len(log) == (status == 503)
    if status == 202:
        found = [entry.get("error", {}).get("status", 202) for entry in body["requests"]]
        assert found == [400, 503, 202]


def test_half_a_surrogate_pair_in_a_name_or_path_is_quoted_escaped():
    event = an_event(multiValueQueryStringParameters={"\ud800": ["1"]})

    status, body = ask(NoServices(), event)

    assert status == 400
    assert body["errors"][0]["field"] == "\ud800"
    assert ask(NoServices(), an_event(path="/\ud800"))[0] == 404


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

    assert ask(NoServices(health=lambda: parts), event) == (
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
    services = NoServices(list_requests=None)

    status, problem = ask(services, an_event(path="/v1/docs/requests", **parameters))

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
    answer = answer_of(NoServices(list_records=list_records), event)

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

    assert ask(NoServices(list_records=list_records), event)[0] == 200
    assert asked == [1_000]
