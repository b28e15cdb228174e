"""The web console in a real Chromium, over a local cloud with work that did and did not succeed.

The browser's own tests are `console/tests/browser`; each of them is a test here. What they find is
put there by this file, and what sites say tries to run scripts.
"""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from infra.local.cloud import LocalCloud
from infra.local.parts import LOOPBACK
from tests.kit.sdk import Client
from tests.local_clouds import a_cloud, push
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "console" / "tests" / "browser" / "console.test.mjs"
NAMES = re.findall(r'^test\("([^"]+)"', TESTS.read_text(), re.MULTILINE)
#: The Node of the environment, whatever else the machine has.
NODE = str(Path(sys.executable).parent / "node")
BIZ = "shop"
HOSTILE = "<img src=x onerror='globalThis.hacked=1'><script>globalThis.hacked=1</script>"
#: All of them together, on a machine that others use too.
BROWSER_SECONDS = 600


class Pages(BaseHTTPRequestHandler):
    """A site that tries to script whoever looks at what it said."""

    def do_GET(self):
        gone = "gone" in self.path
        title = HOSTILE.replace("<", "&lt;")
        body = f"<title>{title}</title><h1>{title}</h1>{HOSTILE}".encode()
        self.send_response(404 if self.path == "/robots.txt" or gone else 200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("X-Said", "</pre><script>globalThis.hacked=1</script>")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer((LOOPBACK, 0), Pages)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://{LOOPBACK}:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def biz(collection: str) -> dict:
    generation = {
        "starts_at": "2026-01-01T00:00:00Z",
        "nodes": ["main"],
        "databases": [collection],
    }
    rule = {"fields": {"title": {"css": "title"}, "said": {"css": "h1"}}}
    return {
        "generations": [generation],
        "retry": {"max_attempts": 1},
        "rules": {"page": rule},
    }


def scene_of(cloud: LocalCloud, site: str, folder: Path) -> dict[str, str]:
    """Have pages crawled: some are read, some are gone; tell what came of them."""
    config = folder / "config"
    (config / "tenants").mkdir(parents=True)
    (config / "tenants" / "rival.yaml").write_text(yaml.safe_dump({"api_keys": ["key-rival"]}))
    (config / "bizs" / "rival").mkdir(parents=True)
    (config / "bizs" / "rival" / "shop.yaml").write_text(yaml.safe_dump(biz("rival")))
    push(cloud, config, {}, {BIZ: biz("shop")})
    page = f"{site}/read?q=<script>globalThis.hacked=1</script>"
    with Client(cloud.api_url, cloud.api_key) as client:
        eventually(lambda: BIZ in {one.name for one in client.bizs()}, 60)
        job = client.start_job(BIZ, rule="page", urls=[page, f"{site}/gone"])
        client.submit(BIZ, [{"url": f"{site}/gone/replay-me", "rule": "page"}])
        client.put_schedule(
            BIZ, "nightly", cron="30 2 * * *", time_zone="Europe/Berlin", rule="page", urls=[page]
        )

        def ended() -> bool:
            cloud.fire("scheduler-tick")
            return client.job(BIZ, job.name).ended and client.stats(BIZ).states["dead"] == 2

        eventually(ended, 120)
        done = next(iter(client.requests(BIZ, state="done")))
        dead = next(iter(client.dead_letters(BIZ, job=job.name)))
    return {
        "url": cloud.api_url,
        "key": cloud.api_key,
        "rival": cloud.add_api_key("key-rival"),
        "biz": BIZ,
        "job": job.name,
        "request": done.id,
        "dead": dead.id,
        "page": done.url,
        "hostile": HOSTILE,
        "shots": os.environ.get("CONSOLE_SHOTS") or str(folder / "shots"),
    }


@pytest.fixture(scope="module")
def told(site: str, tmp_path_factory) -> Iterator[str]:
    """Run the browser's tests, all in one browser; return what they tell."""
    folder = tmp_path_factory.mktemp("console")
    with a_cloud(folder / "cloud") as cloud:
        scene = folder / "scene.json"
        scene.write_text(json.dumps(scene_of(cloud, site, folder)))
        done = subprocess.run(
            [NODE, "--test", "--test-reporter=tap", str(TESTS)],
            cwd=ROOT / "console",
            env={**os.environ, "CONSOLE_SCENE": str(scene)},
            capture_output=True,
            text=True,
            timeout=BROWSER_SECONDS,
            check=False,  # what failed is told by name
        )
        yield done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_in_the_browser(told: str, name: str):
    passed = re.findall(r"^ *ok \d+ - (.+)$", told, re.MULTILINE)

    assert name in passed, told[-20_000:]


def test_every_test_of_the_browser_is_one_of_these():
    assert len(NAMES) == len(set(NAMES)) == TESTS.read_text().count("\ntest(")
