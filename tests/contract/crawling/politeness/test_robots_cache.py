"""The contract of RobotsCache: a site's file is kept for all workers, for a while."""

import os
import zlib
from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.politeness import MemoryRobotsCache
from tests.kit.implementations import fixture_over
from tests.kit.politeness import MAX_BYTES, RedisRobotsCache, RobotsCopy
from tests.kit.queue import robots_key
from tests.waiting import eventually

COPY = RobotsCopy(
    status=200, text=b"User-agent: *\nDisallow: /\xff\n", fetched_ms=1_767_225_600_123
)


cache = fixture_over(RedisRobotsCache)


@pytest.fixture
def origin(tenant):
    return f"https://{tenant}.example"


def test_a_copy_comes_as_it_was_saved(cache, origin):
    assert cache.load(origin) is None

    for copy in (COPY, RobotsCopy(status=0), RobotsCopy(status=503, fetched_ms=7)):
        cache.save(origin, copy, 60)
        assert cache.load(origin) == copy


def test_sites_have_their_own(cache, origin):
    cache.save(origin, COPY, 60)

    for other in (f"{origin}:8443", origin.replace("https", "http"), f"{origin}x"):
        assert cache.load(other) is None


def test_a_copy_ends_with_its_time(cache, origin):
    cache.save(origin, COPY, 0.05)

    eventually(lambda: cache.load(origin) is None, what="it is still there")


@pytest.mark.parametrize("seconds", [0, -5, 0.0001])
def test_what_has_no_time_is_not_kept(cache, origin, seconds):
    cache.save(origin, COPY, seconds)

    assert cache.load(origin) is None


@pytest.mark.parametrize("text", [b"a" * 2 * MAX_BYTES, os.urandom(2 * MAX_BYTES)], ids=["a", "?"])
def test_no_more_is_kept_than_is_read(cache, origin, text):
    cache.save(origin, RobotsCopy(status=200, text=text), 60)

    assert cache.load(origin).text == text[:MAX_BYTES]


def test_nothing_is_kept_for_longer_than_a_day(redis_connection, origin):
    now = datetime(2026, 3, 1, tzinfo=UTC)
    RedisRobotsCache(redis_connection).save(origin, COPY, 1e9)
    memory = MemoryRobotsCache(clock=lambda: now)
    memory.save(origin, COPY, 1e9)

    assert 86_000 < redis_connection.client.ttl(robots_key(origin)) <= 86_400
    now += timedelta(days=1)
    assert memory.load(origin) is None


@pytest.mark.parametrize("kept", [b"", b"junk", b"200 1\njunk", b"200 x\n", b"x"])
def test_what_cannot_be_read_is_fetched_anew(redis_connection, origin, kept):
    redis_connection.client.set(robots_key(origin), kept, px=60_000)

    assert RedisRobotsCache(redis_connection).load(origin) is None


def test_a_bomb_in_its_place_does_not_go_off(redis_connection, origin):
    bomb = b"200 1\n" + zlib.compress(b"a" * 100 * MAX_BYTES)
    redis_connection.client.set(robots_key(origin), bomb, px=60_000)

    assert len(RedisRobotsCache(redis_connection).load(origin).text) == MAX_BYTES
