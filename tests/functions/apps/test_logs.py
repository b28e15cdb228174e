"""Tests of a function's log lines as CloudWatch receives them."""

import json
import subprocess
import sys

#: Lambda's runtime hangs a handler of its own at the root, and it prints messages without fields.
PROGRAM = """
import logging, sys

logging.root.addHandler(logging.StreamHandler(sys.stdout))

from tests.kit.apps import Parts
from tests.kit.kernel import PRODUCT, Settings, warn

Parts(Settings(stage="test"), "router")
adapter = logging.getLogger(f"{PRODUCT}.of.some.module")
adapter.warning("a part is not well", extra={"part": "redis", "reason": "refused"})
adapter.debug("a detail")
warn("it went on", ValueError("why"))
"""


def test_what_adapters_log_is_one_line_with_its_fields_and_the_functions_name():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    adapter, wiring = map(json.loads, done.stdout.splitlines())
    assert (adapter["level"], adapter["service"]) == ("WARNING", "router")
    assert (adapter["part"], adapter["reason"]) == ("redis", "refused")
    assert (wiring["message"], wiring["reason"]) == ("it went on", "why")
