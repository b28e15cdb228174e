"""The program of the command line, in this process."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tests.kit.cli import run


def program(captured: Any) -> Callable[..., SimpleNamespace]:
    """Return a function that runs the CLI and returns its output and exit code."""

    def call(*arguments: str) -> SimpleNamespace:
        captured.readouterr()
        code = run(arguments)
        out, err = (each.decode() for each in captured.readouterr())
        return SimpleNamespace(
            code=code,
            out=out,
            err=err,
            lines=out.splitlines(),
            json=lambda: json.loads(out),
            rows=lambda: [json.loads(line) for line in out.splitlines()],
        )

    return call
