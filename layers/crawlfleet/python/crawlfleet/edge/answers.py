"""Answers as API Gateway takes them: a view, a page of a list, a problem."""

import json
import math
from collections.abc import Callable
from typing import Final

import msgspec
from aws_lambda_powertools.event_handler import Response

from crawlfleet.edge import views
from crawlfleet.edge.operations import Page
from crawlfleet.edge.problems import (
    CONTENT_TYPE,
    RETRY_AFTER_SECONDS,
    ProblemDocument,
    document_of,
)
from crawlfleet.errors import BacklogFullError

JSON: Final = "application/json"
#: A synchronous Lambda invocation answers with 6 MB at most, or not at all.
ANSWER_LIMIT: Final = 6_000_000


def shown(status: int, view: views.View, headers: dict[str, str] | None = None) -> Response[str]:
    """A view."""
    # Powertools tells a list of values from one by its type, so its signature is the wider one.
    return Response(status, JSON, msgspec.json.encode(view).decode(), {**(headers or {})})


def page_of(
    limit: int, ask: Callable[[int], Page], view: Callable[[Page], views.View]
) -> Response[str]:
    """A page that the answer of a Lambda can hold: one of fewer entries where they are large."""
    while True:
        page = ask(limit)
        answer = shown(200, view(page))
        if len(page.items) <= 1 or _fits(str(answer.body)):
            return answer
        limit = len(page.items) // 2


def problem_of(error: Exception) -> Response[str]:
    """An error, with when to come back where that helps."""
    problem = document_of(error)
    headers: dict[str, str | list[str]] = {}
    if problem.status in (429, 503):
        headers["Retry-After"] = str(_retry_after(error))
    return Response(problem.status, CONTENT_TYPE, _written(problem), headers)


def _retry_after(error: Exception) -> int:
    if isinstance(error, BacklogFullError):
        return max(1, math.ceil(error.retry_after_seconds))
    return RETRY_AFTER_SECONDS


def _written(problem: ProblemDocument) -> str:
    try:
        return msgspec.json.encode(problem).decode()
    except UnicodeEncodeError:  # it quotes half a surrogate pair, which UTF-8 cannot carry
        return json.dumps(msgspec.to_builtins(problem))


def _fits(body: str) -> bool:
    """Whether a body, as the string it becomes in the answer's JSON, is within the limit.

    A character is twelve there at most; only where that could be too much is it counted.
    """
    return len(body) * 12 <= ANSWER_LIMIT or len(json.dumps(body)) <= ANSWER_LIMIT
