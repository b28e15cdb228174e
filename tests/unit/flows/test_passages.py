"""The way to a page: at each hop it is asked whether it may still be gone."""

import asyncio
from datetime import timedelta

import pytest

from tests.kit.fakes import MemoryFetcher
from tests.kit.kernel import (
    LeaseLostError,
    RobotsDeniedError,
    StoreUnavailableError,
    ThrottledError,
)
from tests.kit.politeness import HostReport
from tests.kit.requests import Page, State
from tests.kit.sdk import PATIENCE_SECONDS, Passages, courtesy, passages
from tests.kit.worker import settling
from tests.unit.flows.manners import (
    ROBOTS,
    Time,
    held_of,
    leave_alone,
    obedient,
    polite,
    submitted,
    worker,
)
from tests.unit.flows.world import DOCS, Broken

PAGE = "https://a.example/1"
ELSEWHERE = "https://b.example/2"


async def at_once(function, *args, **kwargs):
    return function(*args, **kwargs)


async def ours(held) -> bool:
    return True


async def lost(held) -> bool:
    return False


def ways(world, mine) -> Passages:
    return Passages(world, mine._courtesy, mine._robots, at_once)


@pytest.fixture
def clock(world, monkeypatch) -> Time:
    return Time(world).in_place_of(monkeypatch, courtesy, passages)


def test_the_first_host_needs_no_second_turn_and_the_next_one_needs_its_own(world, clock):
    polite(world, per_second=1)
    mine = worker(world)
    passage = ways(world, mine).of(held_of(world, PAGE, mine), ours)
    world.hosts.reserve(
        [mine._courtesy._ask(world.tree.stage, DOCS, world.biz, "b.example", 1, None)], "x"
    )

    async def go():
        await passage(PAGE)
        assert clock.slept == []
        await passage(ELSEWHERE)

    asyncio.run(go())

    assert clock.slept == [1.0]


def test_a_redirect_asks_again_until_there_is_a_turn(world, clock):
    polite(world, per_second=10)
    mine = worker(world)
    held = held_of(world, PAGE, mine)
    leave_alone(world, "b.example", 12)
    began = clock.now

    asyncio.run(ways(world, mine).turn_at(held, "b.example"))

    assert clock.now - began >= 12
    assert sum(clock.slept) == pytest.approx(12, abs=0.1)


def test_a_turn_that_is_nearly_there_is_not_asked_for_without_a_pause(world, clock):
    class Soon:
        """Gives a turn on the third ask, and says each time that it is due now."""

        asked = 0

        def ask(self, tree, lane, biz, wanted, under_way):
            self.asked += 1
            count = int(self.asked == 3)
            turn = courtesy.Turn(count, clock.now, 0.1, 1, world.now, 0.0, "rate")
            return dict.fromkeys(wanted, turn)

    soon, mine = Soon(), worker(world)
    held = held_of(world, PAGE, mine)

    asyncio.run(Passages(world, soon, mine._robots, at_once).turn_at(held, "b.example"))

    assert soon.asked == 3
    assert clock.slept == [0.05, 0.05]


def test_a_redirect_to_a_host_without_a_turn_gives_up_after_its_patience(world, clock):
    polite(world, per_second=10)
    mine = worker(world)
    held = held_of(world, PAGE, mine)
    leave_alone(world, "b.example", 60)

    with pytest.raises(ThrottledError, match=r"leads to b\.example") as caught:
        asyncio.run(ways(world, mine).turn_at(held, "b.example", led=True))

    assert caught.value.retry_after_seconds == 60
    assert caught.value.retryable
    assert sum(clock.slept) <= PATIENCE_SECONDS


def test_a_page_that_is_another_workers_by_now_is_not_asked_for(world):
    mine = worker(world)
    passage = ways(world, mine).of(held_of(world, PAGE, mine), lost)

    with pytest.raises(LeaseLostError):
        asyncio.run(passage(PAGE))


def test_a_site_is_asked_whether_it_wants_the_place_that_a_redirect_leads_to(world):
    obedient(world)
    mine = worker(world, {"https://b.example/robots.txt": b"User-agent: *\nDisallow: /2\n"})

    async def go():
        held = held_of(world, PAGE, mine)
        passage = mine._passages.of(held, ours)
        await passage(PAGE)
        with pytest.raises(RobotsDeniedError, match=r"Disallow: /2"):
            await passage(ELSEWHERE)

    asyncio.run(go())


def test_nobody_follows_a_redirect_when_it_cannot_be_told_whose_turn_it_is(world):
    mine = worker(world, hosts=Broken())
    held = held_of(world, PAGE, worker(world, name="x"))

    with pytest.raises(StoreUnavailableError):
        asyncio.run(ways(world, mine).turn_at(held, "b.example"))


def test_a_request_led_to_a_busy_host_comes_again_and_its_own_host_is_not_blamed(
    world, monkeypatch
):
    """The host that sent us on has answered: it is not to be left alone for it."""
    monkeypatch.setattr(settling, "SETTLE_SECONDS", 0.005)
    polite(world, per_second=1000)
    [an_id] = submitted(world, PAGE)
    leave_alone(world, "b.example", 60)
    led = Page(url=ELSEWHERE, status=200, headers={}, body=b"x", redirects=(PAGE,))

    report = asyncio.run(worker(world, {PAGE: led}).run())

    found = world.store.get(DOCS, world.biz, an_id)
    assert (report.retried, found.state) == (1, State.WAITING)
    assert found.due_at == world.now + timedelta(seconds=60)
    assert world.hosts.states(["a.example"])[0].strain == 0


def test_a_page_is_asked_for_after_its_sites_robots_txt(world, monkeypatch):
    monkeypatch.setattr(settling, "SETTLE_SECONDS", 0.005)
    obedient(world)
    submitted(world, PAGE)
    mine = worker(world, {PAGE: b"Title", ROBOTS: b"User-agent: *\nAllow: /\n"})

    assert asyncio.run(mine.run()).done == 1
    assert [body.url for body in mine._ports.fetcher.asked] == [ROBOTS, PAGE]


def test_a_redirect_within_a_slow_host_does_not_wait_for_itself(world, monkeypatch):
    """Of a host that takes one at a time it has the one permit already."""
    monkeypatch.setattr(settling, "SETTLE_SECONDS", 0.005)
    monkeypatch.setattr(passages, "PATIENCE_SECONDS", 0.0)
    polite(world, per_second=1_000, concurrency=1)
    for _ in range(20):
        slow = HostReport(
            host="a.example",
            tenant="default",
            running=0,
            answered=1,
            seconds=5.0,
            limits=world.tree.stage.hosts,
        )
        world.hosts.report([slow], "another")
    submitted(world, PAGE)
    end = "https://a.example/2"
    led = Page(url=end, status=200, headers={}, body=b"Title", redirects=(PAGE,))

    report = asyncio.run(worker(world, {PAGE: led}).run())

    assert (report.done, report.retried) == (1, 0)


def test_a_page_counts_as_under_way_where_its_redirects_have_led(world):
    """So that no host has more under way than it may, by whatever way they came."""
    polite(world, per_second=1_000, concurrency=9)
    submitted(world, PAGE)
    seen = []

    class Looking(MemoryFetcher):
        async def fetch(self, body, limits, passage, errand):
            await passage(PAGE)
            seen.append(mine._turns.busy())
            await passage(ELSEWHERE)
            seen.append(mine._turns.busy())
            return Page(url=ELSEWHERE, status=200, headers={}, body=b"Title", redirects=(PAGE,))

    mine = worker(world, fetcher=Looking({}))

    assert asyncio.run(mine.run()).done == 1
    assert seen == [{("a.example", "default"): 1}, {("b.example", "default"): 1}]
    assert mine._turns.busy() == {}
