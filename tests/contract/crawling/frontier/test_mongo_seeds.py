"""Seeds in MongoDB: where they lie, by which index they are read, and that memory does alike."""

from datetime import datetime, timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.contract.seed_cases import DAY, HOUR, READY, TODAY, TOMORROW, Bed, a_seed, seeds_of
from tests.contract.store_cases import NOW, a_generation
from tests.fakes.frontier import MemorySeeds
from tests.kit.examples import examples
from tests.kit.frontier import MongoSeeds, SeedSpec
from tests.kit.kernel import QueueKey, StoreError, StoreUnavailableError
from tests.kit.mongo_nodes import NodesOnOneServer, nodes_at

ONE_PLACE = (a_generation(nodes=("east",), databases=("one",), shards=1),)


@pytest.fixture
def nodes(mongo_uri):
    with nodes_at(mongo_uri) as made:
        yield made


def collections(nodes, queue_key, biz, part="seeds"):
    for node in ("east", "west"):
        for database in ("one", "two"):
            name = f"{queue_key.biz}.{biz.collection}_{part}"
            yield nodes.collection(node, queue_key.tenant, database, name)


def test_seeds_are_spread_over_the_nodes_and_databases(nodes, queue_key):
    bed = Bed(MongoSeeds(nodes), queue_key)
    bed.insert(*seeds_of(*range(200)))

    counts = [each.count_documents({}) for each in collections(nodes, queue_key, bed.biz)]

    assert sum(counts) == 200
    assert min(counts) > 20


def test_every_statement_goes_by_an_index(nodes, queue_key, mongo_uri):
    """Nothing sorts, and nothing looks at documents that it does not give."""
    bed = Bed(MongoSeeds(nodes), queue_key)
    bed.insert(*seeds_of(*range(200)), *seeds_of(*range(200), segment=TOMORROW))
    databases = {each.database for each in collections(nodes, queue_key, bed.biz)}
    for database in databases:
        database.command("profile", 2)
    handed = bed.dispatch(*range(1, 41))
    bed.ended(*handed[:20], why="404")
    bed.store.extend(bed.queue_key, bed.biz, handed, NOW)
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


def test_a_node_that_is_away_costs_its_own_seeds_only(mongo_uri, queue_key):
    nodes = Parted(mongo_uri)
    bed = Bed(MongoSeeds(nodes), queue_key)
    bed.insert(*seeds_of(*range(80)))
    here = sum(c.count_documents({}) for c in list(collections(nodes, queue_key, bed.biz))[:2])
    nodes.cut_off = "west"

    assert bed.ready() == here
    assert len(bed.dispatch(*range(1, 81))) == here
    assert len(bed.overdue(NOW + DAY)) == here
    with pytest.raises(StoreUnavailableError):
        bed.insert(*seeds_of(*range(80, 120)))
    nodes.cut_off = None
    assert len(bed.dispatch(*range(101, 300))) >= 80 - here
    nodes.close()


def test_a_released_seed_is_not_archived_any_more(nodes, queue_key):
    bed = Bed(MongoSeeds(nodes), queue_key)
    bed.insert(a_seed(1))
    bed.ended(*bed.dispatch(1), why="404")

    def archived() -> list[object]:
        found = (each.find_one() for each in collections(nodes, queue_key, bed.biz))
        return [document.get("archived_at") for document in found if document]

    assert archived() == [TODAY.ends_at]
    bed.release(a_seed(1))
    assert archived() == [None]


def test_what_cannot_be_read_is_distinguished_from_what_can(nodes, queue_key):
    bed = Bed(MongoSeeds(nodes), queue_key)
    bed.insert(a_seed(1))
    for each in collections(nodes, queue_key, bed.biz):
        each.update_many({}, {"$set": {"data": b"\xc1"}})

    [seed] = bed.dispatch(1)

    assert (seed.spec, seed.key) == (SeedSpec(url="", rule=""), a_seed(1).key)


# ---- both alike --------------------------------------------------------------------------------

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "dispatch", "end", "fail", "extend", "release", "forget"]),
        st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True),
        st.integers(0, 90),
    ),
    max_size=12,
)


NUMBERS = count()


@examples(0.25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_both_do_alike_whatever_is_done(nodes, tenant, steps):
    queue_key = QueueKey(tenant, f"b{next(NUMBERS)}", "main")
    beds = [Bed(MemorySeeds(), queue_key), Bed(MongoSeeds(nodes), queue_key)]
    now, given = NOW, 0

    for what, numbers, minutes in steps:
        now += timedelta(minutes=minutes)
        ids = range(given + 1, given + 1 + len(numbers))
        given += len(numbers)
        memory, real = (step(bed, what, numbers, ids, now) for bed in beds)
        assert memory == real
        looks = ((t.find(), t.totals(now), t.overdue(now), t.ready(now)) for t in beds)
        memory, real = looks
        assert memory == real


def step(bed: Bed, what: str, numbers: list[int], ids: range, now: datetime) -> object:
    standing = {seed.id: seed for seed in bed.find()}
    seeds = [standing.get(a_seed(n).id, a_seed(n)) for n in numbers]
    match what:
        case "insert":
            return bed.insert(*(a_seed(n, due_at=now) for n in numbers))
        case "dispatch":
            return bed.dispatch(*ids, now=now)
        case "extend":
            return bed.store.extend(bed.queue_key, bed.biz, seeds, now + HOUR)
        case "release":
            return bed.release(*seeds, now=now)
        case "forget":
            return bed.forget(*seeds)
    return bed.ended(*seeds, why="no" if what == "fail" else "", now=now)


def test_where_there_is_no_index_by_job_few_open_seeds_are_looked_through_and_many_are_not(
    mongo_uri, queue_key
):
    with nodes_at(mongo_uri) as nodes:
        # As where there are many already.
        crowded = MongoSeeds(nodes, most_to_index=-1, most_looked_through=3)
        bed = Bed(crowded, queue_key, generations=ONE_PLACE)
        bed.insert(a_seed(1), a_seed(2), a_seed(3))

        assert len(bed.store.open_of_job(bed.queue_key, bed.biz, "june", 10)) == 3
        bed.insert(a_seed(4))
        with pytest.raises(StoreError, match="by_job"):
            bed.store.open_of_job(bed.queue_key, bed.biz, "june", 10)

        later = Bed(MongoSeeds(nodes), queue_key, generations=ONE_PLACE)
        later.insert(a_seed(5))  # there are few: it is built
        assert len(later.store.open_of_job(bed.queue_key, bed.biz, "june", 10)) == 5


def test_open_seeds_of_other_jobs_are_not_read(mongo_uri, queue_key):
    with nodes_at(mongo_uri) as nodes:
        store = MongoSeeds(nodes)
        bed = Bed(store, queue_key, generations=ONE_PLACE)
        july = SeedSpec(url="https://site.example/july", rule="detail", job="july")
        bed.insert(*(a_seed(n, spec=july) for n in range(50)), a_seed(99))
        seeds = next(collections(nodes, queue_key, bed.biz))

        match = {"state": {"$lte": 1}, "job": "june"}
        plan = seeds.database.command(
            "explain",
            {"find": seeds.name, "filter": match, "hint": "by_job"},
            verbosity="executionStats",
        )
        assert plan["executionStats"]["totalDocsExamined"] == 1
        assert len(store.open_of_job(queue_key, bed.biz, "june", 50)) == 1
