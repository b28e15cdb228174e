"""ports.Journal over memory and a real MongoDB."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.ledger import MemoryJournal
from tests.kit.broken_servers import closed_port
from tests.kit.implementations import fixture_over
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.mongo import MongoJournal
from tests.kit.mongo_nodes import NodesOnOneServer, nodes_at
from tests.kit.requests import JournalLine

NOW = datetime.now(UTC).replace(microsecond=0)
MS = timedelta(milliseconds=1)


journal = fixture_over(MongoJournal)


def a_line(at: datetime = NOW, **changes: object) -> JournalLine:
    facts: dict = {"at": at, "by": "scheduler", "kind": "buried", "why": "silent", "count": 3}
    return JournalLine(**{**facts, **changes})


def test_the_lines_of_a_span_come_oldest_first(journal: MongoJournal, queue_key: QueueKey) -> None:
    lines = [a_line(NOW + n * MS, kind=f"k{n}", count=n) for n in range(5)]
    for line in (lines[3], lines[0], lines[4], lines[1], lines[2]):
        journal.note(queue_key, line)

    assert journal.lines(queue_key, NOW, NOW + 5 * MS, 100) == lines
    assert journal.lines(queue_key, NOW + MS, NOW + 4 * MS, 100) == lines[1:4]
    assert journal.lines(queue_key, NOW, NOW + 5 * MS, 2) == lines[:2]
    assert journal.lines(queue_key, NOW + 5 * MS, NOW + 9 * MS, 2) == []


def test_lines_of_one_moment_are_all_kept_in_the_order_they_were_noted(
    journal: MongoJournal, queue_key: QueueKey
) -> None:
    lines = [a_line(count=n) for n in range(4)]
    for line in lines:
        journal.note(queue_key, line)

    assert journal.lines(queue_key, NOW, NOW + MS, 100) == lines


def test_another_tenant_or_biz_reads_none_of_it(journal: MongoJournal, queue_key: QueueKey) -> None:
    journal.note(queue_key, a_line())

    for other in (
        QueueKey(f"{queue_key.tenant}x", queue_key.biz, "main"),
        QueueKey(queue_key.tenant, "else", "main"),
    ):
        assert journal.lines(other, NOW - MS, NOW + MS, 10) == []


def test_long_and_unwritable_texts_are_cut_to_what_can_be_kept(
    journal: MongoJournal, queue_key: QueueKey
) -> None:
    journal.note(queue_key, a_line(why="\ud800" + "w" * 900, by="b" * 900, kind="k" * 900))

    [line] = journal.lines(queue_key, NOW, NOW + MS, 1)

    assert line.why == "?" + "w" * 499
    assert (len(line.by), len(line.kind)) == (128, 128)


def test_a_moment_is_kept_to_the_millisecond(journal: MongoJournal, queue_key: QueueKey) -> None:
    journal.note(queue_key, a_line(NOW + timedelta(microseconds=1_999)))

    assert journal.lines(queue_key, NOW, NOW + 2 * MS, 1) == [a_line(NOW + MS)]


def test_lines_are_kept_for_a_month(mongo_uri: str, queue_key: QueueKey) -> None:
    with nodes_at(mongo_uri) as nodes:
        MongoJournal(nodes).note(queue_key, a_line())
        indexes = nodes.control("journal").index_information()

    assert indexes["ttl"]["expireAfterSeconds"] == 30 * 24 * 3600
    assert indexes["by_time"]["key"] == [("tenant", 1), ("biz", 1), ("at", 1), ("_id", 1)]
    memory = MemoryJournal()
    memory.note(queue_key, a_line(NOW - timedelta(days=31)))
    memory.note(queue_key, a_line())
    assert memory.lines(queue_key, NOW - timedelta(days=40), NOW + MS, 10) == [a_line()]


def test_the_home_node_away_is_an_error(queue_key: QueueKey) -> None:
    with closed_port() as address:
        nodes = NodesOnOneServer(f"mongodb://{address}/")
        try:
            with pytest.raises(StoreUnavailableError):
                MongoJournal(nodes).note(queue_key, a_line())
        finally:
            nodes.close()
