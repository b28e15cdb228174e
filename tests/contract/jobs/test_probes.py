"""Contract tests of link probes, over each implementation."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.kit.bidding import Probe, ProbeKey, RedisProbeCache, probe_keys
from tests.kit.implementations import fixture_over
from tests.kit.kernel import StoreUnavailableError
from tests.kit.redis import RedisConnection
from tests.waiting import eventually

FOUND = Probe(at=datetime(2026, 3, 1, 12, tzinfo=UTC), seconds=0.25, bytes_per_second=1e6)
FAULT = Probe(at=FOUND.at, fault="no connection")
HOLD = KEEP = timedelta(seconds=60)
SHORT = timedelta(milliseconds=40)


probes = fixture_over(RedisProbeCache)


@pytest.fixture
def key(tenant):
    return ProbeKey(tenant=tenant, biz="docs", pool="main", origin="http://a.example:8080")


def other(key, **fields):
    values = {"tenant": key.tenant, "biz": key.biz, "pool": key.pool, "origin": key.origin}
    return ProbeKey(**{**values, **fields})


def test_one_worker_finds_it_out_and_all_know_it(probes, key):
    assert probes.get_or_claim(key, "w1", HOLD) is True
    assert probes.get_or_claim(key, "w2", HOLD) is False
    assert probes.get_or_claim(key, "w1", HOLD) is True

    probes.save(key, "w1", FOUND, KEEP)

    assert probes.get_or_claim(key, "w2", HOLD) == probes.get_or_claim(key, "w1", HOLD) == FOUND


def test_who_could_not_find_it_out_lets_another_one_try(probes, key):
    probes.get_or_claim(key, "w1", HOLD)
    probes.release(key, "w2")
    assert probes.get_or_claim(key, "w2", HOLD) is False
    probes.release(key, "w1")

    assert probes.get_or_claim(key, "w2", HOLD) is True


def test_who_vanishes_holds_up_nobody_for_long(probes, key):
    probes.get_or_claim(key, "w1", SHORT)

    eventually(lambda: probes.get_or_claim(key, "w2", HOLD) is True)
    probes.save(key, "w1", FAULT, KEEP)

    assert probes.get_or_claim(key, "w3", HOLD) == FAULT


def test_what_was_found_out_counts_for_a_while(probes, key):
    probes.save(key, "w1", FOUND, SHORT)

    eventually(lambda: probes.get_or_claim(key, "w2", HOLD) is True)


@pytest.mark.parametrize(
    "fields",
    [
        {"tenant": "other"},
        {"biz": "news"},
        {"pool": "eu"},
        {"origin": "http://a.example"},
        {"biz": "docsm", "pool": "ain"},
    ],
)
def test_probes_of_another_tenant_biz_pool_or_port_are_others(probes, key, fields):
    probes.save(key, "w1", FOUND, KEEP)

    assert probes.get_or_claim(other(key, **fields), "w1", SHORT) is True


def test_keys_hold_nothing_that_a_tenant_wrote_and_expire(any_redis, key):
    probes = RedisProbeCache(any_redis)
    odd = other(key, origin="http://{tag}\n*:\udc80")
    probes.get_or_claim(odd, "w1", HOLD)
    known, probing = probe_keys(odd)

    assert all("{probe:" in one and len(one) < 60 and one.isascii() for one in (known, probing))
    assert 0 < any_redis.client.pttl(probing) <= 60_000
    probes.save(odd, "w2", FOUND, KEEP)
    assert 0 < any_redis.client.pttl(known) <= 60_000
    assert any_redis.client.exists(probing)


@pytest.mark.parametrize("junk", [b"", b"{", b'{"at":1}', b"\xff"])
def test_what_something_else_has_put_there_is_found_out_anew(redis_connection, key, junk):
    probes = RedisProbeCache(redis_connection)
    redis_connection.client.set(probe_keys(key)[0], junk, px=60_000)

    assert probes.get_or_claim(key, "w1", HOLD) is True
    probes.save(key, "w1", FOUND, KEEP)
    assert probes.get_or_claim(key, "w1", HOLD) == FOUND


def test_nobody_there_is_said_so(key):
    probes = RedisProbeCache(RedisConnection("redis://127.0.0.1:1", connect_seconds=0.2))

    for question in (
        lambda: probes.get_or_claim(key, "w1", HOLD),
        lambda: probes.save(key, "w1", FOUND, KEEP),
        lambda: probes.release(key, "w1"),
    ):
        with pytest.raises(StoreUnavailableError):
            question()
