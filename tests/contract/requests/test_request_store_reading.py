"""ports.RequestStore: lists in pages, totals, recovery's questions, expiry, and whose they are."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from threading import Barrier

import pytest

from tests.contract.store_cases import (
    LONG_AGO,
    MINUTE,
    NOW,
    Fleet,
    a_biz,
    a_generation,
    a_request,
    done_with,
    entries_of,
    object_ids,
    snowflakes,
    uuids,
)
from tests.kit.config import Spread
from tests.kit.kernel import QueueKey, from_ms, to_ms
from tests.kit.mongo import MongoRequestStore, MongoTracking
from tests.kit.requests import (
    NEWEST_REQUESTS,
    Dead,
    RequestFilter,
    Retry,
    State,
    live_shards,
)

SECOND = timedelta(seconds=1)


def mixed_requests(fleet: Fleet) -> list:
    """Requests of all kinds of ids, many to one millisecond, as after a change of the id kind."""
    requests = []
    for n in range(6):
        at = NOW - MINUTE + n // 2 * SECOND
        for ids in (snowflakes(15, at, worker=n), uuids(7, at), object_ids(7, at), [n + 1]):
            requests += [a_request(fleet.queue_key, i, at) for i in ids]
    fleet.insert(requests)
    return requests


def pages(fetch, place, size: int) -> list:
    """Return the items of all pages."""
    found: list = []
    after = None
    while page := fetch(after=after, limit=size):
        assert len(page) <= size
        found += page
        after = place(page[-1])
    return found


def request_place(tracked) -> tuple[int, str]:
    return to_ms(tracked.request.queued_at), str(tracked.request.id)


def record_place(record) -> tuple[int, str]:
    return to_ms(record.stored_at), record.id


@pytest.mark.parametrize("size", [1, 7, 50, 1000])
def test_pages_give_every_request_exactly_once_in_order(fleet: Fleet, size: int) -> None:
    requests = mixed_requests(fleet)

    found = pages(fleet.find, request_place, size)
    newest = pages(partial(fleet.find, newest=True), request_place, size)

    assert newest == found[::-1]
    assert sorted(str(t.request.id) for t in found) == sorted(str(r.id) for r in requests)
    times = [t.request.queued_at for t in found]
    assert times == sorted(times)
    numbers = [t.request.id for t in found if isinstance(t.request.id, int)]
    at = {r.id: r.queued_at for r in requests}
    assert numbers == sorted(numbers, key=lambda i: (at[i], i))


def test_the_newest_requests_come_first_whatever_their_state(fleet: Fleet) -> None:
    requests = mixed_requests(fleet)
    old = [r for r in requests if r.queued_at < NOW - MINUTE + 2 * SECOND]
    new = [r for r in requests if r.queued_at >= NOW - MINUTE + 2 * SECOND]
    leased = {r.id for r in new[::2]}
    fleet.claim(new[::2])

    def newest(limit: int) -> list:
        of = (fleet.queue_key, fleet.biz, NEWEST_REQUESTS)
        return fleet.store.find(*of, limit=limit, now=NOW, brief=True)

    found = newest(len(new))
    assert {one.request.id for one in found} == {r.id for r in new}
    begun = [one for one in found if one.state == State.LEASED]
    assert {one.request.id for one in begun} == leased
    assert {one.attempts for one in begun} == {1}
    assert {one.request.body.url for one in found} == {r.body.url for r in new}
    every = [one.request for one in newest(10_000)]
    assert len(every) == len(old) + len(new)
    times = [request.queued_at for request in every]
    assert times == sorted(times, reverse=True)


def test_lists_are_narrowed_by_state_and_time(fleet: Fleet) -> None:
    requests = mixed_requests(fleet)
    late = [r for r in requests if r.queued_at >= NOW - MINUTE + 2 * SECOND]
    claims = fleet.claim(requests[::2])
    leased = {r.id for r in requests[::2]}

    by_state = pages(lambda **page: fleet.find(state=State.LEASED, **page), request_place, 9)
    by_time = pages(
        lambda **page: fleet.find(since=NOW - MINUTE + 2 * SECOND, **page), request_place, 9
    )
    both = fleet.find(state=State.PENDING, since=late[0].queued_at)
    from_before = fleet.find(since=late[0].queued_at, after=(to_ms(LONG_AGO), "1"))
    late_back = pages(
        lambda **page: fleet.find(since=late[0].queued_at, newest=True, **page), request_place, 9
    )

    assert len(claims) == len(leased)
    assert {t.request.id for t in by_state} == leased
    assert len(by_state) == len(leased)
    assert {t.request.id for t in by_time} == {r.id for r in late}
    assert {t.request.id for t in both} == {r.id for r in late} - leased
    assert from_before == fleet.find(since=late[0].queued_at)
    assert late_back == from_before[::-1]
    assert fleet.find(since=late[0].queued_at, newest=True, after=(to_ms(LONG_AGO), "1")) == []
    assert fleet.find(state=State.DEAD) == []


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize(("size", "scan"), [(1, 1_000), (3, 8), (1_000, 100_000)])
def test_a_search_finds_each_wanted_request_once_in_order_reading_so_many_at_once(
    mongo_connection, tenant: str, size: int, scan: int, newest: bool
) -> None:
    fleet = Fleet(MongoRequestStore(mongo_connection), tenant)
    requests = mixed_requests(fleet)
    job = [a_request(fleet.queue_key, i, job="june") for i in snowflakes(9, NOW)]
    fleet.insert(job)
    fleet.claim(requests[::7])
    meant = {r.id for r in [*requests, *job] if str(r.id)[-1] in "48c"}
    urls = {r.body.url for r in [*requests, *job] if r.id in meant}
    search = MongoTracking(fleet.store.shards, scan, least_scan=2).search

    def found(**wanted) -> list:
        seen, after, calls = [], None, 0
        while calls < 1_000:
            looked = 0

            def is_wanted(body) -> bool:
                nonlocal looked
                looked += 1
                return body.url in urls

            of = RequestFilter(newest=newest, **wanted)
            page, after = search(
                *(fleet.queue_key, fleet.biz, of, is_wanted), after=after, limit=size, now=NOW
            )
            assert len(page) <= size
            assert looked <= max(scan, 2 * len(live_shards(fleet.biz, NOW)))
            seen += page
            calls += 1
            if after is None:
                return seen
        raise AssertionError("a search never came to its end")

    def listed(**wanted) -> list:
        return [one for one in fleet.find(newest=newest, **wanted) if one.request.body.url in urls]

    assert found() == listed()
    assert found(job="june") == listed(job="june")
    assert found(state=State.LEASED) == listed(state=State.LEASED) != []
    late = NOW - MINUTE + 2 * SECOND
    assert found(since=late) == listed(since=late)


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_pages_give_every_record_exactly_once_in_order(fleet: Fleet, size: int) -> None:
    requests = mixed_requests(fleet)[::4]
    claims = fleet.claim(requests)
    for n in range(0, len(claims), 10):
        at = NOW + n // 20 * SECOND
        part = claims[n : n + 10]
        fleet.settle([done_with(c, {"n": 0}, {"n": 1}, {"n": 2}, at=at) for c in part], at)

    found = pages(fleet.records, record_place, size)
    mine = pages(lambda **p: fleet.records(request_id=requests[3].id, **p), record_place, size)

    assert len(found) == len({record.id for record in found}) == 3 * len(requests)
    assert [r.stored_at for r in found] == sorted(r.stored_at for r in found)
    assert [(r.request_id, r.index) for r in mine] == [(requests[3].id, i) for i in range(3)]
    assert fleet.records(request_id=snowflakes(1, NOW + MINUTE)[0]) == []
    # Policy's cursors stand before all of a moment with the bare id 0.
    assert fleet.records(after=(to_ms(NOW), "0")) == found
    assert fleet.records(after=(to_ms(NOW), str(found[0].request_id))) == found


def test_totals_count_every_state_and_the_records(fleet: Fleet) -> None:
    requests = fleet.submit(20)
    done, retry, dead, held = (fleet.claim(requests[n * 4 : n * 4 + 4], f"t{n}") for n in range(4))
    fleet.settle(
        [done_with(c, {"n": 1}, {"n": 2}) for c in done]
        + [(c, Retry(NOW, "slow")) for c in retry]
        + [(c, Dead("gone")) for c in dead]
    )
    fleet.cancel(requests[-1])

    assert len(held) == 4
    assert fleet.totals() == (
        {
            State.PENDING: 3,
            State.DONE: 4,
            State.LEASED: 4,
            State.WAITING: 4,
            State.DEAD: 4,
            State.CANCELLED: 1,
        },
        8,
    )
    own = fleet.ledgers.totals(fleet.queue_key, a_biz(states={"checked": 100}), NOW).own
    assert own == {100: 0}


def test_two_bizs_of_one_tenant_may_name_the_same_place(fleet: Fleet) -> None:
    other = Fleet(fleet.store, fleet.queue_key.tenant)
    other.queue_key = QueueKey(fleet.queue_key.tenant, "news", "main")
    mine = [a_request(fleet.queue_key, i) for i in (1, 2, 3)]
    theirs = [a_request(other.queue_key, i) for i in (1, 2)]

    assert fleet.insert(mine).existing == other.insert(theirs).existing == frozenset()
    fleet.settle([done_with(c, {"n": 1}) for c in fleet.claim(mine)])

    assert fleet.totals() == ({State.DONE: 3}, 3)
    assert other.totals() == ({State.PENDING: 2}, 0)
    assert other.expire(NOW + timedelta(days=30)) == 2
    assert fleet.totals()[0].get(State.EXPIRED) is None


# ---- recovery ----------------------------------------------------------------------------------


def test_recovery_is_reported_what_is_stored_but_not_on_its_way(fleet: Fleet) -> None:
    requests = [
        a_request(fleet.queue_key, i, NOW + n * SECOND) for n, i in enumerate(snowflakes(8))
    ]
    fleet.insert(requests)
    old, new = requests[:4], requests[4:]
    leased, waiting = fleet.claim([old[1]], "a"), fleet.claim([old[2]], "b")
    fleet.settle([(waiting[0], Retry(NOW + 10 * SECOND, "slow"))])
    fleet.cancel(old[3])
    cut = new[0].queued_at

    assert fleet.unqueued(before=cut, now=NOW) == entries_of([old[0]])
    assert fleet.unqueued(before=cut, now=NOW + 9 * SECOND) == entries_of([old[0]])
    assert fleet.unqueued(before=cut, now=NOW + 10 * SECOND) == entries_of([old[0], old[2]])
    assert fleet.unqueued(before=cut, now=NOW + MINUTE) == entries_of(old[:3])
    assert fleet.unqueued(before=cut, now=NOW + MINUTE, limit=2) == entries_of(old[:2])
    assert fleet.unqueued(before=NOW, now=NOW) == []
    assert leased[0].entry in fleet.unqueued(before=cut, now=NOW + MINUTE)
    assert fleet.unqueued(before=cut, now=NOW + timedelta(days=30)) == []


def test_what_passed_its_time_unprocessed_is_counted_exactly_once(fleet: Fleet) -> None:
    ttl = timedelta(seconds=fleet.biz.ttl_seconds)
    requests = fleet.submit(30)
    done, waiting = fleet.claim(requests[:5], "a"), fleet.claim(requests[5:10], "b")
    fleet.settle([done_with(c, {"n": 1}) for c in done])
    fleet.settle([(c, Retry(NOW + ttl * 2, "slow")) for c in waiting])
    fleet.claim(requests[10:13], "ended", NOW, NOW + MINUTE)
    fleet.claim(requests[13:15], "living", NOW, NOW + ttl + MINUTE)
    start = Barrier(4)

    def expire(_: int) -> int:
        start.wait()
        return fleet.expire(NOW + ttl)

    assert fleet.expire(NOW + ttl - SECOND) == 0
    with ThreadPoolExecutor(4) as pool:
        counted = list(pool.map(expire, range(4)))

    assert sum(counted) == 23
    assert fleet.totals(NOW + ttl) == (
        {State.DONE: 5, State.LEASED: 2, State.EXPIRED: 23},
        5,
    )
    expired = fleet.get(requests[20])
    assert (expired.state, expired.due_at) == (State.EXPIRED, None)
    assert expired.timeline[-1].why == "time to live passed"
    assert fleet.expire(NOW + ttl + MINUTE) == 2
    assert fleet.expire(NOW + ttl + MINUTE) == 0
    assert fleet.claim(requests, now=NOW + ttl) == []


def test_more_than_one_transaction_of_requests_expire(
    store: MongoRequestStore, tenant: str
) -> None:
    one = a_generation(nodes=("east",), databases=("one",), shards=1, spread=Spread.MODULO)
    fleet = Fleet(store, tenant, a_biz(generations=(one,)))
    fleet.submit(2_100)

    assert fleet.expire(NOW + timedelta(seconds=fleet.biz.ttl_seconds)) == 2_100

    assert fleet.totals()[0][State.EXPIRED] == 2_100


# ---- whose it is -------------------------------------------------------------------------------


def test_a_tenant_cannot_see_or_touch_what_is_another_ones(
    store: MongoRequestStore, tenant: str
) -> None:
    mine, theirs = Fleet(store, tenant), Fleet(store, tenant + "b")
    requests = mine.submit(9)
    same = theirs.insert([a_request(theirs.queue_key, requests[0].id)])
    claims = mine.claim(requests[:6])
    mine.settle([done_with(c, {"secret": 1}) for c in claims[:3]])
    held = claims[3:]
    before = mine.find()

    assert same.existing == frozenset()
    assert [t.request.tenant for t in theirs.find()] == [tenant + "b"]
    assert theirs.records() == []
    assert theirs.records(request_id=claims[0].request.id) == []
    assert all(theirs.get(r) is None for r in requests[1:])
    assert theirs.claim(requests[1:], now=NOW + 2 * MINUTE) == []
    assert theirs.renew(held, NOW + 9 * MINUTE) == {c.request.id for c in held}
    assert theirs.settle([done_with(c, {"x": 1}) for c in held]) == {c.request.id for c in held}
    theirs.release(held)
    assert all(theirs.cancel(r) is None for r in requests[1:])
    assert theirs.totals() == ({State.PENDING: 1}, 0)
    assert len(theirs.unqueued(before=NOW + MINUTE, now=NOW + 9 * MINUTE)) == 1
    assert theirs.expire(NOW + timedelta(days=30)) == 1
    assert theirs.totals() == ({State.EXPIRED: 1}, 0)
    assert mine.find() == before
    assert mine.settle([done_with(c, {"secret": 2}) for c in held]) == set()


def test_millisecond_times_are_kept_exactly(fleet: Fleet) -> None:
    at = from_ms(to_ms(NOW) + 123)
    request = a_request(fleet.queue_key, snowflakes(1, at)[0], at)

    fleet.insert([request])

    assert fleet.get(request).request.queued_at == at
    assert len(fleet.claim([request])) == 1
