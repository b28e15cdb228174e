"""Proxy rotation, and the cool-down of proxies that fail."""

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import ProxyPool
from tests.kit.fetching import (
    LONGEST_COOL_DOWN_SECONDS,
    NEW,
    Standing,
    after_failure,
    chosen,
    place_of,
)

POOL = ProxyPool(secret="proxies", max_failures=3, rest_seconds=60.0)


def failed(times, pool=POOL, standing=NEW, now=0.0):
    for _ in range(times):
        standing = after_failure(standing, pool, now)
    return standing


def test_a_proxy_cools_down_after_enough_failures_in_a_row():
    assert failed(2).cool_down_until < 0
    assert failed(3).cool_down_until == 60.0


def test_failures_during_a_cool_down_do_not_extend_it():
    assert failed(30) == failed(3)


def test_each_failure_after_a_cool_down_doubles_it_up_to_an_hour():
    standing, now, cool_downs = failed(3), 60.0, []
    for _ in range(9):
        standing = after_failure(standing, POOL, now)
        cool_downs.append(standing.cool_down_until - now)
        now = standing.cool_down_until

    assert cool_downs == [120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600, 3_600]
    assert LONGEST_COOL_DOWN_SECONDS == 3_600


def test_a_pool_whose_cool_down_is_longer_than_an_hour_keeps_it():
    pool = ProxyPool(secret="proxies", max_failures=1, rest_seconds=9_000.0)

    assert failed(1, pool).cool_down_until == 9_000.0


def test_proxies_rotate_and_those_in_cool_down_are_skipped():
    standings = [NEW, Standing(cool_down_until=10.0), NEW]

    assert [chosen(standings, first, 5.0) for first in range(3)] == [0, 2, 2]
    assert [chosen(standings, first, 10.0) for first in range(3)] == [0, 1, 2]


def test_where_all_are_in_cool_down_the_one_that_is_back_first_is_used():
    standings = [Standing(cool_down_until=until) for until in (30.0, 20.0, 40.0)]

    assert {chosen(standings, first, 5.0) for first in range(3)} == {1}


@given(
    st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20),
    st.integers(0, 10_000),
    st.floats(-1e9, 1e9),
)
def test_no_proxy_in_cool_down_is_chosen_while_another_is_available(cool_downs, first, now):
    standings = [Standing(cool_down_until=until) for until in cool_downs]

    number = chosen(standings, first, now)

    assert 0 <= number < len(cool_downs)
    assert cool_downs[number] <= now or min(cool_downs) > now


@given(st.text(max_size=50), st.integers(1, 1_000))
def test_a_job_and_host_always_have_the_same_place(key, count):
    assert 0 <= place_of(key, count) == place_of(key, count) < count


def test_jobs_are_spread_over_the_proxies():
    places = [place_of(f"acme docs june h{n}.example", 10) for n in range(1_000)]

    assert all(60 < places.count(number) < 150 for number in range(10))
