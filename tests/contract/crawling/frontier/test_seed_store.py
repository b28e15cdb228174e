"""The store of seeds over memory and a real MongoDB: two nodes, two databases each."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier

import pytest
from msgspec.structs import replace

from tests.contract.seed_cases import (
    DAY,
    FAILED,
    FINISHED,
    HANDED,
    HOUR,
    READY,
    TODAY,
    TOMORROW,
    Bed,
    a_seed,
    seeds_of,
)
from tests.contract.store_cases import NOW, a_generation
from tests.kit.config import SeedPolicy
from tests.kit.frontier import MongoSeeds, Seed, SeedSpec, Segment
from tests.kit.implementations import fixture_over
from tests.kit.kernel import QueueKey
from tests.waiting import eventually

store = fixture_over(MongoSeeds)


@pytest.fixture
def bed(store: MongoSeeds, queue_key: QueueKey) -> Bed:
    return Bed(store, queue_key)


def test_a_seed_is_read_back_as_it_was_added(bed):
    seed = a_seed(1)

    assert bed.insert(seed) == set()

    assert bed.find() == [seed]


def test_seeds_tell_of_which_job_they_are(bed):
    spec = SeedSpec(url="https://a.example/1", rule="page", job="june")
    of_a_job, of_none = a_seed(1, spec=spec), a_seed(2, spec=replace(spec, job=None))
    bed.insert(of_a_job, of_none)

    found = bed.store.jobs_of(bed.queue_key, bed.biz, [of_a_job.id, of_none.id, a_seed(3).id])

    assert found == {of_a_job.id: "june", of_none.id: None}


def test_a_seed_may_be_stored_as_dispatched_already(bed):
    """A request that is at work becomes a seed of its own page."""
    seed = a_seed(1, state=HANDED, request=2**62, handed_at=NOW, due_at=NOW + HOUR)

    bed.insert(seed)

    assert bed.find() == [seed]
    assert bed.overdue(NOW + 2 * HOUR) == [seed]
    assert bed.dispatch(7) == []
    assert bed.ended(seed) == 1


def test_a_key_is_stored_once_a_segment_and_again_in_another(bed):
    first, second = seeds_of(1, 2)
    bed.insert(first)
    later = replace(first, spec=SeedSpec(url="https://other.example/", rule="x"))

    assert bed.insert(later, second) == {first.key}
    assert bed.insert(a_seed(1, TOMORROW)) == set()

    assert sorted(bed.find("2026-03-01"), key=lambda s: s.spec.meta["n"]) == [first, second]
    assert bed.known(first, a_seed(3)) == {first.key}
    assert bed.known(first, segment=TOMORROW) == {first.key}
    assert bed.known(second, segment=TOMORROW) == set()


def test_nothing_may_be_asked_for(bed):
    assert bed.insert() == set()
    assert bed.known() == set()
    assert bed.dispatch() == []
    assert (bed.ended(), bed.release(), bed.forget()) == (0, 0, 0)
    bed.store.extend(bed.queue_key, bed.biz, [], NOW)
    assert (bed.find(), bed.totals(), bed.ready(), bed.overdue(NOW)) == ([], [], 0, [])
    assert bed.dispatch(1, 2) == []


def test_whoever_races_a_key_is_stored_once(bed):
    seeds = seeds_of(*range(40))
    barrier = Barrier(8)

    def add(_: int) -> set[str]:
        barrier.wait()
        return bed.insert(*seeds)

    with ThreadPoolExecutor(8) as pool:
        known = list(pool.map(add, range(8)))

    assert sum(len(seeds) - len(each) for each in known) == len(seeds)
    assert len(bed.find()) == len(seeds)


def test_tenants_and_bizs_are_kept_apart(bed, store, tenant):
    bed.insert(a_seed(1))

    for queue_key in (QueueKey(f"{tenant}b", "docs", "main"), QueueKey(tenant, "other", "main")):
        other = Bed(store, queue_key)
        assert other.known(a_seed(1)) == set()
        assert (other.find(), other.dispatch(1), other.ready()) == ([], [], 0)
        assert other.forget(a_seed(1)) == 0
        assert other.insert(a_seed(1)) == set()
    assert bed.find() == [a_seed(1)]


# ---- dispatched --------------------------------------------------------------------------------


def test_the_longest_due_are_dispatched_first_each_as_its_request(bed):
    seeds = [a_seed(n, due_at=NOW - timedelta(minutes=n)) for n in range(5)]
    bed.insert(*seeds)

    handed = bed.dispatch(11, 12, 13)

    assert [seed.spec.meta["n"] for seed in handed] == [4, 3, 2]
    assert [seed.request for seed in handed] == [11, 12, 13]
    assert {seed.state for seed in handed} == {HANDED}
    assert {(seed.due_at, seed.handed_at, seed.tries) for seed in handed} == {(NOW + HOUR, NOW, 1)}
    assert sorted(bed.find(state=HANDED), key=lambda seed: seed.request) == handed
    assert [seed.request for seed in bed.dispatch(*"ab" * 2, now=NOW)] == ["a", "b"]
    assert bed.dispatch(14) == []


def test_ids_of_every_kind_come_back_as_they_were(bed):
    ids = [2**62, 7, "0198c0de" * 4, "65f0aa11" * 3]
    bed.insert(*seeds_of(*range(4)))

    handed = bed.dispatch(*ids)

    assert [seed.request for seed in handed] == ids
    assert {type(seed.request) for seed in handed} == {int, str}


def test_seeds_of_a_future_segment_wait_for_their_time(bed):
    bed.insert(a_seed(1), a_seed(1, TOMORROW))

    assert bed.ready() == 1
    assert [seed.segment for seed in bed.dispatch(1, 2)] == [TODAY.name]
    later = TOMORROW.starts_at
    assert bed.ready(later) == 1
    assert [seed.segment for seed in bed.dispatch(3, 4, now=later)] == [TOMORROW.name]


def test_ready_ones_are_counted_up_to_a_limit(bed):
    bed.insert(*seeds_of(*range(10)))

    assert (bed.ready(), bed.ready(limit=4)) == (10, 4)
    bed.dispatch(*range(1, 8))
    assert bed.ready() == 3


def test_two_dispatchers_at_once_take_different_seeds(bed):
    bed.insert(*seeds_of(*range(60)))
    barrier = Barrier(6)

    def take(number: int) -> list[Seed]:
        barrier.wait()
        return bed.dispatch(*range(number * 100 + 1, number * 100 + 31))

    with ThreadPoolExecutor(6) as pool:
        handed = [seed for part in pool.map(take, range(6)) for seed in part]

    assert len({seed.id for seed in handed}) == len(handed)
    assert len({seed.request for seed in handed}) == len(handed)
    stored = {seed.id: seed.request for seed in bed.find(state=HANDED)}
    assert stored == {seed.id: seed.request for seed in handed}
    assert len(handed) + bed.ready() == 60
    assert bed.store.handed(bed.queue_key, bed.biz, 100) == len(handed)


# ---- rechecked ---------------------------------------------------------------------------------


def test_a_dispatched_seed_that_has_not_ended_in_time_is_overdue(bed):
    bed.insert(*seeds_of(1, 2, 3))
    first, second = bed.dispatch(1, 2)

    assert bed.overdue(NOW + HOUR) == []
    late = NOW + HOUR + timedelta(seconds=1)
    assert [seed.id for seed in bed.overdue(late)] == sorted([first.id, second.id])
    assert len(bed.overdue(late, limit=1)) == 1
    bed.store.extend(bed.queue_key, bed.biz, [first], NOW + 2 * HOUR)
    bed.ended(second)
    assert bed.overdue(late) == []
    assert [seed.id for seed in bed.overdue(NOW + 3 * HOUR)] == [first.id]


def test_an_extension_for_another_request_has_no_effect(bed):
    bed.insert(a_seed(1))
    [old] = bed.dispatch(1)
    bed.ended(old, why="dead")
    bed.release(old)
    [new] = bed.dispatch(2)

    bed.store.extend(bed.queue_key, bed.biz, [old], NOW + 9 * HOUR)

    assert bed.find() == [new]


# ---- ended -------------------------------------------------------------------------------------


def test_a_seed_ends_well_or_with_a_reason_and_once(bed):
    bed.insert(*seeds_of(1, 2, 3))
    first, second, third = bed.dispatch(1, 2, 3)
    later = NOW + timedelta(minutes=5)

    assert bed.ended(first, now=later) == 1
    assert bed.ended(second, why="PageGone: 404", now=later) == 1
    assert bed.ended(first, why="too late") == 0
    assert bed.ended(replace(third, request=99)) == 0

    found = {seed.id: seed for seed in bed.find()}
    assert found[first.id] == replace(first, state=FINISHED, due_at=later)
    assert found[second.id] == replace(second, state=FAILED, due_at=later, why="PageGone: 404")
    assert found[third.id].state is HANDED


def test_seeds_that_end_together_end_each_in_its_own_way(bed):
    bed.insert(*seeds_of(1, 2, 3, 4, 5))
    done, gone, slow, refused, stale = bed.dispatch(1, 2, 3, 4, 5)
    ends = {
        done.id: (1, ""),
        gone.id: (2, "PageGone: 404"),
        slow.id: (3, "FetchTimeout"),
        refused.id: (4, "PageGone: 404"),
        stale.id: (99, ""),
    }

    assert bed.store.ended(bed.queue_key, bed.biz, ends, NOW) == 4

    assert {seed.id: (seed.state, seed.why) for seed in bed.find()} == {
        done.id: (FINISHED, ""),
        gone.id: (FAILED, "PageGone: 404"),
        slow.id: (FAILED, "FetchTimeout"),
        refused.id: (FAILED, "PageGone: 404"),
        stale.id: (HANDED, ""),
    }


def test_a_seed_whose_request_expired_is_ready_again_and_no_other_is(bed):
    bed.insert(*seeds_of(1, 2, 3))
    first, second, third = bed.dispatch(1, 2, 3)
    bed.ended(third)
    later = NOW + timedelta(hours=1)
    expired = {first.id: (1, "expired"), second.id: (99, "expired"), third.id: (3, "expired")}

    assert bed.store.requeue(bed.queue_key, bed.biz, expired, later) == 1

    found = {seed.id: seed for seed in bed.find()}
    again = replace(first, state=READY, due_at=later, why="expired", request=None, handed_at=None)
    assert found[first.id] == again
    assert (found[second.id].state, found[third.id].state) == (HANDED, FINISHED)
    [dispatched] = bed.store.dispatch(
        bed.queue_key, bed.biz, [9], later, later + timedelta(hours=1)
    )
    assert (dispatched.id, dispatched.request, dispatched.tries) == (first.id, 9, 2)


def test_a_failed_seed_ends_well_when_its_request_is_replayed_and_does(bed):
    bed.insert(a_seed(1))
    [seed] = bed.dispatch(1)
    bed.ended(seed, why="503")

    assert bed.ended(replace(seed, request=2)) == 0
    assert bed.ended(seed, why="503 again") == 0
    assert bed.ended(seed) == 1

    assert [(one.state, one.why) for one in bed.find()] == [(FINISHED, "")]
    assert bed.ended(seed) == 0


def test_an_ended_seed_is_still_known(bed):
    bed.insert(a_seed(1))
    bed.ended(*bed.dispatch(1))

    assert bed.insert(a_seed(1)) == {a_seed(1).key}
    assert bed.known(a_seed(1)) == {a_seed(1).key}
    assert bed.ready() == 0


def test_failed_and_finished_seeds_are_released_others_are_not(bed):
    bed.insert(*seeds_of(1, 2, 3, 4))
    done, dead, handed = bed.dispatch(1, 2, 3)
    bed.ended(done)
    bed.ended(dead, why="404")
    later = NOW + timedelta(minutes=1)

    count = bed.release(done, dead, done, handed, *bed.find(state=READY), a_seed(9), now=later)

    assert count == 2
    again = {seed.id: seed for seed in bed.find()}[dead.id]
    assert (again.state, again.due_at, again.why, again.tries) == (READY, later, "again", 1)
    assert (again.request, again.handed_at) == (None, None)
    assert len(bed.find(state=READY)) == 3
    assert bed.ended(dead) == 0, "the old request has nothing to say any more"
    assert {seed.tries for seed in bed.dispatch(5, 6, 7, now=later)} == {1, 2}


def test_a_forgotten_seed_is_accepted_anew(bed):
    bed.insert(*seeds_of(1, 2))
    bed.dispatch(1)

    assert bed.forget(a_seed(1), a_seed(1), a_seed(3)) == 1

    assert bed.known(a_seed(1), a_seed(2)) == {a_seed(2).key}
    assert bed.insert(a_seed(1)) == set()


def test_ended_seeds_are_forgotten_after_the_archive_and_their_segment(bed):
    """MongoDB's own clock judges, so what is over is long over."""
    long_ago = NOW - 40 * DAY
    old = Segment("2026-01-01", long_ago, long_ago + DAY)
    endless = Segment("forever", long_ago, None)
    bed.insert(
        a_seed(1, old, due_at=long_ago),
        a_seed(3, endless, due_at=long_ago),
        a_seed(4, due_at=long_ago),
        a_seed(5, old, due_at=long_ago + HOUR),
    )
    handed = bed.dispatch(1, 2, 3, now=long_ago)
    assert len(handed) == 3
    bed.ended(*handed, now=long_ago)

    left = {a_seed(3, endless).id, a_seed(4).id, a_seed(5, old).id}
    eventually(lambda: {seed.id for seed in bed.find()} == left, what="the archive was emptied")


def test_another_life_of_the_archive_comes_into_force(store, queue_key):
    a_week_ago = NOW - 7 * DAY
    old = Segment("2026-01-01", a_week_ago, a_week_ago + HOUR)
    long_lived = Bed(store, queue_key)
    long_lived.insert(a_seed(1, old, due_at=a_week_ago))
    long_lived.ended(*long_lived.dispatch(1, now=a_week_ago), now=a_week_ago)
    assert len(long_lived.find()) == 1

    short_lived = Bed(store, queue_key, seeds=SeedPolicy(archive_days=2))
    short_lived.insert(*seeds_of(*range(2, 30)))


def wider(moment: datetime):
    """A biz whose second generation, from that moment on, has further nodes."""
    nodes = ("east", "west", "north", "south")
    return (a_generation(), a_generation(starts_at=moment, nodes=nodes))


def test_a_new_generation_neither_loses_nor_doubles_seeds(store, queue_key):
    before = Bed(store, queue_key)
    soon = Segment(f"{NOW + 3 * DAY:%Y-%m-%d}", NOW + 3 * DAY, NOW + 4 * DAY)
    seeds = seeds_of(*range(40), segment=soon)
    before.insert(*seeds)
    after = Bed(store, queue_key, generations=wider(NOW + DAY))

    assert after.insert(*seeds, a_seed(99, soon)) == {seed.key for seed in seeds}
    assert after.known(*seeds, segment=soon) == {seed.key for seed in seeds}
    handed = after.dispatch(*range(1, 60), now=soon.starts_at)
    assert len(handed) == 41
    assert after.ended(*handed, why="dead", now=soon.starts_at) == 41
    assert after.release(*handed[:20]) == 20
    assert after.forget(*handed) == 41
    assert after.find() == []
