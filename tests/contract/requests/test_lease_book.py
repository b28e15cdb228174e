"""The contract of LeaseBook: who holds what, as the queue knows it."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.kit.implementations import backend_over
from tests.kit.kernel import QueueKey
from tests.kit.queue import RedisLeaseBook, RedisQueue, new_token, redis_keys
from tests.kit.requests import Entry

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
UNTIL = NOW + timedelta(seconds=60)
LATER = UNTIL + timedelta(seconds=60)


backend = backend_over(RedisQueue, RedisLeaseBook)


@pytest.fixture
def both(backend):
    """A queue and its lease book."""
    return backend[RedisQueue], backend[RedisLeaseBook]


def entries(count, first=0):
    return [Entry(n, "docs", n) for n in range(first, first + count)]


def held(book, queue_key, worker=None):
    return sorted((token, entry.id) for token, entry in book.leases(queue_key, worker))


def test_it_lists_what_is_leased_with_its_tokens(both, queue_key):
    queue, book = both
    queue.enqueue(queue_key, entries(4), NOW)
    assert book.leases(queue_key) == []

    queue.lease(queue_key, "w1.n.1", 2, NOW, UNTIL)
    queue.lease(queue_key, "w2.n.1", 1, NOW, UNTIL)
    queue.finish(queue_key, "w1.n.1", entries(1), 1, NOW)

    assert held(book, queue_key) == [("w1.n.1", 1), ("w2.n.1", 2)]
    assert dict(book.leases(queue_key))["w2.n.1"] == Entry(2, "docs", 2)


def test_leases_that_have_ended_and_were_not_taken_are_their_workers_still(both, queue_key):
    queue, book = both
    queue.enqueue(queue_key, entries(2), NOW)
    queue.lease(queue_key, "w1.n.1", 2, NOW, UNTIL)
    queue.lease(queue_key, "w2.n.1", 1, UNTIL, LATER)

    assert held(book, queue_key, "w1") == [("w1.n.1", 1)]


@pytest.mark.parametrize(
    "worker", ["w1", "eu.w1", "w*", "w?", "[w1]", "w[1", "w\\1", "*", "wörker", "a:b", "w-1", "^w"]
)
def test_the_leases_of_a_worker_are_those_of_no_other(both, queue_key, worker):
    queue, book = both
    others = ["w1", "w11", "eu.w1", "eu", "w1.eu", "w", "", "*", "w*1", "ww", "[", "w11\\1"]
    tokens = [new_token(one, "n", 1) for one in (worker, *others) if one != worker]
    tokens.append(new_token(worker, "m", 2))
    queue.enqueue(queue_key, entries(len(tokens) + 1), NOW)
    for token in [new_token(worker, "n", 1), *tokens]:
        queue.lease(queue_key, token, 1, NOW, UNTIL)

    found = {token for token, _ in book.leases(queue_key, worker)}

    assert found == {new_token(worker, "n", 1), new_token(worker, "m", 2)}


def test_as_many_as_there_are_are_listed_once_each(backend, queue_key):
    queue = backend[RedisQueue]
    book = backend.make(RedisLeaseBook, **({"step": 50} if backend.connection else {}))
    queue.enqueue(queue_key, entries(3_000), NOW)
    for n in range(30):
        queue.lease(queue_key, f"w{n % 3}.n.{n}", 100, NOW, UNTIL)

    assert sorted(entry.id for _, entry in book.leases(queue_key)) == list(range(3_000))
    assert len(book.leases(queue_key, "w1")) == 1_000


def test_what_the_queue_has_forgotten_is_listed_again(both, queue_key):
    queue, book = both

    book.relist(queue_key, "w1.n.1", entries(3), UNTIL)
    book.relist(queue_key, "w1.n.1", entries(3), UNTIL)

    assert held(book, queue_key, "w1") == [("w1.n.1", n) for n in range(3)]
    assert queue.renew(queue_key, "w1.n.1", entries(3), UNTIL) == []
    assert queue.lease(queue_key, "w2.n.1", 9, UNTIL - timedelta(seconds=1), LATER) == []
    assert queue.lease(queue_key, "w2.n.1", 9, UNTIL, LATER) == entries(3)


def test_listing_again_shortens_no_lease(both, queue_key):
    queue, book = both
    book.relist(queue_key, "w1.n.1", entries(2), LATER)
    book.relist(queue_key, "w1.n.1", entries(1), UNTIL)
    book.relist(queue_key, "w1.n.1", [], UNTIL)

    assert queue.lease(queue_key, "w2.n.1", 9, UNTIL, LATER) == []
    assert queue.finish(queue_key, "w1.n.1", entries(2), 2, NOW) == 2


def test_a_token_that_could_be_mistaken_for_an_entry_is_not_listed(both, queue_key):
    _, book = both

    with pytest.raises(ValueError, match="token"):
        book.relist(queue_key, "a:{", entries(1), UNTIL)


def test_one_queue_cannot_see_another(both, queue_key):
    queue, book = both
    queue.enqueue(queue_key, entries(1), NOW)
    queue.lease(queue_key, "w1.n.1", 1, NOW, UNTIL)
    others = [
        QueueKey(f"{queue_key.tenant}x", queue_key.biz, queue_key.queue),
        QueueKey(queue_key.tenant, "news", queue_key.queue),
        QueueKey(queue_key.tenant, queue_key.biz, "second"),
    ]

    assert [book.leases(other) for other in others] == [[], [], []]
    assert [book.leases(other, "w1") for other in others] == [[], [], []]


def test_what_is_no_lease_of_ours_is_not_listed(redis_connection, queue_key):
    client = redis_connection.client
    client.zadd(
        redis_keys(queue_key).leases,
        {b"junk": 1, b"w1.n.1:{no json}": 1, b'\xff:{"id":1,"biz":"docs","ts":1}': 1, b"": 1},
    )
    RedisLeaseBook(redis_connection).relist(queue_key, "w1.n.1", entries(1), UNTIL)

    assert held(RedisLeaseBook(redis_connection), queue_key) == [("w1.n.1", 0)]
