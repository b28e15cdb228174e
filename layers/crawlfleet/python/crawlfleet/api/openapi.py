"""The OpenAPI document, made from the routes: it cannot describe what the API does not do."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import msgspec
from aws_lambda_powertools.event_handler import Response

from crawlfleet import __version__
from crawlfleet.api.meanings.examples import EXAMPLES
from crawlfleet.api.meanings.fields import meaning_of
from crawlfleet.api.requests import SubmittedView
from crawlfleet.api.responses import CONTENT_TYPE, JSON
from crawlfleet.api.routing import Call, Route, Routes, all_routes
from crawlfleet.crawling.frontier.segments import NAME
from crawlfleet.wire import ProblemDocument

_REFERENCES: Final = "#/components/schemas/{name}"
_PATH_PARAMETERS: Final = {
    "biz": ("The business type.", r"^[a-z][a-z0-9-]{0,31}$", "shop"),
    "id": (
        "A request's id.",
        r"^([0-9]{1,19}|[0-9a-f]{24}|[0-9a-f]{32})$",
        "7398126548361478144",
    ),
    "incident": ("An incident's id.", r"^[0-9a-f]{24}$", "3f0c2a9d5be147c88d0a61f2"),
    "name": ("A schedule's name.", r"^[a-z][a-z0-9-]{0,31}$", "nightly"),
    "spider": ("A spider's name.", r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", "catalogue"),
    "subscription": ("A subscription's name.", r"^[a-z][a-z0-9-]{0,31}$", "climate"),
    "callback": (
        "The end of the address that a hub was told.",
        r"^[0-9a-f]{40}$",
        "5197b3c9a83a1a4e0892847197b0cd70a04b9992",
    ),
    "delivery": (
        "The id of a message.",
        r"^[0-9a-f]{64}$",
        "5197b3c9a83a1a4e0892847197b0cd70a04b9992efcc45d25419cf21fab933d9",
    ),
    "job": ("A job's name.", r"^[A-Za-z0-9._-]{1,64}$", "nightly.20261121T030000Z"),
    "tenant": ("A tenant's name.", r"^[a-z][a-z0-9-]{0,31}$", "acme"),
    "segment": ("A segment's name.", f"^{NAME}$", "2026-11-21"),
    "key": ("The key of a page.", r"^[0-9a-f]{32}$", "0123456789abcdef0123456789abcdef"),
}
_TITLES: Final = {
    400: "A field is wrong; each is named, nothing of it is stored.",
    403: "The API key belongs to no tenant, or not to an operator where only those may ask."
    " (Without a valid key API Gateway answers by itself.)",
    404: "There is no such thing.",
    409: "The state forbids it.",
    413: "The body is too large.",
    422: "The key, or a client id, stands for another submission.",
    429: "The biz or its tenant has what it may; nothing is stored; come back after Retry-After.",
    503: "A part does not answer; try again after Retry-After.",
}
_RETRY_AFTER: Final = {
    "description": "Seconds after which it makes sense to ask again.",
    "schema": {"type": "integer", "minimum": 1},
}


#: Names of schemas that are not their structures' names: generated clients know them by these. Of
#: the other structures in ``wire`` it is the name with ``View`` for ``Page`` or ``Answer``.
_NAMES: Final = {
    "BizState": "LaneView",
    "DeadLetter": "WholeLetterView",
    "DeadLettersPage": "LettersView",
    "DeadLetterSummary": "LetterView",
    "FetchedPage": "SeenView",
    "FetchFailure": "FailureView",
    "FollowedLink": "LinkView",
    "HostState": "HostView",
    "Job": "WholeJobView",
    "JobSummary": "JobView",
    "OffersAnswer": "OfferedView",
    "PartState": "PartView",
    "PoolWorkers": "PoolView",
    "Problem": "Problem",
    "ProblemDocument": "ProblemDocument",
    "RequestStatus": "RequestView",
    "Running": "DeepView",
    "SegmentTotals": "SegmentView",
    "SiteAnswer": "AnswerView",
    "StartedJob": "StartedView",
    "SubmissionAnswer": "EntryView",
    "TimelineEvent": "EventView",
    "TriedRule": "TriedView",
    "WorkerState": "WorkerView",
}
#: Fields that the API may leave out, by schema; the defaults of others are for older answers.
_OPTIONAL: Final[dict[str, frozenset[str]]] = {
    "EntryView": frozenset({"id", "state", "repeated", "error"}),
    "HealthView": frozenset({"deep"}),
    "OfferView": frozenset({"segment", "key", "why", "error"}),
    "ProblemDocument": frozenset({"errors", "limit", "used", "allowed"}),
    "RequestView": frozenset({"job", "priority", "pool"}),
    "TransitionView": frozenset({"state", "repeated", "error"}),
}
#: Fields that only older answers leave out, so that clients take null for them.
_NEVER_NULL: Final[dict[str, frozenset[str]]] = {
    "ExplanationView": frozenset({"flag"}),
    "LetterView": frozenset({"queued_at"}),
    "RecordView": frozenset({"stored_at"}),
    "RequestView": frozenset({"flag", "queued_at"}),
    "SeedView": frozenset({"offered_at", "due_at"}),
    "StatsView": frozenset({"submitted"}),
    "WholeJobView": frozenset({"ledger", "progress"}),
    "WholeLetterView": frozenset({"queued_at"}),
}
#: Rates are described as an object of numbers, without the names of their spans.
_SPEEDS: Final = {"type": "object", "additionalProperties": {"type": "number"}}


@lru_cache(maxsize=2)
def document(base: str = "/") -> bytes:
    """Return the document as JSON (OpenAPI 3.1); paths begin below ``base``, such as a stage."""
    paths: dict[str, dict[str, Any]] = {}
    for route in all_routes():
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    schemas, renamed = _schemas()
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Crawlfleet",
                "version": __version__,
                "description": "Submit pages, follow them, take their records away.",
            },
            "servers": [{"url": base, "description": "Where this document came from."}],
            "paths": _portable(paths, renamed),
            "components": {
                "schemas": {name: _explained(name, schema) for name, schema in schemas.items()},
                "securitySchemes": {
                    "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"}
                },
            },
            "security": [{"apiKey": []}],
        }
    )


#: What only those can follow who have the product's source: rows of its specification, modules.
_INTERNAL: Final = re.compile(r" \((?:SPEC\.md [^)]*|[a-z_]+(?:\.[a-z_]+)+)\)")


def _explained(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Say of each field what it means; leave out what readers of the document cannot follow."""
    said: dict[str, Any] = {}
    if "description" in schema:
        said["description"] = _INTERNAL.sub("", schema["description"]).replace("``", "`")
    if "properties" in schema:
        said["properties"] = {
            field: {**value, "description": meaning_of(name, field)}
            for field, value in schema["properties"].items()
        }
    return schema | said


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.operation,
        "summary": route.summary,
        "parameters": [_path_parameter(name) for name in re.findall(r"{(\w+)}", route.path)]
        + [
            {
                "name": parameter.name,
                "in": place,
                "description": parameter.meaning,
                "schema": parameter.shape,
            }
            for place, parameters in (("query", route.parameters), ("header", route.headers))
            for parameter in parameters
        ],
        "responses": _responses(route),
    }
    if route.body:
        operation["requestBody"] = {
            "required": route.body_required,
            "content": {
                "application/json": {"schema": _one_of(route.body)} | _examples(route.operation)
            },
        }
    if route.open:
        operation["security"] = []
    return operation


def _examples(operation: str) -> dict[str, Any]:
    found = EXAMPLES.get(operation, {})
    examples = {name: {"value": value} for name, value in found.items()}
    return {"examples": examples} if examples else {}


def _responses(route: Route) -> dict[str, Any]:
    responses = {str(status): _answer(route, status) for status in route.answers}
    for status in sorted(set(route.problems)):
        # /health answers 503 in two shapes: its own, or a problem where it could not be checked.
        response = responses.setdefault(str(status), {"description": _TITLES[status]})
        problem = {"schema": _reference(ProblemDocument)}
        response["content"] = {**response.get("content", {}), CONTENT_TYPE: problem}
        if status in (429, 503):
            response["headers"] = {"Retry-After": _RETRY_AFTER}
    return responses


def _answer(route: Route, status: int) -> dict[str, Any]:
    view = route.answers[status]
    answer: dict[str, Any] = {"description": route.summary}
    if route.operation == "submitRequests":
        shapes = (SubmittedView, view) if view else (SubmittedView,)
        answer["content"] = {"application/json": {"schema": _one_of(shapes)}}
    elif view is not None:
        answer["content"] = {"application/json": {"schema": _reference(view)}}
    elif status == 200 and route.is_text:
        answer["content"] = {"text/plain": {"schema": {"type": "string"}}}
    elif status == 200:
        answer["content"] = {"application/json": {"schema": {"type": "object"}}}
    if route.answer_headers:
        answer["headers"] = {
            header.name: {"description": header.meaning, "schema": header.shape}
            for header in route.answer_headers
        }
    return answer


def _path_parameter(name: str) -> dict[str, Any]:
    meaning, pattern, example = _PATH_PARAMETERS[name]
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": meaning,
        "example": example,
        "schema": {"type": "string", "pattern": pattern},
    }


def _schemas() -> tuple[dict[str, Any], dict[str, str]]:
    """Return the schemas of all bodies and answers, and new references of answers by old ones."""
    bodies = _components(body for route in all_routes() for body in route.body)
    answers = _components(shape for route in all_routes() for shape in route.answers.values())
    answers |= _components([ProblemDocument, SubmittedView])
    kept = {name for name in answers if name.endswith("View") or answers[name] == bodies.get(name)}
    names = {name: _name(name) for name in answers if name not in kept and name != "Speeds"}
    written = {new: _written(new, answers[name]) for name, new in names.items()}
    written |= {name: answers[name] for name in kept}
    renamed = {
        _REFERENCES.format(name=name): _REFERENCES.format(name=new) for name, new in names.items()
    }
    return _portable(bodies) | _portable(written, renamed), renamed


def _components(shapes: Iterable[type | None]) -> dict[str, Any]:
    known = sorted({shape for shape in shapes if shape}, key=lambda shape: shape.__name__)
    components: dict[str, Any] = msgspec.json.schema_components(known, ref_template=_REFERENCES)[1]
    return components


def _name(name: str) -> str:
    return _NAMES.get(name) or name.removesuffix("Page").removesuffix("Answer") + "View"


def _written(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Describe what the API writes: no field is left out for being a default."""
    optional = _OPTIONAL.get(name, frozenset())
    never_null = _NEVER_NULL.get(name, frozenset())
    properties = {}
    for field, value in schema["properties"].items():
        own = {key: part for key, part in value.items() if key != "format"}
        if field not in optional:
            own.pop("default", None)
        if field in never_null:
            own = own["anyOf"][0]
        if own.get("$ref") == _REFERENCES.format(name="Speeds"):
            own = _SPEEDS
        properties[field] = own
    required = [field for field in properties if field not in optional]
    return schema | {"title": name, "properties": properties, "required": required}


def _portable(schema: Any, renamed: Mapping[str, str] = MappingProxyType({})) -> Any:
    r"""Rename references, and write patterns in ECMAScript's dialect, which has no ``\Z``."""
    if isinstance(schema, dict):
        return {
            name: inner.replace(r"\Z", "$")
            if name == "pattern" and isinstance(inner, str)
            else _portable(inner, renamed)
            for name, inner in schema.items()
        }
    if isinstance(schema, list):
        return [_portable(inner, renamed) for inner in schema]
    return renamed.get(schema, schema) if isinstance(schema, str) else schema


def _one_of(shapes: tuple[type, ...]) -> dict[str, Any]:
    if len(shapes) == 1:
        return _reference(shapes[0])
    return {"anyOf": [_reference(shape) for shape in shapes]}


def _reference(shape: type) -> dict[str, str]:
    return {"$ref": _REFERENCES.format(name=shape.__name__)}


ROUTES: Final = Routes()


@ROUTES.add("GET", "/openapi.json", {200: None}, open=True)
def get_open_api(call: Call) -> Response[str]:
    """This document."""
    context = call.event.get("requestContext") or {}
    # Under its own name API Gateway has the stage in front of the path; other names have not.
    is_gateway = ".execute-api." in str(context.get("domainName"))
    whole = str(context.get("path") or "") if is_gateway else ""
    base = whole.removesuffix("/openapi.json") if whole.endswith("/openapi.json") else ""
    return Response(200, JSON, document(base or "/").decode())
