"""The way to a page: at each hop it is asked whether it may still be gone."""

import asyncio
from datetime import timedelta

import pytest

from tests.fakes.fetching import MemoryFetcher
from tests.kit.kernel import (
    LeaseLostError,
    RobotsDeniedError,
    StoreUnavailableError,
    ThrottledError,
)
from tests.kit.politeness import GrantedSlots, HostReport
from tests.kit.requests import Page, State
from tests.kit.worker import PAUSES
from tests.kit.worlds.doubles import Broken
from tests.kit.worlds.memory import DOCS
from tests.kit.worlds.worker import (
    ROBOTS,
    Parts,
    Time,
    leave_alone,
    obedient,
    polite,
    submitted,
    tracked,
    work,
)

PAGE = "https://a.example/1"
ELSEWHERE = "https://b.example/2"


async def ours(leased) -> bool:
    return True


async def lost(leased) -> bool:
    return False


@pytest.fixture
def clock(world) -> Time:
    return Time(world)


def test_the_first_host_needs_no_second_slot_and_the_next_host_needs_its_own(world, clock):
    polite(world, per_second=1)
    mine = Parts(world)
    hop_guard = mine.hop_guards.of(mine.holds(PAGE), ours)
    Parts(world, name="x").politeness.ask(world.tree, DOCS, world.biz, {"https://b.example": 1})

    async def go():
        await hop_guard(PAGE)
        assert clock.slept == []
        await hop_guard(ELSEWHERE)

    asyncio.run(go())

    assert clock.slept == [1.0]


def test_a_redirect_asks_again_until_there_is_a_slot(world, clock):
    polite(world, per_second=10)
    mine = Parts(world)
    leased = mine.holds(PAGE)
    leave_alone(world, "b.example", 12)
    began = clock.now

    asyncio.run(mine.hop_guards.wait_for_slot(leased, "https://b.example"))

    assert clock.now - began >= 12
    assert sum(clock.slept) == pytest.approx(12, abs=0.1)


def test_a_slot_that_is_nearly_there_is_not_asked_for_without_a_pause(world, clock):
    class Soon:
        """Grants a slot on the third ask, and says each time that it is due now."""

        asked = 0

        def ask(self, tree, queue_key, biz, wanted, under_way):
            self.asked += 1
            count = int(self.asked == 3)
            slots = GrantedSlots(count, clock.now, 0.1, 1, world.now, 0.0, "rate")
            return dict.fromkeys(wanted, slots)

    soon, mine = Soon(), Parts(world, pauses=PAUSES)
    leased = mine.holds(PAGE)
    mine.hop_guards.client = soon

    asyncio.run(mine.hop_guards.wait_for_slot(leased, "https://b.example"))

    assert soon.asked == 3
    assert clock.slept == [0.05, 0.05]


def test_a_redirect_to_a_host_without_a_slot_gives_up_after_its_patience(world, clock):
    polite(world, per_second=10)
    mine = Parts(world)
    leased = mine.holds(PAGE)
    leave_alone(world, "b.example", 60)

    with pytest.raises(ThrottledError, match=r"b\.example") as caught:
        asyncio.run(mine.hop_guards.wait_for_slot(leased, "https://b.example", led=True))

    assert caught.value.retry_after_seconds == 60
    assert caught.value.retryable
    assert sum(clock.slept) <= PAUSES.slot


def test_a_page_that_is_another_workers_by_now_is_not_asked_for(world):
    mine = Parts(world)
    hop_guard = mine.hop_guards.of(mine.holds(PAGE), lost)

    with pytest.raises(LeaseLostError):
        asyncio.run(hop_guard(PAGE))


def test_a_site_is_asked_whether_it_wants_the_place_that_a_redirect_leads_to(world):
    obedient(world)
    mine = Parts(world, {"https://b.example/robots.txt": b"User-agent: *\nDisallow: /2\n"})

    async def go():
        hop_guard = mine.hop_guards.of(mine.holds(PAGE), ours)
        await hop_guard(PAGE)
        with pytest.raises(RobotsDeniedError, match=r"Disallow: /2"):
            await hop_guard(ELSEWHERE)

    asyncio.run(go())


def test_no_redirect_is_followed_while_slots_are_unknown(world):
    mine = Parts(world, hosts=Broken())
    leased = Parts(world, name="x").holds(PAGE)

    with pytest.raises(StoreUnavailableError):
        asyncio.run(mine.hop_guards.wait_for_slot(leased, "https://b.example"))


def test_a_request_led_to_a_busy_host_comes_again_and_its_own_host_is_not_blamed(world):
    """The host that sent us on has answered: it is not to be left alone for it."""
    polite(world, per_second=1000)
    [an_id] = submitted(world, PAGE)
    leave_alone(world, "b.example", 60)
    led = Page(url=ELSEWHERE, status=200, headers={}, body=b"x", redirects=(PAGE,))

    report = work(world, {PAGE: led})

    found = tracked(world, an_id)
    assert (report.retried, found.state) == (1, State.WAITING)
    assert found.due_at == world.now + timedelta(seconds=60)
    assert world.hosts.states(["a.example"])[0].overload == 0


def test_a_page_is_asked_for_after_its_sites_robots_txt(world):
    obedient(world)
    submitted(world, PAGE)
    site = MemoryFetcher({PAGE: b"Title", ROBOTS: b"User-agent: *\nAllow: /\n"})

    assert work(world, fetcher=site).done == 1
    assert [body.url for body in site.asked] == [ROBOTS, PAGE]


def test_a_redirect_within_a_slow_host_does_not_wait_for_itself(world):
    """The request has the only permit of a host that takes one request at a time."""
    world.pace(slot=0.0)
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

    report = work(world, {PAGE: led})

    assert (report.done, report.retried) == (1, 0)


def test_a_page_counts_as_under_way_where_its_redirects_have_led(world):
    """So that no host has more under way than it may, by whatever way they came."""
    polite(world, per_second=1_000, concurrency=9)
    mine = Parts(world)
    leased = mine.holds(PAGE)
    hop_guard = mine.hop_guards.of(leased, ours)

    async def go():
        mine.scheduler.add(leased)
        assert await mine.scheduler.ready.get() is leased
        await hop_guard(PAGE)
        assert mine.scheduler.busy() == {("a.example", "default"): 1}
        await hop_guard(ELSEWHERE)
        assert mine.scheduler.busy() == {("b.example", "default"): 1}

    asyncio.run(go())
    mine.scheduler.end(leased)

    assert mine.scheduler.busy() == {}
