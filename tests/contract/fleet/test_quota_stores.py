"""Ledgers of quotas over Redis and in memory, ceilings over MongoDB and in memory."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.fakes.quotas import MemoryQuotaCeilings, MemoryQuotaLedgers
from tests.kit.examples import examples
from tests.kit.kernel import QueueKey
from tests.kit.quotas import (
    LEASE_SECONDS,
    Ask,
    Ceiling,
    Exchange,
    MongoCeilings,
    QuotaLedgers,
    QuotaPeriod,
    RedisQuotaLedgers,
    ledger_keys,
    window_of,
)
from tests.kit.worlds.quotas import a_limit, hold_a_share

#: MongoDB removes what expires by its own clock, so this is later than any day of a test.
NOW = datetime(2126, 11, 23, 23, 59, tzinfo=UTC)
DAY = QuotaPeriod.DAY

asks = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.integers(1, 12),
        *(st.integers(0, 60) for _ in range(3)),
        st.integers(1, 30),
        st.sampled_from([0.0, 0.0, 1.0, 31.0, 90.0, 2_000.0]),
        st.sampled_from([0, 0, 50, 200]),
    ),
    max_size=25,
)


@pytest.mark.parametrize("per", list(QuotaPeriod))
@examples(1.0, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asks=asks, most=st.integers(1, 150))
def test_a_ledger_in_memory_answers_as_the_one_in_redis(redis_connection, tenant, per, asks, most):
    now = NOW
    limit, window = a_limit(most, per, tenant), window_of(per, NOW)
    twins = [
        RedisQuotaLedgers(redis_connection, clock=lambda: now),
        MemoryQuotaLedgers(clock=lambda: now),
    ]
    redis_connection.client.delete(*ledger_keys(limit, window))
    for twin in twins:
        assert twin.open(limit, window, "n", 20, "") == "n"

    for holder, number, spent, keep, wanted, least, seconds, ceiling in asks:
        now += timedelta(seconds=seconds)
        ask = Ask(number=number, spent=spent, keep=min(keep, wanted), wanted=wanted, least=least)
        one = Exchange(limit, window, "n", ask, ceiling)
        real, fake = [twin.exchange(holder, [one]) for twin in twins]
        assert real == fake
    real, fake = [twin.read([(limit, window)]) for twin in twins]
    assert real == fake


def test_a_ledger_is_known_by_its_nonce_and_replaced_only_where_it_is_stale(any_redis, tenant):
    limit, window = a_limit(10, tenant=tenant), window_of(QuotaPeriod.ALL, NOW)
    ledgers = RedisQuotaLedgers(any_redis)
    one = Exchange(limit, window, "first", Ask(number=1, spent=0, keep=0, wanted=1, least=1))

    assert ledgers.exchange("a", [one]) == [""]
    assert ledgers.open(limit, window, "first", 0, "") == "first"
    assert ledgers.open(limit, window, "second", 9, "") == "first"
    assert ledgers.open(limit, window, "second", 9, "first") == "second"
    assert ledgers.exchange("a", [one]) == ["second"]
    [booked] = ledgers.read([(limit, window)])
    assert (booked.spent, booked.ceiling) == (9, 9)


def test_however_many_workers_die_a_budget_loses_a_hundredth_and_what_they_had_begun(
    redis_connection, tenant
):
    now = NOW
    limit, window = a_limit(1_000, tenant=tenant), window_of(QuotaPeriod.ALL, NOW)
    ledgers = RedisQuotaLedgers(redis_connection, clock=lambda: now)
    ledgers.open(limit, window, "n", 0, "")
    ask = Ask(number=1, spent=0, keep=0, wanted=20, least=1)
    granted = []
    for number in range(60):
        [booked] = ledgers.exchange(f"w{number}", [Exchange(limit, window, "n", ask, 1_000)])
        granted.append(booked.granted)
        now += timedelta(seconds=LEASE_SECONDS + 1)

    # The first one's share, which nobody knew would be lost; then one request each.
    assert granted == [20] + [1] * 59
    [booked] = ledgers.read([(limit, window)])
    assert booked.in_doubt == sum(granted[:-1])


def test_many_at_once_are_granted_no_more_than_the_limit(any_redis, tenant):
    ceilings = MemoryQuotaCeilings()
    queue_key = QueueKey(tenant, "docs", "main")

    def hold(number: int) -> int:
        ledgers = QuotaLedgers(RedisQuotaLedgers(any_redis), ceilings)
        return hold_a_share(ledgers, queue_key, NOW, f"w{number}", most=50, wanted=9).granted

    with ThreadPoolExecutor(8) as threads:
        granted = list(threads.map(hold, range(24)))

    assert 0 < sum(granted) <= 50


def test_all_accounts_of_a_tenant_are_exchanged_in_one_call_of_a_cluster(any_redis, tenant):
    ledgers = RedisQuotaLedgers(any_redis)
    window = window_of(QuotaPeriod.ALL, NOW)
    limits = [a_limit(10, tenant=tenant, biz=f"b{n}") for n in range(5)]
    ask = Ask(number=1, spent=0, keep=0, wanted=1, least=1)

    found = ledgers.exchange("a", [Exchange(limit, window, "n", ask) for limit in limits])

    assert found == [""] * 5
    assert ledgers.read([(limit, window) for limit in limits]) == [None] * 5


@pytest.fixture(params=["memory", "mongo"])
def ceilings(request: pytest.FixtureRequest):
    if request.param == "memory":
        return MemoryQuotaCeilings()
    return MongoCeilings(request.getfixturevalue("mongo_connection"))


def test_a_ceiling_is_raised_by_whoever_knows_it_and_outlives_ledgers(ceilings, tenant):
    limit, window = a_limit(1_000, tenant=tenant), window_of(QuotaPeriod.ALL, NOW)

    assert ceilings.read([(limit, window)]) == [None]
    assert ceilings.open(limit, window, "first", "", NOW) == Ceiling("first", 0)
    assert ceilings.open(limit, window, "other", "", NOW) == Ceiling("first", 0)
    assert ceilings.raise_to(limit, window, Ceiling("first", 0), 100, NOW)
    assert not ceilings.raise_to(limit, window, Ceiling("first", 0), 200, NOW)
    assert ceilings.open(limit, window, "second", "", NOW) == Ceiling("second", 100)
    assert ceilings.open(limit, window, "third", "first", NOW) == Ceiling("second", 100)
    assert not ceilings.raise_to(limit, window, Ceiling("first", 100), 200, NOW)
    assert ceilings.read([(limit, window)]) == [Ceiling("second", 100)]


def test_each_period_and_each_tenant_has_a_ceiling_of_its_own(ceilings, tenant):
    limit, other = a_limit(10, DAY, tenant), a_limit(10, DAY, f"{tenant}-2")
    today, tomorrow = window_of(DAY, NOW), window_of(DAY, NOW + timedelta(minutes=2))
    ceilings.open(limit, today, "n", "", NOW)
    ceilings.raise_to(limit, today, Ceiling("n", 0), 5, NOW)

    found = ceilings.read([(limit, today), (limit, tomorrow), (other, today)])

    assert found == [Ceiling("n", 5), None, None]
