"""The guides, done as they are written: commands and Python, in order, on a local cloud."""

import pkgutil
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from infra.local.cloud import LocalCloud
from infra.local.parts import LOOPBACK, python_environment
from tests.kit.kernel import RejectedError
from tests.kit.sdk import Client
from tests.local_clouds import a_cloud, push
from tests.waiting import eventually

GUIDES: Final = Path(__file__).resolve().parents[2] / "docs/guides"
TENANTS: Final = "tenants.md"
#: The biz that the Python of the guides is tried on, whichever they name, and a job of it.
BIZ: Final = "guided"
JOB: Final = "guided-job"
PAGES: Final = 2
#: One rule, as nothing names any, and the states that the guide on results has.
DOCUMENT: Final = {
    "rules": {"page": {"fields": {"url": {"fact": "url"}, "title": {"css": "title"}}}},
    "states": {"held": 100, "reviewed": 1000},
    "transitions": {"pending": ["held"], "held": ["pending"], "done": ["reviewed"]},
}


class Example(NamedTuple):
    """Python of a guide, and where it stands."""

    page: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: str, language: str) -> list[Example]:
    said = (GUIDES / page).read_text()
    block = rf"^```{language}\n(.*?)^```$"
    found = re.finditer(block, said, flags=re.MULTILINE | re.DOTALL)
    return [Example(page, said[: one.start()].count("\n") + 2, one[1]) for one in found]


EXAMPLES: Final = [
    example for page in sorted(GUIDES.glob("*.md")) for example in blocks(page.name, "python")
]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    # It ticks: whatever a worker did not see as it left, as a store was slow, the next tick finds.
    with a_cloud(tmp_path_factory.mktemp("guides") / "state", ticking=True) as cloud:
        push(cloud, tmp_path_factory.mktemp("config"), {}, {BIZ: DOCUMENT})
        yield cloud


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """A site whose pages are there, but for ``/gone``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f"<title>page {self.path}</title>".encode()
            self.send_response(404 if self.path in {"/gone", "/robots.txt"} else 200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://{LOOPBACK}:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def crawled(cloud: LocalCloud, site: str) -> LocalCloud:
    """The cloud, once a job has read some pages, and given up on one that is gone."""
    urls = [*(f"{site}/{n}" for n in range(PAGES)), f"{site}/gone"]
    with Client(cloud.api_url, cloud.api_key) as client:
        client.start_job(BIZ, name=JOB, rule="page", urls=urls)
        assert client.wait_job(BIZ, JOB, timeout=300).counts["done"] == PAGES
    return cloud


def executed(example: Example, site: str, given: dict[str, Any]) -> None:
    """Execute Python of a guide on the biz, the job and the site of this test."""
    text = re.sub(r'"(site|docs)"', f'"{BIZ}"', example.text)
    text = re.sub(r'job="[^"]+"', f'job="{JOB}"', text).replace("https://example.org", site)
    # Line numbers are those of the page.
    exec(compile("\n" * (example.line - 1) + text, example.page, "exec"), given)


def test_guides_have_python():
    assert {"results.md", "traces.md", "scrapy.md"} <= {each.page for each in EXAMPLES}


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_python_of_a_guide_does_what_it_says(example, crawled, site, monkeypatch, capsys):
    monkeypatch.setenv("CRAWLFLEET_API_URL", crawled.api_url)
    monkeypatch.setenv("CRAWLFLEET_API_KEY", crawled.api_key)
    traceparent = f"00-{'a' * 32}-{'b' * 16}-01"

    with Client(crawled.api_url, crawled.api_key) as client:
        given = {"client": client, "traceparent": traceparent, "urls": [f"{site}/traced"]}
        executed(example, site, given)

    said = capsys.readouterr().out
    assert bool(said) is ("print(" in example.text)
    if "balanced" in example.text:  # it has submitted two pages, and replayed the one that is gone
        lines = said.splitlines()
        assert [line.split()[1:] for line in lines[:2]] == [["done", "1", "None"]] * 2
        assert f"{site}/gone PageGone" in said
        assert lines[-1] == "1 True"
    for addon in given.get("ADDONS", {}):
        assert callable(pkgutil.resolve_name(addon))
    if "transition_each" in example.text:
        assert all(line.endswith(" reviewed") for line in said.splitlines())


def commands() -> list[list[str]]:
    lines = [line for block in blocks(TENANTS, "console") for line in block.text.splitlines()]
    return [shlex.split(line) for line in lines if line.startswith("crawlfleet ")]


def submits(url: str, key: str) -> bool:
    """Tell whether the tenant of a key can submit; another process may know of it later."""
    try:
        with Client(url, key) as acme:
            return acme.submit("shop", "http://127.0.0.1:9/").accepted
    except RejectedError:
        return False


def test_the_guide_adds_a_tenant_that_works_and_no_key_is_in_any_log(cloud, tmp_path):
    place = tmp_path / "acme/bizs/acme"
    place.mkdir(parents=True)
    (place / "shop.yaml").write_text(blocks(TENANTS, "yaml")[0].text)
    environment = {
        **python_environment(),
        "CRAWLFLEET_API_URL": cloud.api_url,
        "CRAWLFLEET_API_KEY": cloud.api_key,
        "CRAWLFLEET_STATE": str(cloud.folder.path),
    }
    printed = {}
    for command in commands():
        program = [sys.executable, "-m", "crawlfleet.cli", *command[1:]]
        done = subprocess.run(
            program, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        printed[tuple(command[1:3])] = done.stdout

    keys = [printed["tenant", verb].strip().rpartition(": ")[2] for verb in ("add", "rotate-key")]
    assert "acme is suspended; waiting until" in printed["tenant", "remove"]
    with Client(cloud.api_url, cloud.api_key) as operator:
        operator.resume_tenant("acme")  # the removal is given up: nothing was deleted yet
        shown = operator.tenant("acme")
    for key in keys:
        eventually(lambda key=key: submits(cloud.api_url, key))
    assert shown.settings["share"] == 3
    assert [one.most for one in shown.quotas] == [200_000, 1_000_000_000]
    assert "acme" in printed["tenant", "list"]
    assert "ceilings.in_flight" in printed["tenant", "show"]
    logs = [file for file in Path(cloud.addresses.log_dir).rglob("*") if file.is_file()]
    assert logs
    assert not [file for file in logs for key in keys if key in file.read_text(errors="replace")]


def test_a_rule_is_changed_by_calls_while_all_runs_and_taken_back(cloud):
    with Client(cloud.api_url, cloud.api_key) as operator:
        paths = [one.path for one in operator.config_documents().documents]
        biz = next(path for path in paths if path.endswith(f"/{BIZ}"))
        before = operator.config_document(biz).content
        rule = {**before["rules"]["page"], "key": ["url"]}

        tried = operator.change_config({f"{biz}/rules/page": rule}, dry_run=True)
        changed = operator.change_config({f"{biz}/rules/page": rule}, why="A key.")
        newest, earlier, *_ = operator.config_versions(path=biz)
        back = operator.roll_back_config(tried.revision, path=biz, revision=changed.revision)

        assert (tried.written, changed.written, back.written) == (False, True, True)
        assert (newest.revision, newest.why) == (changed.revision, "A key.")
        assert earlier.revision <= tried.revision
        assert operator.config_diff(tried.revision, back.revision).differences == ()
        eventually(lambda: operator.config_document(biz).content == before)
