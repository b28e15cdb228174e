"""Sample handlers as functions of the local Lambda."""

import os
import sys
from pathlib import Path

from infra.local.lambda_process import LocalFunction

HERE = Path(__file__).parent
VARIABLES = {
    "PATH": os.environ["PATH"],
    "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path]),
    "SAMPLE": "from the fleet",
}


def function(handler, **options):
    settings = {"timeout_seconds": 30, "memory_mb": 256, "limit": 2, "variables": VARIABLES}
    return LocalFunction(
        name=f"local-{handler}", handler=f"sample_handlers.{handler}", **settings | options
    )


def holding(tmp_path, name):
    pipe = tmp_path / f"{name}.pipe"
    os.mkfifo(pipe)
    return {"pipe": str(pipe), "begun": str(tmp_path / f"{name}.begun")}


def is_alive(pid):
    """Tell whether a process with this id exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
