"""Tables in narrow terminals: whole columns, no id in two lines, a sign at what is cut."""

import io
import os
import re
from datetime import UTC, datetime

import msgspec
import pytest

from tests.kit.api import share_view
from tests.kit.api_server import BIZ, record
from tests.kit.ceilings import CeilingState
from tests.kit.jobs import JobState
from tests.kit.monitoring import TenantState

ID = "7300123456789012345"
JOB = "nightly.20261121T030000Z"
WORKER = "i-2-consumer-20261121-0a1b2c3d"
LONG = "https://example.org/a/path/of/a/shop/that/has/many/words/and/more-of-them.html"
#: Each command, and what of it is never in two lines, nor left out.
LISTS = {
    "requests": (ID, JOB, "dead"),
    "records": ("Börse 1", "3.5"),
    "job list": (JOB, "done", "220"),
    "dead list": (ID, "Extract"),
    "schedule list": ("every-night-of-the-shop", "failed"),
    "workers": (WORKER, "alive", "17"),
    "shares": ("acme", "75%", "12"),
}
#: Columns that have room in 60 signs.
NARROW = {
    "requests": "id state job",
    "records": "request url title price place",
    "job list": "name state done dead",
    "dead list": "id reason status",
    "schedule list": "name next outcome",
    "workers": "worker health silent held",
    "shares": "tenant share part ready in flight in_flight",
}


@pytest.fixture
def fleet(crawlfleet, api):
    crawlfleet("submit", BIZ, LONG, "--job", JOB)
    (one,) = api.requests.values()
    dead = {"id": ID, "state": "dead", "reason": "Extract", "error": "title: nothing matches"}
    api.requests = {ID: one | dead}
    api.findings.dead_letter(int(ID), reason="Extract", url=LONG)
    api.records = [
        record(ID, 0, title=f"Börse 1 {'and much more ' * 9}", price=3.5, place="north")
        | {"url": LONG}
    ]
    ends = datetime(2026, 11, 21, 3, 4, 5, 678_000, tzinfo=UTC)
    counts = {"done": 220, "dead": 1}
    api.jobs.keep(
        JOB,
        state=JobState.DONE,
        spider="a-spider-with-a-name-of-its-own",
        size=221,
        counts=counts,
        ended_at=ends,
    )
    crawlfleet(
        *("schedule", "put", BIZ, "every-night-of-the-shop", "--cron", "0 3 * * 1-5"),
        *("--time-zone", "Europe/Berlin", "--rule", "article", "--url", LONG),
    )
    api.schedules["every-night-of-the-shop"] |= {
        "next_at": "2026-11-22T02:00:00Z",
        "last_fired_at": "2026-11-21T02:00:00Z",
        "last_outcome": {
            "outcome": "failed",
            "fire_at": "2026-11-21T02:00:00Z",
            "at": "2026-11-21T02:00:30Z",
            "job": None,
            "why": "the rule is gone",
        },
    }
    api.findings.workers = [
        {
            "worker": WORKER,
            "held": 17,
            "health": "alive",
            "phi": 0.4,
            "silent_seconds": 1.2,
            "since": "2026-11-21T03:00:00Z",
        }
    ]
    names = ("in_flight", "requests_per_second", "documents", "bytes", "trials")
    ceilings = tuple(
        CeilingState(limit=f"ceilings.{name}", used=12, allowed=500_000) for name in names
    )
    one = TenantState(tenant="acme", share=3, part=0.75, ready=40, in_flight=12, ceilings=ceilings)
    api.shares = [msgspec.to_builtins(share_view(one))]


def asked(command):
    of_biz = () if command == "shares" else (BIZ,)
    form = ("--format", "table") if command == "records" else ()
    return (*command.split(), *of_biz, *form)


@pytest.mark.parametrize("width", [60, 80, 120, None])
@pytest.mark.parametrize("command", LISTS)
def test_a_list_keeps_to_its_width_with_a_row_in_one_line(
    crawlfleet, fleet, monkeypatch, command, width
):
    if width:
        monkeypatch.setenv("COLUMNS", str(width))

    done = crawlfleet(*asked(command))

    # Nothing is broken: a URL that stands below its row is as long as it is.
    rows = [line for line in done.lines if line.strip() and line.strip() != LONG]
    assert max(map(len, rows)) <= (width or 120), done.out
    (row,) = (line for line in rows[2:] if LISTS[command][0] in line)
    assert all(part in row for part in LISTS[command]), done.out
    assert len(rows) == (4 if command in {"requests", "dead list"} else 3), done.out


@pytest.mark.parametrize("command", LISTS)
def test_what_has_no_room_is_left_out_whole_and_named(crawlfleet, fleet, monkeypatch, command):
    wide = _head(crawlfleet(*asked(command)))
    monkeypatch.setenv("COLUMNS", "60")

    done = crawlfleet(*asked(command))

    shown = _head(done)
    assert " ".join(shown) == NARROW[command]
    [told] = re.findall(r"no room in 60 columns for (.*): --json has all", done.err)
    assert set(wide) - set(shown) <= set(" ".join(told.split(", ")).split())


def test_a_cell_that_is_cut_ends_in_three_dots(crawlfleet, fleet, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")

    [row] = [line for line in crawlfleet(*asked("records")).lines if "Börse" in line]

    assert re.search(r"https://\S*…", row)
    assert re.search(r"Börse 1[\w ]*…", row)


def test_a_terminal_says_how_wide_it_is(crawlfleet, fleet, monkeypatch):
    class Screen(io.TextIOWrapper):
        def isatty(self):
            return True

    screen = Screen(io.BytesIO(), encoding="utf-8", write_through=True)
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_: os.terminal_size((60, 24)))

    crawlfleet("schedule", "list", BIZ)

    lines = re.sub(r"\x1b\[[0-9;]*m", "", screen.buffer.getvalue().decode()).splitlines()
    assert lines[0].split() == NARROW["schedule list"].split()
    assert max(map(len, lines)) <= 60


def _head(done):
    return next(line for line in done.lines if line.strip()).split()


@pytest.mark.parametrize("width", [60, 80, 120, None])
@pytest.mark.parametrize("command", ["explain", "status"])
def test_reasons_have_the_whole_width_below_their_lines(
    crawlfleet, fleet, api, monkeypatch, command, width
):
    if width:
        monkeypatch.setenv("COLUMNS", str(width))
    why = f"RobotsDenied: {LONG} is forbidden by the line `Disallow: /a/path` of its robots.txt"
    event = {"at": "2026-11-21T03:00:00.123Z", "by": WORKER, "why": why, "peers": []}
    steps = [{**event, "kind": "request", "state": "dead"}]
    answer = api.findings.explained
    monkeypatch.setattr(api.findings, "explained", lambda one: answer(one) | {"steps": steps})
    api.requests[ID]["timeline"] = [{**event, "state": "dead"}]

    done = crawlfleet(command, BIZ, ID)

    assert done.code == 0
    assert "no room" not in done.err
    [head] = [at for at, line in enumerate(done.lines) if line.startswith("when ")]
    time, *said = [line for line in done.lines[head + 2 :] if line.strip()]
    assert time.split()[-1] == "dead"
    assert " ".join(" ".join(said).split()) == f"by {WORKER}: {why}"
    assert all(len(line) <= (width or 120) for line in said if LONG not in line)
    # A URL is not broken, and has a line by itself where it has no room beside other words.
    assert len(said) <= len(why + WORKER) // ((width or 120) - 20) + 2
