"""LocalStack by the scripts of a folder: found, built, started once, stopped by who started it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from infra.localstack.cdk import find_command, gaps
from infra.localstack.tools import ENV_TOOLS, Tools, find_tools
from infra.steps import StepError
from tests.waiting import eventually

_START = """
echo "start $LS_PORT $LS_PYTHONS" >> "$LS_HOME/calls"
cp /proc/self/stat "$LS_HOME/stat"
"""
_ENV = 'export AWS_ENDPOINT_URL="http://127.0.0.1:$LS_PORT" SEVERAL="two\nlines"; unset AWS_PROFILE'


@pytest.fixture
def folder(tmp_path):
    folder, home = tmp_path / "tools", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    (folder / "setup.sh").write_text('echo setup >> "$LS_HOME/calls"')
    (folder / "start.sh").write_text(_START)
    (folder / "stop.sh").write_text('echo stop >> "$LS_HOME/calls"')
    (folder / "env.sh").write_text(_ENV)
    return folder


@pytest.fixture
def environ(tmp_path):
    return {"LS_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"], "AWS_PROFILE": "mine"}


@pytest.fixture
def tools(folder, environ, tmp_path):
    tools = Tools(folder, tmp_path, environ)
    yield tools
    tools.stop()


def calls(tmp_path):
    return [line.split()[0] for line in (tmp_path / "home" / "calls").read_text().splitlines()]


def test_the_folder_that_is_named_is_taken(folder):
    assert find_tools({ENV_TOOLS: str(folder)}) == folder.resolve()


def test_a_named_folder_without_the_scripts_is_refused(tmp_path):
    with pytest.raises(StepError, match=r"setup\.sh"):
        find_tools({ENV_TOOLS: str(tmp_path)})


def test_it_is_built_started_and_stopped_by_the_scripts(tools, tmp_path):
    tools.prepare()
    tools.start()
    tools.stop()
    tools.stop()

    assert calls(tmp_path) == ["setup", "start", "stop"]
    port, version = (tmp_path / "home" / "calls").read_text().splitlines()[1].split()[1:]
    assert version == "3.13"
    assert tools.environment()["AWS_ENDPOINT_URL"] == f"http://127.0.0.1:{port}"


def test_what_somebody_else_started_is_neither_used_nor_stopped(tools, tmp_path):
    word = [sys.executable, "-c", "input()", "localstack"]
    with subprocess.Popen(word, stdin=subprocess.PIPE) as theirs:
        said = Path(f"/proc/{theirs.pid}/cmdline")
        eventually(lambda: b"localstack" in said.read_bytes())
        (tmp_path / "home" / "pid").write_text(str(theirs.pid))
        with pytest.raises(StepError, match=rf"process {theirs.pid}") as caught:
            tools.start()
        tools.stop()
        theirs.communicate(b"\n")

    assert "stop.sh" in caught.value.do
    assert not (tmp_path / "home" / "calls").exists()


def test_two_runs_take_turns(tools, folder, environ, tmp_path):
    second = Tools(folder, tmp_path, environ, patience_seconds=0)
    tools.start()

    with pytest.raises(StepError, match=r"home .*0 s"):
        second.start()
    tools.stop()
    second.start()
    second.stop()

    assert calls(tmp_path) == ["start", "stop", "start", "stop"]


def test_a_process_that_is_gone_does_not_count(tools, tmp_path):
    (tmp_path / "home" / "pid").write_text(str(2**22 + 1))

    tools.start()

    assert calls(tmp_path) == ["start"]


def test_the_environment_is_what_the_script_makes_of_it(tools):
    found = tools.environment()

    assert found["SEVERAL"] == "two\nlines"
    assert "AWS_PROFILE" not in found


def test_a_script_that_fails_is_quoted(tools, folder):
    (folder / "start.sh").write_text("echo no room; exit 1")

    with pytest.raises(StepError, match=r"(?s)start\.sh .*1.*no room"):
        tools.start()


def test_cdk_is_the_command_on_the_path_or_the_one_that_is_checked_wherever_it_runs(tmp_path):
    cdk = tmp_path / "cdk"
    cdk.write_text("#!/bin/sh\n")
    cdk.chmod(0o755)

    assert find_command({"PATH": str(tmp_path)}) == [str(cdk)]
    ours = find_command({"PATH": "/nowhere"})
    # Without npm and node there is nothing to run, and it says so.
    done = subprocess.run(
        [*ours, "--version"],
        check=False,
        cwd=tmp_path,
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert re.search("npm does not give aws-cdk|no command `node`", done.stderr)


def test_what_localstack_pretends_to_make_is_named():
    listed = {
        "a": [
            {"ResourceType": "AWS::S3::Bucket", "LogicalResourceId": "B"},
            {
                "ResourceType": "AWS::EC2::EIP",
                "LogicalResourceId": "E",
                "ResourceStatusReason": "Resource type AWS::EC2::EIP is not supported",
            },
        ],
        "b": [],
    }

    assert gaps(lambda *_, **given: listed[given["StackName"]], ["a", "b"]) == ["AWS::EC2::EIP E"]
