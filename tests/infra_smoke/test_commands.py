"""Commands that take their time end in time, with their children, and say why they failed."""

import os
import sys
from pathlib import Path

import pytest

from infra.localstack.commands import Command, run
from infra.steps import StepError
from tests.waiting import eventually


def command(tmp_path, script):
    return Command("it", ["/bin/sh", "-c", script], tmp_path / "log", dict(os.environ), tmp_path)


def test_a_command_that_fails_is_quoted(tmp_path):
    with pytest.raises(StepError, match=r"(?s) 3; .*\nthe reason") as it:
        command(tmp_path, "echo the reason >&2; exit 3").wait(60, "mend it")

    assert it.value.do == "mend it"


def test_something_is_done_while_it_runs(tmp_path):
    made = tmp_path / "made"
    one = command(tmp_path, f"while [ ! -e {made} ]; do sleep 0.01; done; echo over")

    one.wait(60, "", made.touch)

    assert one.last_line() == "over"


def test_what_is_done_meanwhile_may_fail_and_the_command_ends_with_it(tmp_path):
    one = command(tmp_path, "echo $$; exec sleep 600")

    def meanwhile():
        if one.last_line().isdecimal():
            raise StepError("no", "")

    with pytest.raises(StepError, match="no"):
        one.wait(60, "", meanwhile)

    assert _gone(int(one.last_line()))


def test_a_command_that_takes_too_long_ends_with_its_children(tmp_path):
    child = (
        f"{sys.executable} -c 'import os, time; print(os.getpid(), flush=True); time.sleep(600)'"
    )
    one = command(tmp_path, f"{child} & wait")
    eventually(lambda: one.last_line().isdecimal())
    pid = int(one.last_line())

    with pytest.raises(StepError, match="0 s"):
        one.wait(0, "wait longer")

    eventually(lambda: _gone(pid))


def _gone(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def test_run_waits_for_the_end(tmp_path):
    run(
        "it",
        ["/bin/sh", "-c", "echo done"],
        tmp_path / "log",
        {},
        tmp_path,
        seconds=60,
        do="",
    )

    assert (tmp_path / "log").read_text() == "done\n"
