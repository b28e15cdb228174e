"""Visits of pages over memory and a real MongoDB."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pymongo.monitoring
import pytest
from msgspec.structs import replace

from tests.contract.store_cases import NOW, a_generation
from tests.contract.visit_cases import BIZ, HOUR, POLICY, SECOND, a_visit
from tests.kit.broken_servers import closed_port
from tests.kit.implementations import Backend, backend_over
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.mongo_nodes import NodesOnOneServer, nodes_at
from tests.kit.recrawl import BY_SPARED, MongoVisits
from tests.kit.requests import Validators, Visit, VisitTotals
from tests.waiting import eventually

backend = backend_over(MongoVisits)


@pytest.fixture
def visits(backend: Backend) -> MongoVisits:
    return backend[MongoVisits]


def keys_of(visits: list[Visit]) -> list[str]:
    return [visit.key for visit in visits]


def test_a_visit_is_known_as_it_was_seen(visits: MongoVisits, queue_key: QueueKey) -> None:
    whole = a_visit()
    bare = Visit(
        key="ab" * 16, url="http://a/", rule="r", visited_at=NOW, changed_at=NOW, interval_seconds=1
    )
    assert visits.known(queue_key, BIZ, [whole.key]) == {}
    assert visits.totals(queue_key, BIZ, NOW) == VisitTotals()
    assert visits.due(queue_key, BIZ, NOW, 10) == []

    visits.saw(queue_key, BIZ, [whole, bare])
    visits.saw(queue_key, BIZ, [])

    assert visits.known(queue_key, BIZ, [whole.key, "00" * 16, bare.key, bare.key]) == {
        whole.key: whole,
        bare.key: bare,
    }
    assert visits.known(queue_key, BIZ, []) == {}


def test_the_later_visit_is_kept_in_whatever_order_they_come(
    visits: MongoVisits, queue_key: QueueKey
) -> None:
    early = a_visit(visits=1)
    late = a_visit(visits=2, visited_at=NOW + SECOND, next_at=None, validators=Validators())

    visits.saw(queue_key, BIZ, [late, early])
    assert visits.known(queue_key, BIZ, [late.key]) == {late.key: late}
    visits.saw(queue_key, BIZ, [early])
    assert visits.known(queue_key, BIZ, [late.key]) == {late.key: late}
    visits.saw(queue_key, BIZ, [late])
    assert visits.known(queue_key, BIZ, [late.key]) == {late.key: late}


def test_of_visits_that_are_seen_at_once_the_latest_is_kept(
    visits: MongoVisits, queue_key: QueueKey
) -> None:
    callers, pages, rounds = 4, 25, 5
    barrier = Barrier(callers)

    def see(caller: int) -> None:
        for number in range(rounds):
            at = NOW + (number * callers + caller) * SECOND
            some = [a_visit(page, visited_at=at) for page in range(pages)]
            barrier.wait(60)
            visits.saw(queue_key, BIZ, some if caller % 2 else some[::-1])

    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(see, range(callers)))

    last = NOW + (rounds * callers - 1) * SECOND
    found = visits.known(queue_key, BIZ, [a_visit(page).key for page in range(pages)])
    assert [visit.visited_at for visit in found.values()] == [last] * pages


def test_the_longest_due_come_first_and_no_more_than_asked_for(
    visits: MongoVisits, queue_key: QueueKey
) -> None:
    some = [a_visit(number) for number in range(12)]
    never = a_visit(99, next_at=None)
    visits.saw(queue_key, BIZ, [*some[::-1], never])

    assert visits.due(queue_key, BIZ, NOW + 7 * SECOND, 100) == some[:8]
    assert visits.due(queue_key, BIZ, NOW + HOUR, 5) == some[:5]
    assert visits.due(queue_key, BIZ, NOW - SECOND, 5) == []


def test_pages_that_carry_much_come_in_smaller_parts(backend: Backend, queue_key: QueueKey) -> None:
    visits = backend.make(MongoVisits, meta_room=2_500)
    some = [a_visit(number, meta={"x": "y" * 1_000}) for number in range(5)]
    some += [a_visit(5, meta={"x": "y" * 10_000}), a_visit(6)]
    visits.saw(queue_key, BIZ, some)

    assert visits.due(queue_key, BIZ, NOW + HOUR, 100) == some[:2]
    assert visits.due(queue_key, BIZ, NOW + HOUR, 1) == some[:1]
    visits.put_off(queue_key, BIZ, [(visit, NOW + 2 * HOUR) for visit in some[:5]])
    assert visits.due(queue_key, BIZ, NOW + HOUR, 100) == some[5:6]


def test_what_is_put_off_is_not_due_until_then(visits: MongoVisits, queue_key: QueueKey) -> None:
    some = [a_visit(number) for number in range(6)]
    visits.saw(queue_key, BIZ, some)

    off = visits.put_off(queue_key, BIZ, [(visit, NOW + HOUR) for visit in some[:4]])

    assert off == [replace(visit, next_at=NOW + HOUR) for visit in some[:4]]
    assert visits.due(queue_key, BIZ, NOW + HOUR - SECOND, 10) == some[4:]
    assert set(keys_of(visits.due(queue_key, BIZ, NOW + HOUR, 10))) == set(keys_of(some))
    each = [(visit, NOW + number * HOUR) for number, visit in enumerate(off, 2)]
    assert [one.next_at for one in visits.put_off(queue_key, BIZ, each)] == [at for _, at in each]
    assert visits.put_off(queue_key, BIZ, []) == []


def test_what_another_has_put_off_or_seen_is_not_put_off(
    visits: MongoVisits, queue_key: QueueKey
) -> None:
    off, seen, mine = (a_visit(number) for number in range(3))
    visits.saw(queue_key, BIZ, [off, seen, mine])
    visits.put_off(queue_key, BIZ, [(off, NOW + HOUR)])
    again = replace(seen, visited_at=NOW + SECOND, next_at=NOW + 2 * HOUR)
    visits.saw(queue_key, BIZ, [again])

    later = [(visit, NOW + 9 * HOUR) for visit in (off, seen, mine, a_visit(77))]
    assert keys_of(visits.put_off(queue_key, BIZ, later)) == [mine.key]

    found = visits.known(queue_key, BIZ, [off.key, seen.key])
    assert (found[off.key].next_at, found[seen.key]) == (NOW + HOUR, again)


def test_each_is_put_off_by_one_of_many_that_do_it_at_once(
    visits: MongoVisits, queue_key: QueueKey
) -> None:
    some = [a_visit(number) for number in range(60)]
    visits.saw(queue_key, BIZ, some)
    callers = 4
    barrier = Barrier(callers)

    def put_off(caller: int) -> list[str]:
        due = visits.due(queue_key, BIZ, NOW + HOUR, 100)
        barrier.wait(60)
        # All to the same time: what tells them apart must not be that.
        return keys_of(visits.put_off(queue_key, BIZ, [(visit, NOW + 2 * HOUR) for visit in due]))

    with ThreadPoolExecutor(callers) as pool:
        taken = [key for part in pool.map(put_off, range(callers)) for key in part]

    assert sorted(taken) == sorted(keys_of(some))


def test_a_visit_that_is_seen_after_it_was_put_off_is_due_when_it_says(
    visits: MongoVisits, queue_key: QueueKey
) -> None:
    visits.saw(queue_key, BIZ, [a_visit()])
    visits.put_off(queue_key, BIZ, [(a_visit(), NOW + HOUR)])

    visits.saw(queue_key, BIZ, [a_visit(visited_at=NOW + SECOND, next_at=NOW + 3 * SECOND)])

    assert [one.next_at for one in visits.due(queue_key, BIZ, NOW + HOUR, 9)] == [NOW + 3 * SECOND]


def test_totals_are_the_sums_of_what_is_known(visits: MongoVisits, queue_key: QueueKey) -> None:
    visits.saw(queue_key, BIZ, [a_visit(number, saved=number) for number in range(10)])
    visits.saw(queue_key, BIZ, [a_visit(99, next_at=None, saved=0, changes=0, visits=1)])

    totals = visits.totals(queue_key, BIZ, NOW + 4 * SECOND)

    assert totals == VisitTotals(pages=11, visits=71, changes=20, saved=45, due=5)


def test_another_tenant_or_biz_knows_none_of_it(visits: MongoVisits, queue_key: QueueKey) -> None:
    visits.saw(queue_key, BIZ, [a_visit()])

    for other in (
        QueueKey(f"{queue_key.tenant}x", queue_key.biz, "main"),
        QueueKey(queue_key.tenant, "else", "main"),
    ):
        assert visits.known(other, BIZ, [a_visit().key]) == {}
        assert visits.due(other, BIZ, NOW + HOUR, 10) == []
        assert visits.put_off(other, BIZ, [(a_visit(), NOW + HOUR)]) == []
        assert visits.totals(other, BIZ, NOW) == VisitTotals()
    assert visits.due(queue_key, BIZ, NOW + HOUR, 10) == [a_visit()]


def test_a_new_route_finds_every_page_and_takes_it_over_at_its_next_visit(
    visits: MongoVisits, queue_key: QueueKey
) -> None:
    some = [a_visit(number) for number in range(40)]
    visits.saw(queue_key, BIZ, some)
    turn = NOW + 10 * SECOND
    later = a_generation(starts_at=turn, nodes=("west", "south"), databases=("two", "three"))
    moved = replace(BIZ, generations=(*BIZ.generations, later))

    known = visits.known(queue_key, moved, keys_of(some))
    assert [known[visit.key] for visit in some] == some
    off = visits.put_off(queue_key, moved, [(visit, NOW + HOUR) for visit in some[:10]])
    assert len(off) == 10
    assert len(visits.due(queue_key, moved, NOW + HOUR, 100)) == 40
    seen = [replace(visit, visited_at=turn, next_at=turn + HOUR) for visit in some]
    visits.saw(queue_key, moved, seen)
    assert visits.totals(queue_key, moved, NOW).pages == 40
    assert set(keys_of(visits.due(queue_key, moved, turn + HOUR, 100))) == set(keys_of(some))
    alone = replace(BIZ, generations=(replace(later, starts_at=NOW),))
    assert visits.known(queue_key, alone, keys_of(some)) == {visit.key: visit for visit in seen}


def test_a_copy_that_was_left_behind_is_neither_due_nor_kept(
    mongo_uri: str, queue_key: QueueKey
) -> None:
    turn = NOW + 10 * SECOND
    later = a_generation(starts_at=turn, nodes=("south",), databases=("three",))
    moved = replace(BIZ, generations=(*BIZ.generations, later))
    alone = replace(BIZ, generations=(replace(later, starts_at=NOW),))
    with nodes_at(mongo_uri) as nodes:
        visits = MongoVisits(nodes)
        some = [a_visit(number) for number in range(8)]
        visits.saw(queue_key, BIZ, some)
        # Whoever moved them died before the former place was cleared.
        seen = [replace(visit, visited_at=turn, next_at=turn + HOUR) for visit in some[:5]]
        visits.saw(queue_key, alone, seen)

        assert visits.due(queue_key, moved, NOW + HOUR / 2, 100) == some[5:]
        assert visits.totals(queue_key, moved, NOW).pages == 8


def test_mongodb_forgets_a_page_when_its_time_has_come(mongo_uri: str, queue_key: QueueKey) -> None:
    biz = replace(BIZ, recrawl=replace(POLICY, forget_seconds=86_400.0))
    with nodes_at(mongo_uri) as nodes:
        visits = MongoVisits(nodes)
        old, young = a_visit(1, visited_at=NOW - 25 * HOUR), a_visit(2)
        visits.saw(queue_key, biz, [old, young])

        eventually(
            lambda: old.key not in visits.known(queue_key, biz, [old.key]),
            what="the page's removal",
        )
        assert visits.known(queue_key, biz, [young.key]) == {young.key: young}


def test_a_thousand_pages_take_few_round_trips_and_every_query_an_index(
    mongo_uri: str, queue_key: QueueKey
) -> None:
    sent: list[tuple[str, dict]] = []

    class Listener(pymongo.monitoring.CommandListener):
        def started(self, event):
            sent.append((event.command_name, dict(event.command)))

        def succeeded(self, event):
            pass

        def failed(self, event):
            pass

    biz = replace(BIZ, generations=(a_generation(nodes=("east",), databases=("one",)),))
    some = [a_visit(number) for number in range(1_000)]
    with nodes_at(mongo_uri, Listener()) as nodes:
        visits = MongoVisits(nodes)
        visits.saw(queue_key, biz, some[:1])
        visits.spared(queue_key, biz, keys_of(some[:1]))
        sent.clear()

        visits.saw(queue_key, biz, some)
        visits.known(queue_key, biz, keys_of(some))
        due = visits.due(queue_key, biz, NOW + HOUR, 1_000)
        visits.put_off(queue_key, biz, [(visit, NOW + HOUR) for visit in due])
        visits.totals(queue_key, biz, NOW)

        names = [name for name, _ in sent if name != "getMore"]
        aggregates = ["aggregate"] * 3
        assert names == ["update", "find", "find", "update", "find", *aggregates]
        assert len(due) == 1_000
        asked = [command for name, command in sent if name in ("find", "aggregate")]
        statements = ("find", "aggregate", "filter", "sort", "limit", "pipeline", "hint", "cursor")
        for command in asked:
            plain = {name: command[name] for name in command if name in statements}
            plan = nodes.client("east")[command["$db"]].command(
                "explain", plain, verbosity="queryPlanner"
            )
            assert "IXSCAN" in str(plan)
            assert "COLLSCAN" not in str(plan)
            # Totals are read off the index alone.
            assert ("FETCH" in str(plan)) == ("find" in plain)


def test_a_node_that_is_away_is_an_error_of_ours(queue_key: QueueKey) -> None:
    with closed_port() as address:
        nodes = NodesOnOneServer(f"mongodb://{address}/")
        try:
            for call in (
                lambda visits: visits.known(queue_key, BIZ, [a_visit().key]),
                lambda visits: visits.saw(queue_key, BIZ, [a_visit()]),
                lambda visits: visits.due(queue_key, BIZ, NOW, 1),
                lambda visits: visits.put_off(queue_key, BIZ, [(a_visit(), NOW)]),
                lambda visits: visits.totals(queue_key, BIZ, NOW),
                lambda visits: visits.spared(queue_key, BIZ, [a_visit().key]),
            ):
                with pytest.raises(StoreUnavailableError):
                    call(MongoVisits(nodes))
        finally:
            nodes.close()


def test_spared_downloads_are_counted_of_a_page_and_of_all(
    visits: MongoVisits, queue_key: QueueKey
) -> None:
    one, other, unknown = a_visit(1), a_visit(2), a_visit(3)
    visits.saw(queue_key, BIZ, [one, other])

    visits.spared(queue_key, BIZ, keys_of([one, unknown]))
    visits.spared(queue_key, BIZ, keys_of([one, other]))

    known = visits.known(queue_key, BIZ, keys_of([one, other, unknown]))
    assert {key: visit.spared for key, visit in known.items()} == {one.key: 2, other.key: 1}
    assert visits.totals(queue_key, BIZ, NOW).spared == 3
    visits.saw(queue_key, BIZ, [replace(one, spared=2, visited_at=NOW + HOUR)])
    assert visits.totals(queue_key, BIZ, NOW).spared == 3


def test_visits_of_an_earlier_version_wait_for_no_index_and_are_not_summed_without(
    mongo_uri: str, queue_key: QueueKey
) -> None:
    biz = replace(BIZ, generations=(a_generation(nodes=("east",), databases=("one",)),))
    with nodes_at(mongo_uri) as nodes:
        visits, large = MongoVisits(nodes), MongoVisits(nodes, small=1)
        visits.saw(queue_key, biz, [a_visit(1), a_visit(2)])
        kept = nodes.database("east", queue_key.tenant, "one")
        (name,) = kept.list_collection_names()
        assert BY_SPARED not in kept[name].index_information()

        large.spared(queue_key, biz, keys_of([a_visit(1)]))
        assert BY_SPARED not in kept[name].index_information()
        assert large.totals(queue_key, biz, NOW).spared == 0

        visits.spared(queue_key, biz, keys_of([a_visit(1)]))
        assert BY_SPARED in kept[name].index_information()
        assert large.totals(queue_key, biz, NOW).spared == 2
