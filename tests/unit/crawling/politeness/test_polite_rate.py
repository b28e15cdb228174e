"""The polite rate of hosts, as a bound on the number of workers."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.config import HostLimits
from tests.kit.fleet import allowed_rate, coverage
from tests.kit.politeness import HostState

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIMITS = HostLimits(per_second=10, concurrency=8)

states = st.builds(
    HostState,
    host=st.just("a"),
    interval_seconds=st.floats(0, 60),
    answer_seconds=st.floats(0, 60),
    back_off_until=st.one_of(st.none(), st.just(NOW + timedelta(seconds=30))),
)


@given(states)
def test_no_host_is_allowed_more_than_its_limits(state):
    assert 0 <= allowed_rate(LIMITS, state, NOW) <= LIMITS.per_second


def test_a_host_that_is_left_alone_for_longer_than_a_moment_may_be_asked_for_nothing():
    state = HostState(host="a", back_off_until=NOW + timedelta(seconds=5))

    assert allowed_rate(LIMITS, state, NOW) == 0
    assert allowed_rate(LIMITS, state, NOW, timedelta(seconds=10)) == 10


def test_a_host_that_is_asked_more_slowly_counts_as_that():
    assert allowed_rate(LIMITS, HostState(host="a", interval_seconds=0.5), NOW) == 2


def test_a_crawl_delay_counts_for_the_tenant_that_keeps_it():
    state = HostState(host="a", intervals={"acme": 5.0, "rival": 0.1})

    assert allowed_rate(LIMITS, state, NOW, tenant="acme") == 0.2
    assert allowed_rate(LIMITS, state, NOW, tenant="rival") == 10
    assert allowed_rate(LIMITS, state, NOW, tenant="other") == 10


def test_downloads_at_once_bound_a_slow_host():
    assert allowed_rate(LIMITS, HostState(host="a", answer_seconds=16), NOW) == 0.5


def test_one_host_in_every_look_is_all_there_is():
    assert coverage({"a": 16}, ()) == 1


def test_a_host_met_once_is_one_of_many():
    assert coverage(dict.fromkeys("abcd", 1), ()) == 0
    assert coverage(dict.fromkeys("abcd", 1), "abcd") == 1


@given(st.dictionaries(st.text(max_size=3), st.integers(1, 9), max_size=9))
def test_coverage_is_a_part(met):
    assert 0 <= coverage(met, ()) <= 1
