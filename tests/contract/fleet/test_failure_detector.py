"""The contract of the failure detector and its locks: whose silence counts, who has a lock."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from tests.contract import detector_cases
from tests.kit.config import DetectorLimits
from tests.kit.fleet import (
    WINDOW,
    Health,
    RedisFailureDetector,
    RedisWorkers,
    WorkerStatus,
    judge,
    status,
    worth_a_look,
)
from tests.kit.implementations import backend_over

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
LIMITS = DetectorLimits()
LOOK = worth_a_look(LIMITS)
EVERY = timedelta(seconds=5)
TERM = timedelta(seconds=20)
#: How long the few calls of a test may take on a busy machine, by the server's own clock.
BUSY_MS = 900


backend = backend_over(RedisWorkers, RedisFailureDetector)


@pytest.fixture
def station(backend, tenant):
    if backend.connection is None:
        return detector_cases.in_memory()
    return detector_cases.on_redis(backend.connection, tenant)


def silences(station, silent_for=None):
    return {beats.worker: beats.silent_ms for beats in station.detector.heartbeats(silent_for)}


def beat(station, *workers, times=1, every=1.0):
    for _ in range(times):
        known = [station.workers.beat(worker, NOW) for worker in workers]
        station.wait(every)
    return known


# ---- beats --------------------------------------------------------------------------------------


def test_a_beat_reports_a_worker_whether_it_was_known(station):
    assert station.workers.beat("a", NOW) is False
    assert station.workers.beat("a", NOW) is True
    assert station.workers.beat("b", NOW) is False


def test_a_reaped_worker_learns_so_with_its_next_beat(station):
    beat(station, "a")

    assert station.detector.reap("a") is True
    assert station.detector.reap("a") is False
    assert station.workers.live(NOW) == []
    assert station.detector.heartbeats() == []
    assert station.workers.beat("a", NOW) is False
    assert station.workers.beat("a", NOW) is True


def test_the_place_of_a_reaped_worker_is_free_at_once(station):
    beat(station, "a", "b")
    station.detector.reap("a")

    assert station.workers.reserve_wake(NOW, 2) == 1


def test_nothing_is_kept_of_a_worker_that_leaves(station):
    beat(station, "a", times=3)
    station.workers.leave("a")

    assert station.detector.heartbeats() == []
    assert station.detector.reap("a") is False
    assert station.workers.beat("a", NOW) is False
    assert station.detector.heartbeats()[0].intervals == ()


def test_a_worker_silent_for_ten_minutes_is_forgotten_when_another_beats(station):
    beat(station, "a", "b", times=2)
    station.wait(597)
    station.workers.beat("b", NOW)
    assert set(silences(station)) == {"a", "b"}

    station.wait(2)
    station.workers.beat("b", NOW)

    assert set(silences(station)) == {"b"}
    assert station.workers.beat("a", NOW) is False


def test_the_worker_status_is_the_latest(station):
    first = WorkerStatus(started_ms=5, held={"acme/docs": 3}, done=1)
    latest = WorkerStatus(started_ms=5, held={"acme/docs": 1, "acme/news": 2}, done=3)
    station.workers.beat("a", NOW, first)
    station.workers.beat("a", NOW, latest)
    station.workers.beat("b", NOW)

    assert {one.worker: one.worker_status for one in station.detector.heartbeats()} == {
        "a": latest,
        "b": WorkerStatus(),
    }


# ---- silence ------------------------------------------------------------------------------------


def test_silence_counts_from_the_last_beat(station):
    beat(station, "a", "b", times=2)
    beat(station, "b", times=2)

    found = silences(station)

    assert list(found) == ["a", "b"]
    assert 3_000 <= found["a"] < 3_000 + BUSY_MS
    assert 1_000 <= found["b"] < 1_000 + BUSY_MS


def test_only_the_silent_are_reported_where_only_they_are_asked_for(station):
    beat(station, "a", "b", "c", times=2)
    beat(station, "c", times=4)

    assert set(silences(station, timedelta(seconds=5))) == {"a", "b"}
    assert set(silences(station, timedelta(seconds=6))) == set()
    assert set(silences(station, timedelta())) == {"a", "b", "c"}


def test_the_intervals_are_those_between_the_beats(station):
    beat(station, "a", times=4, every=2.0)

    (beats,) = station.detector.heartbeats()

    assert len(beats.intervals) == 3
    assert all(2_000 <= interval < 2_000 + BUSY_MS for interval in beats.intervals)


def test_the_latest_32_intervals_are_kept(station):
    beat(station, "a", times=5, every=2.0)
    beat(station, "a", times=WINDOW + 1, every=1.0)

    (beats,) = station.detector.heartbeats()

    assert len(beats.intervals) == WINDOW
    assert beats.intervals[0] >= 1_000
    assert all(interval < 2_000 for interval in beats.intervals)


def test_a_killed_worker_is_dead_within_seconds_and_the_others_are_not(station):
    beat(station, "a", "b", times=10)

    seconds = 1
    while not station.detector.heartbeats(LOOK):
        beat(station, "b")
        seconds += 1
        assert seconds < 10

    (dead,) = station.detector.heartbeats(LOOK)
    assert dead.worker == "a"
    assert judge(dead, LIMITS) is Health.DEAD
    assert 4 <= seconds <= 7


def test_a_worker_with_a_slow_history_is_given_its_time(station):
    for _ in range(6):
        beat(station, "quick", times=4)
        station.workers.beat("slow", NOW)
    for _ in range(5):
        beat(station, "other")

    judged = {one.worker: judge(one, LIMITS) for one in station.detector.heartbeats()}
    assert judged == {"quick": Health.DEAD, "slow": Health.ALIVE, "other": Health.ALIVE}

    for _ in range(4):
        beat(station, "other")
    (slow,) = (one for one in station.detector.heartbeats() if one.worker == "slow")
    assert judge(slow, LIMITS) is Health.DEAD
    assert len(slow.intervals) == 5
    assert all(interval >= 4_000 for interval in slow.intervals)


# ---- what is not held against a worker ----------------------------------------------------------


def test_the_first_look_after_a_quiet_night_finds_nobody_dead(station):
    beat(station, "a", "b", times=10)
    station.wait(400)

    assert all(ms < BUSY_MS for ms in silences(station).values())
    assert station.detector.heartbeats(LOOK) == []


def test_looks_that_follow_find_who_is_silent_still(station):
    beat(station, "a", times=10)
    station.wait(400)
    silences(station)
    for _ in range(3):
        station.wait(2)
        found = silences(station, timedelta(seconds=2))

    assert 6_000 <= found["a"] < 6_000 + BUSY_MS


def test_the_detector_reports_how_long_it_has_observed(station):
    beat(station, "a", times=6)
    assert timedelta(seconds=6) <= station.detector.observed_for() < timedelta(seconds=7)

    station.wait(60)

    assert station.detector.observed_for() < timedelta(seconds=1), "a lapse: it begins anew"


def test_looks_that_are_far_apart_never_find_anybody_dead(station):
    beat(station, "a", times=10)

    for _ in range(5):
        station.wait(60)
        assert all(ms < BUSY_MS for ms in silences(station).values())


def test_an_outage_is_nobodys_silence(station):
    beat(station, "a", "b", times=10)
    station.wait(30)
    station.workers.beat("b", NOW)
    station.wait(1)

    found = silences(station)

    assert 1_000 <= found["a"] < 1_000 + BUSY_MS
    assert station.workers.beat("a", NOW) is True


def test_an_outage_is_no_interval(station):
    beat(station, "a", times=10)
    station.wait(30)
    beat(station, "a", times=3)

    (beats,) = station.detector.heartbeats()

    assert len(beats.intervals) == 11
    assert max(beats.intervals) < 2_000


def test_the_beats_of_others_are_observations_too(station):
    beat(station, "a", "b", times=2)
    beat(station, "b", times=30)

    found = silences(station)

    assert found["a"] >= 30_000
    assert found["b"] < 1_000 + BUSY_MS


def test_a_clock_that_is_set_back_kills_nobody_and_saves_nobody(station):
    beat(station, "a", "b", times=10)
    station.wait(-3_600)
    assert all(ms < BUSY_MS for ms in silences(station).values())

    for _ in range(8):
        beat(station, "b")

    found = silences(station, LOOK)
    assert list(found) == ["a"]
    assert 8_000 <= found["a"] < 8_000 + BUSY_MS


def test_a_clock_that_is_set_forward_kills_nobody(station):
    beat(station, "a", "b", times=10)
    station.wait(3_600)

    assert station.detector.heartbeats(LOOK) == []


# ---- locks --------------------------------------------------------------------------------------


def test_one_of_many_callers_gets_the_lock(station):
    with ThreadPoolExecutor(16) as pool:
        callers = [f"w{n}" for n in range(48)]
        turns = pool.map(lambda w: station.detector.acquire_lock("bury", w, EVERY, TERM), callers)

    assert sum(turns) == 1


def test_a_lock_is_due_again_an_interval_after_it_was_acquired(station):
    assert station.detector.acquire_lock("bury", "a", EVERY, TERM)
    station.wait(3)
    station.detector.release_lock("bury", "a")

    assert not station.detector.acquire_lock("bury", "b", EVERY, TERM)
    station.wait(2)
    assert station.detector.acquire_lock("bury", "b", EVERY, TERM)


def test_a_lock_held_for_long_is_not_acquired_by_another(station):
    station.detector.acquire_lock("bury", "a", EVERY, TERM)
    station.wait(10)

    assert not station.detector.acquire_lock("bury", "b", EVERY, TERM)
    assert not station.detector.acquire_lock("bury", "a", EVERY, TERM)
    station.detector.release_lock("bury", "a")
    assert station.detector.acquire_lock("bury", "b", EVERY, TERM)


def test_a_holder_that_does_not_come_back_loses_the_lock(station):
    station.detector.acquire_lock("bury", "crashed", EVERY, TERM)
    station.wait(19)
    assert not station.detector.acquire_lock("bury", "b", EVERY, TERM)

    station.wait(1)
    assert station.detector.acquire_lock("bury", "b", EVERY, TERM)

    station.detector.release_lock("bury", "crashed")
    station.wait(6)
    assert not station.detector.acquire_lock("bury", "c", EVERY, TERM)


def test_a_holder_that_goes_on_keeps_the_lock_and_one_that_died_does_not(station):
    station.detector.acquire_lock("bury", "a", EVERY, TERM)
    station.wait(15)
    assert station.detector.keep_lock("bury", "a", TERM)
    station.wait(15)
    assert not station.detector.acquire_lock("bury", "b", EVERY, TERM)

    station.wait(5)
    assert station.detector.acquire_lock("bury", "b", EVERY, TERM)


def test_a_lock_that_is_anothers_or_released_is_kept_by_nobody(station):
    assert not station.detector.keep_lock("bury", "a", TERM)
    station.detector.acquire_lock("bury", "a", EVERY, TERM)
    assert not station.detector.keep_lock("bury", "b", TERM)
    station.detector.release_lock("bury", "a")

    assert not station.detector.keep_lock("bury", "a", TERM)
    station.wait(6)
    assert station.detector.acquire_lock("bury", "b", EVERY, TERM)


def test_locks_of_different_names_are_independent(station):
    assert station.detector.acquire_lock("bury", "a b", EVERY, TERM)
    assert station.detector.acquire_lock("recover", "a b", EVERY, TERM)
    station.detector.release_lock("never taken", "a b")
    station.detector.release_lock("recover", "a b")
    station.wait(6)

    assert not station.detector.acquire_lock("bury", "c", EVERY, TERM)
    assert station.detector.acquire_lock("recover", "c", EVERY, TERM)


def test_a_lock_survives_a_clock_that_is_set_back(station):
    station.detector.acquire_lock("bury", "a", EVERY, TERM)
    station.wait(-3_600)

    assert station.detector.acquire_lock("bury", "b", EVERY, TERM)


def test_the_time_since_the_last_beat_counts_whoever_observed(station):
    beat(station, "a", times=3)
    station.wait(50)

    [beats] = station.detector.heartbeats()

    assert beats.silent_ms <= BUSY_MS, "nobody watched"
    assert 51_000 <= beats.beat_ms <= 51_000 + BUSY_MS
    assert status(beats, LIMITS).health is Health.UNWATCHED
    assert judge(beats, LIMITS) is not Health.DEAD
    beat(station, "a")
    station.wait(-1)
    [beats] = station.detector.heartbeats()
    assert beats.beat_ms <= BUSY_MS
    assert status(beats, LIMITS).health is Health.ALIVE
