"""The OpenAPI document, made from the table of routes: it cannot say what the API does not do."""

import re
from functools import lru_cache
from typing import Any, Final

import msgspec
from aws_lambda_powertools.event_handler import Response

from crawlfleet import __version__
from crawlfleet.api.requests import SubmittedView
from crawlfleet.api.responses import CONTENT_TYPE, JSON, ProblemDocument
from crawlfleet.api.routes import all_routes
from crawlfleet.api.routing import Call, Route
from crawlfleet.crawling.frontier.segments import NAME

_REFERENCES: Final = "#/components/schemas/{name}"
_PATH_PARAMETERS: Final = {
    "biz": ("The business type.", r"^[a-z][a-z0-9-]{0,31}$"),
    "id": ("A request's id.", r"^([0-9]{1,19}|[0-9a-f]{24}|[0-9a-f]{32})$"),
    "name": ("A schedule's name.", r"^[a-z][a-z0-9-]{0,31}$"),
    "spider": ("A spider's name.", r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"),
    "job": ("A job's name.", r"^[A-Za-z0-9._-]{1,64}$"),
    "segment": ("A segment's name.", f"^{NAME}$"),
    "key": ("The key of a page.", r"^[0-9a-f]{32}$"),
}
_TITLES: Final = {
    400: "A field is wrong; each is named, nothing of it is stored.",
    403: "The API key belongs to no tenant, or not to an operator where only those may ask."
    " (Without a valid key API Gateway answers by itself.)",
    404: "There is no such thing.",
    409: "The state forbids it.",
    413: "The body is too large.",
    422: "The key, or a client id, stands for another submission.",
    429: "The biz has as much as it may; nothing is stored; come back after Retry-After.",
    503: "A part does not answer; try again after Retry-After.",
}
_RETRY_AFTER: Final = {
    "description": "Seconds after which it makes sense to ask again.",
    "schema": {"type": "integer", "minimum": 1},
}


@lru_cache(maxsize=1)
def document() -> bytes:
    """The document as JSON (OpenAPI 3.1)."""
    paths: dict[str, dict[str, Any]] = {}
    for route in all_routes():
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    shapes = {
        view for route in all_routes() for view in (*route.answers.values(), *route.body) if view
    }
    _, components = msgspec.json.schema_components(
        [*sorted(shapes, key=lambda shape: shape.__name__), ProblemDocument, SubmittedView],
        ref_template=_REFERENCES,
    )
    components = _portable(components)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "Crawlfleet",
                "version": __version__,
                "description": "Submit pages, follow them, take their records away.",
            },
            "paths": paths,
            "components": {
                "schemas": components,
                "securitySchemes": {
                    "apiKey": {"type": "apiKey", "in": "header", "name": "x-api-key"}
                },
            },
            "security": [{"apiKey": []}],
        }
    )


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
            "content": {"application/json": {"schema": _one_of(route.body)}},
        }
    if route.open:
        operation["security"] = []
    return operation


def _responses(route: Route) -> dict[str, Any]:
    responses = {str(status): _answer(route, status) for status in route.answers}
    for status in sorted(set(route.problems)):
        # /health answers 503 in two shapes: what it found, or that it could not even look.
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
    elif status == 200:
        answer["content"] = {"application/json": {"schema": {"type": "object"}}}
    if route.reported:
        answer["headers"] = {
            header.name: {"description": header.meaning, "schema": header.shape}
            for header in route.reported
        }
    return answer


def _path_parameter(name: str) -> dict[str, Any]:
    meaning, pattern = _PATH_PARAMETERS[name]
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": meaning,
        "schema": {"type": "string", "pattern": pattern},
    }


def _portable(schema: Any) -> Any:
    r"""The schema with its patterns in ECMAScript's dialect, which has no ``\Z``."""
    if isinstance(schema, dict):
        return {
            name: inner.replace(r"\Z", "$")
            if name == "pattern" and isinstance(inner, str)
            else _portable(inner)
            for name, inner in schema.items()
        }
    return [_portable(inner) for inner in schema] if isinstance(schema, list) else schema


def _one_of(shapes: tuple[type, ...]) -> dict[str, Any]:
    if len(shapes) == 1:
        return _reference(shapes[0])
    return {"anyOf": [_reference(shape) for shape in shapes]}


def _reference(shape: type) -> dict[str, str]:
    return {"$ref": _REFERENCES.format(name=shape.__name__)}


def _get(_: Call) -> Response[str]:
    return Response(200, JSON, document().decode())


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        operation="getOpenApi",
        handler=_get,
        method="GET",
        path="/openapi.json",
        summary="This document.",
        answers={200: None},
        problems=(400,),
        open=True,
    ),
)
