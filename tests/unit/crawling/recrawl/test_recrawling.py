from datetime import timedelta

import pytest

from tests.fakes.queue import MemoryQueue
from tests.kit.config import IntakeLimits, RecrawlPolicy
from tests.kit.kernel import (
    BacklogFullError,
    StoreUnavailableError,
)
from tests.kit.recrawl import (
    GRACE,
)
from tests.kit.requests import (
    Body,
    Inserted,
    Visit,
)
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.memory import DOCS, RULE, START, make_biz, make_tree
from tests.kit.worlds.recrawl import DAY, POLICY, Place, url


class KilledError(BaseException):
    """The process is gone: nothing may catch this."""


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
    assert place.world.rules.get_version(DOCS, "page", RULE.version) == RULE
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


def test_ticks_that_are_over_after_one_queue_come_to_all_of_them(place):
    asked = set()

    class Noting:
        def due(self, queue_key, biz, now, limit):
            asked.add(queue_key.tenant)
            return []

    for _ in range(4):
        left = iter([600.0, 0.0])
        place.ports(Noting()).resubmit_due(
            place.world.tree, place.world.now, lambda left=left: next(left)
        )
        place.world.now += timedelta(minutes=1)

    assert asked == {"default", "acme"}


def test_a_queue_that_cannot_be_served_stops_no_other(place):
    class Half:
        def due(self, queue_key, biz, now, limit):
            if queue_key.tenant == "acme":
                raise OverflowError("odd")
            return place.visits.due(queue_key, biz, now, limit)

        def __getattr__(self, name):
            return getattr(place.visits, name)

    place.know(1)

    assert place.tick(visits=Half()) == 1
    assert place.world.warnings[0].endswith(": odd")


# ---- deaths and faults ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "port", ["put_off", "keep_version", "take", "insert", "enqueue", "confirm"]
)
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
        "keep_version": ("rules", "keep_version", 1),
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


@pytest.mark.parametrize("port", ["insert", "keep_version", "take"])
def test_what_could_not_be_stored_comes_again_soon(place, port):
    place.know(1, 2)
    owner = {"insert": "store", "keep_version": "rules", "take": "ids"}[port]
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
        def insert(self, queue_key, biz, requests, kept):
            place.world.store.insert(queue_key, biz, requests[1:])
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
