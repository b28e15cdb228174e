"""The choice of hosts to show."""

from collections import Counter
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from tests.kit.fleet import WorkerHeartbeats, WorkerStatus
from tests.kit.monitoring import (
    LOOKED_AT,
    SHOWN,
    TROUBLED_PLACES,
    HostSample,
    candidates,
    host_sample,
    shown,
)
from tests.kit.politeness import DeferredHost, HostState

NAMES = st.sampled_from([f"{letter}.example" for letter in "abcdefghijkl"])
SAMPLES = st.lists(
    st.builds(
        HostSample,
        host=NAMES,
        answered=st.integers(0, 50),
        strained=st.integers(0, 5),
        throttled=st.booleans(),
        running=st.integers(0, 5),
    ),
    unique_by=lambda one: one.host,
)


def beats(*hosts: str) -> WorkerHeartbeats:
    return WorkerHeartbeats(
        worker="w",
        silent_ms=0,
        worker_status=WorkerStatus(hosts=tuple((host, "acme") for host in hosts)),
    )


def test_what_others_wait_for_is_looked_at_before_what_is_busy():
    deferred = [DeferredHost(host="slow.example", count=5, ready_ts=0)]

    names, waiting = candidates([beats("b.example"), beats("b.example", "c.example")], deferred)

    assert names == ["slow.example", "b.example", "c.example"]
    assert waiting["slow.example"] == 5


def test_waiting_adds_up_over_queues():
    deferred = [
        DeferredHost(host="a", count=2, ready_ts=0),
        DeferredHost(host="a", count=3, ready_ts=9),
    ]

    assert candidates([], deferred) == (["a"], {"a": 5})


def test_a_hundred_thousand_hosts_are_not_looked_at():
    deferred = [DeferredHost(host=f"p{n}", count=1, ready_ts=0) for n in range(3_000)]
    heartbeats = [beats(*(f"b{n}" for n in range(3_000)))]

    names, _ = candidates(heartbeats, deferred)

    assert len(names) == LOOKED_AT == len(set(names))
    assert sum(name.startswith("b") for name in names) == LOOKED_AT // 2


def test_shares_and_means_are_of_what_ended():
    found = host_sample(
        HostState(
            host="a", window_seconds=90, answered=8, failed=2, overloads=2, spent_seconds=4.0
        ),
        7,
    )

    assert (found.success_share, found.latency_seconds, found.asked) == (0.6, 0.5, 10)
    assert (found.deferred, found.throttled) == (7, False)


def test_of_a_host_that_nothing_is_known_of_there_is_no_share_and_no_mean():
    found = host_sample(HostState(host="a"), 0)

    assert (found.success_share, found.latency_seconds, found.window_seconds) == (None, None, 60)


def test_a_host_in_its_back_off_or_not_trusted_again_is_throttled():
    until = datetime(2026, 3, 1, tzinfo=UTC)

    assert host_sample(HostState(host="a", back_off_until=until), 0).throttled
    assert host_sample(HostState(host="a", overload=1), 0).throttled
    assert not host_sample(HostState(host="a", interval_seconds=3), 0).throttled


def test_hosts_in_trouble_are_looked_at_in_turn_by_tenant():
    troubled = [[f"t{tenant:03}-h{n}" for n in range(50)] for tenant in range(10)]

    names, _ = candidates([], [], troubled)

    assert len(names) == TROUBLED_PLACES
    assert Counter(name[:4] for name in names) == {f"t{tenant:03}": 25 for tenant in range(10)}
    assert names[:10] == [f"t{tenant:03}-h0" for tenant in range(10)]


def test_a_host_in_trouble_with_many_tenants_is_looked_at_once():
    assert candidates([], [], [["a", "b"], ["a", "c"]])[0] == ["a", "b", "c"]


@given(samples=SAMPLES, most=st.integers(0, 8))
def test_each_host_is_shown_once_and_the_worst_is_among_them(samples, most):
    found = shown(samples, most)

    assert len(found) <= most
    assert len({one.host for one in found}) == len(found)
    bad = [one for one in samples if one.throttled]
    if bad and most:
        assert found[0].throttled
    assert len(found) == min(most, len(samples))


def test_watched_hosts_are_shown_behind_the_others_once():
    samples = [HostSample(host=f"h{n}", answered=n) for n in range(9)]

    found = [one.host for one in shown(samples, 2, watched={"h1", "h8", "gone"})]

    assert found == ["h8", "h7", "h1"]


def bad(host: str, met_by: str = "", strained: int = 9) -> HostSample:
    return HostSample(host=host, strained=strained, throttled=True, met_by=met_by)


def test_hosts_that_are_watched_leave_the_places_to_new_ones():
    samples = [bad(f"h{number:03}", strained=1_000 - number) for number in range(100)]
    samples += [HostSample(host=f"calm{number}", answered=5_000) for number in range(40)]
    watched: set[str] = set()

    for looks in range(1, 5):
        found = [one.host for one in shown(samples, watched=watched)]
        assert len(found) == len(set(found)) <= SHOWN + len(watched)
        assert watched <= set(found)
        watched |= {host for host in found if host.startswith("h")}
        assert len(watched) == 25 * looks


def test_new_hosts_are_shown_of_each_tenant_in_turn_the_worst_first():
    samples = [bad(f"a{number}", "acme", 1_000 - number) for number in range(500)]
    samples += [bad(f"r{number}", "rival", 2) for number in range(3)]

    found = shown(samples, 20)

    assert [one.host for one in found[:10]] == [*(f"a{n}" for n in range(7)), "r0", "r1", "r2"]


@given(samples=SAMPLES, most=st.integers(0, 8), watched=st.sets(NAMES))
def test_watched_hosts_are_shown_whatever_their_number(samples, most, watched):
    found = [one.host for one in shown(samples, most, watched)]

    assert len(found) == len(set(found))
    assert len(found) <= most + len(watched)
    assert watched & {one.host for one in samples} <= set(found)
