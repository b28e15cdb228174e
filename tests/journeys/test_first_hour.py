"""The first hour on a local cloud, by command line and SDK: each thing that a newcomer once met.

The site is small and has what sites have: a page off the domain, one that robots.txt keeps, one
that is too deep, one that a pattern leaves out.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from infra.local.cloud import LocalCloud
from infra.local.parts import LOOPBACK
from tests.kit.sdk import AllRefusedError, Client
from tests.local_clouds import a_cloud, push
from tests.waiting import eventually

ROOT: Final = Path(__file__).resolve().parents[2]
BIZ: Final = "site"
CHAPTERS: Final = 4
#: The contents and what it leads to, but for what domains and patterns keep.
READ: Final = 1 + CHAPTERS
#: What robots.txt forbids is given up on, and counted.
KEPT: Final = 1
#: Seconds within which a change of the configuration is in force, and some of the machine's.
IN_FORCE: Final = 120

_LINKS: Final = "".join(
    f'<a href="{href}">{href}</a>'
    for href in (
        *(f"/chapter-{n}" for n in range(CHAPTERS)),
        "/kept/away",
        "/denied",
        "http://elsewhere.example/",
    )
)
PAGES: Final = {
    "/robots.txt": "User-agent: *\nDisallow: /kept/\n",
    "/": f"<title>contents</title><h1>contents</h1>{_LINKS}",
    **{
        f"/chapter-{n}": f"<title>{n}</title><h1>chapter {n}</h1><p>one two</p>"
        f'<a href="/deep-{n}">on</a>'
        for n in range(CHAPTERS)
    },
}
FOLLOW: Final = {"css": "a", "rule": "chapter", "deny": ["denied"], "max_depth": 1}
CHAPTER: Final = {
    "key": ["url"],
    "fields": {"url": {"fact": "url"}, "title": {"css": "h1", "required": True}},
    "follow": [FOLLOW],
}
RULES: Final = {
    "contents": {"follow": [FOLLOW]},
    "chapter": CHAPTER,
    "wrong": {"fields": {"url": {"fact": "url"}, "price": {"css": ".price"}}},
    "strict": {"fields": {"title": {"css": ".headline", "required": True}}},
}


class Said(NamedTuple):
    """A command that has ended: its exit code, what it printed, and what it said beside that."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


class User:
    """Somebody at a terminal of 120 columns, who has the address and the key."""

    def __init__(self, cloud: LocalCloud, folder: Path) -> None:
        paths = [str(ROOT), str(ROOT / "layers/crawlfleet/python"), *sys.path]
        self.folder = folder
        self.environment = {
            **os.environ,
            "CRAWLFLEET_API_URL": cloud.api_url,
            "CRAWLFLEET_API_KEY": cloud.api_key,
            "PYTHONPATH": os.pathsep.join(paths),
            "COLUMNS": "120",
        }

    def __call__(self, *words: str, **environment: str) -> Said:
        ended = subprocess.run(
            [sys.executable, "-m", "crawlfleet.cli", *words],
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=2 * IN_FORCE,
            check=False,
        )
        return Said(ended.returncode, ended.stdout, ended.stderr)

    def job(self, name: str, *words: str) -> dict[str, Any]:
        """Start a job, wait for its end, and return what there is to say of it."""
        started = self("job", "start", BIZ, "--name", name, *words, "--wait")
        found = self.shown(name)
        assert started.code == (1 if found["ledger"]["dead"] else 0), started
        return found

    def shown(self, name: str) -> dict[str, Any]:
        [found] = self("job", "show", BIZ, name, "--json").rows
        return found


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = PAGES.get(self.path)
            body = (page or "<title>another</title><h1>another</h1>").encode()
            kind = "text/plain" if self.path == "/robots.txt" else "text/html"
            self.send_response(200)
            self.send_header("Content-Type", kind)
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
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("config")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory, config: Path) -> Iterator[LocalCloud]:
    with a_cloud(tmp_path_factory.mktemp("cloud") / "state", seed=False) as cloud:
        put(cloud, config, RULES)
        yield cloud


def put(
    cloud: LocalCloud, config: Path, rules: Mapping[str, object], **others: Mapping[str, object]
) -> None:
    # Nothing in it is the same object twice: YAML would write an alias, which is not read.
    push(
        cloud,
        config,
        {},
        {BIZ: {"seeds": {"span": "month"}, "rules": json.loads(json.dumps(rules))}} | others,
    )


@pytest.fixture(scope="module")
def user(cloud: LocalCloud, tmp_path_factory: pytest.TempPathFactory) -> User:
    return User(cloud, tmp_path_factory.mktemp("user"))


@pytest.fixture
def client(cloud: LocalCloud) -> Iterator[Client]:
    with Client(cloud.api_url, cloud.api_key) as client:
        yield client


@pytest.fixture(scope="module")
def crawled(user: User, site: str) -> str:
    """The site, once it is crawled from its contents."""
    user.job("crawled", "--rule", "contents", "--url", f"{site}/", "--segment", "day")
    return site


def test_each_run_reads_the_whole_site_and_one_of_a_shared_segment_says_what_it_left_out(
    user: User, cloud: LocalCloud, site: str
) -> None:
    start = ("--rule", "contents", "--url", f"{site}/")

    runs = [user.job(name, *start) for name in ("first", "second")]
    runs.append(user.job("third", *start, "--segment", "week"))
    fourth = user.job("fourth", *start, "--segment", "week")
    said = user("job", "wait", BIZ, "fourth")

    assert [run["ledger"]["done"] for run in runs] == [READ] * 3
    assert (fourth["ledger"]["done"], fourth["known_links"]) == (1, CHAPTERS + KEPT)
    assert f"{CHAPTERS + KEPT} pages" in said.out + said.err
    assert "known in segment" in said.out + said.err

    put_it = user("schedule", "put", BIZ, "nightly", "--cron", "0 3 * * *", *start)
    assert put_it.code == 0, put_it
    for _ in range(2):
        assert user("schedule", "run", BIZ, "nightly").code == 0
    eventually(lambda: _fired(user, cloud) == [READ, READ], what="two runs of the schedule")


def _fired(user: User, cloud: LocalCloud) -> list[int]:
    cloud.fire("scheduler-tick")
    rows = user("job", "list", BIZ, "--schedule", "nightly", "--json").rows
    return [user.shown(row["name"])["ledger"]["done"] for row in rows if row["state"] == "done"]


def test_whatever_has_a_job_name_is_waited_for_shown_counted_and_cancelled(
    user: User, site: str
) -> None:
    sent = user("submit", BIZ, f"{site}/", "--rule", "contents", "--job", "sub1", "--wait")
    shown = user.shown("sub1")
    [ledger] = user("ledger", BIZ, "--job", "sub1", "--json").rows

    assert sent.code == 1, sent  # of the page that robots.txt keeps
    assert shown["ledger"]["submitted"] == ledger["submitted"] == READ + KEPT
    assert (ledger["done"], ledger["dead"], ledger["pending"]) == (READ, KEPT, 0)
    assert "sub1" in [row["name"] for row in user("job", "list", BIZ, "--json").rows]
    again = user("job", "cancel", BIZ, "sub1")
    assert again.code == 1
    assert "the job is done" in again.err


def test_a_value_that_is_given_again_is_one_more_of_the_place(user: User, site: str) -> None:
    pattern = ("--rule", "chapter", "--pattern", f"{site}/{{page}}")

    job = user.job("values", *pattern, "--value", "page=chapter-0", "--value", "page=chapter-1")
    lacking = user("job", "start", BIZ, "--name", "lacking", *pattern)

    assert job["ledger"]["submitted"] >= 2
    urls = {row["url"] for row in user("requests", BIZ, "--job", "values", "--json").rows}
    assert {f"{site}/chapter-0", f"{site}/chapter-1"} <= urls
    assert lacking.code == 2
    assert "--value page=" in lacking.err


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://elsewhere.example/", "domain"),
        ("{site}/kept/away", "Disallow: /kept/"),
        ("{site}/deep-1", "deep"),
        ("{site}/denied", "deny"),
        ("{site}/chapter-1", "done"),
    ],
)
def test_a_url_that_was_not_crawled_is_explained(
    user: User, crawled: str, url: str, why: str
) -> None:
    said = user("explain", BIZ, url.format(site=crawled))

    assert said.code == 0, said
    assert why in said.out


def test_a_page_that_a_limit_of_its_job_keeps_is_explained_by_that_limit(
    user: User, site: str
) -> None:
    """One that ends at its limit, and one whose requests wait for the next day's."""
    pages = [word for n in range(CHAPTERS) for word in ("--url", f"{site}/limited-{n}")]
    start = ("job", "start", BIZ, "--rule", "chapter", *pages)
    assert user(*start, "--name", "ends", "--quota", "requests=1", "--wait").code == 1

    # Which page had the one request is not said: it is the one that did not end for the limit.
    [ended, *_] = [
        row["url"]
        for row in user("dead", "list", BIZ, "--job", "ends", "--json").rows
        if row["reason"] == "QuotaExceeded"
    ]
    said = user("explain", BIZ, ended)
    assert said.code == 0, said
    assert "job ends" in said.out
    assert "1 requests in all" in said.out

    assert user(*start, "--name", "waits", "--quota", "requests=1/day").code == 0

    def waits() -> bool:
        rows = user("requests", BIZ, "--job", "waits", "--state", "pending", "--json").rows
        answers = [user("explain", BIZ, row["id"]).out for row in rows[:1]]
        return any("of this day" in answer and "goes on at" in answer for answer in answers)

    eventually(waits, what="a page of it waits for the next day")
    assert user("job", "cancel", BIZ, "waits").code == 0


def test_records_are_found_by_run_rule_time_host_and_field(user: User, site: str) -> None:
    user.job("june", "--rule", "chapter", "--url", f"{site}/chapter-2")
    host = site.removeprefix("http://").partition(":")[0]

    def urls(*words: str) -> set[str]:
        return {row["url"] for row in user("records", BIZ, "--job", "june", *words).rows}

    one = {f"{site}/chapter-2"}
    both = {*one, f"{site}/deep-2"}
    record = user("records", BIZ, "--job", "june").rows[0]
    assert record["job"] == "june"
    assert urls("--rule", "chapter") == urls("--since", "1h") == urls("--host", host) == both
    assert urls("--rule-version", record["rule_version"]) == both
    assert urls("--field", "title=chapter 2") == one
    assert not urls("--rule", "wrong")
    assert not urls("--until", "1h")
    table = user("records", BIZ, "--job", "june", "--format", "table", "--fields", "title")
    assert "chapter 2" in table.out
    unknown = user("records", BIZ, "--job", "june", "--fields", "titel")
    assert unknown.code == 2
    assert "titel" in unknown.err
    assert "title" in unknown.err


def test_a_wrong_selector_does_not_look_like_success(user: User, site: str) -> None:
    pages = [word for n in range(CHAPTERS) for word in ("--url", f"{site}/chapter-{n}")]

    ended = user("job", "start", BIZ, "--name", "empty", "--rule", "wrong", *pages, "--wait")
    shown = user("job", "show", BIZ, "empty")

    assert f"of {CHAPTERS} records have a value: price 0" in ended.out + ended.err
    assert re.search(r"price +0\.0%", shown.out)
    # Workers count by the rule once in some seconds.
    eventually(lambda: "price 0" in user("doctor", "--biz", BIZ).out, what="the doctor says it")


def test_advice_that_is_printed_does_what_it_says(
    user: User, cloud: LocalCloud, config: Path, site: str
) -> None:
    sent = user("submit", BIZ, f"{site}/chapter-3", "--rule", "strict", "--json", "--wait")
    assert sent.code == 1
    [dead] = [
        row["id"] for row in user("dead", "list", BIZ, "--json").rows if row["rule"] == "strict"
    ]
    advised = user("explain", BIZ, dead).out
    mended = {**RULES, "strict": {"fields": {"title": {"css": "h1", "required": True}}}}
    put(cloud, config, mended)

    [command] = set(re.findall(r"crawlfleet (dead replay [^`\n]*?--current-rule)", advised))
    words = shlex.split(command)
    assert words[:4] == ["dead", "replay", BIZ, dead]

    def read() -> bool:
        # The rule is in force within seconds; until then a replay dies as before.
        user(*words)
        return user("status", BIZ, dead, "--json").rows[0]["state"] == "done"

    eventually(read, IN_FORCE, what="the replay is read by the mended rule")


def test_a_running_job_is_cancelled_and_its_open_pages_end(
    user: User, client: Client, cloud: LocalCloud, config: Path, site: str
) -> None:
    """A host that may be asked once in two seconds has the job running for ten minutes."""
    pages = [word for n in range(300) for word in ("--url", f"{site}/slow-{n}")]
    slow = {"politeness": {"per_second": 0.5}, "rules": json.loads(json.dumps(RULES))}
    put(cloud, config, RULES, slow=slow)
    start = ("job", "start", "slow", "--name", "long", "--rule", "chapter", *pages)
    eventually(lambda: user(*start).code == 0, IN_FORCE, what="the biz is in force")

    def has_begun() -> bool:
        ledger = client.job("slow", "long").ledger
        return ledger is not None and ledger.done > 0

    eventually(has_begun, IN_FORCE, what="a page of it is read")
    cancelled = user("job", "cancel", "slow", "long")
    ended = user("job", "wait", "slow", "long", "--timeout", str(IN_FORCE))

    assert cancelled.code == 0, cancelled
    assert ended.code == 1
    assert "long cancelled" in ended.out
    ledger = client.job("slow", "long").ledger
    assert ledger is not None
    assert ledger.cancelled > 0
    assert (ledger.pending, ledger.leased, ledger.waiting) == (0, 0, 0)
    assert user("job", "cancel", "slow", "long").code == 0  # again: nothing more happens


def test_a_batch_of_which_every_entry_is_refused_raises(client: Client) -> None:
    with pytest.raises(AllRefusedError, match="rule"):
        client.submit(BIZ, ["http://a.example/1", "http://a.example/2"], rule="nothing")


def test_a_schedule_that_is_put_within_its_minute_runs_and_says_when_it_does_next(
    user: User, cloud: LocalCloud, site: str
) -> None:
    is_within = False
    while not is_within:  # the minute may end before it is put
        before = datetime.now(UTC)
        line = f"{before.minute} {before.hour} * * *"
        put_it = user(
            *("schedule", "put", BIZ, "minutely", "--cron", line, "--rule", "chapter"),
            *("--url", f"{site}/chapter-0"),
        )
        assert put_it.code == 0, put_it
        is_within = datetime.now(UTC).minute == before.minute

    cloud.fire("scheduler-tick")

    job = user("job", "list", BIZ, "--schedule", "minutely", "--json").rows[-1]
    fired = datetime.fromisoformat(job["fire_at"])
    assert fired == before.replace(second=0, microsecond=0)
    assert datetime.fromisoformat(job["created_at"]) - before < timedelta(minutes=1)
    user("schedule", "pause", BIZ, "minutely")
    assert "paused" in user("schedule", "list", BIZ).out


def test_errors_name_the_place_and_what_there_is(user: User, site: str) -> None:
    unknown = user("submit", BIZ, f"{site}/", "--rule", "chaptr")
    assert unknown.code == 2
    assert "chapter" in unknown.err
    assert BIZ in user("records", "nobiz").err
    cron = user("schedule", "next", BIZ, "--cron", "61 * * * *")
    assert cron.code == 2
    assert "cron" in cron.err


def test_the_api_describes_itself_for_whoever_has_its_address_alone(
    user: User, cloud: LocalCloud
) -> None:
    with urllib.request.urlopen(f"{cloud.api_url}/openapi.json", timeout=10) as answer:
        document = json.load(answer)

    assert document["servers"]
    assert "/v1/bizs" in document["paths"]
    properties = document["components"]["schemas"]["RequestView"]["properties"]
    assert all(one.get("description") for one in properties.values())
    assert BIZ in user("bizs").out
