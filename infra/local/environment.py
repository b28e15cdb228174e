"""Run a Lambda execution environment: load a handler once, then handle one event at a time.

``python -m infra.local.environment functions.router.handler.lambda_handler``

Events come in and answers go out as lines of JSON over the standard input and output that the
process was given. Before the handler is imported, standard output is turned to standard error,
which is the function's log, so that a handler may print. When the input closes, whatever the
handler is doing, the process ends: nobody waits for an answer any more.

A ready line goes out first: ``{"ready": true}``, or the error that the import ended in.
"""

import importlib
import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TextIO

from infra.local.aws_server import ACCOUNT, REGION

#: Lambda's own names for errors of the runtime.
IMPORT_ERROR: Final = "Runtime.ImportModuleError"
MARSHAL_ERROR: Final = "Runtime.MarshalError"


@dataclass(frozen=True, slots=True)
class LambdaContext:
    """The context that Lambda hands a handler with its invocation."""

    function_name: str
    aws_request_id: str
    memory_limit_in_mb: int
    deadline: float
    function_version: str = "$LATEST"

    @property
    def invoked_function_arn(self) -> str:
        """ARN of the function."""
        return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{self.function_name}"

    @property
    def log_group_name(self) -> str:
        """Return the name of the log group on AWS."""
        return f"/aws/lambda/{self.function_name}"

    @property
    def log_stream_name(self) -> str:
        """Return the log stream's name, which each environment has of its own, as on AWS."""
        return os.environ.get("AWS_LAMBDA_LOG_STREAM_NAME", "local")

    def get_remaining_time_in_millis(self) -> int:
        """Time until the invocation is ended by force."""
        return max(0, int((self.deadline - time.monotonic()) * 1000))


def error_document(error: BaseException) -> dict[str, Any]:
    """Describe an error as Lambda's Python runtime does."""
    return {
        "errorMessage": str(error),
        "errorType": type(error).__name__,
        "requestId": "",
        "stackTrace": traceback.format_tb(error.__traceback__),
    }


def load(handler: str) -> Callable[[Any, Any], Any]:
    """Import ``package.module.function``."""
    module, _, function = handler.rpartition(".")
    loaded: Callable[[Any, Any], Any] = getattr(importlib.import_module(module), function)
    return loaded


def answer(handler: Callable[[Any, Any], Any], invocation: dict[str, Any]) -> dict[str, Any]:
    """Run one event; the answer holds ``payload``, or ``error`` in Lambda's words."""
    context = LambdaContext(
        function_name=invocation["function_name"],
        aws_request_id=invocation["request_id"],
        memory_limit_in_mb=invocation["memory_mb"],
        deadline=time.monotonic() + invocation["timeout_seconds"],
    )
    try:
        result = handler(invocation["event"], context)
    except Exception as error:  # noqa: BLE001  whatever a handler raises is its caller's to see
        traceback.print_exc()
        return {"error": error_document(error) | {"requestId": context.aws_request_id}}
    try:
        return {"payload": json.dumps(result)}
    except (TypeError, ValueError) as error:
        message = f"Unable to marshal response: {error}"
        document = {"errorMessage": message, "errorType": MARSHAL_ERROR, "stackTrace": []}
        return {"error": document | {"requestId": context.aws_request_id}}


def _own_output() -> TextIO:
    """Keep the pipe to the service for answers; what the handler prints goes to the log."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a real stream here
    return answers


def _read_events(events: "queue.Queue[str]") -> None:
    """Hand events to the main thread; end the process when there will be no more."""
    for line in sys.stdin:
        events.put(line)
    os._exit(0)


def main(handler_name: str) -> None:
    """Load the handler, then answer events until the input closes."""
    answers = _own_output()

    def send(document: dict[str, Any]) -> None:
        answers.write(json.dumps(document) + "\n")
        answers.flush()

    events: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read_events, args=(events,), daemon=True).start()
    try:
        handler = load(handler_name)
    except Exception as error:  # noqa: BLE001  whatever an import raises is the caller's to see
        traceback.print_exc()
        send({"error": error_document(error) | {"errorType": IMPORT_ERROR}})
        return
    send({"ready": True})
    while True:
        send(answer(handler, json.loads(events.get())))


if __name__ == "__main__":
    main(sys.argv[1])
