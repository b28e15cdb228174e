"""ports.SubmissionKeys over memory and a real MongoDB."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pymongo.monitoring
import pytest

from tests.kit.broken_servers import closed_port
from tests.kit.implementations import fixture_over
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.mongo_nodes import NodesOnOneServer, nodes_at
from tests.kit.requests import Keyed, KeyKind, KeyName, RuleVersion
from tests.kit.submission import MongoSubmissionKeys
from tests.waiting import eventually

NOW = datetime.now(UTC).replace(microsecond=0)
UNTIL = NOW + timedelta(days=1)
MS = timedelta(milliseconds=1)


keys = fixture_over(MongoSubmissionKeys)


def keyed(key: str = "k", kind: KeyKind = KeyKind.CALL, **changes: object) -> Keyed:
    facts: dict = {
        "name": KeyName(kind, key),
        "digest": b"\0\xff" * 16,
        "ids": (2**62, "ab" * 16, 7),
        "rules": (RuleVersion("detail", "v1"), None, RuleVersion("list.page", "v2")),
        "queued_at": NOW + 7 * MS,
    }
    return Keyed(**{**facts, **changes})


def entries(count: int, first: int = 1, at: datetime = NOW) -> list[Keyed]:
    rules = (RuleVersion("r", "v"),)
    return [
        keyed(f"c{n}", KeyKind.ENTRY, ids=(first + n,), rules=rules, queued_at=at)
        for n in range(count)
    ]


def test_a_key_is_kept_and_found_as_it_was_given(
    keys: MongoSubmissionKeys, queue_key: QueueKey
) -> None:
    given = keyed()

    assert keys.find(queue_key, [given.name]) == {}
    assert keys.open(queue_key, [given], UNTIL) == [given]
    assert keys.find(queue_key, [given.name, KeyName(KeyKind.CALL, "other")]) == {given.name: given}


def test_a_key_that_is_kept_answers_with_what_it_was_first_given(
    keys: MongoSubmissionKeys, queue_key: QueueKey
) -> None:
    first = keyed()
    keys.open(queue_key, [first], UNTIL)

    again = keys.open(queue_key, [keyed(ids=(1,), rules=(None,), digest=b"x" * 32)], UNTIL)

    assert again == [first]


def test_many_are_opened_at_once_and_answer_in_their_order(
    keys: MongoSubmissionKeys, queue_key: QueueKey
) -> None:
    some = entries(40)[::3]
    keys.open(queue_key, some, UNTIL)
    later = entries(40, first=1_000)

    opened = keys.open(queue_key, later, UNTIL)

    assert opened == [entries(40)[n] if n % 3 == 0 else later[n] for n in range(40)]
    assert keys.open(queue_key, [], UNTIL) == []
    assert keys.find(queue_key, []) == {}


@pytest.mark.parametrize("key", ["k", "call/k", "entry/k", "/", "a/../b", "$x.y", "~" * 255])
def test_no_key_is_taken_for_another(
    keys: MongoSubmissionKeys, queue_key: QueueKey, key: str
) -> None:
    others = [
        (QueueKey(f"{queue_key.tenant}x", queue_key.biz, "main"), KeyName(KeyKind.CALL, key)),
        (QueueKey(queue_key.tenant, "else", "main"), KeyName(KeyKind.CALL, key)),
        (queue_key, KeyName(KeyKind.ENTRY, key)),
        (queue_key, KeyName(KeyKind.CALL, key[:-1] + "?")),
    ]
    keys.open(queue_key, [keyed(key)], UNTIL)

    assert [keys.find(whose, [name]) for whose, name in others] == [{}, {}, {}, {}]
    for number, (whose, name) in enumerate(others):
        mine = keyed(name=name, ids=(number,), rules=(None,))
        assert keys.open(whose, [mine], UNTIL) == [mine]
    assert keys.find(queue_key, [KeyName(KeyKind.CALL, key)])[KeyName(KeyKind.CALL, key)] == keyed(
        key
    )


def test_the_queue_of_a_biz_is_no_part_of_its_keys(
    keys: MongoSubmissionKeys, queue_key: QueueKey
) -> None:
    keys.open(queue_key, [keyed()], UNTIL)

    moved = QueueKey(queue_key.tenant, queue_key.biz, "renamed")

    assert keys.find(moved, [keyed().name]) == {keyed().name: keyed()}


def test_a_closed_key_says_that_it_is_stored(
    keys: MongoSubmissionKeys, queue_key: QueueKey
) -> None:
    some = entries(3)
    keys.open(queue_key, some, UNTIL)
    keys.close(queue_key, some[:2])
    keys.close(queue_key, [])

    found = keys.find(queue_key, [one.name for one in some])

    assert [found[one.name].stored for one in some] == [True, True, False]


def test_an_open_key_may_be_forgotten_and_given_anew(
    keys: MongoSubmissionKeys, queue_key: QueueKey
) -> None:
    old, new = entries(2), entries(2, first=50, at=NOW + MS)
    keys.open(queue_key, old, UNTIL)
    keys.forget(queue_key, old)
    keys.forget(queue_key, [])

    assert keys.find(queue_key, [one.name for one in old]) == {}
    assert keys.open(queue_key, new, UNTIL) == new


def test_what_has_taken_the_place_of_a_key_is_neither_closed_nor_forgotten_for_it(
    keys: MongoSubmissionKeys, queue_key: QueueKey
) -> None:
    old, new = entries(2), entries(2, first=50, at=NOW + MS)
    keys.open(queue_key, old, UNTIL)
    keys.forget(queue_key, old)
    keys.open(queue_key, new, UNTIL)

    keys.forget(queue_key, old)
    keys.close(queue_key, old)

    assert keys.find(queue_key, [one.name for one in new]) == {one.name: one for one in new}


def test_a_closed_key_is_not_forgotten(keys: MongoSubmissionKeys, queue_key: QueueKey) -> None:
    some = entries(1)
    keys.open(queue_key, some, UNTIL)
    keys.close(queue_key, some)

    keys.forget(queue_key, some)

    assert keys.find(queue_key, [some[0].name])[some[0].name].stored


def test_of_many_that_open_the_same_keys_at_once_all_get_the_same_ids(
    keys: MongoSubmissionKeys, queue_key: QueueKey
) -> None:
    rounds, callers = 6, 4
    barrier = Barrier(callers)

    def open_all(caller: int) -> list[list[Keyed]]:
        opened = []
        for number in range(rounds):
            mine = [
                keyed(f"{number}-{n}", KeyKind.ENTRY, ids=(caller * 1_000 + n,), rules=(None,))
                for n in range(25)
            ]
            barrier.wait(60)
            opened.append(keys.open(queue_key, mine if caller % 2 else mine[::-1], UNTIL))
        return [one if caller % 2 else one[::-1] for one in opened]

    with ThreadPoolExecutor(callers) as pool:
        first, *others = pool.map(open_all, range(callers))

    assert all(other == first for other in others)
    names = [one.name for opened in first for one in opened]
    assert keys.find(queue_key, names) == {one.name: one for opened in first for one in opened}


def test_mongodb_removes_a_key_when_its_life_has_ended(mongo_uri: str, queue_key: QueueKey) -> None:
    with nodes_at(mongo_uri) as nodes:
        keys = MongoSubmissionKeys(nodes)
        ended, lives = keyed("ended"), keyed("lives")
        keys.open(queue_key, [ended], NOW - timedelta(seconds=1))
        keys.open(queue_key, [lives], UNTIL)

        eventually(
            lambda: ended.name not in keys.find(queue_key, [ended.name]),
            what="the key's removal",
        )
        assert lives.name in keys.find(queue_key, [lives.name])


def test_a_batch_of_a_thousand_takes_few_round_trips(mongo_uri: str, queue_key: QueueKey) -> None:
    sent: list[str] = []

    class Listener(pymongo.monitoring.CommandListener):
        def started(self, event):
            if event.command_name != "endSessions":
                sent.append(event.command_name)

        def succeeded(self, event):
            pass

        def failed(self, event):
            pass

    with nodes_at(mongo_uri, Listener()) as nodes:
        keys, some = MongoSubmissionKeys(nodes), entries(1_000)
        keys.find(queue_key, [])
        keys.open(queue_key, some[:500], UNTIL)
        sent.clear()

        assert len(keys.find(queue_key, [one.name for one in some])) == 500
        keys.open(queue_key, some, UNTIL)
        keys.close(queue_key, some)

        assert [name for name in sent if name != "getMore"] == ["find", "insert", "find", "update"]
        assert sent.count("getMore") <= 3


def test_the_home_node_away_is_an_error(queue_key: QueueKey) -> None:
    with closed_port() as address:
        nodes = NodesOnOneServer(f"mongodb://{address}/")
        try:
            for call in (
                lambda keys: keys.find(queue_key, [keyed().name]),
                lambda keys: keys.open(queue_key, [keyed()], UNTIL),
            ):
                with pytest.raises(StoreUnavailableError):
                    call(MongoSubmissionKeys(nodes))
        finally:
            nodes.close()
