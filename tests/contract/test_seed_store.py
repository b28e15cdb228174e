"""ports.SeedStore over memory and a real MongoDB: two nodes, two databases each."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import count
from threading import Barrier

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.contract.store_cases import NOW, a_biz, a_generation
from tests.kit.config import SeedPolicy
from tests.kit.examples import examples
from tests.kit.fakes import MemorySeeds
from tests.kit.frontier import (
    MongoSeeds,
    Offer,
    Seed,
    SeedState,
    SeedStore,
    SeedTotals,
    Segment,
    homes,
    seed_key,
)
from tests.kit.implementations import fixture_over
from tests.kit.kernel import Lane, StoreError, StoreUnavailableError
from tests.kit.mongo_nodes import NodesOnOneServer, nodes_at
from tests.waiting import eventually

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
TODAY = Segment("2026-03-01", NOW - HOUR, NOW + 23 * HOUR)
TOMORROW = Segment("2026-03-02", NOW + 23 * HOUR, NOW + 47 * HOUR)
READY, HANDED, FINISHED, FAILED = SeedState
ONE_PLACE = (a_generation(nodes=("east",), databases=("one",), shards=1),)


def a_seed(number: int, segment: Segment = TODAY, **changes: object) -> Seed:
    url = f"https://site.example/{number}"
    facts: dict = {
        "key": seed_key(url).hex(),
        "segment": segment.name,
        "offer": Offer(url=url, rule="detail", meta={"n": number}, job="june", depth=2),
        "state": READY,
        "offered_at": NOW,
        "due_at": max(NOW, segment.starts_at),
        "ends_at": segment.ends_at,
    }
    return Seed(**{**facts, **changes})


def seeds_of(*numbers: int, segment: Segment = TODAY) -> list[Seed]:
    return [a_seed(number, segment) for number in numbers]


class Bed:
    """A lane of a tenant over a seed store, with the arguments that every call repeats."""

    def __init__(self, store: SeedStore, lane: Lane, **changes: object) -> None:
        self.store, self.lane, self.biz = store, lane, a_biz(**changes)

    def insert(self, *seeds: Seed) -> set[str]:
        return self.store.insert(self.lane, self.biz, seeds)

    def known(self, *seeds: Seed, segment: Segment = TODAY) -> set[str]:
        return self.store.known(self.lane, self.biz, segment, [seed.key for seed in seeds])

    def ready(self, now: datetime = NOW, limit: int = 100) -> int:
        return self.store.ready(self.lane, self.biz, now, limit)

    def hand_out(self, *ids: int | str, now: datetime = NOW) -> list[Seed]:
        return self.store.hand_out(self.lane, self.biz, ids, now, now + HOUR)

    def overdue(self, now: datetime, limit: int = 100) -> list[Seed]:
        return self.store.overdue(self.lane, self.biz, now, limit)

    def ended(self, *seeds: Seed, why: str = "", now: datetime = NOW) -> int:
        ends = {seed.id: (seed.request, why) for seed in seeds}
        return self.store.ended(self.lane, self.biz, ends, now)

    def release(self, *seeds: Seed, why: str = "again", now: datetime = NOW) -> int:
        return self.store.release(self.lane, self.biz, [seed.id for seed in seeds], why, now)

    def forget(self, *seeds: Seed) -> int:
        return self.store.forget(self.lane, self.biz, [seed.id for seed in seeds])

    def find(self, segment=None, state=None, after=None, limit=1000) -> list[Seed]:
        return self.store.find(
            self.lane, self.biz, segment=segment, state=state, after=after, limit=limit
        )

    def of_keys(self, *seeds: Seed) -> list[Seed]:
        return self.store.of_keys(self.lane, self.biz, [seed.key for seed in seeds])

    def totals(self, now: datetime = NOW) -> list[SeedTotals]:
        return self.store.totals(self.lane, self.biz, now)


store = fixture_over(SeedStore)


@pytest.fixture
def bed(store: SeedStore, lane: Lane) -> Bed:
    return Bed(store, lane)


def test_a_seed_is_read_back_as_it_was_offered(bed):
    seed = a_seed(1)

    assert bed.insert(seed) == set()

    assert bed.find() == [seed]


def test_a_seed_may_be_stored_as_handed_out_already(bed):
    """A request that is at work becomes a seed of its own page."""
    seed = a_seed(1, state=HANDED, request=2**62, handed_at=NOW, due_at=NOW + HOUR)

    bed.insert(seed)

    assert bed.find() == [seed]
    assert bed.overdue(NOW + 2 * HOUR) == [seed]
    assert bed.hand_out(7) == []
    assert bed.ended(seed) == 1


def test_a_key_is_stored_once_a_segment_and_again_in_another(bed):
    first, second = seeds_of(1, 2)
    bed.insert(first)
    later = replace(first, offer=Offer(url="https://other.example/", rule="x"))

    assert bed.insert(later, second) == {first.key}
    assert bed.insert(a_seed(1, TOMORROW)) == set()

    assert sorted(bed.find("2026-03-01"), key=lambda s: s.offer.meta["n"]) == [first, second]
    assert bed.known(first, a_seed(3)) == {first.key}
    assert bed.known(first, segment=TOMORROW) == {first.key}
    assert bed.known(second, segment=TOMORROW) == set()


def test_nothing_may_be_asked_for(bed):
    assert bed.insert() == set()
    assert bed.known() == set()
    assert bed.hand_out() == []
    assert (bed.ended(), bed.release(), bed.forget()) == (0, 0, 0)
    bed.store.extend(bed.lane, bed.biz, [], NOW)
    assert (bed.find(), bed.totals(), bed.ready(), bed.overdue(NOW)) == ([], [], 0, [])
    assert bed.hand_out(1, 2) == []


def test_whoever_races_a_key_is_stored_once(bed):
    seeds = seeds_of(*range(40))
    barrier = Barrier(8)

    def offer(_: int) -> set[str]:
        barrier.wait()
        return bed.insert(*seeds)

    with ThreadPoolExecutor(8) as pool:
        known = list(pool.map(offer, range(8)))

    assert sum(len(seeds) - len(each) for each in known) == len(seeds)
    assert len(bed.find()) == len(seeds)


def test_tenants_and_bizs_are_kept_apart(bed, store, tenant):
    bed.insert(a_seed(1))

    for lane in (Lane(f"{tenant}b", "docs", "main"), Lane(tenant, "other", "main")):
        other = Bed(store, lane)
        assert other.known(a_seed(1)) == set()
        assert (other.find(), other.hand_out(1), other.ready()) == ([], [], 0)
        assert other.forget(a_seed(1)) == 0
        assert other.insert(a_seed(1)) == set()
    assert bed.find() == [a_seed(1)]


# ---- handed out --------------------------------------------------------------------------------


def test_the_longest_due_are_handed_out_first_each_as_its_request(bed):
    seeds = [a_seed(n, due_at=NOW - timedelta(minutes=n)) for n in range(5)]
    bed.insert(*seeds)

    handed = bed.hand_out(11, 12, 13)

    assert [seed.offer.meta["n"] for seed in handed] == [4, 3, 2]
    assert [seed.request for seed in handed] == [11, 12, 13]
    assert {seed.state for seed in handed} == {HANDED}
    assert {(seed.due_at, seed.handed_at, seed.tries) for seed in handed} == {(NOW + HOUR, NOW, 1)}
    assert sorted(bed.find(state=HANDED), key=lambda seed: seed.request) == handed
    assert [seed.request for seed in bed.hand_out(*"ab" * 2, now=NOW)] == ["a", "b"]
    assert bed.hand_out(14) == []


def test_ids_of_every_kind_come_back_as_they_were(bed):
    ids = [2**62, 7, "0198c0de" * 4, "65f0aa11" * 3]
    bed.insert(*seeds_of(*range(4)))

    handed = bed.hand_out(*ids)

    assert [seed.request for seed in handed] == ids
    assert {type(seed.request) for seed in handed} == {int, str}


def test_seeds_of_a_future_segment_wait_for_their_time(bed):
    bed.insert(a_seed(1), a_seed(1, TOMORROW))

    assert bed.ready() == 1
    assert [seed.segment for seed in bed.hand_out(1, 2)] == [TODAY.name]
    later = TOMORROW.starts_at
    assert bed.ready(later) == 1
    assert [seed.segment for seed in bed.hand_out(3, 4, now=later)] == [TOMORROW.name]


def test_ready_ones_are_counted_up_to_a_limit(bed):
    bed.insert(*seeds_of(*range(10)))

    assert (bed.ready(), bed.ready(limit=4)) == (10, 4)
    bed.hand_out(*range(1, 8))
    assert bed.ready() == 3


def test_two_that_hand_out_at_once_take_different_seeds(bed):
    bed.insert(*seeds_of(*range(60)))
    barrier = Barrier(6)

    def take(number: int) -> list[Seed]:
        barrier.wait()
        return bed.hand_out(*range(number * 100 + 1, number * 100 + 31))

    with ThreadPoolExecutor(6) as pool:
        handed = [seed for part in pool.map(take, range(6)) for seed in part]

    assert len({seed.id for seed in handed}) == len(handed)
    assert len({seed.request for seed in handed}) == len(handed)
    stored = {seed.id: seed.request for seed in bed.find(state=HANDED)}
    assert stored == {seed.id: seed.request for seed in handed}
    assert len(handed) + bed.ready() == 60
    assert bed.store.handed(bed.lane, bed.biz, 100) == len(handed)


# ---- looked after ------------------------------------------------------------------------------


def test_what_was_handed_out_and_not_heard_of_is_overdue(bed):
    bed.insert(*seeds_of(1, 2, 3))
    first, second = bed.hand_out(1, 2)

    assert bed.overdue(NOW + HOUR) == []
    late = NOW + HOUR + timedelta(seconds=1)
    assert [seed.id for seed in bed.overdue(late)] == sorted([first.id, second.id])
    assert len(bed.overdue(late, limit=1)) == 1
    bed.store.extend(bed.lane, bed.biz, [first], NOW + 2 * HOUR)
    bed.ended(second)
    assert bed.overdue(late) == []
    assert [seed.id for seed in bed.overdue(NOW + 3 * HOUR)] == [first.id]


def test_an_extension_for_another_request_has_no_effect(bed):
    bed.insert(a_seed(1))
    [old] = bed.hand_out(1)
    bed.ended(old, why="dead")
    bed.release(old)
    [new] = bed.hand_out(2)

    bed.store.extend(bed.lane, bed.biz, [old], NOW + 9 * HOUR)

    assert bed.find() == [new]


# ---- ended -------------------------------------------------------------------------------------


def test_a_seed_ends_well_or_with_a_reason_and_once(bed):
    bed.insert(*seeds_of(1, 2, 3))
    first, second, third = bed.hand_out(1, 2, 3)
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
    done, gone, slow, refused, stale = bed.hand_out(1, 2, 3, 4, 5)
    ends = {
        done.id: (1, ""),
        gone.id: (2, "PageGone: 404"),
        slow.id: (3, "FetchTimeout"),
        refused.id: (4, "PageGone: 404"),
        stale.id: (99, ""),
    }

    assert bed.store.ended(bed.lane, bed.biz, ends, NOW) == 4

    assert {seed.id: (seed.state, seed.why) for seed in bed.find()} == {
        done.id: (FINISHED, ""),
        gone.id: (FAILED, "PageGone: 404"),
        slow.id: (FAILED, "FetchTimeout"),
        refused.id: (FAILED, "PageGone: 404"),
        stale.id: (HANDED, ""),
    }


def test_a_failed_seed_ends_well_when_its_request_is_replayed_and_does(bed):
    bed.insert(a_seed(1))
    [seed] = bed.hand_out(1)
    bed.ended(seed, why="503")

    assert bed.ended(replace(seed, request=2)) == 0
    assert bed.ended(seed, why="503 again") == 0
    assert bed.ended(seed) == 1

    assert [(one.state, one.why) for one in bed.find()] == [(FINISHED, "")]
    assert bed.ended(seed) == 0


def test_an_ended_seed_is_still_known(bed):
    bed.insert(a_seed(1))
    bed.ended(*bed.hand_out(1))

    assert bed.insert(a_seed(1)) == {a_seed(1).key}
    assert bed.known(a_seed(1)) == {a_seed(1).key}
    assert bed.ready() == 0


def test_failed_and_finished_seeds_are_released_others_are_not(bed):
    bed.insert(*seeds_of(1, 2, 3, 4))
    done, dead, handed = bed.hand_out(1, 2, 3)
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
    assert {seed.tries for seed in bed.hand_out(5, 6, 7, now=later)} == {1, 2}


def test_a_forgotten_seed_is_accepted_anew(bed):
    bed.insert(*seeds_of(1, 2))
    bed.hand_out(1)

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
    handed = bed.hand_out(1, 2, 3, now=long_ago)
    assert len(handed) == 3
    bed.ended(*handed, now=long_ago)

    left = {a_seed(3, endless).id, a_seed(4).id, a_seed(5, old).id}
    eventually(lambda: {seed.id for seed in bed.find()} == left, what="the archive was emptied")


def test_another_life_of_the_archive_comes_into_force(store, lane):
    a_week_ago = NOW - 7 * DAY
    old = Segment("2026-01-01", a_week_ago, a_week_ago + HOUR)
    long_lived = Bed(store, lane)
    long_lived.insert(a_seed(1, old, due_at=a_week_ago))
    long_lived.ended(*long_lived.hand_out(1, now=a_week_ago), now=a_week_ago)
    assert len(long_lived.find()) == 1

    short_lived = Bed(store, lane, seeds=SeedPolicy(archive_days=2))
    short_lived.insert(*seeds_of(*range(2, 30)))

    eventually(lambda: len(short_lived.find()) == 28, what="the old one has gone")


# ---- read --------------------------------------------------------------------------------------


def test_seeds_are_found_by_segment_and_state_page_by_page(bed):
    bed.insert(*seeds_of(*range(10)), *seeds_of(*range(5), segment=TOMORROW))
    bed.ended(*bed.hand_out(1, 2, 3), why="404")
    every = sorted(
        seed.id for seed in [*seeds_of(*range(10)), *seeds_of(*range(5), segment=TOMORROW)]
    )

    pages, after = [], None
    while page := bed.find(after=after, limit=4):
        pages.append([seed.id for seed in page])
        after = pages[-1][-1]

    assert [len(page) for page in pages] == [4, 4, 4, 3]
    assert [one for page in pages for one in page] == every
    assert [seed.id for seed in bed.find(TOMORROW.name)] == every[10:]
    assert len(bed.find(TODAY.name, FAILED)) == 3
    assert len(bed.find(state=READY)) == 12
    assert len(bed.find(TODAY.name, READY, after=every[4])) == len(
        [seed for seed in bed.find(TODAY.name, READY) if seed.id > every[4]]
    )
    assert bed.find("2026-03") == []
    assert bed.find(TODAY.name, after=every[9]) == []


def test_seeds_are_found_by_their_keys_in_whatever_segment_the_newest_first(bed):
    today, tomorrow, other = a_seed(1), a_seed(1, TOMORROW), a_seed(2)
    bed.insert(today, tomorrow, other, a_seed(3))

    assert bed.of_keys(today) == [tomorrow, today]
    assert bed.of_keys(other, today, other) == [tomorrow, other, today]
    assert bed.of_keys(a_seed(4)) == bed.of_keys() == []


def test_seeds_are_found_by_their_keys_in_a_month_of_segments(bed):
    days = [Segment(f"2026-01-{day:02d}", NOW, NOW + DAY) for day in range(1, 32)]
    days += [TODAY, TOMORROW]
    bed.insert(*(a_seed(1, day, due_at=NOW) for day in days))

    found = [seed.segment for seed in bed.of_keys(a_seed(1))]

    assert found == [day.name for day in reversed(days)][:31]


def test_totals_tell_of_each_segment_the_newest_first(bed):
    bed.insert(*seeds_of(*range(10)), *seeds_of(1, 2, segment=TOMORROW))
    bed.insert(a_seed(11, due_at=NOW + HOUR))
    handed = bed.hand_out(*range(1, 7))
    bed.ended(*handed[:3])
    bed.ended(handed[3], why="404")

    assert bed.totals() == [
        SeedTotals(segment=TOMORROW.name, waiting=2),
        SeedTotals(segment=TODAY.name, ready=4, waiting=1, handed=2, finished=3, failed=1),
    ]
    assert bed.totals(TOMORROW.starts_at)[0].ready == 2


def test_totals_tell_of_a_month_of_segments(bed):
    days = [Segment(f"2026-01-{n:02d}", NOW, NOW + DAY) for n in range(1, 32)]
    more = [Segment(f"2026-02-{n:02d}", NOW, NOW + DAY) for n in range(1, 6)]
    bed.insert(*(a_seed(n, segment) for n, segment in enumerate([*days, *more])))

    found = [total.segment for total in bed.totals()]

    assert found == sorted((segment.name for segment in [*days[5:], *more]), reverse=True)


# ---- routes that change ------------------------------------------------------------------------


def wider(moment: datetime):
    """A biz whose second generation, from that moment on, has further nodes."""
    nodes = ("east", "west", "north", "south")
    return (a_generation(), a_generation(starts_at=moment, nodes=nodes))


def test_a_new_generation_neither_loses_nor_doubles_seeds(store, lane):
    before = Bed(store, lane)
    soon = Segment(f"{NOW + 3 * DAY:%Y-%m-%d}", NOW + 3 * DAY, NOW + 4 * DAY)
    seeds = seeds_of(*range(40), segment=soon)
    before.insert(*seeds)
    after = Bed(store, lane, generations=wider(NOW + DAY))

    assert after.insert(*seeds, a_seed(99, soon)) == {seed.key for seed in seeds}
    assert after.known(*seeds, segment=soon) == {seed.key for seed in seeds}
    handed = after.hand_out(*range(1, 60), now=soon.starts_at)
    assert len(handed) == 41
    assert after.ended(*handed, why="dead", now=soon.starts_at) == 41
    assert after.release(*handed[:20]) == 20
    assert after.forget(*handed) == 41
    assert after.find() == []


# ---- MongoDB alone -----------------------------------------------------------------------------


@pytest.fixture
def nodes(mongo_uri):
    with nodes_at(mongo_uri) as made:
        yield made


def collections(nodes, lane, biz, part="seeds"):
    for node in ("east", "west"):
        for database in ("one", "two"):
            name = f"{lane.biz}.{biz.collection}_{part}"
            yield nodes.collection(node, lane.tenant, database, name)


def test_seeds_are_spread_over_the_nodes_and_databases(nodes, lane):
    bed = Bed(MongoSeeds(nodes), lane)
    bed.insert(*seeds_of(*range(200)))

    counts = [each.count_documents({}) for each in collections(nodes, lane, bed.biz)]

    assert sum(counts) == 200
    assert min(counts) > 20


def test_every_statement_goes_by_an_index(nodes, lane, mongo_uri):
    """Nothing sorts, and nothing looks at documents that it does not give."""
    bed = Bed(MongoSeeds(nodes), lane)
    bed.insert(*seeds_of(*range(200)), *seeds_of(*range(200), segment=TOMORROW))
    databases = {each.database for each in collections(nodes, lane, bed.biz)}
    for database in databases:
        database.command("profile", 2)
    handed = bed.hand_out(*range(1, 41))
    bed.ended(*handed[:20], why="404")
    bed.store.extend(bed.lane, bed.biz, handed, NOW)
    bed.release(*handed)
    bed.overdue(NOW + DAY, limit=5)
    bed.find(TODAY.name, READY, limit=5)
    bed.find(limit=5)
    bed.known(*handed)
    bed.totals()
    bed.ready()
    bed.insert(*seeds_of(1, 2, 3))
    bed.forget(*handed[:5])
    for database in databases:
        database.command("profile", 0)

    lines = [
        line
        for database in databases
        for line in database["system.profile"].find(
            {"ns": {"$regex": "_seeds$"}, "command.createIndexes": {"$exists": False}},
            projection=["op", "planSummary", "hasSortStage"],
        )
    ]
    assert len(lines) > 40
    plans = {line.get("planSummary", "") for line in lines}
    assert not [plan for plan in plans if "COLLSCAN" in plan], plans
    assert not [line for line in lines if line.get("hasSortStage")]


class Parted(NodesOnOneServer):
    """Nodes of which one can be cut off."""

    cut_off: str | None = None

    def collection(self, node, *arguments):
        if node == self.cut_off:
            raise StoreUnavailableError("mongodb", "no answer")
        return super().collection(node, *arguments)


def test_a_node_that_is_away_costs_its_own_seeds_only(mongo_uri, lane):
    nodes = Parted(mongo_uri)
    bed = Bed(MongoSeeds(nodes), lane)
    bed.insert(*seeds_of(*range(80)))
    here = sum(c.count_documents({}) for c in list(collections(nodes, lane, bed.biz))[:2])
    nodes.cut_off = "west"

    assert bed.ready() == here
    assert len(bed.hand_out(*range(1, 81))) == here
    assert len(bed.overdue(NOW + DAY)) == here
    with pytest.raises(StoreUnavailableError):
        bed.insert(*seeds_of(*range(80, 120)))
    nodes.cut_off = None
    assert len(bed.hand_out(*range(101, 300))) >= 80 - here
    nodes.close()


def test_a_released_seed_is_not_archived_any_more(nodes, lane):
    bed = Bed(MongoSeeds(nodes), lane)
    bed.insert(a_seed(1))
    bed.ended(*bed.hand_out(1), why="404")

    def archived() -> list[object]:
        found = (each.find_one() for each in collections(nodes, lane, bed.biz))
        return [document.get("archived_at") for document in found if document]

    assert archived() == [TODAY.ends_at]
    bed.release(a_seed(1))
    assert archived() == [None]


def test_what_cannot_be_read_is_told_from_what_can(nodes, lane):
    bed = Bed(MongoSeeds(nodes), lane)
    bed.insert(a_seed(1))
    for each in collections(nodes, lane, bed.biz):
        each.update_many({}, {"$set": {"data": b"\xc1"}})

    [seed] = bed.hand_out(1)

    assert (seed.offer, seed.key) == (Offer(url="", rule=""), a_seed(1).key)


# ---- both alike --------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "hand_out", "end", "fail", "extend", "release", "forget"]),
        st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True),
        st.integers(0, 90),
    ),
    max_size=12,
)


NUMBERS = count()


@examples(0.25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_both_do_alike_whatever_is_done(nodes, tenant, steps):
    lane = Lane(tenant, f"b{next(NUMBERS)}", "main")
    twins = [Bed(MemorySeeds(), lane), Bed(MongoSeeds(nodes), lane)]
    now, given = NOW, 0

    for what, numbers, minutes in steps:
        now += timedelta(minutes=minutes)
        ids = range(given + 1, given + 1 + len(numbers))
        given += len(numbers)
        memory, real = (step(twin, what, numbers, ids, now) for twin in twins)
        assert memory == real
        looks = ((t.find(), t.totals(now), t.overdue(now), t.ready(now)) for t in twins)
        memory, real = looks
        assert memory == real


def step(twin: Bed, what: str, numbers: list[int], ids: range, now: datetime) -> object:
    standing = {seed.id: seed for seed in twin.find()}
    seeds = [standing.get(a_seed(n).id, a_seed(n)) for n in numbers]
    match what:
        case "insert":
            return twin.insert(*(a_seed(n, due_at=now) for n in numbers))
        case "hand_out":
            return twin.hand_out(*ids, now=now)
        case "extend":
            return twin.store.extend(twin.lane, twin.biz, seeds, now + HOUR)
        case "release":
            return twin.release(*seeds, now=now)
        case "forget":
            return twin.forget(*seeds)
    return twin.ended(*seeds, why="no" if what == "fail" else "", now=now)


# ---- of a job ----------------------------------------------------------------------------------


def test_open_seeds_of_a_job_are_those_that_are_ready_or_handed_out(bed):
    july = Offer(url="https://site.example/july", rule="detail", job="july")
    none = Offer(url="https://site.example/none", rule="detail")
    ready, late, handed, over = (
        a_seed(1),
        a_seed(2, TOMORROW),
        a_seed(3, state=HANDED, request=2**62, handed_at=NOW, due_at=NOW + HOUR),
        a_seed(4, state=HANDED, request=2**62 + 1, handed_at=NOW, due_at=NOW + HOUR),
    )
    bed.insert(ready, late, handed, over, a_seed(5, offer=july), a_seed(6, offer=none))
    bed.ended(over)

    found = bed.store.open_of_job(bed.lane, bed.biz, "june", 10)

    assert {seed.id for seed in found} == {ready.id, late.id, handed.id}
    assert len(bed.store.open_of_job(bed.lane, bed.biz, "june", 2)) == 2
    assert bed.store.open_of_job(bed.lane, bed.biz, "august", 10) == []
    assert (
        bed.store.open_of_job(Lane(f"{bed.lane.tenant}b", "docs", "main"), bed.biz, "june", 9) == []
    )


def test_where_there_is_no_index_by_job_few_open_seeds_are_looked_through_and_many_are_not(
    mongo_uri, lane
):
    with nodes_at(mongo_uri) as nodes:
        # As where there are many already.
        crowded = MongoSeeds(nodes, most_to_index=-1, most_looked_through=3)
        bed = Bed(crowded, lane, generations=ONE_PLACE)
        bed.insert(a_seed(1), a_seed(2), a_seed(3))

        assert len(bed.store.open_of_job(bed.lane, bed.biz, "june", 10)) == 3
        bed.insert(a_seed(4))
        with pytest.raises(StoreError, match="by_job"):
            bed.store.open_of_job(bed.lane, bed.biz, "june", 10)

        later = Bed(MongoSeeds(nodes), lane, generations=ONE_PLACE)
        later.insert(a_seed(5))  # there are few: it is built
        assert len(later.store.open_of_job(bed.lane, bed.biz, "june", 10)) == 5


def test_open_seeds_of_other_jobs_are_not_read(mongo_uri, lane):
    with nodes_at(mongo_uri) as nodes:
        store = MongoSeeds(nodes)
        bed = Bed(store, lane, generations=ONE_PLACE)
        july = Offer(url="https://site.example/july", rule="detail", job="july")
        bed.insert(*(a_seed(n, offer=july) for n in range(50)), a_seed(99))
        [place] = homes(bed.biz)
        seeds = store._seeds(lane, bed.biz, place)

        match = {"state": {"$lte": 1}, "job": "june"}
        plan = seeds.database.command(
            "explain",
            {"find": seeds.name, "filter": match, "hint": "by_job"},
            verbosity="executionStats",
        )
        assert plan["executionStats"]["totalDocsExamined"] == 1
        assert len(store.open_of_job(lane, bed.biz, "june", 50)) == 1
