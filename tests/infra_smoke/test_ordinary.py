"""The ordinary LocalStack: which one is taken, and what is asked of Docker.

Docker is a script here that writes down what it is asked, and the server one that says it is well.
"""

import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from infra.localstack import __main__ as command
from infra.localstack.ordinary import IMAGE, Ordinary, docker_answers
from infra.localstack.tools import Tools
from infra.steps import StepError

_DOCKER = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$1" in
network) echo 127.0.0.3 ;;
esac
exit "${DOCKER_ENDS_WITH:-0}"
"""


@pytest.fixture
def environ(tmp_path):
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(_DOCKER)
    docker.chmod(0o755)
    path = os.pathsep.join((str(docker.parent), os.environ["PATH"]))
    return {"PATH": path, "CALLS": str(tmp_path / "calls"), "AWS_PROFILE": "mine"}


@pytest.fixture(autouse=True)
def docker_of_the_test(environ, monkeypatch):
    # Where a program is looked for is the parent's PATH.
    monkeypatch.setenv("PATH", environ["PATH"])


@pytest.fixture
def server():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/_localstack/health" else 404)
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def asked(tmp_path):
    path = tmp_path / "calls"
    return path.read_text().splitlines() if path.exists() else []


def test_docker_pulls_starts_and_stops_one_on_a_port_of_loopback(tmp_path, environ, server):
    one = Ordinary(tmp_path, environ, port=server)

    one.prepare()
    one.start()
    found = one.environment()
    one.stop()
    one.stop()

    _, pull, run, stop = asked(tmp_path)
    assert pull == f"pull --quiet {IMAGE}"
    assert f"--publish 127.0.0.1:{server}:4566" in run
    assert run.endswith(IMAGE)
    name = f"crawlfleet-localstack-{os.getpid()}"
    assert f"--name {name}" in run
    assert stop == f"stop {name}"
    assert one.address == "127.0.0.3"
    assert one.folded
    assert found["AWS_ENDPOINT_URL"] == f"http://127.0.0.1:{server}"
    assert "AWS_PROFILE" not in found


def test_one_that_runs_already_is_used_and_stays(tmp_path, environ, server):
    environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server}",
        "LOCALSTACK_SEES_ME_AT": "127.0.0.1",
    }
    one = Ordinary(tmp_path, environ)

    one.prepare()
    one.start()
    one.stop()

    assert asked(tmp_path) == []
    assert one.environment()["AWS_ENDPOINT_URL"] == environ["AWS_ENDPOINT_URL"]
    assert one.address == "127.0.0.1"


def test_aws_itself_is_refused(tmp_path, environ):
    environ["AWS_ENDPOINT_URL"] = "https://eu-west-1.amazonaws.com"

    with pytest.raises(StepError, match="not on this machine"):
        Ordinary(tmp_path, environ)


def test_a_docker_that_fails_is_reported(tmp_path, environ):
    environ["LOCALSTACK_SEES_ME_AT"] = "127.0.0.1"
    environ["DOCKER_ENDS_WITH"] = "1"
    one = Ordinary(tmp_path, environ)
    del environ["LOCALSTACK_SEES_ME_AT"]

    assert not docker_answers(environ)
    with pytest.raises(StepError, match=r"docker pull .*1"):
        one.prepare()
    with pytest.raises(StepError, match="address") as caught:
        Ordinary(tmp_path, environ)
    assert "LOCALSTACK_SEES_ME_AT" in caught.value.do


def test_a_docker_that_is_not_there_does_not_answer():
    assert not docker_answers({"PATH": "/nowhere"})


def test_which_one_is_taken(tmp_path, environ):
    folder = tmp_path / "tools"
    folder.mkdir()
    for script in ("setup.sh", "start.sh", "stop.sh", "env.sh"):
        (folder / script).touch()
    nothing = {"PATH": "/nowhere"}

    with pytest.raises(StepError, match="no LocalStack here"):
        command.choose(tmp_path, nothing)
    assert isinstance(command.choose(tmp_path, environ), Ordinary)
    named = {**environ, "LOCALSTACK_TOOLS": str(folder)}
    assert isinstance(command.choose(tmp_path, named), Tools)
    named = {**nothing, "LOCALSTACK_TOOLS": str(folder)}
    assert isinstance(command.choose(tmp_path, named), Tools)
