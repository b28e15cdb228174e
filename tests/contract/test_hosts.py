"""The contract of Hosts: rate, permits, shares, back-off and adaption over the whole fleet."""

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.contract import host_cases
from tests.kit.config import HostLimits
from tests.kit.examples import examples
from tests.kit.implementations import backend_over
from tests.kit.kernel import to_ms
from tests.kit.politeness import (
    DEMAND_SECONDS,
    HORIZON_SECONDS,
    MAX_TENANTS,
    PERMIT_SECONDS,
    HostAsk,
    Hosts,
    HostState,
    RedisHosts,
)
from tests.kit.queue import host_key

EXACT = 1e-6


backend = backend_over(Hosts)


@pytest.fixture
def street(backend, tenant):
    time = host_cases.Time()
    return host_cases.Street(backend.make(Hosts, clock=time), time, f"{tenant}.example")


def moments(street, tenant=None):
    return sorted(at for at, of, _ in street.turns if tenant in {None, of})


# ---- rate ---------------------------------------------------------------------------------------


def test_turns_come_an_interval_apart_and_no_further_ahead_than_the_horizon(street):
    first = street.ask("w1", count=1_000)
    second = street.ask("w2", count=1_000)

    assert (first.count, first.wait_seconds, first.interval_seconds) == (16, 0.0, 0.1)
    assert first.why == "concurrency"
    assert (second.count, second.why) == (0, "concurrency")
    assert all(b - a >= 0.1 - EXACT for a, b in pairwise(moments(street)))


def test_two_workers_never_have_one_turn(street):
    street.limits = HostLimits(per_second=10, concurrency=100)
    grants = [street.ask(f"w{n}", count=5) for n in range(6)]

    assert [grant.count for grant in grants] == [5, 5, 5, 5, 1, 0]
    assert [grant.wait_seconds for grant in grants[:5]] == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert [grant.why for grant in grants] == ["", "", "", "", "rate", "rate"]
    assert grants[0].ready_seconds == 0.0
    assert grants[5].ready_seconds == pytest.approx(1.1)
    street.wait(grants[5].ready_seconds)
    assert street.ask("w6", count=99).count == 11


def test_a_slow_host_gives_one_turn_at_a_time(street):
    street.limits = HostLimits(per_second=1 / 60)

    assert street.ask(count=5).count == 1
    waiting = street.ask(count=5)
    assert (waiting.count, waiting.why) == (0, "rate")
    street.wait(waiting.ready_seconds)
    second = street.ask(count=5)

    assert second.count == 1
    assert moments(street)[1] == pytest.approx(60.0)


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
        found = moments(street)
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

    turns = sorted(street.turns)
    for n, (at, of, _) in enumerate(turns):
        for earlier, other, _ in turns[:n]:
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
    assert len(moments(street, "beta")) == 1


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


def test_no_more_turns_are_given_than_the_permits_can_serve(street):
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
    """Workers begin what they have permits for, in turns they have; downloads end at whim."""
    street = host_cases.in_memory("h.example", host_cases.Time())
    street.limits = HostLimits(per_second=1_000, concurrency=concurrency, adaptive=False)
    workers: dict[tuple[str, str], list[int]] = {}  # under way, turns, permits
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


# ---- tenants ------------------------------------------------------------------------------------


def compete(street, seconds, polls, answer=0.05):
    """Tenants ask at their own pace, and download what they get at once; turns by tenant."""
    left = dict.fromkeys(polls, 0.0)
    ends: list[tuple[float, str]] = []
    end = street.time.seconds + seconds
    while street.time.seconds < end:
        now = street.time.seconds
        for of, every in polls.items():
            if left[of] > now + EXACT:
                continue
            left[of] = now + every
            done = [one for one in ends if one[1] == of and one[0] <= now]
            ends = [one for one in ends if one not in done]
            running = sum(one[1] == of for one in ends)
            if done:
                street.report(of, of, running, answered=len(done), seconds=answer)
            grant = street.ask(of, of, count=1_000, running=running)
            first = now + grant.wait_seconds
            ends += [(first + n * grant.interval_seconds + answer, of) for n in range(grant.count)]
        street.wait(0.05)
    return {of: len(moments(street, of)) for of in polls}


@pytest.mark.parametrize("slower", [0.05, 0.5, 1.0])
def test_two_tenants_share_a_host_however_often_each_asks(street, slower):
    street.limits = HostLimits(per_second=10, concurrency=100)

    found = compete(street, 40, {"quick": 0.05, "slow": slower})

    assert sum(found.values()) >= 0.95 * 400
    # Half of all, less what the other had ahead when it was alone, and one turn.
    assert min(found.values()) >= 200 - HORIZON_SECONDS * 10 - 1


def test_three_tenants_share_a_host(street):
    street.limits = HostLimits(per_second=20, concurrency=100)

    found = compete(street, 30, {"a": 0.05, "b": 0.35, "c": 0.7})

    assert sum(found.values()) >= 0.95 * 600
    assert min(found.values()) >= 200 - HORIZON_SECONDS * 20 - 2


def test_a_tenant_that_comes_later_waits_for_no_more_than_the_horizon(street):
    street.limits = HostLimits(per_second=10, concurrency=100)
    compete(street, 20, {"first": 0.05})
    arrived = street.time.seconds
    before = len(street.turns)

    compete(street, 10, {"first": 0.05, "later": 0.5})

    assert moments(street, "later")[0] <= arrived + HORIZON_SECONDS + 1
    after = [of for _, of, _ in street.turns[before:]]
    assert after.count("later") >= 50 - HORIZON_SECONDS * 10 - 1


def test_an_idle_tenant_costs_the_others_nothing(street):
    street.limits = HostLimits(per_second=10, concurrency=8)
    compete(street, 5, {"acme": 0.1, "idle": 0.1})
    street.report("idle", "idle", running=0, answered=1, seconds=0.05)
    before = len(moments(street, "acme"))

    compete(street, DEMAND_SECONDS, {"acme": 0.1})
    while_it_counts = len(moments(street, "acme")) - before
    compete(street, 10, {"acme": 0.1})
    later = len(moments(street, "acme")) - before - while_it_counts

    assert while_it_counts >= 0.9 * DEMAND_SECONDS * 10 - HORIZON_SECONDS * 10
    assert later >= 99
    assert street.state.tenants == ("acme",)


@pytest.mark.parametrize("concurrency", [1, 2, 3])
def test_tenants_share_permits_too_few_for_them(street, concurrency):
    """Answers take long, so permits are what there is too little of."""
    street.limits = HostLimits(per_second=100, concurrency=concurrency)

    found = compete(street, 60, {"a": 0.05, "b": 0.3, "c": 0.2}, answer=0.5)

    possible = 60 / 0.5 * concurrency
    assert sum(found.values()) >= 0.4 * possible
    assert min(found.values()) >= 0.15 * sum(found.values())


def test_a_tenant_that_holds_more_than_its_share_makes_room(street):
    street.limits = HostLimits(per_second=1_000, concurrency=8)
    assert street.ask("w1", "acme", count=100).permits == 8
    assert street.ask("w2", "beta", count=100).why == "concurrency"
    street.wait(2)

    refused = street.ask("w1", "acme", count=100, running=8)
    assert (refused.count, refused.why) == (0, "share")
    street.report("w1", "acme", running=4, answered=4, seconds=0.5)
    again = street.ask("w1", "acme", count=100, running=4)
    other = street.ask("w2", "beta", count=100)

    assert again.permits == 4
    assert other.permits == 4


def test_more_tenants_than_are_remembered_wait(street):
    street.limits = HostLimits(per_second=0.01, concurrency=1)
    for n in range(MAX_TENANTS):
        street.ask("w", f"t{n}", count=5)

    late = street.ask("w", "late", count=5)
    assert (late.count, late.why) == (0, "share")
    assert late.ready_seconds > 0
    street.wait(200)
    assert street.ask("w", "late", count=5).count == 1


# ---- back-off -----------------------------------------------------------------------------------


def test_nothing_is_granted_in_a_back_off_and_it_tells_when_it_is_over(street):
    street.ask("w1", count=3)
    street.report("w1", running=2, strained=1)

    grant = street.ask("w2", count=5)

    assert (grant.count, grant.why, grant.ready_seconds) == (0, "back-off", 2.0)
    assert to_ms(street.state.back_off_until) == to_ms(street.time()) + 2_000
    assert street.state.strain == 1
    street.wait(1.999)
    assert street.ask("w2", count=5).count == 0
    street.wait(0.001)
    assert street.ask("w2", count=5).count > 0
    assert street.state.back_off_until is None


def test_a_back_off_doubles_with_each_further_strain_up_to_its_cap(street):
    street.limits = HostLimits(backoff_seconds=2, max_backoff_seconds=20)
    spans = []
    for _ in range(6):
        street.report(strained=1)
        spans.append(street.ask(count=1).ready_seconds)
        street.wait(spans[-1])

    assert spans == [2, 4, 8, 16, 20, 20]


def test_what_began_before_a_back_off_does_not_count_again(street):
    for n in range(8):
        street.report(f"w{n}", strained=3)

    assert street.state.strain == 1
    assert street.ask(count=1).ready_seconds == 2.0


@pytest.mark.parametrize(("asked", "waited"), [(1, 2), (120, 120), (90_000, 86_400)])
def test_a_retry_after_counts_where_it_is_longer_up_to_its_cap(street, asked, waited):
    street.report(strained=1, retry_after_seconds=asked)

    assert street.ask(count=1).ready_seconds == waited


def test_a_longer_retry_after_counts_in_a_back_off_too(street):
    street.report("w1", strained=1)
    street.report("w2", strained=1, retry_after_seconds=60)

    assert street.ask(count=1).ready_seconds == 60
    assert street.state.strain == 1


def test_after_a_back_off_the_host_is_tried_before_it_is_trusted(street):
    for _ in range(4):
        street.report(strained=1)
        street.wait(street.ask(count=1).ready_seconds)
    intervals = []
    for _ in range(6):
        intervals.append(street.ask(count=1).interval_seconds)
        street.report(answered=1, seconds=0.05)
        street.wait(5)

    assert intervals == [1.6, 0.8, 0.4, 0.2, 0.1, 0.1]
    assert street.state.strain == 0


def test_an_answer_in_a_back_off_says_nothing_of_the_time_after_it(street):
    street.report(strained=1)
    street.report(answered=5, seconds=0.1)

    assert street.state.strain == 1


# ---- adaption -----------------------------------------------------------------------------------


def test_a_quick_host_is_never_slowed(street):
    for _ in range(50):
        street.report(answered=10, seconds=0.75)  # 8 at once, 0.1 s apart: 0.8 s
        street.wait(1)

    assert street.state.interval_seconds == 0
    assert street.ask(count=1).interval_seconds == 0.1


def test_a_slow_host_is_asked_for_as_much_as_its_concurrency_at_once(street):
    for _ in range(12):
        street.report(answered=4, seconds=8)
        street.wait(1)

    assert street.state.answer_seconds == pytest.approx(8, rel=0.01)
    assert street.state.interval_seconds == pytest.approx(1, rel=0.01)
    assert street.ask(count=99).count <= 3


def test_one_slow_page_does_not_slow_a_quick_host(street):
    for _ in range(10):
        street.report(answered=10, seconds=0.05)
    street.report(answered=1, seconds=30)

    assert street.ask(count=1).interval_seconds <= 0.2
    for _ in range(3):
        street.report(answered=5, seconds=0.05)
    assert street.state.interval_seconds == 0


def test_a_host_that_becomes_quick_again_is_asked_as_before(street):
    for _ in range(12):
        street.report(answered=4, seconds=8)
    for _ in range(6):
        street.report(answered=4, seconds=0.1)

    assert street.ask(count=1).interval_seconds == 0.1


def test_without_adaption_only_the_limits_count(street):
    street.limits = HostLimits(adaptive=False)
    for _ in range(12):
        street.report(answered=4, seconds=8)
        street.report(strained=1)
        street.wait(street.ask(count=1).ready_seconds)

    assert street.ask(count=1).interval_seconds == 0.1


@given(
    seen=st.lists(st.tuples(st.integers(1, 50), st.floats(0, 100), st.booleans()), max_size=30),
    per_second=st.sampled_from([0.1, 5.0, 100.0]),
)
def test_a_host_is_never_asked_faster_than_its_limits(seen, per_second):
    street = host_cases.in_memory("h.example", host_cases.Time())
    street.limits = HostLimits(per_second=per_second)
    for answered, seconds, strained in seen:
        street.report(answered=answered, seconds=seconds, strained=int(strained))
        street.wait(3)
        assert street.ask(count=1).interval_seconds >= 1 / per_second - EXACT


# ---- what is kept -------------------------------------------------------------------------------


def test_a_host_that_nothing_is_known_of_has_an_empty_state(street):
    assert street.state == HostState(host=street.host)


def test_what_lies_between_a_tenants_turns_is_told_until_its_next_one_is_due(street):
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
    street.report(strained=1)

    asks = [
        HostAsk(host=host, tenant="acme", count=1, running=0, interval_seconds=0.1, concurrency=1)
        for host in (street.host, other)
    ]
    grants = street.hosts.reserve(asks, "w1")

    assert [(one.host, one.count) for one in grants] == [(street.host, 0), (other, 1)]
    assert [one.strain for one in street.hosts.states([other, street.host])] == [0, 1]
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


def test_an_idle_host_is_forgotten_after_an_hour_but_not_before_its_back_off_is_over(
    redis_connection, tenant
):
    street = host_cases.on_redis(redis_connection, f"{tenant}.example", host_cases.Time())
    key = host_key(street.host)
    street.ask(count=1)
    assert 3_590 < redis_connection.client.ttl(key) <= 3_602

    street.report(strained=1, running=1, retry_after_seconds=80_000)
    assert 83_000 < redis_connection.client.ttl(key) <= 83_602


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
    """Some 60 us each, on a machine that does nothing else; how long the answers are is bounded."""
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
