"""The contract of RobotsCache: a site's file is kept for all workers, for a while."""

import os
import zlib
from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.politeness import MemoryRobotsCache
from tests.kit.implementations import fixture_over
from tests.kit.politeness import (
    MAX_BYTES,
    MAX_KEPT_BYTES,
    RedisRobotsCache,
    RobotsCopy,
    kept_copy,
)
from tests.kit.queue import robots_key, room_keys
from tests.kit.redis import Budget
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
        cache.save(origin, copy, 60, "acme")
        assert cache.load(origin) == copy


def test_sites_have_their_own(cache, origin):
    cache.save(origin, COPY, 60, "acme")

    for other in (f"{origin}:8443", origin.replace("https", "http"), f"{origin}x"):
        assert cache.load(other) is None


def test_a_copy_ends_with_its_time(cache, origin):
    cache.save(origin, COPY, 0.05, "acme")

    eventually(lambda: cache.load(origin) is None, what="it is still there")


@pytest.mark.parametrize("seconds", [0, -5, 0.0001])
def test_what_has_no_time_is_not_kept(cache, origin, seconds):
    cache.save(origin, COPY, seconds, "acme")

    assert cache.load(origin) is None


def test_no_more_is_kept_than_is_read(cache, origin):
    cache.save(origin, RobotsCopy(status=200, text=b"a" * 2 * MAX_BYTES), 60, "acme")

    assert cache.load(origin).text == b"a" * MAX_BYTES


def test_no_more_is_kept_than_one_site_may_have(redis_connection, cache, origin):
    cache.save(origin, RobotsCopy(status=200, text=os.urandom(2 * MAX_KEPT_BYTES)), 60, "acme")
    assert cache.load(origin) is None

    copy = kept_copy(RobotsCopy(status=200, text=large_file("acme")), "acme")
    cache.save(origin, copy, 60, "acme")
    assert cache.load(origin) == copy
    assert copy.products == ("acme",)
    assert redis_connection.client.strlen(robots_key(origin)) <= MAX_KEPT_BYTES + 100


def large_file(product: str) -> bytes:
    """Rules of agents that are not ours, which no compression makes small, and a few of ours."""
    noise = "".join(f"Disallow: /{os.urandom(30).hex()}\n" for _ in range(6_000))
    return f"User-agent: other\n{noise}\nUser-agent: {product}\nDisallow: /private\n".encode()


def test_made_up_sites_of_one_tenant_push_out_its_own_and_no_others(redis_connection, tenant):
    """A thousand subdomains with 512 KB each would fill Redis."""
    copy = RobotsCopy(status=200, text=os.urandom(MAX_KEPT_BYTES - 100))
    cache = RedisRobotsCache(redis_connection, Budget(400_000, 86_400))
    cache.save(f"https://www.b{tenant}.example", copy, 60, f"b{tenant}")
    for n in range(60):
        cache.save(f"https://h{n}.{tenant}.example", copy, 60, tenant)

    left = [n for n in range(60) if cache.load(f"https://h{n}.{tenant}.example")]
    assert left == list(range(60 - len(left), 60))
    assert 20 <= len(left) <= 400_000 // MAX_KEPT_BYTES
    assert cache.load(f"https://www.b{tenant}.example") == copy
    entered, sizes = room_keys(tenant, "robots")
    assert redis_connection.client.zcard(entered) == len(left)
    assert redis_connection.client.hlen(sizes) == len(left) + 1
    assert int(redis_connection.client.hget(sizes, "")) <= 400_000


def test_a_site_that_is_kept_again_takes_its_room_once(redis_connection, origin, tenant):
    cache = RedisRobotsCache(redis_connection, Budget(2_000, 86_400))
    for _ in range(5):
        cache.save(origin, COPY, 60, tenant)

    assert cache.load(origin) == COPY
    assert redis_connection.client.zcard(room_keys(tenant, "robots")[0]) == 1


def test_what_has_ended_by_itself_takes_no_room(redis_connection, origin, tenant):
    cache = RedisRobotsCache(redis_connection, Budget(2_000, 1))
    entered, sizes = room_keys(tenant, "robots")
    cache.save(origin, COPY, 60, tenant)
    redis_connection.client.zadd(entered, {origin: 1})

    cache.save(f"{origin}:81", COPY, 60, tenant)

    assert redis_connection.client.zrange(entered, 0, -1) == [f"{origin}:81".encode()]
    assert redis_connection.client.hlen(sizes) == 2


def test_nothing_is_kept_for_longer_than_a_day(redis_connection, origin):
    now = datetime(2026, 3, 1, tzinfo=UTC)
    RedisRobotsCache(redis_connection).save(origin, COPY, 1e9, "acme")
    memory = MemoryRobotsCache(clock=lambda: now)
    memory.save(origin, COPY, 1e9, "acme")

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
