"""Pages that are read are counted and remembered."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.config import RecrawlPolicy
from tests.kit.kernel import ExtractError
from tests.kit.reading import SLICE
from tests.kit.requests import (
    Coverage,
    Harvest,
    Page,
    State,
)
from tests.kit.worker import Parser
from tests.kit.worlds.doubles import Titles
from tests.kit.worlds.memory import DOCS, RULE, World, make_biz, make_tree
from tests.kit.worlds.worker import Spy, tracked
from tests.unit.worker.pages_read import (
    PLAIN,
    STRICT,
    URL,
    lines,
    read,
    submitted,
    work,
)


@pytest.fixture
def world():
    return World(tree=make_tree(make_biz(spiders={"list": PLAIN, "strict": STRICT})))


# ---- coverage ------------------------------------------------------------------------------------


def test_coverage_adds_up_until_it_is_taken(world):
    class Some(Titles):
        def harvest(self, rule, page, depth=0, meta=None):
            found = Coverage(pages=1, records=2, fields={"title": 1})
            return Harvest(records=({"title": "x"}, {"title": None}), coverage=found)

    _, leased, session = read(world, RULE, b"x", reader_name="page", extractor=Some())

    async def again():
        page = Page(url=URL, status=200, headers={}, body=b"x")
        await Parser(session).read(leased, RULE, page)

    asyncio.run(again())

    expected = Coverage(pages=2, records=4, fields={"title": 2})
    assert session.account.take_coverage() == {(DOCS, "page", RULE.version): expected}
    assert session.account.take_coverage() == {}


def test_the_coverage_of_a_spider_counts_its_page_once_and_what_was_stored(world):
    body = lines(2 * SLICE + 7) + b"\nbad"

    _, _, session = read(world, PLAIN, body)

    records = 2 * SLICE + 7
    assert session.account.take_coverage() == {
        (DOCS, "list", PLAIN.version): Coverage(pages=1, records=records, fields={"line": records})
    }


@pytest.mark.parametrize("reader_name", ["page", "list"])
def test_records_that_are_not_stored_are_counted_as_rejected(world, reader_name):
    schema = {"properties": {"line": {"pattern": "^a"}, "title": {"pattern": "^a"}}}
    source = replace(RULE if reader_name == "page" else PLAIN, schema=schema)

    done, _, session = read(world, source, b"one\ntwo", reader_name=reader_name)

    (counted,) = session.account.take_coverage().values()
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
