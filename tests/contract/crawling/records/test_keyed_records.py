"""MongoRequestStore: records that have keys of their own, wherever their pages are routed."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from hashlib import blake2b

import msgspec
import pytest

from tests.contract.store_cases import (
    MINUTE,
    NOW,
    Fleet,
    a_biz,
    a_generation,
    a_record,
    a_store,
)
from tests.kit.kernel import StoreError, encode, to_ms
from tests.kit.kernel import decode_cursor as decode
from tests.kit.mongo import MongoRequestStore, Shards, latest_of
from tests.kit.requests import NS_OF_MS, Dead, Done, Record, State, keyed_home, route

SECOND = timedelta(seconds=1)


def key_of(text: object) -> str:
    return blake2b(str(text).encode(), digest_size=20).hexdigest()


def keyed(claim, key, index=0, at=NOW, **fields) -> Record:
    record = a_record(claim, index, at, **fields)
    return msgspec.structs.replace(record, key=key_of(key))


def by_key(fleet):
    return {record.key: record.fields for record in fleet.records()}


def test_a_record_is_found_under_its_key_on_any_page(fleet: Fleet) -> None:
    claims = fleet.claim(fleet.submit(20))
    assert len({route(fleet.biz, c.request.id, NOW).node for c in claims}) == 2

    for number, claim in enumerate(claims):
        assert fleet.settle([(claim, Done((keyed(claim, "one", n=number),)))], NOW) == set()

    (found,) = fleet.records()
    assert (found.id, found.fields) == (key_of("one"), {"n": 19})
    assert found.request_id == claims[19].request.id
    assert fleet.totals() == ({State.DONE: 20}, 1)
    assert {fleet.get(c.request).records for c in claims} == {1}


def test_one_settlement_of_many_pages_keeps_the_last_of_each_key(fleet: Fleet) -> None:
    claims = fleet.claim(fleet.submit(12))

    fleet.settle([(c, Done((keyed(c, n % 3, n=n),))) for n, c in enumerate(claims)])

    assert set(by_key(fleet)) == {key_of(n) for n in range(3)}


def test_what_was_stored_later_stays(fleet: Fleet) -> None:
    first, second, third = fleet.claim(fleet.submit(3))
    fleet.settle([(first, Done((keyed(first, "k", at=NOW + MINUTE, n=1),)))])

    fleet.settle([(second, Done((keyed(second, "k", at=NOW, n=2),)))])
    assert by_key(fleet) == {key_of("k"): {"n": 1}}
    fleet.settle([(third, Done((keyed(third, "k", at=NOW + MINUTE, n=3),)))])
    assert by_key(fleet) == {key_of("k"): {"n": 3}}


def test_a_late_worker_writes_no_keyed_record(fleet: Fleet) -> None:
    requests = fleet.submit(20)
    late = fleet.claim(requests, "late")
    fleet.claim(requests, "newer", NOW + MINUTE)

    lost = fleet.settle([(c, Done((keyed(c, n),))) for n, c in enumerate(late)], NOW + MINUTE)

    assert lost == {r.id for r in requests}
    assert fleet.records() == []
    for claim in late:
        part = [keyed(claim, "part")]
        assert not fleet.store.store_part(fleet.queue_key, fleet.biz, claim, part, NOW)
    assert fleet.records() == []


def test_both_kinds_are_found_by_request_and_in_the_list(fleet: Fleet) -> None:
    claims = fleet.claim(fleet.submit(10))
    for number, claim in enumerate(claims):
        at = NOW + number // 3 * SECOND
        if number % 2:
            records = tuple(keyed(claim, f"{number}{n}", n, at, n=n) for n in range(3))
        else:
            records = tuple(a_record(claim, n, at, n=n) for n in range(3))
        fleet.settle([(claim, Done(records))])

    everything = fleet.records()

    assert len(everything) == 30
    assert [r.stored_at for r in everything] == sorted(r.stored_at for r in everything)
    assert fleet.totals()[1] == 30
    for claim in claims:
        found = fleet.records(request_id=claim.request.id)
        assert sorted(r.index for r in found) == [0, 1, 2]
        assert {r.request_id for r in found} == {claim.request.id}


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_pages_of_a_list_miss_nothing_and_repeat_nothing(fleet: Fleet, limit: int) -> None:
    claims = fleet.claim(fleet.submit(6))
    for number, claim in enumerate(claims):
        records = tuple(
            keyed(claim, f"{number}{n}", n) if (number + n) % 2 else a_record(claim, n)
            for n in range(4)
        )
        fleet.settle([(claim, Done(records))])
    everything = [record.id for record in fleet.records()]

    assert len(set(everything)) == 24
    assert read(fleet, limit) == everything
    for claim in claims:
        mine = [record.id for record in fleet.records(request_id=claim.request.id)]
        assert len(mine) == 4
        assert read(fleet, limit, claim.request.id) == mine


def read(fleet, limit, request_id=None):
    """A list page by page, as clients read it."""
    found, after = [], None
    while page := fleet.records(request_id=request_id, after=after, limit=limit):
        found += [record.id for record in page]
        last = page[-1]
        after = decode(encode((to_ms(last.stored_at), last.id)), records=True)
    return found


def test_a_list_begins_before_all_of_a_millisecond_too(fleet: Fleet) -> None:
    (claim,) = fleet.claim(fleet.submit(1))
    fleet.settle([(claim, Done((keyed(claim, "k"), a_record(claim, 1))))])

    assert len(fleet.records(after=(to_ms(NOW), "0"))) == 2
    assert len(fleet.records(after=(to_ms(NOW) - 1, "0"))) == 2
    assert fleet.records(after=(to_ms(NOW) + 1, "0")) == []


def test_a_record_that_was_replaced_is_read_again_by_who_reads_on(fleet: Fleet) -> None:
    first, second = fleet.claim(fleet.submit(2))
    fleet.settle([(first, Done((keyed(first, "k", n=1),)))])
    place = to_ms(NOW), fleet.records()[0].id

    fleet.settle([(second, Done((keyed(second, "k", at=NOW + SECOND, n=2),)))])

    assert [record.fields for record in fleet.records(after=place)] == [{"n": 2}]


def test_records_of_no_request_are_stored_and_replaced(fleet: Fleet) -> None:
    (claim,) = fleet.claim(fleet.submit(1))
    items = [
        msgspec.structs.replace(keyed(claim, n, n=n), request_id=key_of(n)[:32]) for n in range(3)
    ]
    newer = msgspec.structs.replace(items[0], stored_at=NOW + SECOND, fields={"n": "newer"})

    fleet.store.store_keyed(fleet.queue_key, fleet.biz, items, NOW)
    fleet.store.store_keyed(fleet.queue_key, fleet.biz, [*items, newer], NOW)
    fleet.store.store_keyed(fleet.queue_key, fleet.biz, [], NOW)

    assert by_key(fleet) == {key_of(0): {"n": "newer"}, key_of(1): {"n": 1}, key_of(2): {"n": 2}}
    assert fleet.records(request_id=key_of(1)[:32])[0].fields == {"n": 1}


def an_item(claim, put: int | None, at=NOW, **fields) -> Record:
    """A record that came as an item, put so many ns after NOW."""
    stamp = None if put is None else to_ms(NOW) * NS_OF_MS + put
    return msgspec.structs.replace(keyed(claim, "k", at=at, **fields), put=stamp)


def test_of_items_the_one_that_was_put_later_stays_whenever_they_are_stored(fleet: Fleet) -> None:
    (claim,) = fleet.claim(fleet.submit(1))
    newer = an_item(claim, 1, at=NOW, n="newer")
    older = an_item(claim, 0, at=NOW + MINUTE, n="older")

    for batch in ([newer], [older], [newer, older], [older, newer]):
        fleet.store.store_keyed(fleet.queue_key, fleet.biz, batch, NOW)
        assert by_key(fleet) == {key_of("k"): {"n": "newer"}}

    (found,) = fleet.records()
    assert found.put == newer.put


def test_an_item_replaces_what_was_stored_before_it_was_put_and_nothing_else(fleet: Fleet) -> None:
    first, second = fleet.claim(fleet.submit(2))
    minute_ns = 60 * 1_000 * NS_OF_MS

    def store(record):
        fleet.store.store_keyed(fleet.queue_key, fleet.biz, [record], NOW)
        return by_key(fleet)[key_of("k")]["n"]

    fleet.settle([(first, Done((keyed(first, "k", n="page"),)))])
    assert store(an_item(first, -1, at=NOW + MINUTE, n="older item")) == "page"
    assert store(an_item(first, minute_ns, at=NOW + MINUTE, n="item")) == "item"
    assert store(an_item(first, None, at=NOW + SECOND, n="older")) == "item"
    fleet.settle([(second, Done((keyed(second, "k", at=NOW + 2 * MINUTE, n="page"),)))])
    assert by_key(fleet) == {key_of("k"): {"n": "page"}}
    assert store(an_item(first, None, at=NOW + 3 * MINUTE, n="without a time")) == (
        "without a time"
    )
    assert fleet.records()[0].put is None


def test_the_time_of_storing_never_goes_back_when_a_record_is_replaced(fleet: Fleet) -> None:
    (claim,) = fleet.claim(fleet.submit(1))
    older, newer = an_item(claim, 0, at=NOW + MINUTE, n=1), an_item(claim, 1, at=NOW, n=2)

    for record in (older, newer):
        fleet.store.store_keyed(fleet.queue_key, fleet.biz, [record], NOW)

    (found,) = fleet.records()
    assert (found.fields, found.stored_at) == ({"n": 2}, NOW + MINUTE)


@pytest.mark.parametrize(
    "field", [2**63, "x" * 17_000_000, "\ud800", {1, 2}], ids=["int", "17 MB", "surrogate", "set"]
)
def test_a_keyed_record_that_cannot_be_stored_is_reported(fleet: Fleet, field: object) -> None:
    claims = fleet.claim(fleet.submit(6))
    bad = keyed(claims[0], "bad", f=field)

    with pytest.raises(StoreError) as refused:
        fleet.store.store_keyed(fleet.queue_key, fleet.biz, [bad], NOW)
    assert not refused.value.retryable

    outcomes = [(c, Done((bad if not n else keyed(c, n),))) for n, c in enumerate(claims)]
    assert fleet.settle(outcomes) == set()
    assert fleet.totals() == ({State.DONE: 5, State.DEAD: 1}, 5)


def test_awkward_fields_come_back_as_they_were_and_nothing_is_an_expression(fleet: Fleet) -> None:
    fields = {
        "$set": {"a.b": 1, "$x": "$y"},
        "": 0,
        "s": "$$ROOT",
        "l": [{"$literal": "$at"}, {"$ref": "a", "$id": 5}],
        "big": 2**63 - 1,
    }
    first, second, third = fleet.claim(fleet.submit(3))

    fleet.settle([(first, Done((keyed(first, "k", **fields),)))])
    fleet.settle([(second, Done((keyed(second, "k", at=NOW + SECOND, **fields),)))])
    fleet.settle([(third, Done((a_record(third, **fields),)))])

    for record in fleet.records():
        assert record.fields == fields
        assert msgspec.json.decode(msgspec.json.encode(record.fields)) == fields


def test_a_keyed_record_stays_when_its_request_dies_or_ends_without_it(fleet: Fleet) -> None:
    first, second = fleet.claim(fleet.submit(2))
    for claim in (first, second):
        assert fleet.store.store_part(
            fleet.queue_key, fleet.biz, claim, [keyed(claim, claim.request.id)], NOW
        )

    fleet.settle([(first, Dead("gone", "PageGone")), (second, Done((), stored=0))])

    assert len(fleet.records()) == 2


def test_bizs_and_tenants_share_no_keys(fleet: Fleet) -> None:
    other = Fleet(fleet.store, f"{fleet.queue_key.tenant}b")
    for each in (fleet, other):
        (claim,) = each.claim(each.submit(1))
        each.settle([(claim, Done((keyed(claim, "k", whose=each.queue_key.tenant),)))])

    assert [r.fields["whose"] for r in fleet.records()] == [fleet.queue_key.tenant]
    assert [r.fields["whose"] for r in other.records()] == [other.queue_key.tenant]


def test_many_workers_that_find_one_thing_at_once_store_it_once(fleet: Fleet) -> None:
    claims = fleet.claim(fleet.submit(24))

    def settle(part):
        return fleet.settle([(c, Done((keyed(c, "hot"), keyed(c, "warm", 1)))) for c in part])

    with ThreadPoolExecutor(6) as pool:
        lost = list(pool.map(settle, [claims[n::6] for n in range(6)]))

    assert lost == [set()] * 6
    assert fleet.totals() == ({State.DONE: 24}, 2)


# ---- what only a store with nodes shows -----------------------------------------------------


@pytest.fixture
def nodes(mongo_uri, tenant):
    with a_store("mongo", mongo_uri) as made:
        assert isinstance(made, MongoRequestStore)
        yield made


def moved(starts_at):
    """The biz with one more generation, whose first node is another one."""
    west = a_generation(starts_at=starts_at, nodes=("west", "east"), databases=("two",))
    return a_biz(generations=(a_generation(), west))


def test_a_new_generation_moves_the_home_and_what_was_replaced_there_is_gone(
    nodes, tenant: str
) -> None:
    fleet = Fleet(nodes, tenant)
    claims = fleet.claim(fleet.submit(30))
    for n, claim in enumerate(claims[:10]):
        fleet.settle([(claim, Done((keyed(claim, n, n=n),)))])
    later = NOW + MINUTE / 2
    fleet.biz = moved(NOW + SECOND)
    assert keyed_home(fleet.biz, NOW) != keyed_home(fleet.biz, later)

    for n, claim in enumerate(claims[10:15]):
        record = keyed(claim, n, at=later, n=f"new {n}")
        assert fleet.settle([(claim, Done((record,)))], later) == set()

    expected = {key_of(n): {"n": f"new {n}" if n < 5 else n} for n in range(10)}
    assert by_key(fleet) == expected
    for limit in (1, 2, 4):
        assert Counter(read(fleet, limit)) == Counter(list(expected))
    for n, claim in enumerate(claims[:10]):
        assert len(fleet.records(request_id=claim.request.id)) == (0 if n < 5 else 1)


def test_keyed_records_have_the_life_of_records(nodes, tenant: str) -> None:
    fleet = Fleet(nodes, tenant, a_biz(records_ttl_seconds=3600))
    (claim,) = fleet.claim(fleet.submit(1))
    fleet.settle([(claim, Done((keyed(claim, "k"),)))])
    home = keyed_home(fleet.biz, NOW)
    collection = Shards(nodes.nodes).keyed(fleet.queue_key, fleet.biz, home)
    assert collection.name == "shop.requests_keyed"
    assert collection.index_information()["ttl"]["expireAfterSeconds"] == 3600

    fleet.biz = a_biz(records_ttl_seconds=7200)
    fleet.expire(NOW)

    assert collection.index_information()["ttl"]["expireAfterSeconds"] == 7200


def test_every_read_of_keyed_records_uses_an_index(nodes, tenant: str) -> None:
    fleet = Fleet(nodes, tenant)
    (claim,) = fleet.claim(fleet.submit(1))
    fleet.settle([(claim, Done((keyed(claim, "k"),)))])
    collection = Shards(nodes.nodes).keyed(fleet.queue_key, fleet.biz, keyed_home(fleet.biz, NOW))

    assert len(fleet.records()) == len(fleet.records(request_id=claim.request.id)) == 1

    collection.drop_index("by_request")
    with pytest.raises(StoreError, match="hint"):
        fleet.records(request_id=claim.request.id)
    collection.drop_index("by_storing")
    with pytest.raises(StoreError, match="hint"):
        fleet.records()


def test_of_records_in_one_batch_the_last_stored_counts():
    facts = {"request_id": 1, "index": 0, "biz": "b", "url": "u", "rule": "r", "key": "k"}
    first, second, third = (
        Record(**facts, rule_version="v", stored_at=at, fields={"n": n})
        for n, at in enumerate([NOW + SECOND, NOW, NOW + SECOND])
    )

    assert latest_of([first, second]) == {"k": first}
    assert latest_of([first, second, third]) == {"k": third}
