"""A recorder of each function's AWS calls, as IAM sees them: an action and its resource."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from botocore.client import BaseClient

from tests.kit.worlds.functions import World

#: An action and the name of what it is done to.
Call = tuple[str, str]
#: Operations of Lambda whose right has another name.
_NAMED = {"lambda:Invoke": "lambda:InvokeFunction"}


class Calls:
    """AWS calls by function; a call of a thread that a function started is that function's."""

    def __init__(self) -> None:
        self.made: dict[str, set[Call]] = {}
        self._outermost = ""
        self._inner: dict[int, list[str]] = {}

    @contextmanager
    def of(self, function: str) -> Iterator[None]:
        """Attribute the calls in the block to a function, which another one may have called."""
        stack = self._inner.setdefault(threading.get_ident(), [])
        outermost = self._outermost
        self._outermost = outermost or function
        stack.append(function)
        try:
            yield
        finally:
            stack.pop()
            self._outermost = outermost

    def note(self, service: str, operation: str, about: str) -> None:
        """Somebody has asked; nobody of ours where no function runs."""
        stack = self._inner.get(threading.get_ident())
        function = stack[-1] if stack else self._outermost
        if function:
            action = f"{service}:{operation}"
            self.made.setdefault(function, set()).add((_NAMED.get(action, action), about))


@contextmanager
def recorded(world: World) -> Iterator[Calls]:
    """Note all calls of boto3's clients, and those of the one that a world has for Lambda."""
    calls = Calls()
    with pytest.MonkeyPatch.context() as patch:
        call = BaseClient._make_api_call  # type: ignore[attr-defined]  # botocore's own seam

        def note(self: Any, operation: str, parameters: dict[str, Any]) -> Any:
            service = self.meta.service_model.service_name
            if service == "apigateway":
                http = self.meta.service_model.operation_model(operation).http
                calls.note(service, http["method"], _path(http["requestUri"], parameters))
                return call(self, operation, parameters)
            about = [parameters[key] for key in _SUBJECTS if key in parameters]
            for one in parameters.get("Names", [str(*about)]):
                calls.note(service, operation, one)
            return call(self, operation, parameters)

        patch.setattr(BaseClient, "_make_api_call", note)
        # All are made, also those that a world answers from memory elsewhere.
        patch.setattr("tests.kit.worlds.functions._in_memory", lambda *_: None)
        for method, operation in _LAMBDA.items():
            patch.setattr(world.lambdas, method, _noting(world, calls, method, operation))
        for name, handler in list(world.handlers.items()):
            patch.setitem(world.handlers, name, _within(calls, name, handler))
        yield calls


#: The parameter of a call that says what it is about.
_SUBJECTS = ("Name", "Path", "SecretId", "TopicArn", "FunctionName")
_LAMBDA = {
    "invoke": "Invoke",
    "get_function_concurrency": "GetFunctionConcurrency",
    "put_function_concurrency": "PutFunctionConcurrency",
}


def _path(uri: str, parameters: dict[str, Any]) -> str:
    """The path of a call of API Gateway, whose rights are verbs on paths."""
    given = {name.lower(): value for name, value in parameters.items()}
    path = uri.partition("?")[0]
    # An id's name differs in a path: `api_Key` is the parameter `apiKey`.
    return re.sub(r"\{([^}]+)\}", lambda name: given[name[1].replace("_", "").lower()], path)


def _noting(world: World, calls: Calls, method: str, operation: str) -> Callable[..., Any]:
    real = getattr(world.lambdas, method)

    def noted(**arguments: Any) -> Any:
        calls.note("lambda", operation, arguments["FunctionName"])
        return real(**arguments)

    return noted


def _within(calls: Calls, name: str, handler: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def handle(event: Any, context: Any) -> Any:
        with calls.of(name):
            return handler(event, context)

    return handle
