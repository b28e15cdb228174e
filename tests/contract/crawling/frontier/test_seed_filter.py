"""The filter of seeds over Redis and its fake; what Redis alone shows: bits and errors."""

from datetime import UTC, datetime, timedelta
from hashlib import blake2b

import pytest
from msgspec.structs import replace

from infra.local.redis_server import ENV_URL, RedisServer
from tests.contract.store_cases import a_biz
from tests.kit.config import SeedPolicy
from tests.kit.frontier import (
    FOREVER,
    FOREVER_LIFE,
    MARGIN,
    RedisSeedFilter,
    Segment,
    layers,
)
from tests.kit.implementations import fixture_over
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.patience import patient
from tests.kit.queue import filter_keys
from tests.kit.redis import RedisConnection
from tests.waiting import eventually

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
TODAY = Segment("today", NOW, NOW + DAY)
TOMORROW = Segment("tomorrow", NOW + DAY, NOW + 2 * DAY)
BIZ = a_biz(seeds=SeedPolicy(expected=10_000))


def keys(*numbers):
    return [blake2b(b"%d" % number, digest_size=16).digest() for number in numbers]


def policy(**changes):
    return a_biz(seeds=SeedPolicy(**changes))


bloom = fixture_over(RedisSeedFilter)


def test_what_was_added_is_seen_and_nothing_else(bloom, queue_key):
    assert bloom.seen(queue_key, BIZ, TODAY, keys(1, 2)) == [False, False]

    bloom.add(queue_key, BIZ, TODAY, keys(1, 3))

    assert bloom.seen(queue_key, BIZ, TODAY, keys(1, 2, 3, 1)) == [True, False, True, True]


def test_adding_again_changes_nothing(bloom, queue_key):
    for _ in range(3):
        bloom.add(queue_key, BIZ, TODAY, keys(1, 1, 2))

    assert bloom.seen(queue_key, BIZ, TODAY, keys(1, 2, 3)) == [True, True, False]


def test_nothing_may_be_asked_for_and_added(bloom, queue_key):
    bloom.add(queue_key, BIZ, TODAY, [])

    assert bloom.seen(queue_key, BIZ, TODAY, []) == []
    assert bloom.size(queue_key, TODAY.name) == 0


def test_segments_bizs_and_tenants_are_kept_apart(bloom, queue_key):
    bloom.add(queue_key, BIZ, TODAY, keys(1))

    others = [
        QueueKey(queue_key.tenant, "other", "main"),
        QueueKey(f"{queue_key.tenant}b", queue_key.biz, "main"),
    ]
    assert bloom.seen(queue_key, BIZ, TOMORROW, keys(1)) == [False]
    assert [bloom.seen(other, BIZ, TODAY, keys(1)) for other in others] == [[False], [False]]


def test_a_dropped_filter_knows_nothing_and_begins_anew(bloom, queue_key):
    bloom.add(queue_key, BIZ, TODAY, keys(1))
    bloom.add(queue_key, BIZ, TOMORROW, keys(1))

    bloom.drop(queue_key, TODAY.name)
    bloom.drop(queue_key, "never")

    assert bloom.seen(queue_key, BIZ, TODAY, keys(1)) == [False]
    assert bloom.seen(queue_key, BIZ, TOMORROW, keys(1)) == [True]
    assert bloom.size(queue_key, TODAY.name) == 0
    bloom.add(queue_key, BIZ, TODAY, keys(2))
    assert bloom.seen(queue_key, BIZ, TODAY, keys(1, 2)) == [False, True]


def test_a_key_of_another_length_is_a_error(bloom, queue_key):
    with pytest.raises(ValueError, match="16 bytes"):
        bloom.seen(queue_key, BIZ, TODAY, [b"short"])
    with pytest.raises(ValueError, match="16 bytes"):
        bloom.add(queue_key, BIZ, TODAY, [b"short"])


def test_more_than_one_call_of_keys_goes_through(bloom, queue_key):
    many = keys(*range(2_500))

    bloom.add(queue_key, BIZ, TODAY, many)

    assert bloom.seen(queue_key, BIZ, TODAY, many) == [True] * 2_500
    assert sum(bloom.seen(queue_key, BIZ, TODAY, keys(*range(10_000, 12_500)))) <= 25


def test_a_small_segment_takes_kilobytes_and_grows_by_layers(bloom, queue_key):
    biz = policy(expected=1_000_000)
    first, second, *_ = layers(1_000_000, 0.001)

    bloom.add(queue_key, biz, TODAY, keys(*range(1_000)))
    small = bloom.size(queue_key, TODAY.name)
    bloom.add(queue_key, biz, TODAY, keys(*range(first.keys + 1)))

    assert small == first.bytes < 16_000
    assert bloom.size(queue_key, TODAY.name) == first.bytes + second.bytes


def test_a_change_of_the_policy_leaves_what_stands_readable(bloom, queue_key):
    bloom.add(queue_key, BIZ, TODAY, keys(1, 2))
    changed = policy(expected=5_000_000, error_rate=0.01)

    assert bloom.seen(queue_key, changed, TODAY, keys(1, 3)) == [True, False]
    bloom.add(queue_key, changed, TODAY, keys(3))

    assert bloom.seen(queue_key, BIZ, TODAY, keys(1, 2, 3, 4)) == [True, True, True, False]
    bloom.add(queue_key, changed, TOMORROW, keys(1))
    assert bloom.seen(queue_key, BIZ, TOMORROW, keys(1, 2)) == [True, False]


# ---- Redis alone -------------------------------------------------------------------------------


@pytest.fixture
def real(redis_connection):
    return RedisSeedFilter(redis_connection)


def lives(connection, queue_key, segment):
    parts = sum(layer.parts for layer in layers(10_000, 0.001))
    found = (connection.client.ttl(key) for key in filter_keys(queue_key, segment, parts))
    return {life for life in found if life != -2}


def test_a_filter_ends_an_hour_after_its_segment(real, redis_connection, queue_key):
    real.add(queue_key, BIZ, TODAY, keys(*range(3_000)))

    margin = (DAY + MARGIN).total_seconds()
    assert all(
        margin - 3_000 <= life <= margin for life in lives(redis_connection, queue_key, "today")
    )


def test_the_filter_of_an_endless_segment_lives_on_while_it_is_added_to(
    real, redis_connection, queue_key
):
    real.add(queue_key, BIZ, FOREVER, keys(*range(2_000)))
    for key in filter_keys(queue_key, FOREVER.name, 2):
        redis_connection.client.expire(key, 5)

    real.add(queue_key, BIZ, FOREVER, keys(5_000))

    whole = FOREVER_LIFE.total_seconds()
    assert all(
        whole - 60 <= life <= whole for life in lives(redis_connection, queue_key, FOREVER.name)
    )


def test_nothing_is_added_to_the_filter_of_a_segment_that_is_long_over(real, queue_key):
    old = Segment("old", NOW - 2 * DAY, NOW - DAY)

    real.add(queue_key, BIZ, old, keys(1))

    assert real.seen(queue_key, BIZ, old, keys(1)) == [False]
    assert real.size(queue_key, old.name) == 0


def test_a_string_that_redis_has_evicted_costs_its_keys_and_nothing_else(
    real, redis_connection, queue_key
):
    biz, first = policy(expected=1_000_000), layers(1_000_000, 0.001)[0].keys
    many = keys(*range(first + 1_000))
    real.add(queue_key, biz, TODAY, many)
    redis_connection.client.delete(filter_keys(queue_key, TODAY.name, 2)[2])

    seen = real.seen(queue_key, biz, TODAY, many)
    assert all(seen[:first])
    assert sum(seen[first:]) <= 1
    real.add(queue_key, biz, TODAY, many)
    assert all(real.seen(queue_key, biz, TODAY, many))


def test_another_process_goes_by_the_plan_that_stands(redis_connection, queue_key):
    RedisSeedFilter(redis_connection).add(queue_key, BIZ, TODAY, keys(1))
    other = RedisSeedFilter(redis_connection)
    wide = policy(expected=100_000)

    assert other.seen(queue_key, wide, TODAY, keys(1, 2)) == [True, False]
    other.drop(queue_key, TODAY.name)
    other.add(queue_key, wide, TODAY, keys(2))
    # The first one still goes by what it knew.
    assert RedisSeedFilter(redis_connection).seen(queue_key, BIZ, TODAY, keys(1, 2)) == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("expected", "rate"), [(1_000, 0.001), (20_000, 0.001), (5_000, 0.05), (5_000, 1e-6)]
)
def test_errors_are_no_more_than_stated_when_it_is_full(real, queue_key, expected, rate):
    biz = policy(expected=expected, error_rate=rate)
    real.add(queue_key, biz, TODAY, keys(*range(expected)))
    asked = 20_000

    wrong = sum(real.seen(queue_key, biz, TODAY, keys(*range(10**6, 10**6 + asked))))

    assert wrong <= rate * asked + 3 * (rate * asked) ** 0.5 + 0.5


def test_errors_are_no_more_than_stated_far_beyond_what_was_expected(real, queue_key):
    biz = policy(expected=1_000)
    real.add(queue_key, biz, TODAY, keys(*range(10_000)))

    wrong = sum(real.seen(queue_key, biz, TODAY, keys(*range(10**6, 10**6 + 20_000))))

    assert wrong <= 20 + 14
    assert all(real.seen(queue_key, biz, TODAY, keys(*range(10_000))))


def test_a_filter_that_is_full_to_its_last_layer_takes_no_more(real, redis_connection, queue_key):
    biz = policy(expected=1_000)
    room = sum(layer.keys for layer in layers(1_000, 0.001))
    real.add(queue_key, biz, TODAY, keys(*range(room + 2_000)))
    before = real.size(queue_key, TODAY.name)

    assert (
        int(redis_connection.client.hget(filter_keys(queue_key, TODAY.name, 0)[0], "keys")) == room
    )
    assert sum(real.seen(queue_key, biz, TODAY, keys(*range(10**6, 10**6 + 20_000)))) <= 20 + 14
    real.add(queue_key, biz, TODAY, keys(10**7))
    assert real.size(queue_key, TODAY.name) == before


def test_one_call_allocates_no_more_than_it_may(redis_connection, queue_key):
    real, biz = RedisSeedFilter(redis_connection, room_bytes=300_000), policy(expected=1_000_000)
    small = sum(layer.keys for layer in layers(1_000_000, 0.001)[:2])
    real.add(queue_key, biz, TODAY, keys(*range(small)))
    before = real.size(queue_key, TODAY.name)
    # The third layer has two strings, and the second one is short.
    real.add(queue_key, biz, TODAY, keys(*range(small, small + 500)))

    assert before < real.size(queue_key, TODAY.name) <= before + 300_000


def test_urls_at_one_in_a_thousand_take_two_bytes_each(monkeypatch):
    """Redis reports the memory, which includes the names of the keys."""
    monkeypatch.delenv(ENV_URL, raising=False)
    queue_key, biz, many = (
        QueueKey("acme", "documentation", "main"),
        policy(expected=100_000),
        100_000,
    )
    with RedisServer() as server, RedisConnection(patient(server.url)) as watcher:
        watcher.client.config_set("slowlog-log-slower-than", -1)  # it would count as memory
        with RedisConnection(patient(server.url)) as connection:
            real = RedisSeedFilter(connection)
            real.add(queue_key, biz, TOMORROW, keys(1))
            real.drop(queue_key, TOMORROW.name)
        before = watcher.client.info("memory")["used_memory"]
        with RedisConnection(patient(server.url)) as connection:
            real = RedisSeedFilter(connection)
            for start in range(0, many, 10_000):
                real.add(queue_key, biz, TODAY, keys(*range(start, start + 10_000)))
            wrong = sum(real.seen(queue_key, biz, TODAY, keys(*range(10**6, 1_050_000))))

        def taken() -> int:
            return watcher.client.info("memory")["used_memory"] - before

        # What the closed connection took is given back a moment later.
        eventually(lambda: taken() <= 2 * many, what="a URL takes two bytes at most")

    assert wrong <= 50 + 21


def test_segments_of_one_biz_share_its_hash_tag(queue_key):
    assert {key.partition("}")[0] for key in filter_keys(queue_key, "2026-03-01T05:00Z", 3)} == {
        f"cf:{{{queue_key.tenant}:{queue_key.biz}"
    }


def test_what_is_stored_as_a_plan_and_is_none_is_no_answer_of_ours(
    real, redis_connection, queue_key
):
    redis_connection.client.hset(filter_keys(queue_key, TODAY.name, 0)[0], "plan", "nonsense")

    for call in (
        lambda: real.seen(queue_key, BIZ, TODAY, keys(1)),
        lambda: real.size(queue_key, TODAY.name),
    ):
        with pytest.raises(StoreUnavailableError):
            call()


def test_the_policy_of_a_biz_is_what_a_new_filter_goes_by(real, redis_connection, queue_key):
    real.add(
        queue_key, replace(BIZ, seeds=SeedPolicy(expected=7_000, error_rate=0.02)), TODAY, keys(1)
    )

    found = redis_connection.client.hgetall(filter_keys(queue_key, TODAY.name, 0)[0])
    assert found == {b"plan": b"7000 0.02", b"keys": b"1"}
