"""Imports of a handler are exempt from garbage collection, for good: each test has a process."""

import os
import subprocess
import sys

import pytest

_REPORTED = """
import gc
looks = []
gc.callbacks.append(lambda phase, _: looks.append(phase))
from crawlfleet.apps.process import all_of_it_stays
{before}
del looks[:]
try:
    with all_of_it_stays():
        kept = [[] for _ in range(100_000)]
        during = len(looks)
        {within}
except ZeroDivisionError:
    pass
enabled = gc.isenabled()
more = [[] for _ in range(5_000)]
print(during, gc.get_freeze_count() > 100_000, enabled, len(looks) > 0)
"""


def reported_by(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": os.pathsep.join(sys.path), "AWS_DEFAULT_REGION": "eu-central-1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.split()


def reported(before: str = "", within: str = "") -> list[str]:
    return reported_by(_REPORTED.format(before=before, within=within))


def test_nothing_is_looked_through_within_and_what_was_made_never_again():
    during, stays, enabled, looked_afterwards = reported()

    assert (during, stays) == ("0", "True")
    assert (enabled, looked_afterwards) == ("True", "True")


def test_a_failed_import_leaves_the_collector_as_it_was():
    _, _, enabled, looked_afterwards = reported(within="1 / 0")

    assert (enabled, looked_afterwards) == ("True", "True")


def test_who_has_switched_the_collector_off_finds_it_off():
    _, _, enabled, looked_afterwards = reported(before="gc.disable()")

    assert (enabled, looked_afterwards) == ("False", "False")


@pytest.mark.parametrize("name", ["id_issuer", "router", "consumer", "scheduler", "monitor"])
def test_each_handler_is_imported_so(name: str):
    program = f"import gc, functions.{name}.handler; print(gc.get_freeze_count(), gc.isenabled())"

    frozen, enabled = reported_by(program)

    assert int(frozen) > 10_000
    assert enabled == "True"
