"""The contract of Workers: who lives, and that nobody is started twice."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def test_a_worker_lives_for_the_liveness_span_after_its_last_beat(workers):
    workers.beat("a", NOW)
    workers.beat("b", after(5))

    assert workers.live(after(14.999)) == ["a", "b"]
    assert workers.live(after(15)) == ["b"]
    assert workers.live(after(20)) == []


def test_a_beat_prolongs_a_life(workers):
    workers.beat("a", NOW)
    workers.beat("a", after(10))

    assert workers.live(after(24)) == ["a"]


def test_a_worker_that_leaves_is_gone_at_once(workers):
    workers.beat("a", NOW)
    workers.leave("a")
    workers.leave("a")

    assert workers.live(NOW) == []


def test_as_many_are_reserved_as_are_missing(workers):
    workers.beat("a", NOW)
    workers.beat("dead", after(-15))

    assert workers.reserve_wake(NOW, 3) == 2
    assert workers.reserve_wake(NOW, 3) == 0
    assert workers.reserve_wake(NOW, 4) == 1
    assert workers.reserve_wake(NOW, 1) == 0
    assert len(workers.live(NOW)) == 4


def test_no_more_are_reserved_than_the_caller_says_and_the_rest_when_it_asks_again(workers):
    assert [workers.reserve_wake(NOW, 5, 2) for _ in range(4)] == [2, 2, 1, 0]
    assert workers.reserve_wake(NOW, 9, 0) == 0
    assert workers.reserve_wake(NOW, 6) == 1


def test_a_reservation_counts_as_live_for_ten_seconds(workers):
    workers.reserve_wake(NOW, 2)

    assert len(workers.live(after(9.999))) == 2
    assert workers.reserve_wake(after(9.999), 2) == 0
    assert workers.live(after(10)) == []
    assert workers.reserve_wake(after(10), 2) == 2


def test_a_new_worker_takes_the_place_of_one_reservation(workers):
    workers.reserve_wake(NOW, 2)

    workers.beat("a", after(1))
    workers.beat("a", after(2))

    assert len(workers.live(after(2))) == 2
    assert workers.reserve_wake(after(2), 2) == 0
    assert workers.reserve_wake(after(11), 2) == 1


def test_a_worker_that_comes_back_from_the_dead_counts_as_new(workers):
    workers.beat("a", NOW)
    workers.reserve_wake(after(20), 1)

    workers.beat("a", after(21))

    assert workers.live(after(21)) == ["a"]


def test_wake_ups_never_overshoot_under_twenty_threads(workers):
    def start(caller: int) -> int:
        reserved = workers.reserve_wake(NOW, 7)
        for n in range(reserved):
            workers.beat(f"worker-{caller}-{n}", NOW)
        return reserved

    with ThreadPoolExecutor(20) as pool:
        started = sum(pool.map(start, range(60)))

    assert started == 7
    assert len(workers.live(NOW)) == 7


def test_the_dead_are_forgotten_after_ten_minutes(workers):
    workers.beat("a", NOW)
    workers.reserve_wake(after(600), 0)

    assert workers.live(NOW) == []


def test_who_has_nothing_to_do_ends_unless_too_few_others_live(workers):
    for name in ("a", "b", "c"):
        workers.beat(name, NOW)
    workers.beat("dead", after(-15))

    assert workers.retire("a", NOW, 2)
    assert not workers.retire("b", NOW, 2)
    assert workers.live(NOW) == ["b", "c"]
    assert workers.retire("b", NOW, 1)
    assert not workers.retire("c", NOW, 1)
    assert workers.retire("c", NOW, 0)
    assert workers.live(NOW) == []


def test_a_wake_up_is_nobody_who_could_stay_in_ones_place(workers):
    workers.beat("a", NOW)
    workers.reserve_wake(NOW, 3)

    assert not workers.retire("a", NOW, 1)


def test_who_says_good_bye_twice_has_ended_and_takes_nobody_along(workers):
    """The first answer was lost."""
    for name in ("a", "b"):
        workers.beat(name, NOW)

    assert [workers.retire("a", NOW, 1) for _ in range(2)] == [True, True]
    assert not workers.retire("b", NOW, 1)


def test_of_many_that_say_good_bye_at_once_as_many_stay_as_have_to(workers):
    names = [f"w{n}" for n in range(20)]
    for name in names:
        workers.beat(name, NOW)

    with ThreadPoolExecutor(8) as pool:
        gone = list(pool.map(lambda name: workers.retire(name, NOW, 5), names))

    assert sum(gone) == 15
    assert len(workers.live(NOW)) == 5


def test_wake_ups_and_the_dead_are_not_among_those_who_stay(workers):
    workers.beat("a", NOW)
    workers.beat("b", after(5))
    workers.reserve_wake(after(5), 9)

    assert workers.staying(after(14.999)) == ["a", "b"]
    assert workers.staying(after(15)) == ["b"]
    workers.leave("b")
    assert workers.staying(after(15)) == []
    assert len(workers.live(after(5))) == 8


def test_who_does_not_go_by_the_servers_clock_is_reported_by_it_who_lives(workers):
    """Workers beat by it; a router whose clock is wrong would take them all for dead."""
    right = datetime.now(UTC)
    workers.beat("a", right)
    workers.beat("gone", right - timedelta(seconds=20))

    assert workers.live() == ["a"]
    assert workers.reserve_wake(None, 1) == 0
    assert workers.reserve_wake(None, 3) == 2
    assert workers.reserve_wake(None, 3) == 0
    assert workers.reserve_wake(right, 3) == 0
    assert len(workers.live()) == 3
    assert workers.reserve_wake(right + timedelta(seconds=11), 3) == 2
