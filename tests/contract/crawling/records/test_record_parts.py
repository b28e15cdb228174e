"""MongoRequestStore: records of a page that is still being read."""

from datetime import timedelta
from uuid import uuid4

import pymongo.collection
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.contract.store_cases import (
    MINUTE,
    NOW,
    Fleet,
    a_record,
    a_store,
    entries_of,
    revocation_of,
)
from tests.kit.examples import examples
from tests.kit.kernel import StoreError
from tests.kit.mongo import MongoRequestStore
from tests.kit.requests import Dead, Done, Retry, State

SECOND = timedelta(seconds=1)


def part_of(claim, first, count, by="a"):
    return tuple(a_record(claim, first + n, n=first + n, by=by) for n in range(count))


def store(fleet, claim, first, count, by="a"):
    records = part_of(claim, first, count, by)
    return fleet.store.store_part(fleet.queue_key, fleet.biz, claim, records, NOW)


def finish(fleet, claim, stored, rest=0, by="a", **facts):
    return fleet.settle([(claim, Done(part_of(claim, stored, rest, by), stored=stored, **facts))])


def found(fleet, request):
    return [(r.index, r.fields["by"]) for r in fleet.records(request_id=request.id)]


@pytest.fixture
def claim(fleet):
    (made,) = fleet.claim(fleet.submit(1), "first")
    return made


def again(fleet, claim, token="second"):
    """The next attempt, after the lease of the one before has ended."""
    (made,) = fleet.claim([claim.request], token, NOW + MINUTE, NOW + 2 * MINUTE)
    return made


def test_parts_are_there_before_the_page_is_read_and_count_in_the_end(fleet: Fleet, claim) -> None:
    assert store(fleet, claim, 0, 3)
    assert found(fleet, claim.request) == [(n, "a") for n in range(3)]
    assert fleet.get(claim.request).state == State.LEASED
    assert store(fleet, claim, 3, 2)

    assert finish(fleet, claim, 5, 2) == set()

    tracked = fleet.get(claim.request)
    assert (tracked.state, tracked.records) == (State.DONE, 7)
    assert tracked.timeline[-1].why == "HTTP 200, records: 7"
    assert found(fleet, claim.request) == [(n, "a") for n in range(7)]
    assert fleet.totals() == ({State.DONE: 1}, 7)


def test_a_part_that_is_stored_twice_is_there_once(fleet: Fleet, claim) -> None:
    assert store(fleet, claim, 0, 3)
    assert store(fleet, claim, 0, 3, "b")
    assert store(fleet, claim, 2, 2, "c")

    assert found(fleet, claim.request) == [(0, "b"), (1, "b"), (2, "c"), (3, "c")]


def test_an_empty_part_stores_nothing_and_reports_whose_the_request_is(fleet: Fleet, claim) -> None:
    assert store(fleet, claim, 0, 0)
    again(fleet, claim)
    assert not store(fleet, claim, 0, 0)


@pytest.mark.parametrize("stored", [0, 2, 5])
@pytest.mark.parametrize("rest", [0, 1])
def test_an_attempt_that_finds_fewer_leaves_no_remains_of_the_one_before(
    fleet: Fleet, claim, stored: int, rest: int
) -> None:
    store(fleet, claim, 0, 6, "first")
    second = again(fleet, claim)
    if stored:
        assert store(fleet, second, 0, stored, "second")

    assert finish(fleet, second, stored, rest, "second") == set()

    assert found(fleet, claim.request) == [(n, "second") for n in range(stored + rest)]
    assert fleet.get(claim.request).records == stored + rest


def test_an_attempt_that_finds_more_replaces_what_was_there(fleet: Fleet, claim) -> None:
    store(fleet, claim, 0, 2, "first")
    second = again(fleet, claim)

    assert finish(fleet, second, 0, 4, "second") == set()

    assert found(fleet, claim.request) == [(n, "second") for n in range(4)]


def test_a_late_worker_stores_no_part(fleet: Fleet, claim) -> None:
    store(fleet, claim, 0, 2, "first")
    second = again(fleet, claim)

    assert not store(fleet, claim, 0, 5, "late")
    assert found(fleet, claim.request) == [(0, "first"), (1, "first")]
    assert finish(fleet, second, 0, 1, "second") == set()
    assert not store(fleet, claim, 0, 5, "late")
    assert not store(fleet, second, 1, 5, "late")
    assert found(fleet, claim.request) == [(0, "second")]


def test_a_worker_that_was_taken_for_dead_stores_no_part(fleet: Fleet, claim) -> None:
    revocation_of(fleet.store).revoke(
        fleet.queue_key, fleet.biz, entries_of([claim.request]), "worker", "watch", "dead", NOW
    )

    assert not store(fleet, claim, 0, 1)
    assert fleet.records() == []


def test_of_a_dead_request_no_part_is_left(fleet: Fleet, claim) -> None:
    store(fleet, claim, 0, 3)

    fleet.settle([(claim, Dead("the rest could not be read", "ExtractFailed"))])

    assert fleet.records() == []
    assert fleet.totals() == ({State.DEAD: 1}, 0)


def test_parts_stay_until_the_next_attempt_ends(fleet: Fleet, claim) -> None:
    store(fleet, claim, 0, 3, "first")
    fleet.settle([(claim, Retry(NOW, "503"))])

    assert len(fleet.records()) == 3
    (second,) = fleet.claim([claim.request], "second", NOW + SECOND)
    fleet.settle([(second, Dead("404", "PageGone"))])
    assert fleet.records() == []


def test_of_a_cancelled_request_no_part_is_left(fleet: Fleet, claim) -> None:
    other, *_ = fleet.claim(fleet.submit(1, NOW + SECOND), "other")
    store(fleet, other, 0, 1, "other")
    store(fleet, claim, 0, 3)
    fleet.release([claim])

    fleet.cancel(claim.request)

    assert found(fleet, claim.request) == []
    assert found(fleet, other.request) == [(0, "other")]


def test_of_an_expired_request_no_part_is_left(fleet: Fleet) -> None:
    at = NOW - timedelta(seconds=fleet.biz.ttl_seconds)
    claims = fleet.claim(fleet.submit(3, at), "first", at + SECOND)
    for one in claims:
        store(fleet, one, 0, 2)
    fleet.release(claims[:2])

    assert fleet.expire(NOW + MINUTE) == 3

    assert fleet.records() == []


def test_a_page_that_is_as_it_was_leaves_what_is_there(fleet: Fleet, claim) -> None:
    store(fleet, claim, 0, 3)

    assert finish(fleet, claim, 0, 0, status=304) == set()

    assert len(fleet.records()) == 3
    assert fleet.get(claim.request).timeline[-1].why == "HTTP 304, records: 0"


def test_a_part_that_cannot_be_stored_is_refused_whole(fleet: Fleet, claim) -> None:
    bad = (a_record(claim, 0, n=1), a_record(claim, 1, n=2**70))

    with pytest.raises(StoreError) as refused:
        fleet.store.store_part(fleet.queue_key, fleet.biz, claim, bad, NOW)

    assert not refused.value.retryable
    assert fleet.records() == []
    assert finish(fleet, claim, 0, 1) == set()


def test_done_records_that_cannot_be_stored_take_the_parts_with_them(fleet: Fleet, claim) -> None:
    store(fleet, claim, 0, 3)

    fleet.settle([(claim, Done((a_record(claim, 3, n=2**70),), stored=3))])

    assert fleet.totals() == ({State.DEAD: 1}, 0)


def test_what_was_rejected_stands_in_the_timeline(fleet: Fleet) -> None:
    claims = fleet.claim(fleet.submit(3))
    why = 'record 4, offers[2].price: is not of type "number"'

    fleet.settle(
        [
            (claims[0], Done((a_record(claims[0]),), rejected=(why, "other"), rejected_count=12)),
            (claims[1], Done((a_record(claims[1]),))),
            (claims[2], Done((), rejected=("\ud800" * 900,))),
        ]
    )

    first, second, third = (fleet.get(c.request).timeline[-1].why for c in claims)
    assert first == f"HTTP 200, records: 1, rejected: 12 ({why})"
    assert second == "HTTP 200, records: 1"
    assert third.startswith("HTTP 200, records: 0, rejected: 1 (?")


def test_a_worker_that_dies_while_it_stores_a_part_has_stored_nothing(
    mongo_uri: str, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class DiedError(BaseException):
        """The process is gone: nothing more is said to the server."""

    with a_store("mongo", mongo_uri) as made:
        fleet = Fleet(made, tenant)
        (claim,) = fleet.claim(fleet.submit(1))
        store(fleet, claim, 0, 2, "before")
        with monkeypatch.context() as patched:
            patched.setattr(pymongo.collection.Collection, "insert_many", _die(DiedError))
            with pytest.raises(DiedError):
                store(fleet, claim, 0, 4, "half")
            with pytest.raises(DiedError):
                finish(fleet, claim, 2, 1, "half")

        assert found(fleet, claim.request) == [(0, "before"), (1, "before")]
        assert fleet.get(claim.request).state == State.LEASED
        assert store(fleet, claim, 0, 1, "after")
        assert finish(fleet, claim, 1, 0) == set()
        assert found(fleet, claim.request) == [(0, "after")]


def _die(error: type[BaseException]):
    def dies(*_: object, **__: object) -> None:
        raise error

    return dies


def test_a_part_and_the_end_of_its_lease_at_once_leave_one_of_both(
    mongo_uri: str, tenant: str
) -> None:
    """The part is counted in the request: a snapshot alone would let both pass."""
    from concurrent.futures import ThreadPoolExecutor

    with a_store("mongo", mongo_uri) as made, ThreadPoolExecutor(2) as pool:
        assert isinstance(made, MongoRequestStore)
        fleet = Fleet(made, tenant)
        for claim in fleet.claim(fleet.submit(20), "first"):
            part = pool.submit(store, fleet, claim, 0, 3, "part")
            end = pool.submit(finish, fleet, claim, 0, 1, "end")

            stored, lost = part.result(), end.result()

            assert lost == set()
            assert found(fleet, claim.request) == [(0, "end")]
            assert stored in {True, False}


steps = st.lists(
    st.tuples(
        st.sampled_from(["part", "part", "late part", "done", "dead", "retry", "dies"]),
        st.integers(0, 4),
        st.integers(0, 3),
    ),
    max_size=12,
)


@pytest.mark.parametrize("kind", ["memory", "mongo"])
@examples(0.3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_what_is_stored_is_what_the_last_attempt_says(
    kind: str, request: pytest.FixtureRequest, steps: list
) -> None:
    uri = request.getfixturevalue("mongo_uri") if kind == "mongo" else ""
    with a_store(kind, uri) as made:
        fleet = Fleet(made, f"p{uuid4().hex[:10]}")
        now, attempt = NOW, 0
        (claim,) = fleet.claim(fleet.submit(1), "t0", now)
        late, kept, ended = claim, {}, None
        for step, first, count in steps:
            if ended is not None:
                break
            if step == "part":
                assert store(fleet, claim, first, count, claim.token)
                kept |= {first + n: claim.token for n in range(count)}
            elif step == "late part":
                assert store(fleet, late, first, count, "late") is (late is claim)
                if late is claim:
                    kept |= {first + n: "late" for n in range(count)}
            elif step == "done":
                assert finish(fleet, claim, first, count, claim.token) == set()
                kept = {n: by for n, by in kept.items() if n < first}
                kept |= {first + n: claim.token for n in range(count)}
                ended = first + count
            elif step == "dead":
                fleet.settle([(claim, Dead("gone", "PageGone"))])
                kept, ended = {}, 0
            else:
                if step == "retry":
                    fleet.settle([(claim, Retry(now, "slow"))])
                attempt += 1
                late, now = claim, now + MINUTE
                (claim,) = fleet.claim([claim.request], f"t{attempt}", now, now + MINUTE)

        assert found(fleet, claim.request) == sorted(kept.items())
        if ended is not None:
            assert fleet.get(claim.request).records == ended
