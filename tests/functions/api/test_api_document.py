"""``/openapi.json`` is true: what it says is there, and nothing is there that it does not say."""

import re
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, settings
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis.generation import GenerationMode

from tests.functions.api.undelivered import an_undelivered_item
from tests.functions.dead_letter_site import dead_letters
from tests.functions.http import ask, submit
from tests.functions.open_api import Document
from tests.functions.runs import a_learnt_run
from tests.functions.seeds import failed_seed
from tests.functions.shim import wsgi
from tests.kit.api import ROUTES, inputs
from tests.kit.config import read_documents
from tests.kit.feeds import Hub, MongoHubs
from tests.kit.incidents import Desk
from tests.kit.jobs import MongoDemands
from tests.kit.kernel import names
from tests.kit.versions import HistoryTerms
from tests.kit.worlds.functions import STAGE, World, default_bizs
from tests.kit.worlds.incidents import an_incident

_NOT_CHECKED = [
    # A URL, a cron line or an id of a right shape may still be none: the schema cannot tell.
    schemathesis.checks.positive_data_acceptance,
]

#: Examples an operation: some that are always the same, and in the proofs many of their seed.
_COUNTS = [6, pytest.param(100, marks=pytest.mark.long(part="api"))]


def bounded(count: int) -> settings:
    return settings(
        max_examples=count,
        derandomize=count == _COUNTS[0],
        database=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


#: Operations that need a dead letter, each its own.
_ON_A_DEAD_LETTER = ("getDeadLetter", "replayDeadLetter", "purgeDeadLetter")


@pytest.fixture(scope="module")
def document(standing_world) -> Document:
    return Document.of(standing_world)


@pytest.fixture(scope="module")
def schema(standing_world) -> schemathesis.BaseSchema:
    """The document as schemathesis reads it, which takes longer than trying an operation."""
    standing_world.fresh()
    return schemathesis.openapi.from_wsgi("/openapi.json", wsgi(standing_world))


def test_the_document_is_valid_openapi(document):
    OpenAPIV31SpecValidator(document.content).validate()


def test_every_route_is_documented_and_everything_documented_is_a_route(document):
    assert set(document.operations) == {(route.method, route.path) for route in ROUTES}
    for route in ROUTES:
        operation = document.operations[route.method, route.path]
        assert operation["operationId"] == route.operation
        named = {each["name"] for each in operation["parameters"] if each["in"] == "query"}
        assert named == route.names


def test_powertools_dispatches_the_same_routes(world, document):
    # Resources are imported as they are asked for.
    for route in ROUTES:
        ask(world, "HEAD", route.path)
    app = world.application(names.ROUTER)._app
    dispatched = {
        (route.method, re.sub(r"<(\w+)>", r"{\1}", route.path))
        for route in [*app._static_routes, *app._dynamic_routes]
    }
    assert dispatched == set(document.operations)


def an_own_version(world: World) -> str:
    """The revision of the configuration, kept as its version."""
    found = ask(world, "GET", "/v1/config/documents").json["revision"]
    versions = world.context().versions
    documents = read_documents(world.ssm, STAGE)
    versions.keep(found, documents, datetime.now(UTC), HistoryTerms())
    return str(found)


def an_open_incident(world: World) -> str:
    """Have a biz of acme's be in trouble; return the incident's id."""
    incident = an_incident(1, world.tenants["acme"])
    world.context().incidents.write([incident], Desk())
    return incident.id


def a_hub_that_is_asked(world: World) -> tuple[str, str]:
    """Have the hub of a feed be asked; return its callback and the topic."""
    hub = Hub(url="https://hub.example/", topic="https://example.org/feed")
    made = MongoHubs(world.own.nodes).ask(hub.topic, hub, datetime.now(UTC))
    assert made is not None
    return made[0], hub.topic


def test_everything_documented_answers(world, document, tmp_path, monkeypatch):
    monkeypatch.setenv(names.ENV_KEYS_FILE, str(tmp_path / "keys.json"))
    monkeypatch.setenv(names.ENV_WRITES_CONFIG, "yes")
    world.end_environments()
    bizs = default_bizs()
    own = {"pending": ["held"], "held": ["pending"]}
    bizs["acme"]["docs"] |= {"states": {"held": 100}, "transitions": own}
    world.push(bizs, stage={"operators": [world.tenants["acme"]]})
    schedule = {"cron": "0 3 * * *", "rule": "page", "urls": ["https://example.org/"]}
    assert ask(world, "PUT", "/v1/docs/schedules/nightly", schedule).status == 200
    spider = {"rule": "page", "start": {"urls": ["https://example.org/"]}}
    assert ask(world, "PUT", "/v1/docs/spiders/all", spider).status == 201
    letters = dict(zip(_ON_A_DEAD_LETTER, dead_letters(world, len(_ON_A_DEAD_LETTER)), strict=True))
    # After the worker that makes those: it would try this one too, until it is dead, by luck.
    [request_id] = submit(world, "https://example.org/")
    segment, key = failed_seed(world)
    values = {"biz": "docs", "id": request_id, "name": "nightly", "segment": segment, "key": key}
    a_learnt_run(MongoDemands(world.own.nodes), world.tenants["acme"], "june", "all")
    values |= {"job": "june", "spider": "all", "tenant": world.tenants["rival"]}
    subscription = {"kind": "rss", "filter": "a", "feeds": ["https://example.org/feed"]}
    assert ask(world, "PUT", "/v1/docs/subscriptions/all", subscription).status == 200
    values |= {"subscription": "all", "delivery": an_undelivered_item(world, "acme", "docs")}
    values["incident"] = an_open_incident(world)
    bodies = {
        "silenceIncident": {"seconds": 60},
        "putSpider": {**spider, "priority": 9},
        "offerSeeds": {"seeds": [{"url": "https://example.org/2"}]},
        "releaseSeeds": {"filter": {"segment": "another"}},
        "forgetSeeds": {"filter": {"segment": "another"}},
        "submitRequests": {"url": "https://example.org/2"},
        "putSchedule": schedule,
        "putSubscription": subscription,
        "tryFilter": {"subscription": "all", "items": [{"text": "a"}]},
        "startJob": {"rule": "page", "urls": ["https://example.org/3"], "name": "june"},
        "forecastJob": {"rule": "page", "urls": ["https://example.org/3"]},
        "setJobQuotas": {"quotas": [{"unit": "requests", "most": 9, "per": "day"}]},
        "previewSchedule": {"cron": "0 3 * * *"},
        "redeliverMany": {"reason": "away"},
        "replayDeadLetters": {"filter": {"status": 299}},
        "purgeDeadLetters": {"filter": {"status": 299}},
        "reserveSlots": {"process": "p", "hosts": [{"host": "example.org", "count": 1}]},
        "tryRule": {"rule": "page", "page": {"body": "<title>one</title>"}},
        "addTenant": {"name": "newcomer", "settings": {"share": 2}},
        "setTenant": {"settings": {"share": 2}},
        "changeRequestState": {"from_state": "pending", "to_state": "held"},
        "changeRequestStates": {
            "requests": [request_id],
            "from_state": "held",
            "to_state": "pending",
        },
    }
    acme, revision = world.tenants["acme"], an_own_version(world)
    edit = {"path": f"bizs/{acme}/docs/description", "content": "Pages."}
    bodies |= {"changeConfig": {"changes": [edit]}, "rollBackConfig": {"to": revision}}
    queries = {"explainUrl": {"url": "https://example.org/2"}}
    queries |= {"getConfigDocument": {"path": f"bizs/{acme}/docs"}}
    queries |= {"diffConfigVersions": {"from": revision}}
    queries |= {"getConversation": {"channel": "news", "item": "1"}}
    queries |= {"getSource": {"name": "https://example.org/feed"}}
    queries |= {"explainItem": {"channel": "news", "item": "1"}}
    values["callback"], topic = a_hub_that_is_asked(world)
    asked = {"hub.mode": "subscribe", "hub.topic": topic, "hub.challenge": "c"}
    queries |= {"answerHub": asked}

    # Deletions come last, after the reading of what they delete.
    for (method, path), operation in sorted(
        document.operations.items(), key=lambda item: item[0][0] == "DELETE"
    ):
        values["id"] = letters.get(operation["operationId"], request_id)
        place = re.sub(r"{(\w+)}", lambda match: values[match[1]], path)
        key = None if operation.get("security") == [] else "acme"
        name = operation["operationId"]
        answer = ask(world, method, place, bodies.get(name), query=queries.get(name), key=key)
        assert 200 <= answer.status < 300, (method, path, answer.text)
        document.check(method, place, answer)
    world.end_environments()


def test_open_paths_need_no_key_and_all_others_do(world, document):
    seed = {"segment": "2026-03-01", "key": "0" * 32}
    values = {"biz": "docs", "id": "1", "name": "nightly", "spider": "all", "job": "june", **seed}
    values |= {"tenant": "acme", "subscription": "all", "delivery": "0" * 64}
    values |= {"callback": "0" * 40, "incident": "0" * 24}
    for (method, path), operation in document.operations.items():
        place = re.sub(r"{(\w+)}", lambda match: values[match[1]], path)
        answer = ask(world, method, place, "{}", key=None)
        assert (answer.status == 403) == (operation.get("security") != [])


def _fuzzed(*modes: GenerationMode) -> list[Any]:
    """Return each operation in each mode; one without input has no invalid input to generate."""
    return [
        pytest.param(route, mode, id=f"{route.operation}-{mode.value}")
        for route in ROUTES
        for mode in modes
        if mode is GenerationMode.POSITIVE or not route.open
    ]


@pytest.mark.parametrize("count", _COUNTS)
@pytest.mark.parametrize(("route", "mode"), _fuzzed(*GenerationMode))
def test_whatever_fits_the_document_or_does_not_is_answered_as_it_says(
    world, schema, route, mode, count
):
    submit(world, "https://example.org/", "https://example.org/2")
    # A biz of any name is a 404 nearly always; what lies behind it is what is to be tried.
    fixed = {"biz": "docs"} if "{biz}" in route.path else None
    cases = schema[route.path][route.method].as_strategy(
        generation_mode=mode, path_parameters=fixed
    )

    @given(cases)
    @bounded(count)
    def ask_it(case: schemathesis.Case) -> None:
        # A list of no values is sent as nothing at all: what is wrong with it never arrives.
        assume([] not in (case.query or {}).values())
        headers = {"x-api-key": "acme"}
        response = case.call(headers=headers)
        if response.status_code == 413:
            # Whatever is wrong with it is not looked for in a body of that size.
            assert len(response.request.body or b"") > inputs.BODY_LIMIT
            return
        case.validate_response(
            response,
            excluded_checks=_NOT_CHECKED,
            headers=headers,
            transport_kwargs={"headers": headers},
        )

    ask_it()


_WHOLE = {"count", "running", "jitter_seconds", "priority", "seconds", "tolerance_seconds"}
_WHOLE |= {"version"}


def _with_meaning(body: Any) -> Any:
    """The body with URLs, rules and times in place that a schema alone does not come up with."""
    if not isinstance(body, dict):
        return body
    for batch in ("requests", "seeds", "hosts"):
        if batch in body:
            return {**body, batch: [_with_meaning(entry) for entry in body[batch]]}
    meaning = {
        "client_id": uuid4().hex,
        "url": "https://example.org/a?b=c",
        "urls": ["https://example.org/", "https://example.org/2"],
        "rule": "page",
        "cron": "*/5 3 * * 1",
        "time_zone": "Europe/Berlin",
        "starts_at": "2026-03-01T08:00:00Z",
    }
    # A schema takes 7.0 for a whole number, and so does nobody else.
    whole = {
        name: int(value)
        for name, value in body.items()
        if name in _WHOLE and isinstance(value, float) and value.is_integer()
    }
    return {**body, **whole, **{name: value for name, value in meaning.items() if name in body}}


def _of_offers(body: Any) -> Any:
    """The body of an offer of seeds, in which only a POST or a PUT has a body."""
    sensible = _with_meaning(body)
    for seed in sensible["seeds"]:
        if seed.get("body") is not None:
            seed["method"] = "POST"
    return sensible


def _of_dead_letters(body: dict[str, Any]) -> dict[str, Any]:
    """The body of a change of many dead letters, with one of the two ways to say which."""
    meaning = {"filter": {"reason": "PageGone"}, "rule": "current", "limit": 7, "cursor": None}
    sensible = {**body, **{name: value for name, value in meaning.items() if name in body}}
    return {**sensible, "all": "filter" not in body}


def _of_seeds(body: dict[str, Any]) -> dict[str, Any]:
    """The body of a change of many seeds, with one of the three ways to say which."""
    meaning = {"limit": 7, "cursor": None}
    sensible = {**body, **{name: value for name, value in meaning.items() if name in body}}
    sensible["all"] = False
    if body.get("seeds"):
        return {**sensible, "filter": {}}
    return {**sensible, "seeds": [], "filter": {"segment": "2026-03-01", "state": "failed"}}


def _of_spiders(body: dict[str, Any]) -> dict[str, Any]:
    """A spider that crawls something; the rest is as it came."""
    values = {"page": {"first": 1, "last": 100}, "zone": ["north", "south"]}
    start = {"pattern": "https://example.org/{zone}/{page}?of={kind}", "values": values}
    sensible = {**body, "rule": "page", "start": start}
    if body.get("pool") is not None:
        sensible["pool"] = "main"
    # To a schema 5.0 is a whole number; here it is none.
    whole = {"priority": 7, "test_url": "https://example.org/ping", "bytes_per_second_above": 9}
    sensible |= {name: value for name, value in whole.items() if name in body}
    if body.get("link"):
        link = body["link"]
        sensible["link"] = {**link, **{name: whole[name] for name in whole if link.get(name)}}
    return sensible


def _of_trials(body: dict[str, Any]) -> dict[str, Any]:
    """The body of a trial, on a page that is sent along."""
    page = {"body": "<title>one</title>", "url": "https://example.org/"}
    kind = (body.get("page") or {}).get("content_type")
    sensible = {**body, "rule": "page", "url": None, "depth": 3}
    return {**sensible, "page": page if kind is None else {**page, "content_type": kind}}


def _of_schedules(body: dict[str, Any]) -> dict[str, Any]:
    """A schedule of a rule on a list of URLs: one of the three ways to say what it runs."""
    others = {"start", "spider", "version", "values"}
    sensible = _with_meaning({"rule": "", "urls": [], **body})
    if "segment" in body:  # those of the biz are a day long, and a schedule's are no longer
        sensible["segment"] = "day"
    return {name: value for name, value in sensible.items() if name not in others}


def _of_subscriptions(body: dict[str, Any]) -> dict[str, Any]:
    """A subscription to feeds: no stage of the tests has channels, or lets anybody deliver."""
    feeds = ["https://example.org/feed", "https://example.org/feed?all"]
    sensible = {**body, "kind": "rss", "filter": "climate -sport", "feeds": feeds}
    if body.get("active"):
        sensible["active"] = {**body["active"], "time_zone": "Europe/Berlin"}
    if body.get("quotas"):
        sensible["quotas"] = [{"unit": "items", "most": 500, "per": "day"}]
    others = {"channel", "deliver", "revision"}
    return {name: value for name, value in sensible.items() if name not in others}


def _of_filter_trials(body: dict[str, Any]) -> dict[str, Any]:
    """A trial of a filter, on items that are as they came."""
    sensible = {name: value for name, value in body.items() if name != "subscription"}
    return {**sensible, "filter": 'climate ("green deal" OR #cop31)'}


def _of_jobs(body: dict[str, Any]) -> dict[str, Any]:
    """The body of a job of its own, of a pattern."""
    start = {"pattern": "https://example.org/{kind}/{page}", "values": {"page": {"last": 3}}}
    kept = {"priority": 7} if "priority" in body else {}
    return {**kept, "start": start, "values": {"kind": "new"}, "name": uuid4().hex}


#: What changes one thing once is no matter of bodies.
_ONCE = {"replayDeadLetter", "retryJob", "changeRequestState", "changeRequestStates"}
_ONCE |= {"setJobQuotas", "acknowledgeIncident"}
#: Of tenants operators alone may change anything, and a tenant is added once.
_ONCE |= {"addTenant", "setTenant", "suspendTenant", "resumeTenant", "rotateTenantKey"}
_ONCE |= {"removeTenant"}
#: Whatever fits a path of the configuration is most often no document's.
_ONCE |= {"changeConfig", "rollBackConfig"}
_TAKING_BODIES = [route for route in ROUTES if route.body and route.operation not in _ONCE]


@pytest.mark.parametrize("count", _COUNTS)
@pytest.mark.parametrize("route", _TAKING_BODIES, ids=lambda route: route.operation)
def test_whatever_fits_the_document_and_means_something_is_accepted(world, schema, route, count):
    named = {"name": "nightly", "spider": "all", "subscription": "all"}
    named["incident"] = an_open_incident(world)
    place = {"biz": "docs", **{at: name for at, name in named.items() if f"{{{at}}}" in route.path}}

    @given(schema[route.path][route.method].as_strategy(path_parameters=place))
    @bounded(count)
    def ask_it(case: schemathesis.Case) -> None:
        if route.operation.endswith("DeadLetters"):
            case.body = _of_dead_letters(case.body)
        elif route.operation in {"releaseSeeds", "forgetSeeds"}:
            case.body = _of_seeds(case.body)
        elif route.operation == "tryRule":
            case.body = _of_trials(case.body)
        elif route.operation == "putSpider":
            case.body = _of_spiders(case.body)
        elif route.operation in {"startJob", "forecastJob"}:
            case.body = _of_jobs(case.body)
        elif route.operation == "putSchedule":
            case.body = _of_schedules(case.body)
        elif route.operation == "putSubscription":
            case.body = _of_subscriptions(case.body)
        elif route.operation == "redeliverMany":
            case.body = {"subscription": "all"}
        elif route.operation == "tryFilter":
            case.body = _of_filter_trials(case.body)
        elif route.operation == "offerSeeds":
            case.body = _of_offers(case.body)
        else:
            case.body = _with_meaning(case.body)
        headers = {"x-api-key": "acme"}
        if "Idempotency-Key" in (case.headers or {}):
            headers["Idempotency-Key"] = uuid4().hex
        answer = case.call_and_validate(headers=headers)
        assert answer.status_code in {200, 201, 202}, answer.text
        if route.operation == "submitRequests" and "id" in answer.json():
            found = ask(world, "GET", f"/v1/docs/requests/{answer.json()['id']}")
            sent = {
                name: value
                for name, value in case.body.items()
                if value is not None and name != "client_id"  # yours, not the request's
            }
            assert {name: found.json[name] for name in sent} == sent

    ask_it()
