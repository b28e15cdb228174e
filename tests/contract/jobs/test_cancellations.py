"""The contract of Cancellations: whoever asks each second hears of every job, and of no old one."""

import pytest

from tests.kit.implementations import fixture_over
from tests.kit.jobs import ANNOUNCED_SECONDS, MOST_ANNOUNCED, RedisCancellations
from tests.kit.kernel import StoreUnavailableError
from tests.kit.queue import fleet_keys

JUNE = ("acme", "docs", "june.2026")
MAY = ("acme", "docs", "may-1")


cancellations = fixture_over(RedisCancellations)


def all_heard(cancellations, since=0):
    """Return all announced cancellations, read page by page until there are no new ones."""
    found = {}
    while True:
        jobs, reached, _ = cancellations.announced(since)
        found |= dict.fromkeys(jobs)
        if len(jobs) < 1_000 or reached == since:
            return list(found), reached
        since = reached


def test_nothing_is_heard_where_nothing_is_cancelled(cancellations):
    jobs, reached, _ = cancellations.announced()

    assert jobs == []
    assert reached > 0
    cancellations.announce([])
    assert cancellations.announced().jobs == []


def test_whoever_asks_from_where_it_was_misses_nothing(cancellations):
    _, before, _ = cancellations.announced()
    cancellations.announce([JUNE])
    cancellations.announce([MAY])

    jobs, reached, _ = cancellations.announced(before)

    assert set(jobs) == {JUNE, MAY}
    assert reached >= before
    assert set(cancellations.announced().jobs) == {JUNE, MAY}


def test_what_is_announced_again_is_heard_again(cancellations):
    cancellations.announce([JUNE])
    _, reached, _ = cancellations.announced()
    cancellations.announce([JUNE])

    assert cancellations.announced(reached).jobs == [JUNE]


def test_a_job_with_other_quotas_is_heard_of_apart_from_those_that_are_cancelled(cancellations):
    cancellations.announce_quotas(JUNE)
    cancellations.announce([MAY])
    cancellations.announce_quotas(MAY)

    found = cancellations.announced()

    assert (found.jobs, sorted(found.requoted)) == ([MAY], [JUNE, MAY])


def test_a_moment_that_has_not_come_is_taken_for_the_beginning(cancellations):
    cancellations.announce([JUNE])
    _, reached, _ = cancellations.announced()

    assert cancellations.announced(reached + 10**9).jobs == [JUNE]


def test_many_are_reported_in_several_answers(cancellations):
    jobs = [("acme", "docs", f"job-{n}") for n in range(2_500)]
    cancellations.announce(jobs)

    found, _ = all_heard(cancellations)
    assert sorted(found) == sorted(jobs)


def test_only_so_many_are_kept_and_the_latest_of_them(cancellations):
    jobs = [("acme", "docs", f"job-{n}") for n in range(MOST_ANNOUNCED + 300)]
    cancellations.announce(jobs)
    cancellations.announce([JUNE])

    found, _ = all_heard(cancellations)
    assert len(found) == MOST_ANNOUNCED
    assert JUNE in found


def test_a_tenant_that_cancels_thousands_pushes_out_its_own_and_no_other_tenants(cancellations):
    theirs = ("small", "docs", "may-2")
    cancellations.announce([theirs])
    cancellations.announce_quotas(theirs)
    cancellations.announce([("acme", "docs", f"job-{n}") for n in range(MOST_ANNOUNCED + 300)])

    found, _ = all_heard(cancellations)
    assert theirs in found
    assert theirs in cancellations.announced().requoted


def test_old_announcements_go(redis_connection, tenant):
    cancellations = RedisCancellations(redis_connection, fleet=tenant)
    cancellations.announce([JUNE, MAY])
    key = fleet_keys(tenant).cancelled
    old = ANNOUNCED_SECONDS * 1000 + 1
    redis_connection.client.zincrby(key, -old, "/".join(JUNE))
    redis_connection.client.zadd(key, {"acme/docs/future": 99999999999999})

    assert cancellations.announced().jobs == [MAY]
    cancellations.announce([MAY])
    assert redis_connection.client.zrange(key, 0, -1) == [b"acme/docs/may-1"]


def test_fleets_on_the_same_redis_hear_of_their_own_only(redis_connection, tenant):
    RedisCancellations(redis_connection, fleet=tenant).announce([JUNE])

    assert RedisCancellations(redis_connection, fleet=f"{tenant}-other").announced().jobs == []


def test_a_full_redis_still_announces(redis_connection, tenant):
    cancellations = RedisCancellations(redis_connection, fleet=tenant)
    client = redis_connection.client
    before = client.config_get("maxmemory")["maxmemory"]
    client.config_set("maxmemory", 1)
    try:
        cancellations.announce([JUNE])
    finally:
        client.config_set("maxmemory", before)

    assert cancellations.announced().jobs == [JUNE]


@pytest.mark.parametrize("lie", [b"june", b"a/b", b"a/b/c/d", b"\xff/\xff/\xff"])
def test_a_redis_that_says_something_else_is_as_good_as_away(redis_connection, tenant, lie):
    cancellations = RedisCancellations(redis_connection, fleet=tenant)
    cancellations.announce([JUNE])
    score = redis_connection.client.zscore(fleet_keys(tenant).cancelled, "/".join(JUNE))
    redis_connection.client.zadd(fleet_keys(tenant).cancelled, {lie: score})

    with pytest.raises(StoreUnavailableError):
        cancellations.announced()
