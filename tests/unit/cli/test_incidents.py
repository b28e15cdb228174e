"""``crawlfleet incidents`` against an API that answers with its own views."""

import re

import msgspec
import pytest

from tests.kit.api import incident_view
from tests.kit.incidents import (
    HandledIncident,
    Incident,
    Kind,
    Life,
    NotificationState,
    Place,
    Word,
)
from tests.kit.sdk import Client
from tests.kit.worlds.incidents import MINUTE, START, an_incident

HEARD = NotificationState(notified=Word.OPENED, notified_at=START)
OVER = {"life": Life.OVER, "over_at": START + 9 * MINUTE, "returns": 2}


@pytest.fixture
def known(api):
    """Have the API know of these incidents."""

    def of(*incidents: Incident) -> None:
        api.incidents = [
            msgspec.to_builtins(incident_view(START, HandledIncident(each))) for each in incidents
        ]

    return of


def down(**changes: object) -> Incident:
    place = Place(part="mongodb", name="main")
    facts: dict = {"kind": Kind.PART_DOWN, "place": place, "people": HEARD, "said": "no answer"}
    return an_incident(9, "", **{**facts, **changes})


def test_what_is_open_is_reported_with_what_to_do_and_a_code(crawlfleet, known):
    known(down(), an_incident(1))

    done = crawlfleet("incidents")

    assert done.code == 1
    assert re.search(r"open +critical +mongodb main ", done.out)
    assert "no answer" in done.out
    assert "What next: " in done.out
    assert "biz acme/b1" in done.out
    assert "told: opened" in done.out


def test_where_nothing_is_wrong_nothing_is_said_but_that(crawlfleet, known):
    known(down(**OVER))

    done = crawlfleet("incidents")

    assert (done.code, done.out, done.err) == (0, "", "nothing is wrong\n")


def test_what_is_over_is_reported_on_demand(crawlfleet, known):
    known(down(**OVER))

    done = crawlfleet("incidents", "--all")

    assert done.code == 0
    assert "2026-03-01 12:09:00Z" in done.out
    assert "back 2 times" in done.out
    assert "What next" not in done.out


def test_scripts_get_a_line_each_from_all_pages(crawlfleet, known):
    known(*(an_incident(n) for n in range(7)))

    done = crawlfleet("incidents", "--json")

    assert done.code == 1
    assert [row["biz"] for row in done.rows()] == [f"b{n}" for n in range(7)]
    assert len(crawlfleet("incidents", "--json", "--limit", "3").rows()) == 3


def test_a_table_that_is_cut_says_so(crawlfleet, known):
    known(*(an_incident(n) for n in range(5)))

    done = crawlfleet("incidents", "--limit", "2")

    assert "more than these 2: set --limit" in done.err


def test_the_sdk_reads_incidents_as_values(api, known):
    known(down(), an_incident(1))

    with Client() as fleet:
        first, second = fleet.incidents()

    assert (first.place, first.tenant, first.told) == ("mongodb main", None, "opened")
    assert (second.place, second.value, second.threshold) == ("biz acme/b1", 12.0, 10.0)
    assert first.since == START


def test_an_incident_is_acknowledged_silenced_and_that_taken_back(crawlfleet, known):
    known(an_incident(1))
    name = f"{1:024x}"

    done = crawlfleet("incident", "acknowledge", name, "--why", "Ann is at it")
    assert (done.code, done.err) == (0, "biz acme/b1: nobody is reminded of it any more\n")
    listed = crawlfleet("incidents").out
    assert "acknowledged by acme, 2026-03-01 12:00Z: Ann is at it" in listed
    assert f"id {name}" in listed

    done = crawlfleet("incident", "silence", name, "--for", "4h")
    assert done.err == "biz acme/b1: nobody is told of it until 2026-03-01 16:00Z\n"
    assert "silenced until 2026-03-01 16:00Z by acme" in crawlfleet("incidents").out

    done = crawlfleet("incident", "unsilence", name)
    assert done.err == "biz acme/b1: people are told of it, and reminded\n"
    listed = crawlfleet("incidents").out
    assert "silenced" not in listed
    assert "acknowledged" not in listed


def test_a_handled_incident_is_json_for_scripts(crawlfleet, known):
    known(an_incident(1))

    [row] = crawlfleet("incident", "silence", f"{1:024x}", "--for", "30m", "--json").rows()

    assert row["silenced"]["until"] == "2026-03-01T12:30:00Z"


@pytest.mark.parametrize("text", ["4", "h", "-1h", "4w", ""])
def test_a_time_that_is_none_is_told_how_to_write_one(crawlfleet, known, text: str):
    done = crawlfleet("incident", "silence", f"{1:024x}", "--for", text)

    assert done.code == 2
    assert "write 30m, 4h or 2d" in done.err


def test_what_is_over_or_unknown_is_not_acknowledged(crawlfleet, known):
    known(down(**OVER))

    assert "the incident is over" in crawlfleet("incident", "acknowledge", f"{9:024x}").err
    assert "no incident" in crawlfleet("incident", "acknowledge", f"{8:024x}").err
