"""The contract of Hosts: rate and permits over the whole fleet, and what is kept of a host."""

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.contract import host_cases
from tests.contract.host_cases import EXACT
from tests.kit.config import HostLimits
from tests.kit.examples import examples
from tests.kit.politeness import (
    DEMAND_SECONDS,
    HORIZON_SECONDS,
    PERMIT_SECONDS,
    HostAsk,
    HostState,
    OwnAnswers,
    RedisHosts,
)
from tests.kit.queue import host_key, strain_keys

# ---- rate ---------------------------------------------------------------------------------------


def test_slots_come_an_interval_apart_and_no_further_ahead_than_the_horizon(street):
    first = street.ask("w1", count=1_000)
    second = street.ask("w2", count=1_000)

    assert (first.count, first.wait_seconds, first.interval_seconds) == (16, 0.0, 0.1)
    assert first.why == "concurrency"
    assert (second.count, second.why) == (0, "concurrency")
    assert all(b - a >= 0.1 - EXACT for a, b in pairwise(street.moments()))


def test_two_workers_never_have_the_same_slot(street):
    street.limits = HostLimits(per_second=10, concurrency=100)
    grants = [street.ask(f"w{n}", count=5) for n in range(6)]

    assert [grant.count for grant in grants] == [5, 5, 5, 5, 1, 0]
    assert [grant.wait_seconds for grant in grants[:5]] == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert [grant.why for grant in grants] == ["", "", "", "", "rate", "rate"]
    assert grants[0].ready_seconds == 0.0
    assert grants[5].ready_seconds == pytest.approx(1.1)
    street.wait(grants[5].ready_seconds)
    assert street.ask("w6", count=99).count == 11


def test_a_slow_host_gives_one_slot_at_a_time(street):
    street.limits = HostLimits(per_second=1 / 60)

    assert street.ask(count=5).count == 1
    waiting = street.ask(count=5)
    assert (waiting.count, waiting.why) == (0, "rate")
    street.wait(waiting.ready_seconds)
    second = street.ask(count=5)

    assert second.count == 1
    assert street.moments()[1] == pytest.approx(60.0)


@examples(0.2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(
            st.floats(0, 3),
            st.sampled_from(["w1", "w2", "w3"]),
            st.sampled_from(["acme", "beta", "gamma"]),
            st.integers(1, 40),
        ),
        min_size=5,
        max_size=40,
    ),
    per_second=st.sampled_from([0.3, 2.0, 10.0, 50.0]),
)
def test_the_rate_holds_over_any_window_whoever_asks(tenant, redis_connection, steps, per_second):
    for make in (host_cases.in_memory, None):
        time, host = host_cases.Time(), f"{tenant}-{id(steps)}.example"
        street = make(host, time) if make else host_cases.on_redis(redis_connection, host, time)
        street.limits = HostLimits(per_second=per_second, concurrency=1_000)
        for seconds, worker, of, count in steps:
            street.wait(seconds)
            assert 0 <= street.ask(worker, of, count).wait_seconds <= HORIZON_SECONDS
        found = street.moments()
        assert all(b - a >= 1 / per_second - EXACT for a, b in pairwise(found))
        if make is None:
            redis_connection.client.delete(host_key(host))


@examples(0.2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rates=st.fixed_dictionaries(
        {of: st.sampled_from([0.1, 1.0, 10.0]) for of in ("acme", "beta", "gamma")}
    ),
    steps=st.lists(
        st.tuples(st.floats(0, 2), st.sampled_from(["acme", "beta", "gamma"]), st.integers(1, 9)),
        min_size=5,
        max_size=60,
    ),
)
def test_each_tenant_is_held_to_its_own_interval_and_to_the_shorter_one_beside_others(rates, steps):
    street = host_cases.in_memory("h.example", host_cases.Time())
    street.limits = HostLimits(concurrency=1_000)
    for seconds, of, count in steps:
        street.wait(seconds)
        street.ask("w", of, count, per_second=rates[of])

    slots = sorted(street.slots)
    for n, (at, of, _) in enumerate(slots):
        for earlier, other, _ in slots[:n]:
            assert at - earlier >= 1 / max(rates[of], rates[other]) - EXACT


def test_a_tenant_that_wants_to_be_slow_slows_nobody_down(street):
    street.limits = HostLimits(concurrency=100)
    assert street.ask("slow", "beta", count=99, per_second=0.001).count == 1

    total = 0
    for _ in range(20):
        total += street.ask("quick", "acme", count=99).count
        street.ask("slow", "beta", count=99, per_second=0.001)
        street.wait(0.5)

    assert total >= 95
    assert len(street.moments("beta")) == 1


# ---- permits ------------------------------------------------------------------------------------


def test_permits_of_all_workers_stay_within_the_concurrency(street):
    street.limits = HostLimits(per_second=1_000, concurrency=8)

    grants = [street.ask(f"w{n}", count=5) for n in range(3)]

    assert [grant.permits for grant in grants] == [5, 3, 0]
    assert grants[2].why == "concurrency"
    assert 0 < grants[2].ready_seconds <= 1
    assert street.state.running == 8


def test_a_worker_that_ends_something_makes_room(street):
    street.limits = HostLimits(per_second=1_000, concurrency=8)
    street.ask("w1", count=8)
    street.wait(2)

    street.report("w1", running=5, answered=3, seconds=0.1)
    assert street.ask("w2", count=8).permits == 3
    street.report("w1", running=0, answered=5, seconds=0.1)
    assert street.ask("w3", count=8).permits == 5


def test_the_permits_of_a_dead_worker_come_back(street):
    street.limits = HostLimits(per_second=1_000, concurrency=8)
    street.ask("dead", count=8)

    street.wait(PERMIT_SECONDS - 0.1)
    assert street.ask("w2", count=8).permits == 0
    street.wait(0.1)
    assert street.ask("w2", count=8).permits == 8


def test_whoever_is_heard_of_keeps_its_permits(street):
    street.limits = HostLimits(per_second=1_000, concurrency=8)
    street.ask("w1", count=8)

    for _ in range(5):
        street.wait(PERMIT_SECONDS - 5)
        street.report("w1", running=8)
    assert street.ask("w2", count=8).permits == 0
    assert street.state.running == 8


def test_a_report_that_crossed_the_grant_takes_nothing_back(street):
    street.limits = HostLimits(per_second=1_000, concurrency=8)
    street.ask("w1", count=8)
    street.wait(0.1)

    street.report("w1", running=0)

    assert street.ask("w2", count=8).permits == 0
    street.wait(1)
    assert street.ask("w2", count=8).permits == 8


def test_no_more_slots_are_given_than_the_permits_can_serve(street):
    street.limits = HostLimits(per_second=10, concurrency=1, adaptive=False)
    for _ in range(4):
        street.report("w1", answered=9, seconds=0.8)

    assert street.ask("w1", count=99).count == 3  # 2 s of 0.8 s each


def test_a_state_that_was_lost_is_learnt_again_from_who_asks(street, tenant):
    street.limits = HostLimits(per_second=1_000, concurrency=8)

    assert street.ask("w1", count=1, running=6).permits == 7
    assert street.ask("w2", count=8).permits == 1


@examples(0.4)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from([0.0, 0.1, 0.5, 1.5]),
            st.sampled_from(["w1", "w2", "w3"]),
            st.sampled_from(["acme", "beta", "gamma"]),
            st.integers(0, 20),
            st.booleans(),
        ),
        max_size=80,
    ),
    concurrency=st.integers(1, 6),
)
def test_no_more_than_the_concurrency_is_ever_under_way(steps, concurrency):
    """Workers begin what they have permits for, in slots they have; downloads end at whim."""
    street = host_cases.in_memory("h.example", host_cases.Time())
    street.limits = HostLimits(per_second=1_000, concurrency=concurrency, adaptive=False)
    workers: dict[tuple[str, str], list[int]] = {}  # in flight, slots, permits
    for seconds, worker, of, count, ends in steps:
        street.wait(seconds)
        mine = workers.setdefault((worker, of), [0, 0, 0])
        if ends:
            done, mine[0] = mine[0], 0
            running = mine[0] + mine[1]
            street.report(worker, of, running, answered=done, seconds=0.2)
            mine[2] = min(mine[2], max(running, mine[2] if seconds < 1 else running))
        grant = street.ask(worker, of, count, running=mine[0] + mine[1])
        mine[1] += grant.count
        mine[2] = grant.permits
        for one in workers.values():
            begins = max(0, min(one[1], one[2] - one[0]))
            one[0], one[1] = one[0] + begins, one[1] - begins
        assert sum(one[0] for one in workers.values()) <= concurrency
        assert street.state.running <= concurrency
        assert grant.count == count or grant.why


# ---- what is kept -------------------------------------------------------------------------------


def test_a_host_that_nothing_is_known_of_has_an_empty_state(street):
    assert street.state == HostState(host=street.host)


def test_the_interval_of_a_tenant_is_reported_until_its_next_slot_is_due(street):
    street.ask(count=1, per_second=0.2)
    street.ask(count=1, tenant="rival", per_second=4.0)

    assert street.state.intervals == {"acme": 5.0, "rival": 0.25}
    street.report(running=0)
    street.report(tenant="rival", running=0)
    street.wait(4.5)
    assert street.state.intervals == {"acme": 5.0}
    street.wait(60)
    assert street.state.intervals == {}


def test_hosts_have_nothing_to_do_with_each_other(street):
    other = f"www.{street.host}"
    street.report(overloads=1)

    asks = [
        HostAsk(host=host, tenant="acme", count=1, running=0, interval_seconds=0.1, concurrency=1)
        for host in (street.host, other)
    ]
    grants = street.hosts.reserve(asks, "w1")

    assert [(one.host, one.count) for one in grants] == [(street.host, 0), (other, 1)]
    assert [one.overload for one in street.hosts.states([other, street.host])] == [0, 1]
    assert street.hosts.reserve([], "w1") == []


def test_a_clock_that_is_set_back_stops_nobody_for_long(street):
    street.limits = HostLimits(concurrency=100)
    street.ask(count=1_000)
    street.wait(-3_600)

    waiting = street.ask(count=1_000)
    street.wait(HORIZON_SECONDS)

    assert waiting.ready_seconds <= HORIZON_SECONDS
    assert street.ask(count=1_000).count >= 10


def test_a_clock_that_is_set_back_leaves_no_permits_with_the_dead(street):
    street.limits = HostLimits(per_second=1_000, concurrency=8)
    street.ask("dead", count=8)
    street.wait(-3_600)

    assert street.ask("w2", count=8).permits == 0
    street.wait(PERMIT_SECONDS)
    assert street.ask("w2", count=8).permits == 8


def test_a_clock_that_is_set_back_keeps_no_permits_that_are_given_back(street):
    street.limits = HostLimits(per_second=1_000, concurrency=8)
    street.ask("w1", count=8)
    street.wait(-3_600)

    street.report("w1", running=8)
    street.wait(2)
    street.report("w1", running=0)
    street.wait(1)

    assert street.ask("w2", count=8).permits == 8


def test_a_clock_that_is_set_back_shares_nothing_with_tenants_that_are_gone(street):
    street.limits = HostLimits(per_second=10, concurrency=100)
    street.ask("w1", "acme", count=1_000)
    street.ask("w2", "gone", count=1_000)
    street.wait(-3_600)

    street.ask("w1", "acme", count=1)
    street.wait(max(PERMIT_SECONDS, DEMAND_SECONDS) + 1)

    assert street.ask("w1", "acme", count=1_000).count == 21
    assert street.state.tenants == ("acme",)


def test_an_idle_host_is_soon_forgotten_one_that_is_slow_after_an_hour_no_back_off_before_its_end(
    redis_connection, tenant
):
    street = host_cases.on_redis(redis_connection, f"{tenant}.example", host_cases.Time())
    keys = host_key(street.host), *strain_keys(street.host, "acme")
    ends = lambda: list(map(redis_connection.client.ttl, keys))  # noqa: E731  read three times
    street.ask(count=1)
    assert 140 < ends()[0] <= 152

    street.report(overloads=1, running=1, retry_after_seconds=80_000)
    street.report(own=OwnAnswers(overloads=1, retry_after_seconds=40_000))
    street.report(origin="http://other", overloads=1)

    assert ends()[0] <= 152
    assert 83_000 < ends()[1] <= 83_602
    assert 43_000 < ends()[2] <= 43_602
    street.report(answered=9, seconds=100.0)
    assert 3_590 < ends()[0] <= 3_602


def test_what_is_over_is_not_kept(redis_connection, tenant):
    street = host_cases.on_redis(redis_connection, f"{tenant}.example", host_cases.Time())
    for n in range(60):
        street.ask(f"w{n}", f"t{n}", count=1)
        street.wait(1)
    street.wait(60)
    street.ask("last", "last", count=1)

    assert set(redis_connection.client.hkeys(host_key(street.host))) == {
        b"*",
        b"last",
        b"last last",
    }


def test_the_servers_clock_counts_where_none_is_given(redis_connection, tenant):
    hosts = RedisHosts(redis_connection)
    ask = HostAsk(
        host=f"{tenant}.example",
        tenant="acme",
        count=100,
        running=0,
        interval_seconds=0.5,
        concurrency=8,
    )

    (first,), (second,) = hosts.reserve([ask], "w1"), hosts.reserve([ask], "w2")

    assert (first.count, first.wait_seconds) == (5, 0.0)
    assert second.count == 0
    assert 0 < hosts.states([ask.host])[0].next_at.timestamp() % 60 < 60


def test_many_workers_may_ask_for_many_hosts(redis_connection, tenant):
    """An ask takes Redis some 60 us on an idle machine; the size of a host's key is bounded."""
    hosts = RedisHosts(redis_connection)
    asks = [
        HostAsk(
            host=f"h{n}.{tenant}.example",
            tenant=f"t{n % 3}",
            count=5,
            running=0,
            interval_seconds=0.1,
            concurrency=8,
        )
        for n in range(1_000)
    ]

    before = redis_connection.client.info("cpu")["used_cpu_user"]
    granted = [sum(one.count for one in hosts.reserve(asks, f"w{n}")) for n in range(10)]
    spent = redis_connection.client.info("cpu")["used_cpu_user"] - before

    assert sum(granted) >= 8_000
    assert spent / 10_000 < 0.000_5
    sizes = {redis_connection.client.hlen(host_key(ask.host)) for ask in asks[:50]}
    assert max(sizes) <= 2 + 8
