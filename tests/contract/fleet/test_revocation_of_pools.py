"""Queues of pools, in memory and in a real MongoDB: whose requests are whose, and who gets them."""

from datetime import timedelta

import pytest

from tests.contract.fleet.test_revocation import MS, Both
from tests.contract.store_cases import MINUTE, NOW, Fleet, a_request, snowflakes
from tests.kit.fleet import MongoPoolBook
from tests.kit.implementations import Backend, backend_over, fixture_over
from tests.kit.kernel import QueueKey, bound
from tests.kit.mongo import BY_POOL, MongoLeaseRevocation, MongoNodes, MongoRequestStore
from tests.kit.mongo_nodes import nodes_at
from tests.kit.requests import Entry, QueueEpoch, Request, Retry, State, live_shards

backend = backend_over(MongoRequestStore, MongoLeaseRevocation)


@pytest.fixture
def both(backend: Backend, tenant: str) -> Both:
    return Both(Fleet(backend[MongoRequestStore], tenant), backend[MongoLeaseRevocation])


book = fixture_over(MongoPoolBook)


def submitted(both: Both, number: int, pool: str | None, at=NOW) -> list[Request]:
    queue_key = both.fleet.queue_key
    requests = [a_request(queue_key, i, at, pool=pool) for i in snowflakes(number, at)]
    assert both.fleet.insert(requests).refused == {}
    return requests


def pages(both: Both, queue_key: QueueKey, limit: int = 100) -> list[Entry]:
    found: list[Entry] = []
    since = 0
    while page := both.revocation.pending(
        queue_key, both.fleet.biz, since=since, before=NOW + MINUTE, now=NOW, limit=limit
    ):
        found += page
        since = page[-1].ts + 1
    return found


def unqueued(both: Both, queue_key: QueueKey, before=NOW + MINUTE, limit: int = 1000) -> set[Entry]:
    bounds = (before,) * 11
    return set(
        both.fleet.store.unqueued(queue_key, both.fleet.biz, before=bounds, now=NOW, limit=limit)
    )


def entries(requests: list[Request]) -> set[Entry]:
    return {one.entry for one in requests}


def test_a_request_says_which_pool_it_is_bound_for(both: Both) -> None:
    far, usual = submitted(both, 1, "far"), submitted(both, 1, None, NOW + MS)

    assert both.fleet.get(far[0]).request.pool == "far"
    assert both.fleet.get(usual[0]).request == usual[0]
    (claim,) = both.fleet.claim(far)
    assert claim.request == far[0]


def test_each_queue_is_filled_with_its_own(both: Both) -> None:
    queue_key = both.fleet.queue_key
    far = [one for n in range(0, 60, 3) for one in submitted(both, 2, "far", NOW + n * MS)]
    large = submitted(both, 3, "large", NOW + 8 * MS)
    usual = [one for n in range(1, 60, 3) for one in submitted(both, 2, None, NOW + n * MS)]

    for limit in (1, 3, 1000):
        for where, mine in (
            (queue_key, usual),
            (bound(queue_key, "far"), far),
            (bound(queue_key, "large"), large),
        ):
            found = pages(both, where, limit)
            assert len(found) == len(mine)
            assert set(found) == entries(mine)
            assert [one.ts for one in found] == sorted(one.ts for one in found)


def test_a_usual_queue_is_filled_beyond_what_is_bound_for_pools(both: Both) -> None:
    submitted(both, 40, "far")
    usual = submitted(both, 2, None, NOW + 5 * MS)

    assert set(pages(both, both.fleet.queue_key, 3)) == entries(usual)


def test_what_is_not_queued_is_found_by_the_queue(both: Both) -> None:
    queue_key = both.fleet.queue_key
    far, usual = submitted(both, 4, "far"), submitted(both, 3, None, NOW + MS)

    assert unqueued(both, bound(queue_key, "far")) == entries(far)
    assert unqueued(both, queue_key) == entries(usual)
    assert unqueued(both, bound(queue_key, "far"), limit=2) < entries(far)


def test_nothing_is_missing_of_the_usual_queue_where_all_is_bound(both: Both) -> None:
    far = submitted(both, 30, "far")

    assert unqueued(both, both.fleet.queue_key) == set()
    assert unqueued(both, bound(both.fleet.queue_key, "far")) == entries(far)


def test_what_waits_and_what_is_held_is_the_queues(both: Both) -> None:
    fleet, queue_key = both.fleet, both.fleet.queue_key
    far, usual = submitted(both, 2, "far"), submitted(both, 2, None, NOW + MS)
    for one, other in (far, usual):
        fleet.claim([other])
        fleet.settle([(fleet.claim([one])[0], Retry(NOW + MINUTE, "later"))])

    for where, (waits, held) in ((bound(queue_key, "far"), far), (queue_key, usual)):
        waiting = both.revocation.waiting(where, fleet.biz, now=NOW, limit=9)
        assert [entry for entry, _ in waiting] == [waits.entry]
        assert both.revocation.held(where, fleet.biz, now=NOW, limit=9) == [("worker", held.entry)]
        late = fleet.store.unqueued(
            where, fleet.biz, before=(NOW,) * 11, now=NOW + 2 * MINUTE, limit=9
        )
        assert set(late) == {waits.entry, held.entry}


def test_the_pools_of_a_biz_are_those_that_anything_is_bound_for(both: Both) -> None:
    ask, fleet = both.revocation.pools, both.fleet
    submitted(both, 3, None)
    assert ask(fleet.queue_key, fleet.biz, {"near"}, NOW) == set()
    submitted(both, 2, "far", NOW + MS)
    submitted(both, 2, "large", NOW + 2 * MS)
    assert ask(fleet.queue_key, fleet.biz, {"near"}, NOW) == {"far", "large"}


def test_each_queue_has_a_mark_of_its_own(both: Both) -> None:
    fleet, far = both.fleet, bound(both.fleet.queue_key, "far")
    both.revocation.remember_epoch(far, QueueEpoch(server="a", nonce="1"))

    assert both.revocation.remembered_epoch(fleet.queue_key) is None
    assert both.revocation.remembered_epoch(far) == QueueEpoch(server="a", nonce="1")


def test_what_expires_is_counted_once_for_all_queues(both: Both) -> None:
    fleet = both.fleet
    submitted(both, 3, "far")
    submitted(both, 2, None, NOW + MS)
    later = NOW + timedelta(seconds=fleet.biz.ttl_seconds + 2)

    assert fleet.store.expire(fleet.queue_key, fleet.biz, later) == 5
    assert fleet.store.expire(bound(fleet.queue_key, "far"), fleet.biz, later) == 0


def test_what_a_pool_leaves_is_given_over_once(both: Both) -> None:
    fleet, far = both.fleet, bound(both.fleet.queue_key, "far")
    mine, usual = submitted(both, 5, "far"), submitted(both, 2, None, NOW + MS)
    waits, over, held = mine[:3]
    claims = fleet.claim([waits, over])
    fleet.settle([(next(c for c in claims if c.request == waits), Retry(NOW + MINUTE, "later"))])
    fleet.claim([held], "other", until=NOW + 9 * MINUTE)
    now = NOW + timedelta(seconds=60)

    count, found = both.revocation.give_over(far, fleet.biz, 100, "scheduler", "it is gone", now)

    assert (count, set(found)) == (4, entries([over, *mine[3:]]))
    assert both.revocation.give_over(far, fleet.biz, 100, "scheduler", "gone", now) == (0, [])
    assert fleet.get(held).request.pool == "far"
    assert fleet.get(waits).request.pool is None
    assert fleet.get(mine[4]).timeline[-1].why == "it is gone"
    assert set(pages(both, fleet.queue_key)) == entries([*usual, *mine[3:]])
    claimed = fleet.claim([over, *mine[3:]], "next", now=now, until=now + MINUTE)
    assert len(claimed) == 3


def test_what_is_given_over_is_bounded(both: Both) -> None:
    fleet, far = both.fleet, bound(both.fleet.queue_key, "far")
    mine = submitted(both, 30, "far")
    found: set[Entry] = set()
    for _ in range(40):
        count, part = both.revocation.give_over(far, fleet.biz, 5, "scheduler", "gone", NOW)
        assert count == len(part) <= 5 * len(live_shards(fleet.biz, NOW))
        found |= set(part)
        if not count:
            break
    assert found == entries(mine)


def test_a_book_of_pools_keeps_when_each_was_last_known(book: MongoPoolBook) -> None:
    book.saw(["far", "large"], NOW)
    book.saw(["far"], NOW + MINUTE)
    book.saw(["far"], NOW)
    book.saw([], NOW)

    assert book.known() == {"far": NOW + MINUTE, "large": NOW}
    book.forget("far", NOW)
    book.forget("large", NOW)
    assert book.known() == {"far": NOW + MINUTE}


def test_where_no_pool_was_ever_used_no_index_of_pools_is_built(
    mongo_uri: str, tenant: str
) -> None:
    def indexes(nodes: MongoNodes) -> set[str]:
        found: set[str] = set()
        for node in {node for one in fleet.biz.generations for node in one.nodes}:
            there = nodes.client(node)
            for name in there.list_database_names():
                if name.startswith(f"cf_{tenant}_"):
                    for collection in there[name].list_collection_names():
                        found |= set(there[name][collection].index_information())
        return found

    with nodes_at(mongo_uri) as nodes:
        fleet = Fleet(MongoRequestStore(nodes), tenant)
        fleet.submit(20)
        fleet.store.expire(fleet.queue_key, fleet.biz, NOW)
        assert BY_POOL not in indexes(nodes)
        fleet.insert(
            [a_request(fleet.queue_key, i, NOW, pool="far") for i in snowflakes(1, NOW + MS)]
        )
        assert BY_POOL in indexes(nodes)
        assert State.PENDING in fleet.totals()[0]
