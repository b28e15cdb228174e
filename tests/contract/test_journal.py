"""ports.Journal over memory and a real MongoDB."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.ledger import MemoryJournal
from tests.kit.broken_servers import closed_port
from tests.kit.implementations import fixture_over
from tests.kit.kernel import Lane, StoreUnavailableError
from tests.kit.mongo import MongoJournal
from tests.kit.mongo_nodes import NodesOnOneServer, nodes_at
from tests.kit.requests import Journal, JournalLine

NOW = datetime.now(UTC).replace(microsecond=0)
MS = timedelta(milliseconds=1)


journal = fixture_over(Journal)


def a_line(at: datetime = NOW, **changes: object) -> JournalLine:
    facts: dict = {"at": at, "by": "scheduler", "kind": "buried", "why": "silent", "count": 3}
    return JournalLine(**{**facts, **changes})


def test_the_lines_of_a_span_come_oldest_first(journal: Journal, lane: Lane) -> None:
    lines = [a_line(NOW + n * MS, kind=f"k{n}", count=n) for n in range(5)]
    for line in (lines[3], lines[0], lines[4], lines[1], lines[2]):
        journal.note(lane, line)

    assert journal.lines(lane, NOW, NOW + 5 * MS, 100) == lines
    assert journal.lines(lane, NOW + MS, NOW + 4 * MS, 100) == lines[1:4]
    assert journal.lines(lane, NOW, NOW + 5 * MS, 2) == lines[:2]
    assert journal.lines(lane, NOW + 5 * MS, NOW + 9 * MS, 2) == []


def test_lines_of_one_moment_are_all_kept_in_the_order_they_were_noted(
    journal: Journal, lane: Lane
) -> None:
    lines = [a_line(count=n) for n in range(4)]
    for line in lines:
        journal.note(lane, line)

    assert journal.lines(lane, NOW, NOW + MS, 100) == lines


def test_another_tenant_or_biz_reads_none_of_it(journal: Journal, lane: Lane) -> None:
    journal.note(lane, a_line())

    for other in (Lane(f"{lane.tenant}x", lane.biz, "main"), Lane(lane.tenant, "else", "main")):
        assert journal.lines(other, NOW - MS, NOW + MS, 10) == []


def test_long_and_unwritable_texts_are_cut_to_what_can_be_kept(
    journal: Journal, lane: Lane
) -> None:
    journal.note(lane, a_line(why="\ud800" + "w" * 900, by="b" * 900, kind="k" * 900))

    [line] = journal.lines(lane, NOW, NOW + MS, 1)

    assert line.why == "?" + "w" * 499
    assert (len(line.by), len(line.kind)) == (128, 128)


def test_a_moment_is_kept_to_the_millisecond(journal: Journal, lane: Lane) -> None:
    journal.note(lane, a_line(NOW + timedelta(microseconds=1_999)))

    assert journal.lines(lane, NOW, NOW + 2 * MS, 1) == [a_line(NOW + MS)]


def test_lines_are_kept_for_a_month(mongo_uri: str, lane: Lane) -> None:
    with nodes_at(mongo_uri) as nodes:
        MongoJournal(nodes).note(lane, a_line())
        indexes = nodes.control("journal").index_information()

    assert indexes["ttl"]["expireAfterSeconds"] == 30 * 24 * 3600
    assert indexes["by_time"]["key"] == [("tenant", 1), ("biz", 1), ("at", 1), ("_id", 1)]
    memory = MemoryJournal()
    memory.note(lane, a_line(NOW - timedelta(days=31)))
    memory.note(lane, a_line())
    assert memory.lines(lane, NOW - timedelta(days=40), NOW + MS, 10) == [a_line()]


def test_the_home_node_away_is_an_error(lane: Lane) -> None:
    with closed_port() as address:
        nodes = NodesOnOneServer(f"mongodb://{address}/")
        try:
            with pytest.raises(StoreUnavailableError):
                MongoJournal(nodes).note(lane, a_line())
        finally:
            nodes.close()
