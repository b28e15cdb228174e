"""Reading pages: in slices and parts, counted, weighed, and told what was left out."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.kernel import StoreError, StoreUnavailableError, to_ms
from tests.kit.reading import SLICE
from tests.kit.requests import (
    INTERNAL,
    UNSTORABLE,
    Done,
    Entry,
    Harvest,
    LeasedRequest,
    Link,
    Page,
    State,
)
from tests.kit.worker import LINK_BYTES, PART, Parser, Pauses, ReadingGate
from tests.kit.worlds.doubles import Lines
from tests.kit.worlds.memory import DOCS, RULE, START, World, make_biz, make_tree
from tests.kit.worlds.worker import QuietSession, tracked
from tests.unit.worker.pages_read import (
    PLAIN,
    STRICT,
    URL,
    Parts,
    leased_by,
    lines,
    read,
    records,
    submitted,
    work,
)


@pytest.fixture
def world():
    return World(tree=make_tree(make_biz(spiders={"list": PLAIN, "strict": STRICT})))


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
        def read(self, *asked):
            yield from super().read(*asked)
            raise ZeroDivisionError("nobody foresaw")

    an_id = submitted(world)

    report = work(world, lines(1_500), executors=Breaking())

    found = tracked(world, an_id)
    assert (report.dead, found.reason) == (1, INTERNAL)
    assert records(world, an_id) == {}


def test_after_a_spell_of_reading_everybody_else_gets_the_event_loop(world):
    """A hundred pages that arrive at once do not keep leases from being renewed."""

    async def go():
        session = QuietSession(world.work({}, pauses=Pauses(spell=0.25)), "w")
        gate, others = ReadingGate(session), asyncio.Event()
        asyncio.get_running_loop().call_soon(others.set)
        gate.spent(DOCS, 0.2)
        await gate.enter("default")
        assert not others.is_set(), "it goes on"
        gate.spent(DOCS, 0.1)
        await gate.enter("default")
        assert others.is_set()

    asyncio.run(go())


def test_no_page_is_read_while_outcomes_that_are_to_be_written_are_heavy(world):
    session, other = QuietSession(world.work({}), "w"), leased_by(world, PLAIN)
    in_flight = session.in_flight
    other.weight = 1_001
    in_flight.add(other)
    in_flight.end(other, Done(()))

    async def go():
        whole = Parser(session, ReadingGate(session, heavy_bytes=1_000))
        page = Page(url=URL, status=200, headers={}, body=b"one")
        reading = asyncio.create_task(whole.read(leased_by(world, PLAIN), PLAIN, page))
        await asyncio.wait([reading], timeout=0.02)
        assert not reading.done()
        in_flight.drop(other)
        assert len((await reading).records) == 1

    asyncio.run(go())


def of_another_tenant(world, number, weight):
    leased = leased_by(world, PLAIN)
    request = replace(leased.claim.request, id=number)
    queue_key = replace(leased.queue_key, tenant="greedy")
    made = LeasedRequest(queue_key, leased.biz, replace(leased.claim, request=request), PLAIN)
    made.weight = weight
    return made


def test_who_has_its_part_of_what_is_to_be_written_waits_and_others_do_not(world):
    """Giant records of one tenant take no other's room."""
    session, ours = QuietSession(world.work({}), "w"), leased_by(world, PLAIN)
    gate, in_flight = ReadingGate(session, heavy_bytes=1_000), session.in_flight
    theirs = of_another_tenant(world, 8, 900)
    for one in (theirs, ours):
        in_flight.add(one)

    async def go():
        in_flight.end(theirs, Done(()))
        await gate.enter("default")
        waiting = asyncio.create_task(gate.enter("greedy"))
        await asyncio.wait([waiting], timeout=0.02)
        assert not waiting.done()
        in_flight.drop(ours)
        await waiting, "alone it has all"

    asyncio.run(go())


def test_together_all_tenants_have_no_more_to_be_written_than_a_bound(world):
    session, ours = QuietSession(world.work({}), "w"), leased_by(world, PLAIN)
    gate, in_flight = ReadingGate(session, heavy_bytes=1_000), session.in_flight
    theirs = of_another_tenant(world, 8, 1_501)
    for one in (theirs, ours):
        in_flight.add(one)
    in_flight.end(theirs, Done(()))

    async def go():
        waiting = asyncio.create_task(gate.enter("default"))
        await asyncio.wait([waiting], timeout=0.02)
        assert not waiting.done()
        in_flight.drop(theirs)
        await waiting

    asyncio.run(go())


def test_between_slices_everybody_else_gets_a_turn(world):
    turns = 0

    class Counting(Lines):
        def read(self, *asked):
            async def tick():
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            self.ticking = asyncio.get_running_loop().create_task(tick())
            yield from super().read(*asked)
            self.ticking.cancel()

    done, *_ = read(world, PLAIN, lines(50), executors=Counting(), limits={"slice_seconds": -1.0})

    assert len(done.records) == 50, "each slice takes too long"
    assert turns >= 49


# ---- what is left out ----------------------------------------------------------------------------


def test_rejected_records_are_reported_with_their_number_on_the_page_in_whatever_slice(world):
    text = [f"{number}" for number in range(3 * SLICE)]
    text[10] = text[SLICE + 50] = text[3 * SLICE - 1] = "too long"
    text.insert(5, "https://example.org/b")  # what is no record has no number
    text.insert(9, "bad")

    done, *_ = read(world, STRICT, "\n".join(text).encode())

    assert {reported.split(",")[0] for reported in done.rejected} == {
        "line 9: is bad",
        "record 10",
        f"record {SLICE + 50}",
        f"record {3 * SLICE - 1}",
    }
    assert done.rejected_count == 4
    assert [record.index for record in done.records] == list(range(3 * SLICE - 3))


def test_what_is_reported_of_a_page_is_bounded_and_what_is_counted_is_not(world):
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

    done, leased, _ = read(world, reader, b"zip", extractor=Sitemap(), executors=Sitemap())

    assert len(done.links) == 5_000
    assert leased.weight == 5_000 * LINK_BYTES + 3


@pytest.mark.parametrize("kind", ["rule", "spider"])
def test_a_link_that_no_seed_can_be_made_of_is_reported_of_its_page(world, kind):
    links = (
        Link(url="https://example.org/1", rule="unheard of"),
        Link(url="https://example.org/2", meta={"x": "y" * 70_000}),
        Link(url="https://example.org/3", headers={"X": "a\r\nb"}),
        Link(url="https://example.org/4", rule="page", meta={"x": 1}),
        Link(url="https://example.org/5", rule="page", meta={"scrapy": '{"callback": "parse"}'}),
    )

    class Linking:
        def harvest(self, *_):
            return Harvest(links=links)

        def read(self, *_):
            yield from links

    reader = RULE if kind == "rule" else PLAIN

    done, *_ = read(world, reader, extractor=Linking(), executors=Linking())

    assert [link.url[-1] for link in done.links] == ["4"]
    assert done.rejected_count == 4
    assert [
        f"example.org/{n}: " in reported for n, reported in zip("1235", done.rejected, strict=True)
    ] == [True] * 4
    assert "'unheard of'" in done.rejected[0]
    assert "64,000" in done.rejected[1]
    assert "meta.scrapy, which the executor scrapy alone writes" in done.rejected[3]
