"""Tests of a host's counts: the answers of all workers in the last one to two minutes."""

import pytest

from tests.contract import host_cases
from tests.kit.politeness import TROUBLED, TROUBLED_SECONDS, HostReport, HostState
from tests.kit.queue import host_key


def counts(state: HostState) -> tuple[int, int, int]:
    return state.answered, state.failed, state.overloads


def test_answers_of_all_workers_and_tenants_add_up(street):
    street.report("w1", "acme", answered=3, failed=1, seconds=0.5)
    street.report("w2", "beta", answered=1, seconds=2.5, overloads=2)

    state = street.state

    assert counts(state) == (4, 1, 2)
    assert state.spent_seconds == pytest.approx(4.0)
    assert state.window_seconds == 60.0


def test_the_window_is_this_minute_and_the_one_before(street):
    street.report(answered=5)
    street.wait(70)
    street.report(answered=2, failed=2)

    state = street.state

    assert counts(state) == (7, 2, 0)
    assert state.window_seconds == 70.0

    street.wait(50)
    assert counts(street.state) == (2, 2, 0)
    street.wait(60)
    assert counts(street.state) == (0, 0, 0)
    assert street.state.window_seconds == 0


def test_a_minute_without_answers_is_no_minute_before(street):
    street.report(answered=5)
    street.wait(130)
    street.report(answered=1)

    assert counts(street.state) == (1, 0, 0)


def test_reserving_slots_changes_no_count(street):
    street.report(answered=5, overloads=1)

    for _ in range(3):
        street.ask(count=4)
        street.wait(1)
    street.report(running=2)

    assert counts(street.state) == (5, 0, 1)


def test_a_clock_that_is_set_back_loses_no_count(street):
    street.report(answered=5)
    street.time.seconds -= 200
    street.report(answered=1)

    assert counts(street.state) == (6, 0, 0)


def test_no_more_fail_than_are_answered(street):
    street.report(answered=2, failed=9)

    assert counts(street.state) == (2, 2, 0)


def test_a_host_that_was_kept_before_anything_was_counted_is_read(redis_connection, tenant):
    time = host_cases.Time()
    street = host_cases.on_redis(redis_connection, f"{tenant}.example", time)
    street.ask(count=1)  # what is kept of it then has no counts

    assert redis_connection.client.hget(host_key(street.host), "*").count(b" ") == 6
    assert counts(street.state) == (0, 0, 0)
    street.report(answered=1)
    assert redis_connection.client.hget(host_key(street.host), "*").count(b" ") == 15
    assert counts(street.state) == (1, 0, 0)


# ---- which of them refuse or fail ----------------------------------------------------------------


def announce(street, tenant: str, host: str, **seen) -> None:
    street.hosts.report([HostReport(host=host, tenant=tenant, running=0, **seen)], "w1")


def test_hosts_that_refuse_or_fail_are_found_the_latest_first(street, tenant):
    announce(street, tenant, "well.example", answered=9)
    refused, failed = ("a.example", {"overloads": 1}), ("b.example", {"answered": 1, "failed": 1})
    for host, seen in (refused, failed):
        announce(street, tenant, host, **seen)
        street.wait(1)

    assert street.hosts.troubled([tenant], 9) == [["b.example", "a.example"]]
    assert street.hosts.troubled([tenant], 1) == [["b.example"]]
    assert street.hosts.troubled([tenant], 0) == [[]]
    assert street.hosts.troubled([], 9) == []


def test_trouble_is_each_tenants_own(street, tenant):
    announce(street, tenant, "a.example", overloads=1)
    announce(street, f"{tenant}b", "b.example", overloads=1)
    announce(street, f"{tenant}b", "a.example", overloads=1)

    assert street.hosts.troubled([tenant], 9) == [["a.example"]]
    each = street.hosts.troubled(["nobody", tenant, f"{tenant}b"], 9)
    assert [sorted(hosts) for hosts in each] == [[], ["a.example"], ["a.example", "b.example"]]


def test_trouble_that_is_over_is_reported_no_more(street, tenant):
    announce(street, tenant, "a.example", overloads=1)
    street.wait(TROUBLED_SECONDS + 1)

    assert street.hosts.troubled([tenant], 9) == [[]]


def test_no_more_than_so_many_hosts_in_trouble_are_kept(street, tenant):
    for number in range(TROUBLED + 5):
        announce(street, tenant, f"h{number:04}.example", overloads=1)
        street.wait(0.001)

    [found] = street.hosts.troubled([tenant], 2 * TROUBLED)
    assert len(found) == TROUBLED
    assert (found[0], found[-1]) == (f"h{TROUBLED + 4:04}.example", "h0005.example")
