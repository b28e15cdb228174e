"""Reading pages: in slices and parts, counted, weighed, and told what was left out."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.config import RecrawlPolicy, Spider
from tests.kit.kernel import ExtractError, StoreError, StoreUnavailableError, to_ms
from tests.kit.requests import (
    INTERNAL,
    UNSTORABLE,
    Body,
    Claim,
    Coverage,
    Done,
    Entry,
    Harvest,
    Held,
    Holding,
    Link,
    Page,
    Request,
    State,
)
from tests.kit.worker import LINK_BYTES, PART, SLICE, Pace, Phases, Reading
from tests.kit.worlds import worker as worlds
from tests.kit.worlds.memory import DOCS, RULE, START, Lines, Titles, World, make_biz, make_tree
from tests.kit.worlds.worker import Spy, at_once, tracked

URL = "https://example.org/a"
PLAIN = Spider(executor="lines")
#: Of each line no more than five letters.
STRICT = Spider(executor="lines", schema={"properties": {"line": {"maxLength": 5}}})


@pytest.fixture
def world():
    return World(tree=make_tree(make_biz(spiders={"list": PLAIN, "strict": STRICT})))


class Parts:
    """The world's store; ``before`` is called with the number of each part, from 1."""

    def __init__(self, world, before=lambda number: None):
        self._store, self._before = world.store, before
        self.parts = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    def store_part(self, lane, biz, claim, records, now):
        self._before(len(self.parts) + 1)
        self.parts.append(len(records))
        return self._store.store_part(lane, biz, claim, records, now)


def submitted(world, rule="list", url=URL):
    [an_id] = worlds.submitted(world, url, rule=rule)
    return an_id


def work(world, answer, worker="w", **changes):
    return worlds.work(world, {URL: answer}, worker, **changes)


def lines(count):
    return "\n".join(f"line {number}" for number in range(count)).encode()


def records(world, request_id):
    found = world.store.records(DOCS, world.biz, request_id=request_id, after=None, limit=9_999)
    return {record.index: record.fields["line"] for record in found}


def held_by(world, reader, reader_name="list"):
    asked = Body(url=URL, rule=reader_name, rule_version=reader.version, depth=3)
    request = Request(id=7, tenant="default", biz="docs", queued_at=START, body=asked)
    claim = Claim(request=request, entry=Entry(7, "docs", 1), token="t", attempt=1)
    return Held(DOCS, world.biz, claim, reader)


def read(
    world,
    reader,
    body=b"",
    *,
    status=200,
    reader_name="list",
    pace=None,
    limits=None,
    **changes,
):
    """Read one page, alone; the outcome, what was held, and who read it."""
    held = held_by(world, reader, reader_name)
    pace = pace or Pace(Holding(), Phases())
    whole = Reading(world.work({}, **changes), pace, at_once, **(limits or {}))
    page = Page(url=URL, status=status, headers={}, body=body)
    return asyncio.run(whole.read(held, reader, page)), held, whole


# ---- slices and parts ----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, SLICE, SLICE + 1, PART - 1, PART, PART + 1, 2_345])
def test_however_many_records_a_page_has_each_is_stored_once_in_its_place(world, count):
    an_id = submitted(world)
    store = Parts(world)

    report = work(world, lines(count), store=store)

    assert (report.done, report.records) == (1, count)
    assert records(world, an_id) == {number: f"line {number}" for number in range(count)}
    assert tracked(world, an_id).records == count
    # While it was being read, all that had come together; no more than a slice above the measure.
    assert sum(store.parts) >= count - PART - SLICE
    assert all(PART <= size < PART + SLICE for size in store.parts)


def test_of_few_records_no_part_is_stored(world):
    submitted(world)
    store = Parts(world)

    report = work(world, lines(PART - 1), store=store)

    assert (report.records, store.parts) == (PART - 1, [])


def test_a_lease_that_is_lost_half_way_writes_nothing_more(world):
    an_id = submitted(world)

    def taken_over(number):
        if number == 2:
            world.now += timedelta(minutes=10)
            entry = Entry(an_id, "docs", to_ms(START))
            until = world.now + timedelta(minutes=1)
            assert world.store.claim(DOCS, world.biz, [entry], "new", world.now, until, "new")

    store = Parts(world, taken_over)

    report = work(world, lines(5_000), store=store)

    assert (report.lost, report.done, report.records) == (1, 0, 0)
    # How long a part gets depends on how long its records take to read.
    [stored, _] = store.parts
    assert len(records(world, an_id)) == stored
    found = tracked(world, an_id)
    assert (found.state, found.worker) == (State.LEASED, "new")


def test_whoever_reads_the_page_anew_leaves_nothing_of_a_longer_one_before(world):
    an_id = submitted(world)

    def die(number):
        if number == 2:
            raise StoreUnavailableError("mongodb", "away")

    store = Parts(world, die)
    first = work(world, lines(5_000), store=store)
    [stored] = store.parts
    assert (first.retried, len(records(world, an_id))) == (1, stored)

    world.now += timedelta(minutes=2)
    second = work(world, lines(3), "second")

    assert (second.done, second.records) == (1, 3)
    assert list(records(world, an_id)) == [0, 1, 2]


def test_a_part_that_the_store_cannot_hold_makes_a_dead_letter_with_the_answer(world):
    an_id = submitted(world)

    def refuse(number):
        raise StoreError("mongodb cannot hold it: too deep")

    report = work(world, lines(5_000), store=Parts(world, refuse))

    found = tracked(world, an_id)
    assert (report.dead, found.state, found.reason) == (1, State.DEAD, UNSTORABLE)
    assert "too deep" in found.error
    assert found.answer.status == 200
    assert records(world, an_id) == {}


def test_what_cannot_be_asked_for_as_a_store_refuses_is_a_dead_letter_without_an_answer(world):
    an_id = submitted(world)

    class Refusing:
        async def fetch(self, *_):
            raise StoreError("the session cannot be kept")

    report = work(world, b"", fetcher=Refusing())

    found = tracked(world, an_id)
    assert (report.dead, found.reason, found.answer) == (1, UNSTORABLE, None)


def test_a_spider_that_breaks_half_way_is_a_dead_letter_and_leaves_no_records(world):
    class Breaking(Lines):
        def read(self, spider, page, body):
            yield from super().read(spider, page, body)
            raise ZeroDivisionError("nobody foresaw")

    an_id = submitted(world)

    report = work(world, lines(1_500), executors=Breaking())

    found = tracked(world, an_id)
    assert (report.dead, found.reason) == (1, INTERNAL)
    assert records(world, an_id) == {}


def test_after_a_spell_of_reading_everybody_else_gets_the_event_loop():
    """A hundred pages that arrive at once do not keep leases from being renewed."""

    async def go():
        pace, others = Pace(Holding(), Phases(), spell_seconds=0.25), asyncio.Event()
        asyncio.get_running_loop().call_soon(others.set)
        pace.spent(DOCS, 0.2)
        await pace.turn()
        assert not others.is_set(), "it goes on"
        pace.spent(DOCS, 0.1)
        await pace.turn()
        assert others.is_set()

    asyncio.run(go())


def test_no_page_is_read_while_outcomes_that_are_to_be_written_are_heavy(world):
    holding, other = Holding(), held_by(world, PLAIN)
    other.weight = 1_001
    holding.add(other)
    holding.end(other, Done(()))

    async def go():
        pace = Pace(holding, Phases(), heavy_bytes=1_000)
        whole = Reading(world.work({}), pace, at_once)
        page = Page(url=URL, status=200, headers={}, body=b"one")
        reading = asyncio.create_task(whole.read(held_by(world, PLAIN), PLAIN, page))
        await asyncio.wait([reading], timeout=0.02)
        assert not reading.done()
        holding.drop(other)
        assert len((await reading).records) == 1

    asyncio.run(go())


def test_between_slices_everybody_else_gets_a_turn(world):
    turns = 0

    class Counting(Lines):
        def read(self, spider, page, body):
            async def tick():
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            self.ticking = asyncio.get_running_loop().create_task(tick())
            yield from super().read(spider, page, body)
            self.ticking.cancel()

    done, *_ = read(world, PLAIN, lines(50), executors=Counting(), limits={"slice_seconds": -1.0})

    assert len(done.records) == 50, "each slice takes too long"
    assert turns >= 49


# ---- what is left out ----------------------------------------------------------------------------


def test_rejected_records_are_told_with_their_number_on_the_page_in_whatever_slice(world):
    text = [f"{number}" for number in range(3 * SLICE)]
    text[10] = text[SLICE + 50] = text[3 * SLICE - 1] = "too long"
    text.insert(5, "https://example.org/b")  # what is no record has no number
    text.insert(9, "bad")

    done, *_ = read(world, STRICT, "\n".join(text).encode())

    assert {told.split(",")[0] for told in done.rejected} == {
        "line 9: is bad",
        "record 10",
        f"record {SLICE + 50}",
        f"record {3 * SLICE - 1}",
    }
    assert done.rejected_count == 4
    assert [record.index for record in done.records] == list(range(3 * SLICE - 3))


def test_what_is_told_of_a_page_is_bounded_and_what_is_counted_is_not(world):
    an_id = submitted(world, "strict")

    report = work(world, b"bad\n" * 500 + b"too long\n" * 500 + b"good")

    assert (report.done, report.records) == (1, 1)
    [line] = [event.why for event in tracked(world, an_id).timeline if event.state == State.DONE]
    assert "rejected: 1000" in line
    done, *_ = read(world, STRICT, b"bad\n" * 500 + b"too long\n" * 500)
    assert len(done.rejected) == 10


def test_links_of_a_page_come_once_each_and_are_bounded(world):
    urls = [f"https://example.org/{number}" for number in (1, 2, 1, 3, 4, 5)]

    done, *_ = read(world, PLAIN, "\n".join(urls).encode(), limits={"most_links": 3})

    assert [link.url[-1] for link in done.links] == ["1", "2", "3"]
    assert {link.depth for link in done.links} == {4}


@pytest.mark.parametrize("kind", ["rule", "spider"])
def test_many_links_of_a_small_page_weigh(world, kind):
    links = tuple(Link(url=f"https://example.org/{number}") for number in range(5_000))

    class Sitemap:
        def harvest(self, *_):
            return Harvest(links=links)

        def read(self, *_):
            yield from links

    reader = RULE if kind == "rule" else PLAIN

    done, held, _ = read(world, reader, b"zip", extractor=Sitemap(), executors=Sitemap())

    assert len(done.links) == 5_000
    assert held.weight == 5_000 * LINK_BYTES + 3


@pytest.mark.parametrize("kind", ["rule", "spider"])
def test_a_link_that_no_seed_can_be_made_of_is_told_of_its_page(world, kind):
    links = (
        Link(url="https://example.org/1", rule="unheard of"),
        Link(url="https://example.org/2", meta={"x": "y" * 70_000}),
        Link(url="https://example.org/3", headers={"X": "a\r\nb"}),
        Link(url="https://example.org/4", rule="page", meta={"x": 1}),
    )

    class Linking:
        def harvest(self, *_):
            return Harvest(links=links)

        def read(self, *_):
            yield from links

    reader = RULE if kind == "rule" else PLAIN

    done, *_ = read(world, reader, extractor=Linking(), executors=Linking())

    assert [link.url[-1] for link in done.links] == ["4"]
    assert done.rejected_count == 3
    assert [f"example.org/{n}: " in told for n, told in zip("123", done.rejected, strict=True)] == [
        True
    ] * 3
    assert "'unheard of'" in done.rejected[0]
    assert "64,000" in done.rejected[1]


# ---- coverage ------------------------------------------------------------------------------------


def test_coverage_adds_up_until_it_is_taken(world):
    class Some(Titles):
        def harvest(self, rule, page, depth=0, meta=None):
            found = Coverage(pages=1, records=2, fields={"title": 1})
            return Harvest(records=({"title": "x"}, {"title": None}), coverage=found)

    _, held, whole = read(world, RULE, b"x", reader_name="page", extractor=Some())

    async def again():
        page = Page(url=URL, status=200, headers={}, body=b"x")
        await whole.read(held, RULE, page)

    asyncio.run(again())

    expected = Coverage(pages=2, records=4, fields={"title": 2})
    assert whole.take_coverage() == {(DOCS, "page", RULE.version): expected}
    assert whole.take_coverage() == {}


def test_the_coverage_of_a_spider_counts_its_page_once_and_what_was_stored(world):
    body = lines(2 * SLICE + 7) + b"\nbad"

    _, _, whole = read(world, PLAIN, body)

    records = 2 * SLICE + 7
    assert whole.take_coverage() == {
        (DOCS, "list", PLAIN.version): Coverage(pages=1, records=records, fields={"line": records})
    }


@pytest.mark.parametrize("reader_name", ["page", "list"])
def test_records_that_are_not_stored_are_counted_as_rejected(world, reader_name):
    schema = {"properties": {"line": {"pattern": "^a"}, "title": {"pattern": "^a"}}}
    source = replace(RULE if reader_name == "page" else PLAIN, schema=schema)

    done, _, whole = read(world, source, b"one\ntwo", reader_name=reader_name)

    (counted,) = whole.take_coverage().values()
    assert counted.pages == 1
    assert counted.records == counted.rejected == done.rejected_count > 0
    assert sum(counted.fields.values()) == counted.records


def test_a_worker_writes_the_coverage_with_its_account(world):
    submitted(world)
    submitted(world, "page")

    work(world, b"one\ntwo")

    found = world.coverages.of(DOCS)
    assert found["list", PLAIN.version] == Coverage(pages=1, records=2, fields={"line": 2})
    assert found["page", RULE.version] == Coverage(pages=1, records=1, fields={"title": 1})


# ---- visits --------------------------------------------------------------------------------------


@pytest.fixture
def recrawled(world):
    world.tree = make_tree(replace(world.biz, recrawl=RecrawlPolicy()))
    world.visits = Spy(world.visits)
    return world


def a_page(body, etag='"1"'):
    return Page(url=URL, status=200, headers={"etag": etag}, body=body)


def the_visit(world):
    [visit] = world.visits.of("saw")[-1][-1]
    return visit


@pytest.mark.parametrize("rule", ["list", "page"])
def test_a_304_is_saved_its_visit_kept_and_earlier_records_stay(recrawled, rule):
    world = recrawled
    first = submitted(world, rule)
    assert work(world, a_page(b"one")).saved == 0
    kept = world.store.records(DOCS, world.biz, request_id=first, after=None, limit=9)

    world.now += timedelta(days=1)
    second = submitted(world, rule)
    report = work(world, a_page(b"one"))

    assert (report.done, report.saved, report.records) == (1, 1, 0)
    assert tracked(world, second).state == State.DONE
    assert world.store.records(DOCS, world.biz, request_id=first, after=None, limit=9) == kept != []
    visit = the_visit(world)
    assert (visit.visits, visit.saved, visit.changes) == (2, 1, 0)
    assert visit.visited_at == world.now


@pytest.mark.parametrize("rule", ["list", "page"])
def test_a_page_has_changed_where_its_records_have(recrawled, rule):
    world = recrawled
    for body, etag, changes in ((b"one", '"1"', 0), (b"one", '"2"', 0), (b"two", '"3"', 1)):
        submitted(world, rule)
        work(world, a_page(body, etag))
        world.now += timedelta(days=1)
        assert the_visit(world).changes == changes


def test_a_304_of_a_page_of_which_nothing_is_remembered_is_just_done(world):
    done, *_ = read(world, PLAIN, status=304)

    assert (done.records, done.status, done.visit) == ((), 304, None)


def test_a_page_that_cannot_be_read_is_no_visit(recrawled):
    world = recrawled
    an_id = submitted(world, "page")

    report = work(world, a_page(b"bad"))

    assert (report.dead, tracked(world, an_id).reason) == (1, ExtractError.__name__[:-5])
    assert world.visits.of("saw") == []
