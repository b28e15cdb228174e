"""The contract of RedisSessions: the cookies of jobs, over Redis and its fake."""

import time
from datetime import timedelta
from functools import partial

import pytest

from tests.kit.fetching import MAX_BYTES, RedisSessions
from tests.kit.implementations import backend_over
from tests.kit.kernel import QueueKey
from tests.kit.queue import cookies_key, room_keys
from tests.waiting import eventually

backend = backend_over(RedisSessions)


@pytest.fixture
def made(backend):
    """Makes sessions of a life."""
    return partial(backend.make, RedisSessions)


def test_what_was_saved_last_is_loaded(made, queue_key):
    sessions = made()
    assert sessions.load(queue_key, "june") is None

    sessions.save(queue_key, "june", b"\x00one\xff")
    sessions.save(queue_key, "june", b"two")

    assert sessions.load(queue_key, "june") == b"two"
    assert made().load(queue_key, "july") is None


def test_two_jobs_bizs_and_tenants_never_see_each_others(made, queue_key):
    sessions = made()
    others = [
        (QueueKey(f"{queue_key.tenant}x", queue_key.biz, queue_key.queue), "june"),
        (QueueKey(queue_key.tenant, "news", queue_key.queue), "june"),
        (queue_key, "july"),
    ]

    sessions.save(queue_key, "june", b"ours")

    assert [sessions.load(*other) for other in others] == [None, None, None]


def test_queues_of_one_biz_share_its_jobs(made, queue_key):
    sessions = made()

    sessions.save(queue_key, "june", b"ours")

    assert sessions.load(QueueKey(queue_key.tenant, queue_key.biz, "other"), "june") == b"ours"


def test_cookies_are_forgotten_after_their_life(made, queue_key):
    sessions, saved_at = made(life=timedelta(seconds=1)), time.monotonic()

    sessions.save(queue_key, "june", b"x")

    # Or the machine has taken all of that second.
    assert sessions.load(queue_key, "june") == b"x" or time.monotonic() - saved_at > 1
    eventually(lambda: sessions.load(queue_key, "june") is None, what="they are still there")


def test_a_jar_that_is_too_long_is_not_saved(made, queue_key):
    sessions = made()
    sessions.save(queue_key, "june", b"x" * MAX_BYTES)

    sessions.save(queue_key, "june", b"y" * (MAX_BYTES + 1))

    assert sessions.load(queue_key, "june") == b"x" * MAX_BYTES


def test_on_redis_they_live_for_a_day_under_the_hash_tag_of_the_queue(redis_connection, queue_key):
    RedisSessions(redis_connection).save(queue_key, "june", b"x")

    key = cookies_key(queue_key, "june")

    assert key == f"cf:{{{queue_key.tenant}:{queue_key.biz}}}:cookies:june"
    assert 86_000 < redis_connection.client.ttl(key) <= 86_400


def test_the_jars_of_one_tenant_push_out_its_own_oldest_and_no_others(redis_connection, queue_key):
    sessions = RedisSessions(redis_connection, most_bytes=100_000)
    other = QueueKey(f"{queue_key.tenant}x", queue_key.biz, queue_key.queue)
    news = QueueKey(queue_key.tenant, "news", queue_key.queue)
    sessions.save(other, "june", b"others")
    for n in range(20):
        sessions.save(news if n % 2 else queue_key, f"j{n}", b"x" * 9_000)

    left = [n for n in range(20) if sessions.load(news if n % 2 else queue_key, f"j{n}")]
    assert left == list(range(10, 20))
    assert sessions.load(other, "june") == b"others"
    assert int(redis_connection.client.hget(room_keys(queue_key.tenant, "cookies")[1], "")) <= 1e5


def test_a_jar_that_is_larger_than_all_of_a_tenant_may_be_is_not_saved(redis_connection, queue_key):
    sessions = RedisSessions(redis_connection, most_bytes=10_000)
    sessions.save(queue_key, "small", b"x")

    sessions.save(queue_key, "large", b"x" * 10_001)

    assert sessions.load(queue_key, "large") is None
    assert sessions.load(queue_key, "small") == b"x"
