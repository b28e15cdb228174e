"""Packages of one's own on this machine: in the local cloud's functions, and in commands."""

import json
import os
import shutil
import subprocess
import sys
import threading
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zoneinfo import ZoneInfo

import boto3
import pytest

from infra.fleet import FLEET
from infra.local.aws_server import REGION
from infra.local.cloud import LocalCloud
from infra.local.extra_packages import link_extras
from infra.local.parts import LOOPBACK, PartError
from infra.local.server import Options, local_function
from tests.kit.cli import push_folder
from tests.kit.kernel import names
from tests.kit.sdk import Client
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "samplesconfig" / "own-code"
PACKAGE = SAMPLE / "project" / "acme_crawl"


class Press(BaseHTTPRequestHandler):
    """A newspaper: its robots.txt, and any article."""

    def do_GET(self):
        robots = self.path == "/robots.txt"
        body = b"User-agent: *\nDisallow: /drafts\n" if robots else b"<h1>News</h1>"
        self.send_response(200)
        self.send_header("Content-Type", "text/plain" if robots else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def press():
    server = ThreadingHTTPServer((LOOPBACK, 0), Press)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://{LOOPBACK}:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_sample_runs_on_a_local_cloud_by_its_own_executor_key_and_segment(
    press, tmp_path, monkeypatch
):
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.delenv("MONGODB_URI", raising=False)
    config = tmp_path / "config"
    shutil.copytree(SAMPLE, config, ignore=shutil.ignore_patterns("project"))
    stage, biz = config / "stage.yaml", config / "bizs" / "default" / "press.yaml"
    stage.write_text(stage.read_text().replace("addresses: false", "addresses: true"))
    biz.write_text(biz.read_text().replace("https://press.example", press))
    articles = [f"{press}/old-title-7.html", f"{press}/new-title-7.html", f"{press}/8.html"]

    with (
        LocalCloud(tmp_path / "state", ticking=False, seed=False, extra=[str(PACKAGE)]) as cloud,
        Client(cloud.api_url, cloud.api_key) as client,
    ):
        access = {"region_name": REGION, "aws_access_key_id": "a", "aws_secret_access_key": "b"}
        ssm = boto3.client("ssm", endpoint_url=cloud.aws_endpoint_url, **access)
        # Whoever pushes has not the executor: the stage's functions have it.
        push_folder(config, "local", ssm, check_reader=lambda _: [])
        offers = client.offer_seeds("press", articles, rule="article")
        job = client.start_job("press", rule="robots")
        eventually(lambda: len(list(client.records("press"))) == 3, what="all records")
        records = {record.url: record.fields for record in client.records("press")}

    assert [offer.accepted for offer in offers] == [True, False, True]
    now = datetime.now(ZoneInfo("Europe/Paris"))
    assert {offer.segment for offer in offers} == {f"{now.year}-Q{(now.month + 2) // 3}"}
    assert job.size == 1
    assert records[f"{press}/robots.txt"] == {"rule": "disallow", "path": "/drafts", "line": 2}


def validate(folder: Path, **variables: str) -> dict:
    """The answer of `crawlfleet config validate --json`, in a process of its own."""
    environment = {key: value for key, value in os.environ.items() if "EXTRA" not in key}
    done = subprocess.run(
        [sys.executable, "-m", "crawlfleet.cli", "config", "validate", str(folder), "--json"],
        env=environment | variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return json.loads(done.stdout) | {"said": done.stderr}


def test_config_validate_finds_what_the_package_brings_and_without_it_says_what_is_missing():
    found = validate(SAMPLE, CRAWLFLEET_EXTRA_PACKAGES=str(PACKAGE.relative_to(ROOT)))
    without = validate(SAMPLE)

    assert (found["valid"], found["said"]) == (True, "")
    missing = {one["field"]: one["message"].partition(";")[0] for one in without["problems"]}
    assert missing == {
        "bizs/default/press: spiders.robots.executor": "'robots_lines' is no executor here",
        "bizs/default/press: spiders.notices.executor": "'notices' is no executor here",
    }


def test_a_folder_that_is_none_is_named_by_the_variable():
    said = validate(SAMPLE, CRAWLFLEET_EXTRA_PACKAGES="samplesconfig/own-code/project")

    [problem] = said["problems"]
    assert problem["field"] == "CRAWLFLEET_EXTRA_PACKAGES[0]"
    assert "in it there is acme_crawl" in problem["message"]


def test_a_resolver_that_nobody_brings_is_warned_of(tmp_path):
    for name in ("stage.yaml", "tenants/default.yaml", "bizs/default/press.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(
            (SAMPLE / name).read_text().replace("by_quarter", "by_moon").replace("by_a", "by_b")
        )

    said = validate(tmp_path, CRAWLFLEET_EXTRA_PACKAGES=str(PACKAGE))["said"]

    assert "seeds.segment_resolver: no package here brings one called 'by_moon'" in said
    assert "seeds.resolvers: no package here brings one called 'by_brticle'" in said


def test_functions_that_need_them_have_the_folder_and_no_others_do(tmp_path):
    link_extras([str(PACKAGE)], ROOT, tmp_path / "extra")
    places = {"aws": "a", "lambda": "l", "spiders": "", "extra": "/carried"}
    places |= {variable: "x" for spec in FLEET.functions for variable in spec.environment}

    having = {
        spec.name
        for spec in FLEET.functions
        if "/carried"
        in local_function(spec, Options(state=tmp_path), places).variables["PYTHONPATH"].split(":")
    }

    assert having == {names.CONSUMER, names.ROUTER, names.SCHEDULER, names.TRIALS}


def test_the_folder_holds_the_packages_that_are_named_now_and_no_others(tmp_path):
    link_extras([str(PACKAGE)], ROOT, tmp_path / "extra")
    there = sorted(path.name for path in (tmp_path / "extra").iterdir())
    link_extras([], ROOT, tmp_path / "extra")

    assert there == ["acme_crawl", "acme_crawl-0.dist-info"]
    assert list((tmp_path / "extra").iterdir()) == []
    assert (PACKAGE / "__init__.py").is_file()  # the link went, and nothing behind it


def test_what_is_no_package_is_refused_by_the_options_name(tmp_path):
    with pytest.raises(PartError, match=r"^--extra\[0\]: 'nowhere' is no folder"):
        link_extras(["nowhere"], ROOT, tmp_path / "extra")
