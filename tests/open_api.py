"""The OpenAPI document as a judge: of answers, and of calls that were carried out."""

import json
import re
from functools import cache
from typing import Any, Final
from urllib.parse import unquote

from jsonschema import Draft202012Validator

PROBLEM: Final = "application/problem+json"
#: What no operation documents, because no operation answers it: there is no such route or method.
NO_ROUTE: Final = frozenset({404, 405})

_PLAIN: Final = "text/plain"
_NUMBER: Final = re.compile(r"-?[0-9]{1,18}\Z")


class ApiDocument:
    """The OpenAPI document of the API."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self._validator = cache(self._make)
        self._patterns = [
            (method, re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path) + "/*"), operation)
            for (method, path), operation in self.operations.items()
        ]

    @property
    def operations(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Operations by method and path template."""
        return {
            (method.upper(), path): operation
            for path, methods in self.content["paths"].items()
            for method, operation in methods.items()
        }

    def operation(self, method: str, path: str) -> tuple[dict[str, Any], dict[str, str]] | None:
        """The operation that a call is, and what stands in its path; None if it is none."""
        for known, pattern, operation in self._patterns:
            if known == method and (match := pattern.fullmatch(path)):
                return operation, {name: unquote(text) for name, text in match.groupdict().items()}
        return None

    def hold_answer(self, method: str, path: str, status: int, kind: str, text: str) -> None:
        """Refuse an answer that the document does not describe; ``kind`` is its media type."""
        found = self.operation(method, path)
        if found is None:
            assert status in NO_ROUTE, f"{status} where there is no route"
            assert kind == PROBLEM, f"{kind} where there is no route"
            self._hold({"$ref": "#/components/schemas/ProblemDocument"}, json.loads(text))
            return
        responses = found[0]["responses"]
        assert str(status) in responses, f"{status} is not documented"
        content = responses[str(status)].get("content")
        if content is None:
            assert text == "", f"{status} has no content, and not {text}"
            return
        assert kind in content, f"{kind!r} is not documented of {status}"
        self._hold(content[kind]["schema"], text if kind == _PLAIN else json.loads(text))

    def hold_call(self, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        """Refuse a call that does not fit the document, and that was carried out all the same."""
        found = self.operation(method, path)
        assert found is not None, "there is no such call"
        operation, places = found
        known = {
            each["name"]: each["schema"]
            for each in operation["parameters"]
            if each["in"] != "header"
        }
        for name, text in {**query, **places}.items():
            assert name in known, f"there is no parameter {name!r}"
            whole = known[name]["type"] == "integer" and _NUMBER.match(text)
            self._hold(known[name], int(text) if whole else text)
        taken = operation.get("requestBody")
        if taken and (body or taken["required"]):
            self._hold(taken["content"]["application/json"]["schema"], json.loads(body))

    def _hold(self, schema: dict[str, Any], body: Any) -> None:
        found = self._validator(json.dumps(schema)).iter_errors(body)
        errors = "; ".join(f"{error.json_path}: {error.message}" for error in found)
        assert not errors, f"{errors}, in {body}"

    def _make(self, schema: str) -> Draft202012Validator:
        return Draft202012Validator(
            {**json.loads(schema), "components": self.content["components"]}
        )
