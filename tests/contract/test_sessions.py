"""The contract of Sessions: the cookies of jobs, over Redis and its fake."""

import time
from datetime import timedelta
from functools import partial

import pytest

from tests.kit.fetching import MAX_BYTES, RedisSessions, Sessions
from tests.kit.implementations import backend_over
from tests.kit.kernel import Lane
from tests.kit.queue import cookies_key
from tests.waiting import eventually

backend = backend_over(Sessions)


@pytest.fixture
def made(backend):
    """Makes sessions of a life."""
    return partial(backend.make, Sessions)


def test_what_was_saved_last_is_loaded(made, lane):
    sessions = made()
    assert sessions.load(lane, "june") is None

    sessions.save(lane, "june", b"\x00one\xff")
    sessions.save(lane, "june", b"two")

    assert sessions.load(lane, "june") == b"two"
    assert made().load(lane, "july") is None


def test_two_jobs_bizs_and_tenants_never_see_each_others(made, lane):
    sessions = made()
    others = [
        (Lane(f"{lane.tenant}x", lane.biz, lane.queue), "june"),
        (Lane(lane.tenant, "news", lane.queue), "june"),
        (lane, "july"),
    ]

    sessions.save(lane, "june", b"ours")

    assert [sessions.load(*other) for other in others] == [None, None, None]


def test_queues_of_one_biz_share_its_jobs(made, lane):
    sessions = made()

    sessions.save(lane, "june", b"ours")

    assert sessions.load(Lane(lane.tenant, lane.biz, "other"), "june") == b"ours"


def test_cookies_are_forgotten_after_their_life(made, lane):
    sessions, saved_at = made(life=timedelta(seconds=1)), time.monotonic()

    sessions.save(lane, "june", b"x")

    # Or the machine has taken all of that second.
    assert sessions.load(lane, "june") == b"x" or time.monotonic() - saved_at > 1
    eventually(lambda: sessions.load(lane, "june") is None, what="they are still there")


def test_a_jar_that_is_too_long_is_not_saved(made, lane):
    sessions = made()
    sessions.save(lane, "june", b"x" * MAX_BYTES)

    sessions.save(lane, "june", b"y" * (MAX_BYTES + 1))

    assert sessions.load(lane, "june") == b"x" * MAX_BYTES


def test_on_redis_they_live_for_a_day_under_the_hash_tag_of_the_lane(redis_connection, lane):
    RedisSessions(redis_connection).save(lane, "june", b"x")

    key = cookies_key(lane, "june")

    assert key == f"cf:{{{lane.tenant}:{lane.biz}}}:cookies:june"
    assert 86_000 < redis_connection.client.ttl(key) <= 86_400
