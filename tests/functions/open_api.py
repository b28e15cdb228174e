"""The OpenAPI document as a judge of answers."""

import json
import re
from functools import cache
from typing import Any, Self

from jsonschema import Draft202012Validator

from tests.functions.http import Answer, ask
from tests.functions.world import World

PROBLEM = "application/problem+json"
#: What no operation documents, because no operation answers it: there is no such route or method.
NO_ROUTE = frozenset({404, 405})


class Document:
    """``/openapi.json`` as it was answered."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self._validator = cache(self._make)

    @classmethod
    def of(cls, world: World) -> Self:
        answer = ask(world, "GET", "/openapi.json", key=None)
        assert answer.status == 200
        return cls(answer.json)

    @property
    def operations(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Operations by method and path template."""
        return {
            (method.upper(), path): operation
            for path, methods in self.content["paths"].items()
            for method, operation in methods.items()
        }

    def operation(self, method: str, path: str) -> dict[str, Any] | None:
        for (known, template), operation in self.operations.items():
            if known == method and re.fullmatch(re.sub(r"{\w+}", "[^/]+", template) + "/*", path):
                return operation
        return None

    def check(self, method: str, path: str, answer: Answer) -> None:
        """Refuse an answer that the document does not describe."""
        operation = self.operation(method, path)
        if operation is None:
            assert answer.status in NO_ROUTE
            assert answer.headers["Content-Type"] == PROBLEM
            self._hold({"$ref": "#/components/schemas/ProblemDocument"}, answer.json)
            return
        responses = operation["responses"]
        assert str(answer.status) in responses, f"{answer.status} is not documented"
        content = responses[str(answer.status)].get("content")
        if content is None:
            assert answer.text == ""
            return
        self._hold(content[answer.headers["Content-Type"]]["schema"], answer.json)

    def _hold(self, schema: dict[str, Any], body: Any) -> None:
        errors = [error.message for error in self._validator(json.dumps(schema)).iter_errors(body)]
        assert errors == [], body

    def _make(self, schema: str) -> Draft202012Validator:
        return Draft202012Validator(
            {**json.loads(schema), "components": self.content["components"]}
        )
