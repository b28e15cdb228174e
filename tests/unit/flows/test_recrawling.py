from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.config import Biz, IntakeLimits, KeyRules, RecrawlPolicy, SeedPolicy
from tests.kit.fakes import MemoryQueue, MemoryVisits
from tests.kit.kernel import (
    BacklogFullError,
    InvalidRequestError,
    NotFoundError,
    StoreUnavailableError,
    UnknownBizError,
)
from tests.kit.recrawl import (
    GRACE,
    Recollection,
    RecrawlPorts,
    look_at,
    prepare,
    resubmit,
    resubmit_due,
    seen,
    totals,
)
from tests.kit.requests import (
    Body,
    Claim,
    Entry,
    Inserted,
    Page,
    Request,
    Validators,
    Visit,
    VisitTotals,
)
from tests.kit.worlds.memory import DOCS, RULE, START, Broken, Failing, World, make_biz, make_tree

POLICY = RecrawlPolicy(schedule=True)
DAY = timedelta(days=1)


class KilledError(BaseException):
    """The process is gone: nothing may catch this."""


@dataclass
class Place:
    """A world whose pages are known."""

    world: World = field(default_factory=lambda: World(tree=make_tree(make_biz(recrawl=POLICY))))
    visits: MemoryVisits = field(default_factory=MemoryVisits)
    bounds: dict[str, int] = field(default_factory=dict)

    def know(self, *numbers: int, **changes: object) -> list[Visit]:
        visits = [a_visit(number, **changes) for number in numbers]
        self.visits.saw(DOCS, self.world.biz, visits)
        return visits

    def ports(self, visits: object = None, **changes: object) -> RecrawlPorts:
        return RecrawlPorts(
            submission=self.world.submission(**changes),
            visits=visits or self.visits,  # type: ignore[arg-type]
            **self.bounds,
        )

    def resubmit(self, visits: object = None, **changes: object) -> int:
        world = self.world
        return resubmit(self.ports(visits, **changes), world.tree, DOCS, world.biz, world.now)

    def tick(self, time_left: float = 600.0, **changes: object) -> int:
        world = self.world
        return resubmit_due(self.ports(**changes), world.tree, world.now, lambda: time_left)

    @property
    def requests(self) -> list[Request]:
        return [kept.request for kept in self.world.store.state.of(DOCS).requests.values()]

    @property
    def urls(self) -> list[str]:
        return sorted(request.body.url for request in self.requests)


def url(number: int) -> str:
    return f"https://example.org/{number}"


def a_visit(number: int, **changes: object) -> Visit:
    facts: dict = {
        "key": f"{number:032x}",
        "url": url(number),
        "rule": "page",
        "rule_version": "an old one",
        "depth": 2,
        "visited_at": START - DAY,
        "changed_at": START - DAY,
        "next_at": START,
        "interval_seconds": DAY.total_seconds(),
        "validators": Validators(etag='"1"'),
        "content": "aa",
    }
    return Visit(**(facts | changes))


@pytest.fixture
def place() -> Place:
    return Place()


# ---- what is due becomes requests ----------------------------------------------------------------


def test_a_page_that_is_due_becomes_a_request_by_its_rule_as_it_is_now(place):
    place.know(1)
    place.know(2, next_at=START + DAY)

    assert place.resubmit() == 1

    (request,) = place.requests
    assert request.body == Body(url=url(1), rule="page", rule_version=RULE.version, depth=2)
    assert (request.queued_at, request.job) == (START, "recrawl.20260301")
    assert place.world.rules.frozen(DOCS, "page", RULE.version) == RULE
    assert place.world.queue.depth(DOCS).queued == 1
    assert place.world.woken == [1]
    assert place.world.ledger().pending == 1


def test_a_page_is_read_again_with_what_its_request_carried(place):
    place.know(1, meta={"list_page": 3, "scrapy": '{"callback": "item"}'})

    place.resubmit()

    (request,) = place.requests
    assert request.body.meta == {"list_page": 3, "scrapy": '{"callback": "item"}'}


def test_a_page_is_submitted_once_until_it_is_due_again(place):
    place.know(1)
    place.resubmit()

    assert place.resubmit() == 0
    place.world.now += DAY - timedelta(seconds=1)
    assert place.resubmit() == 0
    place.world.now += timedelta(seconds=1)
    assert place.resubmit() == 1


def test_two_schedulers_submit_each_page_once(place):
    place.know(*range(20))
    stale = place.visits.due(DOCS, place.world.biz, START, 100)
    place.resubmit()

    class Late:
        def due(self, *_: object) -> list[Visit]:
            return stale

        def __getattr__(self, name: str) -> object:
            return getattr(place.visits, name)

    assert place.resubmit(Late()) == 0
    assert place.urls == sorted(url(number) for number in range(20))


def test_a_page_of_which_nothing_is_heard_is_submitted_ever_more_rarely(place):
    place.know(1)
    submitted = []
    for _ in range(60):
        submitted.append(place.resubmit())
        place.world.now += DAY

    assert [day for day, count in enumerate(submitted) if count] == [0, 1, 3, 7, 15, 31]


@pytest.mark.parametrize("policy", [None, RecrawlPolicy()])
def test_a_biz_without_a_schedule_of_pages_submits_none(place, policy):
    place.know(1)
    place.world.tree = make_tree(make_biz(recrawl=policy))

    assert (place.resubmit(), place.tick()) == (0, 0)
    assert place.requests == []


def test_pages_whose_rule_is_gone_are_reported_and_stop_no_other(place):
    place.know(1, 2, rule="gone")
    place.know(3)

    assert place.resubmit() == 1

    assert place.urls == [url(3)]
    assert "2 known pages" in place.world.warnings[0]
    assert place.resubmit() == 0


def test_many_are_submitted_in_steps_and_many_steps_a_tick():
    place = Place(bounds={"batch": 10, "steps_a_tick": 3})
    place.know(*range(45))

    assert place.resubmit() == 10
    assert place.tick() == 30
    assert place.tick() == 5
    assert len(set(place.urls)) == 45


# ---- no room, no time ----------------------------------------------------------------------------


def test_due_pages_wait_while_much_is_queued():
    place = Place(bounds={"ahead": 3})
    place.know(*range(5))
    place.resubmit()
    place.know(*range(5, 10))

    assert place.resubmit() == 0
    place.world.queue = MemoryQueue()
    assert place.resubmit() == 5


def test_due_pages_stay_due_until_there_is_room(place):
    full = make_biz(recrawl=POLICY, intake=IntakeLimits(max_backlog=3))
    place.world.tree = make_tree(full)
    place.know(*range(3))
    place.resubmit()
    place.know(3)

    with pytest.raises(BacklogFullError):
        place.resubmit()
    assert place.tick() == 0
    assert "stay due" in place.world.warnings[-1]
    place.world.tree = make_tree(make_biz(recrawl=POLICY))
    assert place.tick() == 1


def test_the_rate_of_the_clients_does_not_hold_due_pages(place):
    slow = make_biz(recrawl=POLICY, intake=IntakeLimits(per_second=0.001, burst=1))
    place.world.tree = make_tree(slow)
    place.know(*range(5))

    assert place.tick() == 5


def test_a_tick_that_is_nearly_over_begins_nothing(place):
    place.know(1)

    assert place.tick(time_left=59) == 0
    assert place.tick(time_left=61) == 1


def test_ticks_that_are_over_after_one_lane_come_to_all_of_them(place):
    asked = set()

    class Noting:
        def due(self, lane, biz, now, limit):
            asked.add(lane.tenant)
            return []

    for _ in range(4):
        left = iter([600.0, 0.0])
        resubmit_due(
            place.ports(Noting()), place.world.tree, place.world.now, lambda left=left: next(left)
        )
        place.world.now += timedelta(minutes=1)

    assert asked == {"default", "acme"}


def test_a_lane_that_cannot_be_served_stops_no_other(place):
    class Half:
        def due(self, lane, biz, now, limit):
            if lane.tenant == "acme":
                raise OverflowError("odd")
            return place.visits.due(lane, biz, now, limit)

        def __getattr__(self, name):
            return getattr(place.visits, name)

    place.know(1)

    assert place.tick(visits=Half()) == 1
    assert place.world.warnings[0].endswith(": odd")


# ---- deaths and faults ---------------------------------------------------------------------------


@pytest.mark.parametrize("port", ["put_off", "freeze", "take", "insert", "enqueue", "confirm"])
def test_who_is_killed_on_the_way_loses_no_page(place, port):
    """Killed before or after each step, the page is submitted by then or comes again soon."""
    place.know(*range(4))

    class Killing:
        def __init__(self, inner: object, at: str, *, after: bool, calls: int = 1) -> None:
            self._inner, self._at, self._after, self._calls = inner, at, after, calls

        def __getattr__(self, name: str):
            real = getattr(self._inner, name)
            if name != self._at:
                return real

            def call(*given: object, **named: object) -> object:
                self._calls -= 1
                if self._calls:
                    return real(*given, **named)
                if self._after:
                    real(*given, **named)
                raise KilledError

            return call

    owner, name, calls = {
        "put_off": ("visits", "put_off", 1),
        "freeze": ("rules", "freeze", 1),
        "take": ("ids", "take", 1),
        "insert": ("store", "insert", 1),
        "enqueue": ("queue", "enqueue", 1),
        "confirm": ("visits", "put_off", 2),
    }[port]
    for after in (False, True):
        here = Place()
        here.know(*range(4))
        inner = here.visits if owner == "visits" else getattr(here.world, owner)
        with pytest.raises(KilledError):
            here.resubmit(**{owner: Killing(inner, name, after=after, calls=calls)})
        stored = len(here.requests)
        here.world.now += GRACE
        again = here.resubmit()

        assert set(here.urls) == {url(number) for number in range(4)}
        # What was stored already comes twice, but for whoever had nothing left to do.
        done = port == "confirm" and after
        assert (stored, again) == (
            (4 if port in ("enqueue", "confirm") or stored else 0),
            4 - 4 * done,
        )
        here.world.now += timedelta(hours=23)
        assert here.resubmit() == 0


@pytest.mark.parametrize("port", ["insert", "freeze", "take"])
def test_what_could_not_be_stored_comes_again_soon(place, port):
    place.know(1, 2)
    owner = {"insert": "store", "freeze": "rules", "take": "ids"}[port]
    broken = Failing(getattr(place.world, owner), **{port: 1})

    assert place.tick(**{owner: broken}) == 0
    assert place.requests == []
    assert "due pages" in place.world.warnings[0]
    assert place.tick() == 0
    place.world.now += GRACE
    assert place.tick() == 2


def test_what_a_node_refuses_comes_again_soon_and_the_others_stand(place):
    place.know(1, 2)

    class HalfDown:
        def insert(self, lane, biz, requests, kept):
            place.world.store.insert(lane, biz, requests[1:])
            return Inserted(refused={requests[0].id: StoreUnavailableError("mongodb", "down")})

    assert place.resubmit(store=HalfDown()) == 1
    assert place.urls == [url(2)]
    place.world.now += GRACE
    assert place.resubmit() == 1
    assert place.urls == [url(1), url(2)]


def test_while_redis_is_away_nothing_is_put_off(place):
    place.know(1)

    assert place.tick(queue=Broken()) == 0
    assert place.tick() == 1


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


def told(place: Place, *claims: Claim, visits: object = None) -> dict:
    given = visits or place.visits
    return prepare(given, DOCS, place.world.biz, claims, by_number, place.world.warn)


def known(number: int, **changes: object) -> Visit:
    return a_visit(number, key=key_of(url(number)).hex(), rule_version=RULE.version, **changes)


def test_a_worker_is_told_what_is_known_of_its_pages(place):
    place.visits.saw(DOCS, place.world.biz, [known(1), known(2, validators=Validators())])

    found = told(place, claim(1), claim(2), claim(3), claim(4, method="POST"))

    assert found == {
        1: Recollection(key=known(1).key, previous=known(1), validators=Validators(etag='"1"')),
        2: Recollection(key=known(2).key, previous=known(2, validators=Validators())),
        3: Recollection(key=key_of(url(3)).hex()),
    }
    assert told(place) == {}
    assert told(place, claim(4, headers={"cookie": "x"})) == {}


def test_a_biz_that_does_not_recrawl_asks_for_nothing(place):
    place.world.tree = make_tree(make_biz())

    assert told(place, claim(1), visits=Broken()) == {}


def test_while_nothing_can_be_known_nothing_is_remembered(place):
    assert told(place, claim(1), visits=Broken()) == {}
    assert len(place.world.warnings) == 1


def test_a_page_that_is_read_again_and_again_is_remembered(place):
    biz, now = place.world.biz, START
    page = Page(url=url(1), status=200, headers={"etag": '"2"'}, body=b"x")
    steps = [(page, "aa"), (page, "bb"), (replace(page, status=304, headers={}), "")]
    for answer, content in steps:
        recollection = told(place, claim(1))[1]
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
        recollection = told(place, claim(1))[1]
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
        return look_at(place.visits, place.world.tree, "default", biz, address, by_number)

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


def test_all_pages_are_told_together(place):
    place.know(1, 2, saved=3, visits=4)
    place.know(3, next_at=START + DAY)

    told = totals(place.visits, place.world.tree, "default", "docs", START)

    assert told == VisitTotals(pages=3, visits=9, changes=0, saved=6, due=2)
    other = totals(place.visits, place.world.tree, "acme", "docs", START)
    assert other == VisitTotals()


def test_a_url_that_no_key_can_be_made_of_stops_no_other(place):
    def picky(address: str, rules: KeyRules) -> bytes:
        if address.endswith("/1"):
            raise InvalidRequestError.of("url", "is none")
        return key_of(address)

    claims = [claim(1), claim(2)]
    given = place.visits, DOCS, place.world.biz, claims, lambda *_: picky, place.world.warn
    assert list(prepare(*given)) == [2]
    assert place.world.warnings == []


def test_a_page_has_the_key_that_its_rule_gives_it(place):
    def by_rule(biz: Biz, rule: str):
        return key_if_other if rule == "other" else by_number(biz, rule)

    def key_if_other(address: str, rules: KeyRules) -> bytes:
        return b"other rule's key"

    claims = [claim(1), claim(2, rule="other"), claim(3, rule="other")]
    given = place.visits, DOCS, place.world.biz, claims, by_rule, place.world.warn
    found = prepare(*given)

    keys = [found[number].key for number in (1, 2, 3)]
    assert keys == [known(1).key, b"other rule's key".hex(), b"other rule's key".hex()]


def test_where_a_resolver_is_not_there_its_pages_are_not_remembered_and_it_is_told_once(place):
    def missing(biz: Biz, rule: str):
        if rule == "other":
            raise InvalidRequestError.of("seeds.resolvers.other", "no package brings one")
        return by_number(biz, rule)

    claims = [claim(1), claim(2, rule="other"), claim(3, rule="other")]
    given = place.visits, DOCS, place.world.biz, claims, missing, place.world.warn

    assert list(prepare(*given)) == [1]
    [said] = place.world.warnings
    assert "no package" in said


def test_a_page_is_looked_at_by_the_keys_of_all_rules_and_its_last_visit_told(place):
    policy = SeedPolicy(resolvers={"other": "whole"})
    place.world.tree = make_tree(make_biz(recrawl=POLICY, seeds=policy))

    def by_rule(biz: Biz, rule: str):
        return (lambda *_: b"other rule's key") if rule == "other" else by_number(biz, rule)

    def look(number: int) -> Visit:
        return look_at(place.visits, place.world.tree, "default", "docs", url(number), by_rule)

    late = replace(known(1), key=b"other rule's key".hex(), visited_at=START + DAY, rule="other")
    place.visits.saw(DOCS, place.world.biz, [late])
    assert look(1) == look(2) == late

    place.visits.saw(DOCS, place.world.biz, [known(1)])
    assert look(1) == late

    later = replace(known(2), visited_at=START + 2 * DAY)
    place.visits.saw(DOCS, place.world.biz, [later])
    assert (look(1), look(2)) == (late, later)
