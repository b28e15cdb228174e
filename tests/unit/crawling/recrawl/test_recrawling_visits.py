"""A worker is told of the page that it reads again, and people of what it finds."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.config import Biz, KeyRules, SeedPolicy
from tests.kit.kernel import (
    InvalidRequestError,
    NotFoundError,
    UnknownBizError,
)
from tests.kit.recrawl import (
    Recollection,
    get_visit,
    prepare,
    seen,
    totals,
)
from tests.kit.requests import (
    Body,
    Claim,
    Entry,
    Page,
    Request,
    Validators,
    Visit,
    VisitTotals,
)
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.memory import DOCS, RULE, START, make_biz, make_tree
from tests.kit.worlds.recrawl import DAY, POLICY, Place, a_visit, url


@pytest.fixture
def place() -> Place:
    return Place()


# ---- what a worker is told, and tells ------------------------------------------------------------


def key_of(address: str) -> bytes:
    return address.rpartition("/")[2].zfill(16).encode()


def by_number(biz: Biz, rule: str):
    return lambda address, rules: key_of(address)


def claim(number: int, **changes: object) -> Claim:
    body = Body(url=url(number), rule="page", rule_version=RULE.version)
    request = Request(
        id=number, tenant="default", biz="docs", queued_at=START, body=replace(body, **changes)
    )
    return Claim(request=request, entry=Entry(number, "docs", 0), token="t", attempt=1)


def reported(place: Place, *claims: Claim, visits: object = None) -> dict:
    given = visits or place.visits
    return prepare(given, DOCS, place.world.biz, claims, by_number)


def known(number: int, **changes: object) -> Visit:
    return a_visit(number, key=key_of(url(number)).hex(), rule_version=RULE.version, **changes)


def test_a_worker_is_reported_what_is_known_of_its_pages(place):
    place.visits.saw(DOCS, place.world.biz, [known(1), known(2, validators=Validators())])

    found = reported(place, claim(1), claim(2), claim(3), claim(4, method="POST"))

    assert found == {
        1: Recollection(key=known(1).key, previous=known(1), validators=Validators(etag='"1"')),
        2: Recollection(key=known(2).key, previous=known(2, validators=Validators())),
        3: Recollection(key=key_of(url(3)).hex()),
    }
    assert reported(place) == {}
    assert reported(place, claim(4, headers={"cookie": "x"})) == {}


def test_a_biz_that_does_not_recrawl_asks_for_nothing(place):
    place.world.tree = make_tree(make_biz())

    assert reported(place, claim(1), visits=Broken()) == {}


def test_while_nothing_can_be_known_nothing_is_remembered(place):
    assert reported(place, claim(1), visits=Broken()) == {}
    assert len(place.world.warnings) == 1


def test_a_page_that_is_read_again_and_again_is_remembered(place):
    biz, now = place.world.biz, START
    page = Page(url=url(1), status=200, headers={"etag": '"2"'}, body=b"x")
    steps = [(page, "aa"), (page, "bb"), (replace(page, status=304, headers={}), "")]
    for answer, content in steps:
        recollection = reported(place, claim(1))[1]
        body = claim(1).request.body
        visit = seen(biz, recollection, body, answer, content, now)
        place.visits.saw(DOCS, biz, [visit])
        now = visit.next_at

    last = place.visits.known(DOCS, biz, [key_of(url(1)).hex()])[key_of(url(1)).hex()]
    assert (last.visits, last.changes, last.saved, last.content) == (3, 1, 1, "bb")
    assert last.validators == Validators(etag='"2"')
    assert last.next_at > last.visited_at


def test_a_page_that_ends_after_recrawling_was_switched_off_is_not_remembered(place):
    page = Page(url=url(1), status=200, headers={}, body=b"")
    recollection = Recollection(key="ab")

    assert seen(make_biz(), recollection, claim(1).request.body, page, "aa", START) is None


def test_a_page_lives_from_visit_to_visit(place):
    """Submitted, read, seen, due again: a day of a page that changes every time, then never."""
    place.visits.saw(DOCS, place.world.biz, [known(1)])
    gaps = []
    for round_number in range(30):
        visit = next(iter(place.visits.known(DOCS, place.world.biz, [known(1).key]).values()))
        place.world.now = visit.next_at
        assert place.tick() == 1
        gaps.append(visit.interval_seconds / 3_600)
        recollection = reported(place, claim(1))[1]
        page = Page(url=url(1), status=200, headers={}, body=b"")
        content = f"{min(round_number, 15):04x}"
        body = claim(1).request.body
        now = place.world.now + timedelta(seconds=30)
        place.visits.saw(
            DOCS, place.world.biz, [seen(place.world.biz, recollection, body, page, content, now)]
        )

    assert len(place.requests) == 30
    assert gaps[16] < 14 < gaps[-1]


# ---- what people ask -----------------------------------------------------------------------------


def test_a_page_is_looked_at_by_any_of_its_urls(place):
    place.visits.saw(DOCS, place.world.biz, [known(1)])

    def look(address: str, biz: str = "docs") -> Visit:
        return get_visit(place.visits, place.world.tree, "default", biz, address, by_number)

    assert look("http://another.example/1") == known(1)
    for address in (url(2), "http://a.example/22"):
        with pytest.raises(NotFoundError, match="nothing is known"):
            look(address)
    for address in ("", "javascript:x", "no url"):
        with pytest.raises(InvalidRequestError) as caught:
            look(address)
        assert caught.value.problems[0].field == "url"
    with pytest.raises(UnknownBizError):
        look(url(1), "none")
    place.world.tree = make_tree(make_biz())
    with pytest.raises(NotFoundError, match="has no recrawl"):
        look(url(2))


def test_all_pages_are_reported_together(place):
    place.know(1, 2, saved=3, visits=4)
    place.know(3, next_at=START + DAY)

    reported = totals(place.visits, place.world.tree, "default", "docs", START)

    assert reported == VisitTotals(pages=3, visits=9, changes=0, saved=6, due=2)
    other = totals(place.visits, place.world.tree, "acme", "docs", START)
    assert other == VisitTotals()


def test_a_url_that_no_key_can_be_made_of_stops_no_other(place):
    def picky(address: str, rules: KeyRules) -> bytes:
        if address.endswith("/1"):
            raise InvalidRequestError.of("url", "is none")
        return key_of(address)

    claims = [claim(1), claim(2)]
    given = place.visits, DOCS, place.world.biz, claims, lambda *_: picky
    assert list(prepare(*given)) == [2]
    assert place.world.warnings == []


def test_a_page_has_the_key_that_its_rule_gives_it(place):
    def by_rule(biz: Biz, rule: str):
        return key_if_other if rule == "other" else by_number(biz, rule)

    def key_if_other(address: str, rules: KeyRules) -> bytes:
        return b"other rule's key"

    claims = [claim(1), claim(2, rule="other"), claim(3, rule="other")]
    given = place.visits, DOCS, place.world.biz, claims, by_rule
    found = prepare(*given)

    keys = [found[number].key for number in (1, 2, 3)]
    assert keys == [known(1).key, b"other rule's key".hex(), b"other rule's key".hex()]


def test_where_a_resolver_is_not_there_its_pages_are_not_remembered_and_it_is_reported_once(place):
    def missing(biz: Biz, rule: str):
        if rule == "other":
            raise InvalidRequestError.of("seeds.resolvers.other", "no package brings one")
        return by_number(biz, rule)

    claims = [claim(1), claim(2, rule="other"), claim(3, rule="other")]
    given = place.visits, DOCS, place.world.biz, claims, missing

    assert list(prepare(*given)) == [1]
    [said] = place.world.warnings
    assert "no package" in said


def test_a_page_is_looked_at_by_the_keys_of_all_rules_and_its_last_visit_reported(place):
    policy = SeedPolicy(resolvers={"other": "whole"})
    place.world.tree = make_tree(make_biz(recrawl=POLICY, seeds=policy))

    def by_rule(biz: Biz, rule: str):
        return (lambda *_: b"other rule's key") if rule == "other" else by_number(biz, rule)

    def look(number: int) -> Visit:
        return get_visit(place.visits, place.world.tree, "default", "docs", url(number), by_rule)

    late = replace(known(1), key=b"other rule's key".hex(), visited_at=START + DAY, rule="other")
    place.visits.saw(DOCS, place.world.biz, [late])
    assert look(1) == look(2) == late

    place.visits.saw(DOCS, place.world.biz, [known(1)])
    assert look(1) == late

    later = replace(known(2), visited_at=START + 2 * DAY)
    place.visits.saw(DOCS, place.world.biz, [later])
    assert (look(1), look(2)) == (late, later)
