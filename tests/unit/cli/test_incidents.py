"""``crawlfleet incidents`` against an API that answers with its own views."""

import re

import msgspec
import pytest

from tests.kit.api import incident_view
from tests.kit.incidents import Incident, Kind, Life, NotificationState, Place, Word
from tests.kit.sdk import Client
from tests.kit.worlds.incidents import MINUTE, START, an_incident

HEARD = NotificationState(notified=Word.OPENED, notified_at=START)
OVER = {"life": Life.OVER, "over_at": START + 9 * MINUTE, "returns": 2}


@pytest.fixture
def known(api):
    """Have the API know of these incidents."""

    def of(*incidents: Incident) -> None:
        api.incidents = [msgspec.to_builtins(incident_view(each)) for each in incidents]

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
