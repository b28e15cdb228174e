"""The data processor: items from outside become records, whatever befalls store and workers."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.ledger import MemoryJournal
from tests.fakes.records import MemoryCoverages, MemoryDataQueue
from tests.fakes.requests import MemoryRequestStore
from tests.kit.config import Biz, Field, Generation, Rule, Spider, Stage, Tree
from tests.kit.kernel import QueueKey, StoreError, StoreUnavailableError
from tests.kit.records import (
    BATCH,
    DROPPED,
    MOST_ATTEMPTS,
    MOST_REPORTED,
    DataProcessor,
    SchemaValidator,
    key_of,
    wire_of,
)
from tests.kit.requests import Coverage, Item, QueuedItem
from tests.kit.warned import Warned, named

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
UNTIL = NOW + timedelta(seconds=60)
QUEUE_KEY = QueueKey("acme", "shop", "main")
PLAIN = Rule(fields={"title": Field(css="h1")})
SCHEMA = {"required": ["sku"], "properties": {"price": {"type": ["number", "null"]}}}
STRICT = Spider(executor="detail", key=("sku",), schema=SCHEMA)


class Failing:
    """A store that fails as it is told to."""

    def __init__(self, store):
        self._store = store
        self.away = False
        self.refused = set()

    def store_keyed(self, queue_key, biz, records, *arguments):
        if self.away:
            raise StoreUnavailableError("mongodb", "no primary")
        if any(one.fields.get("sku") in self.refused for one in records):
            raise StoreError("odd")
        self._store.store_keyed(queue_key, biz, records, *arguments)


class World:
    """One queue key, its queue and its store."""

    def __init__(self):
        generation = Generation(starts_at=NOW, nodes=("main",), databases=("one",))
        self.biz = Biz(
            generations=(generation,), rules={"detail": PLAIN}, spiders={"product": STRICT}
        )
        self.tree = Tree(
            revision="1",
            stage=Stage(),
            tenants={},
            bizs={QUEUE_KEY.tenant: {QUEUE_KEY.biz: self.biz}},
        )
        self.store = MemoryRequestStore()
        self.failing = Failing(self.store)
        self.queue = MemoryDataQueue()
        self.coverages = MemoryCoverages()
        self.journal = MemoryJournal()
        self.warned = Warned()
        self.ports = DataProcessor(
            queue=self.queue,
            store=self.failing,
            validator=SchemaValidator(),
            coverages=self.coverages,
            journal=self.journal,
        )
        self._tokens = 0

    def put(self, *items):
        self.queue.put(
            QUEUE_KEY, [each if isinstance(each, bytes) else wire_of(each) for each in items]
        )

    def drain(self, now=NOW, count=BATCH):
        self._tokens += 1
        until = now + timedelta(seconds=60)
        return self.ports.drain(self.tree, QUEUE_KEY, f"w.n.{self._tokens}", now, until, count)

    def records(self):
        return self.store.records(QUEUE_KEY, self.biz, request_id=None, after=None, limit=1_000)

    def dropped(self):
        lines = self.journal.lines(QUEUE_KEY, NOW, NOW + timedelta(days=1), 100)
        assert {line.kind for line in lines} <= {DROPPED}
        return {line.why: line.count for line in lines}


@pytest.fixture
def world():
    return World()


def an_item(sku="A-1", rule="product", **facts):
    fields = {"sku": sku, "price": 9.5} if rule == "product" else {"title": sku}
    return Item(**{"rule": rule, "url": "https://shop.example/1", "fields": fields, **facts})


def test_items_are_stored_and_gone(world):
    world.put(an_item("A"), an_item("B"), an_item("C", "detail"))

    done = world.drain()

    assert (done.stored, done.dropped, done.given_back, done.away) == (3, 0, 0, False)
    assert world.queue.waiting([QUEUE_KEY]) == [0]
    records = {record.fields.get("sku", "-"): record for record in world.records()}
    assert set(records) == {"A", "B", "-"}
    assert records["A"].rule_version == STRICT.version
    assert (records["-"].rule, records["-"].rule_version) == ("detail", PLAIN.version)
    assert world.drain() == type(done)()


def test_an_item_without_a_request_has_the_beginning_of_its_key_for_one(world):
    world.put(an_item("A"))

    world.drain()

    (record,) = world.records()
    assert record.key == key_of("acme", "shop", "product", ("sku",), {"sku": "A"})
    assert record.request_id == record.key[:32]
    assert world.store.records(
        QUEUE_KEY, world.biz, request_id=record.request_id, after=None, limit=9
    ) == [record]


def test_an_item_that_kills_whoever_reads_it_takes_nobody_with_it(world):
    class Deadly(SchemaValidator):
        def problems(self, schema, record):
            if record["sku"] == "deadly":
                raise MemoryError
            return super().problems(schema, record)

    world.ports = replace(world.ports, validator=Deadly())
    names = [f"A-{number}" for number in range(2 * BATCH)]
    world.put(*map(an_item, [*names[:150], "deadly", *names[150:]]))
    now, deaths = NOW, 0
    while sum(world.queue.waiting([QUEUE_KEY])):
        now += timedelta(seconds=61)
        try:
            world.drain(now)
        except MemoryError:
            deaths += 1

    assert {record.fields["sku"] for record in world.records()} == set(names)
    assert deaths == MOST_ATTEMPTS
    [(why, count)] = world.dropped().items()
    assert (f" {MOST_ATTEMPTS} times" in why, count) == (True, 1)


@pytest.mark.parametrize("facts", [{}, {"key": "mine"}, {"request": "42"}], ids=str)
def test_a_repeat_replaces_whatever_the_item_is_reported_by(world, facts):
    for _ in range(2):
        world.put(an_item("A", "detail", **facts), an_item("A", "detail", **facts))
        world.drain()

    (record,) = world.records()
    assert (record.request_id == 42) == ("request" in facts)


def test_items_that_nothing_reports_apart_but_what_they_have_are_different_records(world):
    world.put(
        an_item("A", "detail"),
        an_item("B", "detail"),
        an_item("A", "detail", url="https://shop.example/2"),
        an_item("A", "detail", key="x"),
        an_item("A", "detail", request="42"),
        an_item("A", "other", fields={"title": "A"}),
    )

    assert world.drain().stored == 6
    assert len(world.records()) == 6


def test_a_name_that_the_biz_does_not_have_asks_for_nothing(world):
    world.put(an_item(rule="scrapy_project", fields={"price": "cheap"}))

    assert world.drain().stored == 1
    (record,) = world.records()
    assert (record.rule, record.rule_version) == ("scrapy_project", "")


def test_what_is_no_item_is_dropped_and_the_journal_says_why(world):
    world.put(
        an_item("A"),
        b"\xff nonsense",
        b"[1]",
        b'{"rule": "product"}',
        b'{"rule": "product", "url": "u", "fields": {"sku": ""}}',
        b'{"rule": "product", "url": "u", "fields": {"price": 1}}',
        b'{"rule": "product", "url": "u", "fields": {"price": 2}}',
        b'{"rule": "detail", "url": "u", "fields": {}, "request": "no id"}',
        b'{"rule": "detail", "url": "u", "fields": {"a": ' + b"[" * 5_000 + b"]" * 5_000 + b"}}",
        b'{"rule": "detail", "url": "u", "fields": {"a": ' + b"[" * 100 + b"]" * 100 + b"}}",
    )

    done = world.drain()

    assert (done.stored, done.dropped) == (1, 9)
    assert world.queue.waiting([QUEUE_KEY]) == [0]
    dropped = world.dropped()
    assert sum(dropped.values()) == 9
    assert sorted(count for why, count in dropped.items() if why.startswith("sku: ")) == [1, 2]
    assert any(why.startswith("request: ") for why in dropped)
    assert any(why.startswith("a[0]") and "64" in why for why in dropped)


def test_the_journal_gets_few_lines_of_many_reasons(world):
    world.put(*(b'{"rule": "r%d"}' % n for n in range(50)), *(b"%d" % n for n in range(9)))
    world.put(*(wire_of(an_item("A", fields={"price": n, "x": 1})) for n in range(30)))
    world.put(*(wire_of(an_item(fields={"sku": "A", f"f{n}": "x", "price": []})) for n in range(9)))

    assert world.drain().dropped == 98

    assert sum(world.dropped().values()) == 98
    assert len(world.dropped()) <= MOST_REPORTED + 1


def test_what_the_store_cannot_hold_is_dropped_alone(world):
    world.put(*(an_item(f"A{n}") for n in range(7)))
    world.failing.refused = {"A2", "A5"}

    done = world.drain()

    assert (done.stored, done.dropped) == (5, 2)
    assert [why.endswith("odd") for why in world.dropped()] == [True]
    assert sum(world.dropped().values()) == 2
    assert world.queue.waiting([QUEUE_KEY]) == [0]


def test_while_the_store_is_away_items_wait_and_are_never_dropped(world):
    world.put(an_item("A"), an_item("B"), b"nonsense")
    world.failing.away = True
    for number in range(MOST_ATTEMPTS * 2):
        done = world.drain()
        assert (done.stored, done.given_back, done.away) == (0, 2, True)
        assert done.dropped == (number == 0)
    assert world.queue.waiting([QUEUE_KEY]) == [2]
    assert [error for error, _ in world.warned.errors] == [
        "StoreUnavailableError"
    ] * MOST_ATTEMPTS * 2

    world.failing.away = False
    assert world.drain().stored == 2
    assert len(world.records()) == 2


def test_an_item_that_kills_its_workers_is_dropped_in_the_end(world):
    world.put(an_item("A"))
    now = NOW
    for number in range(MOST_ATTEMPTS):
        now = NOW + number * timedelta(seconds=60)
        assert world.queue.lease(QUEUE_KEY, f"dead{number}", 9, now, now + timedelta(seconds=60))

    done = world.drain(now + timedelta(seconds=60))

    assert (done.stored, done.dropped) == (0, 1)
    [why] = world.dropped()
    assert f" {MOST_ATTEMPTS} times" in why
    assert world.queue.waiting([QUEUE_KEY]) == [0]


def test_a_worker_that_dies_after_storing_leaves_one_record(world):
    world.put(an_item("A"), an_item("B"))

    class DiedError(Exception):
        pass

    def dies(*_):
        raise DiedError

    world.queue.finish, finish = dies, world.queue.finish
    with pytest.raises(DiedError):
        world.drain()
    world.queue.finish = finish

    assert len(world.records()) == 2
    assert world.drain().stored == 0
    assert world.drain(UNTIL).stored == 2
    assert len(world.records()) == 2


def test_an_older_item_that_comes_late_does_not_replace_a_newer_one(world):
    world.put(an_item("A", fields={"sku": "A", "price": 1}))
    world.queue.lease(QUEUE_KEY, "dead.n.1", BATCH, NOW, UNTIL)  # and its worker dies
    world.put(an_item("A", fields={"sku": "A", "price": 2}))

    world.drain()
    world.drain(NOW + timedelta(seconds=61))

    assert [record.fields["price"] for record in world.records()] == [2]


def test_of_one_batch_the_last_item_is_the_newest_whatever_order_they_come_in(world):
    world.put(*(an_item("A", fields={"sku": "A", "price": price}) for price in (1, 2, 3)))
    leased = world.queue.lease(QUEUE_KEY, "dead.n.1", 1, NOW, UNTIL)
    world.queue.lease(QUEUE_KEY, "dead.n.2", 1, NOW, UNTIL + timedelta(seconds=60))
    assert len(leased) == 1

    prices = []
    for wait in (0, 61, 121):
        world.drain(NOW + timedelta(seconds=wait))
        prices += [record.fields["price"] for record in world.records()]

    assert prices == [3, 3, 3]


def test_a_worker_with_a_slow_clock_stores_the_newer_item_and_no_time_goes_back(world):
    world.put(an_item("A", fields={"sku": "A", "price": 1}))
    world.drain(NOW + timedelta(seconds=5))
    world.put(an_item("A", fields={"sku": "A", "price": 2}))

    world.drain(NOW)

    (record,) = world.records()
    assert record.fields["price"] == 2
    assert record.stored_at == NOW + timedelta(seconds=5)


def test_an_item_from_before_items_had_a_time_is_as_old_as_its_storing(world):
    world.put(an_item("A"))
    lease = world.queue.lease

    def timeless(*args):
        return [
            QueuedItem("6f0c2d3e4a5b46c78d9e0f1a2b3c4d5e", one.data, one.attempt)
            for one in lease(*args)
        ]

    world.queue.lease = timeless

    assert world.drain().stored == 1

    (record,) = world.records()
    assert (record.put, record.stored_at) == (None, NOW)


def test_a_batch_has_so_many_items(world):
    world.put(*(an_item(f"A{n}") for n in range(5)))

    assert [world.drain(count=2).stored for _ in range(4)] == [2, 2, 1, 0]


def test_the_coverage_of_what_was_stored_is_counted(world):
    world.put(an_item("A"), an_item("B", fields={"sku": "B", "price": None}), b"nonsense")

    world.drain()

    assert world.coverages.of(QUEUE_KEY) == {
        ("product", STRICT.version): Coverage(records=2, fields={"sku": 2, "price": 1})
    }


def test_items_that_their_schema_does_not_take_are_counted_as_rejected(world):
    world.put(an_item("A"), an_item("B", fields={"sku": "B", "price": "cheap"}), b"nonsense")

    done = world.drain()

    assert (done.stored, done.dropped) == (1, 2)
    (found,) = world.coverages.of(QUEUE_KEY).values()
    assert (found.records, found.rejected) == (2, 1)


@pytest.mark.parametrize("part", ["journal", "coverages"])
def test_a_journal_or_a_count_that_is_away_keeps_nothing_from_being_stored(world, part):
    error = StoreUnavailableError("redis", "away")

    def away(*_):
        raise error

    setattr(getattr(world, part), {"journal": "note", "coverages": "add"}[part], away)
    world.put(an_item("A"), b"nonsense")

    done = world.drain()

    assert (done.stored, done.dropped) == (1, 1)
    assert world.warned.errors == [named(error)]
    assert world.queue.waiting([QUEUE_KEY]) == [0]
