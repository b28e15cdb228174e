"""Spiders, schedules and jobs by the program, on the real handlers behind an HTTP door."""

import json
import re
from collections.abc import Iterator
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from tests.cli_program import program
from tests.functions.apps.test_clock import tick
from tests.functions.crawling.test_follow import a_web
from tests.functions.door import Door
from tests.functions.runs import a_learnt_run
from tests.kit.jobs import MongoDemands
from tests.kit.worlds.functions import World, default_bizs

BIZ = "docs"
SPIDER = ("spider", "put", BIZ, "shop", "--rule", "page")
PATTERN = ("--pattern", "https://shop.example/{kind}/{page}", "--values", "page=1..10")
SCHEDULE = ("schedule", "put", BIZ, "nightly", "--cron", "0 3 * * *")
PAGES = ("--rule", "page", "--url", "https://a.example/1", "--url", "https://a.example/2")


@pytest.fixture
def crawlfleet(world: World, standing_door: Door, monkeypatch, capfdbinary):
    """Runs the program with the key of a tenant."""
    monkeypatch.setenv("CRAWLFLEET_API_URL", standing_door.url)
    monkeypatch.setenv("CRAWLFLEET_API_KEY", standing_door.keys["acme"])
    called = program(capfdbinary)

    def call(*arguments: str) -> SimpleNamespace:
        """Run the CLI and return its output, without the metrics that functions print beside it."""
        done = called(*arguments)
        done.lines = [line for line in done.lines if line.strip() and '"_aws"' not in line]
        done.out = "".join(f"{line}\n" for line in done.lines)
        done.json = lambda: json.loads(done.out)
        done.rows = lambda: [json.loads(line) for line in done.lines]
        return done

    return call


@pytest.fixture
def crew(world: World) -> Iterator[Event]:
    """Somebody who works and ticks, from when it is set until the test has ended."""
    begin, end = Event(), Event()

    def work() -> None:
        begin.wait()
        while not end.is_set():
            world.work()
            tick(world)

    thread = Thread(target=work)
    thread.start()
    yield begin
    end.set()
    begin.set()
    thread.join()


def refused(done, code: int, *said: str) -> None:
    """Assert that the command failed with this code and these words, on standard error alone."""
    assert (done.code, done.out) == (code, ""), done.err
    for words in said:
        assert words in done.err, done.err


def test_a_spider_is_put_twice_shown_listed_and_deleted(crawlfleet):
    first = crawlfleet(*SPIDER, *PATTERN, "--values", "kind=a,b", "--json").json()
    second = crawlfleet(*SPIDER, *PATTERN, "--priority", "8", "--description", "Its shop.")
    again = crawlfleet(*SPIDER, *PATTERN, "--priority", "8", "--description", "Its shop.", "--json")

    assert (first["version"], first["tasks"], again.json()["version"]) == (1, 20, 2)
    assert second.code == 0, second.err
    assert [word in second.lines[-1] for word in ("shop", "kept", "page", "kind")] == [True] * 4
    versions = crawlfleet("spider", "versions", BIZ, "shop", "--json").json()["versions"]
    assert [each["version"] for each in versions] == [2, 1]
    table = crawlfleet("spider", "versions", BIZ, "shop")
    assert [line.split()[:4] for line in table.lines[-2:]] == [
        ["2", "page", "10", "8"],
        ["1", "page", "20", "5"],
    ]
    shown = crawlfleet("spider", "show", BIZ, "shop")
    for words in ("1 to 10", "given by whoever starts a job", "Its shop."):
        assert words in shown.out
    assert crawlfleet("spider", "show", BIZ, "shop", "--version", "1", "--json").json() == first
    listed = crawlfleet("spider", "list", BIZ)
    assert [line.split()[:2] for line in listed.lines[-2:]] == [
        ["page", "configuration"],
        ["shop", "kept"],
    ]
    assert len(crawlfleet("spider", "list", BIZ, "--json").rows()) == 2
    assert crawlfleet("spider", "delete", BIZ, "shop").out == "shop deleted\n"
    refused(crawlfleet("spider", "show", BIZ, "shop"), 4, "'shop'", f"crawlfleet spider list {BIZ}")
    refused(crawlfleet("spider", "delete", BIZ, "shop", "--json"), 4, "'shop'")


def test_a_spider_that_schedules_start_is_not_deleted_and_it_is_said_which(crawlfleet):
    crawlfleet(*SPIDER, *PATTERN, "--values", "kind=a")
    assert crawlfleet(*SCHEDULE, "--spider", "shop").code == 0

    done = crawlfleet("spider", "delete", BIZ, "shop")

    refused(done, 1, "nightly", f"crawlfleet schedule list {BIZ}")


def test_a_schedule_is_put_previewed_paused_resumed_run_and_deleted(crawlfleet):
    crawlfleet(*SPIDER, *PATTERN)
    put = crawlfleet(
        *SCHEDULE, "--spider", "shop", "--set", "kind=new", "--time-zone", "Europe/Berlin"
    )
    changed = crawlfleet(
        *SCHEDULE, "--spider", "shop", "--set", "kind=old", "--overlap", "queue", "--json"
    )

    assert put.code == 0, put.err
    assert "spider shop" in put.lines[-1]
    assert (changed.json()["version"], changed.json()["values"]) == (2, {"kind": "old"})
    runs = crawlfleet("schedule", "next", BIZ, "nightly", "--json").json()["runs"]
    assert len(runs) == 5
    table = crawlfleet("schedule", "next", BIZ, "nightly", "-n", "2")
    assert [line.split()[1] for line in table.lines[-2:]] == ["03:00:00+00:00"] * 2
    versions = crawlfleet("schedule", "versions", BIZ, "nightly")
    assert [line.split()[0] for line in versions.lines[-2:]] == ["2", "1"]
    assert len(crawlfleet("schedule", "versions", BIZ, "nightly", "--json").json()["versions"]) == 2

    paused = crawlfleet("schedule", "pause", BIZ, "nightly")
    assert paused.lines[-1].split()[-4:] == ["no", "paused", "-", "-"]
    assert crawlfleet("schedule", "resume", BIZ, "nightly", "--json").json()["enabled"] is True
    run = crawlfleet(
        "schedule", "run", BIZ, "nightly", "--idempotency-key", "now-1", "--json"
    ).json()
    again = crawlfleet("schedule", "run", BIZ, "nightly", "--idempotency-key", "now-1")
    assert again.out == f"{run['job']} expanding, 10 tasks\n"
    assert f"crawlfleet job wait docs {run['job']}" in again.err
    refused(
        crawlfleet("schedule", "run", BIZ, "nightly"),
        1,
        run["job"],
        f"crawlfleet job show {BIZ} {run['job']}",
    )
    shown = crawlfleet("schedule", "show", BIZ, "nightly")
    for words in ("kind=old", "queue"):
        assert words in shown.out
    assert len(crawlfleet("schedule", "list", BIZ, "--json").json()["schedules"]) == 1
    assert crawlfleet("schedule", "delete", BIZ, "nightly", "--json").json() == {
        "deleted": "nightly"
    }
    for command in ("show", "delete", "pause", "resume", "run", "next", "versions"):
        refused(
            crawlfleet("schedule", command, BIZ, "nightly"), 4, "'nightly'", f"schedule list {BIZ}"
        )


def test_a_preview_reports_where_clocks_are_shifted(crawlfleet):
    line = ("schedule", "next", BIZ, "--cron", "30 2 * 3,10 0", "--time-zone", "Europe/Berlin")

    out = crawlfleet(*line, "-n", "20").out

    assert "forward by 60 min" in out
    assert "back by 60 min" in out


def test_a_wrong_cron_line_is_named_with_its_field(crawlfleet):
    for wrong in (
        crawlfleet("schedule", "put", BIZ, "x", "--cron", "61 * * * *", *PAGES),
        crawlfleet("schedule", "next", BIZ, "--cron", "often"),
    ):
        refused(wrong, 2, "cron: ")
    refused(crawlfleet(*SCHEDULE, *PAGES, "--time-zone", "Mars/Olympus"), 2, "time_zone: ")
    refused(crawlfleet(*SCHEDULE, "--spider", "never"), 2, "spider: ")
    assert crawlfleet("schedule", "list", BIZ, "--json").json() == {"schedules": []}


def test_a_job_is_started_and_waited_for_and_what_failed_is_retried(crawlfleet, crew, world):
    with a_web() as web:
        of = ("--rule", "page", "--pattern", f"{web.url}/{{page}}", "--values", "page=10..15")
        crawlfleet("spider", "put", BIZ, "shop", *of)
        started = crawlfleet("job", "start", BIZ, "--spider", "shop", "--name", "june")
        assert started.out == "june expanding, 6 tasks\n"
        assert "crawlfleet job wait docs june" in started.err
        late = crawlfleet("job", "wait", BIZ, "june", "--timeout", "0")
        refused(
            late,
            5,
            "the job june has not ended",
            "6 of its tasks are open",
            "crawlfleet job show docs june",
        )
        crew.set()
        waited = crawlfleet("job", "wait", BIZ, "june", "--timeout", "60")
        # The page that robots.txt forbids is one that fails.
        assert (waited.code, waited.out) == (1, "june done: 5 done, 1 dead\n")
        assert "robots.txt forbids them" in waited.err
        assert "`politeness: {robots: ignore}`" in waited.err
        assert "job retry" not in waited.err
        other = ("job", "start", BIZ, "--url", f"{web.url}/1", "--name", "may", "--wait", "--json")
        assert crawlfleet(*other).json()["state"] == "done"
        retried = crawlfleet("job", "retry", BIZ, "june")
        assert (retried.code, retried.out) == (0, "retried 1\n")
        assert crawlfleet("job", "wait", BIZ, "june", "--json").json()["counts"]["dead"] == 1

    shown = crawlfleet("job", "show", BIZ, "june")
    for words in ("shop (version 1)", "6 of 6 (100.0%)", "done"):
        assert words in shown.out
    rows = crawlfleet("job", "list", BIZ, "--spider", "shop", "--json").rows()
    assert [row["name"] for row in rows] == ["june"]
    took = crawlfleet("demands", BIZ, "--job", "june")
    assert (took.code, "downloaded" in took.out) == (0, True), took.err
    assert crawlfleet("demands", BIZ, "--job", "may", "--json").json()["records"] == 1
    a_learnt_run(MongoDemands(world.own.nodes), world.tenants["acme"], "april", "shop")
    assert [row["spider"] for row in crawlfleet("demands", BIZ, "--json").rows()] == ["shop"]
    assert "0.10 / 0.10 kB/s" in crawlfleet("demands", BIZ, "shop").out
    refused(crawlfleet("demands", BIZ, "never"), 4, "'never'", f"crawlfleet demands {BIZ}")


def test_a_place_that_is_left_open_is_refused_with_the_option_that_fills_it(crawlfleet):
    crawlfleet(*SPIDER, *PATTERN)

    for command in (("job", "start", BIZ), SCHEDULE):
        done = crawlfleet(*command, "--spider", "shop")
        refused(done, 2, "values.kind: is to be given", "`--value kind=...` fills it")
        filled = crawlfleet(*command, "--spider", "shop", "--value", "kind=a", "--value", "kind=b")
        assert filled.code == 0, filled.err


def test_jobs_of_patterns_and_of_files_are_started_listed_and_cancelled(crawlfleet, tmp_path):
    (tmp_path / "urls.txt").write_text("# three\nhttps://a.example/1\nhttps://a.example/2\n")
    pages = crawlfleet(
        *("job", "start", BIZ, "--rule", "page", "--pattern", "https://a.example/{kind}/{page}"),
        *("--range", "page=1..50", "--value", "kind=new", "--name", "pages", "--json"),
    ).json()
    urls = crawlfleet("job", "start", BIZ, "-f", str(tmp_path / "urls.txt"), "--name", "urls")

    assert (pages["size"], pages["values"], urls.out) == (
        50,
        {"kind": "new"},
        "urls expanding, 2 tasks\n",
    )
    assert crawlfleet("job", "cancel", BIZ, "urls").out == "urls cancelled\n"
    assert crawlfleet("job", "cancel", BIZ, "urls", "--json").json()["state"] == "cancelled"
    listed = crawlfleet("job", "list", BIZ)
    assert [line.split()[:2] for line in listed.lines[-2:]] == [
        ["urls", "cancelled"],
        ["pages", "expanding"],
    ]
    rows = crawlfleet("job", "list", BIZ, "--state", "expanding", "--json").rows()
    assert [row["name"] for row in rows] == ["pages"]
    refused(
        crawlfleet("job", "retry", BIZ, "urls"), 1, "cancelled", f"crawlfleet job show {BIZ} urls"
    )
    for command in ("show", "wait", "cancel", "retry"):
        refused(
            crawlfleet("job", command, BIZ, "never"), 4, "'never'", f"crawlfleet job list {BIZ}"
        )


def test_a_job_takes_as_many_urls_as_a_schedule_and_of_more_it_is_said_where_they_go(
    crawlfleet, tmp_path
):
    urls = [f"https://a.example/{n}" for n in range(10_001)]
    most, more = tmp_path / "most.txt", tmp_path / "more.txt"
    most.write_text("\n".join(urls[:-1]))
    more.write_text("\n".join(urls))

    done = crawlfleet("job", "start", BIZ, "--file", str(most), "--name", "june")

    assert done.out == "june expanding, 10,000 tasks\n", done.err
    refused(
        crawlfleet("job", "start", BIZ, "--file", str(more)),
        *(2, "10,001", "crawlfleet submit docs --file FILE --job NAME"),
    )


def test_a_job_that_nobody_named_says_what_it_is_a_run_of(crawlfleet):
    crawlfleet(*SPIDER, *PATTERN, "--values", "kind=a")

    of = [crawlfleet("job", "start", BIZ, "--spider", "shop").out for _ in range(2)]
    of += [
        crawlfleet("job", "start", BIZ, *PAGES).out,
        crawlfleet("job", "start", BIZ, *PAGES[2:]).out,
    ]

    assert [re.sub("[0-9a-f]{6,8}", "#", each) for each in of] == [
        "shop-#-#-# expanding, 10 tasks\n",
        "shop-#-#-# expanding, 10 tasks\n",
        "page-#-#-# expanding, 2 tasks\n",
        "job-#-#-# expanding, 2 tasks\n",
    ]
    assert len(set(of)) == 4


def test_what_is_wrong_with_an_order_is_said_with_what_to_do(crawlfleet, world, standing_door):
    refused(
        crawlfleet("job", "start", BIZ, "--spider", "never"), 4, "'never'", f"spider list {BIZ}"
    )
    refused(crawlfleet("job", "start", BIZ, *PAGES, "--pool", "none"), 2, "pool: ")
    refused(crawlfleet("job", "start", "never", *PAGES), 4, "'never'", "crawlfleet config push")
    crawlfleet("job", "start", BIZ, *PAGES, "--name", "june")
    taken = crawlfleet("job", "start", BIZ, *PAGES[:-2], "--name", "june")
    refused(taken, 1, "'june'", "choose another name", f"crawlfleet job show {BIZ} june")
    for key in ("unheard-of", standing_door.keys["nobody"]):
        stranger = crawlfleet("job", "list", BIZ, "--api-key", key)
        refused(stranger, 2, "Check the key")
        assert key not in stranger.err


def test_too_many_open_jobs_are_reported_with_what_ends_one(crawlfleet, world):
    bizs = default_bizs()
    bizs["acme"][BIZ]["open_jobs"] = 1
    world.push(bizs)
    crawlfleet(*SCHEDULE, *PAGES)
    assert crawlfleet("job", "start", BIZ, *PAGES, "--name", "june").code == 0

    refused(
        crawlfleet("job", "start", BIZ, *PAGES), 1, "1 open jobs", f"crawlfleet job cancel {BIZ}"
    )
    refused(crawlfleet("schedule", "run", BIZ, "nightly"), 1, "1 open jobs")
    assert json.loads(crawlfleet("job", "show", BIZ, "june", "--json").out)["state"] == "expanding"
