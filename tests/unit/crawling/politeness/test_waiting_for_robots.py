"""Hosts that are asked seldom: their robots.txt takes a slot, and no page pays for that."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.fakes.fetching import MemoryFetcher
from tests.kit.config import Robots
from tests.kit.kernel import RobotsUnknownError, StoreUnavailableError, ThrottledError, to_ms
from tests.kit.politeness import (
    LONGEST_INTERVAL_SECONDS,
    UNREPORTED_SECONDS,
    NoSlotError,
    RobotsCopy,
    reason,
)
from tests.kit.requests import Page, State
from tests.kit.worker import PAUSES
from tests.kit.worlds.doubles import Failing
from tests.kit.worlds.worker import (
    ROBOTS,
    URLS,
    Parts,
    Spy,
    Time,
    depth,
    leave_alone,
    polite,
    state_of,
    submitted,
    tracked,
    work,
)

SELDOM = {"per_second": 1 / 30, "concurrency": 1}
ALLOWED = b"User-agent: *\nAllow: /\n"
SECURE = "https://a.example/1"
PLAIN = "http://a.example/1"
ELSEWHERE = "https://b.example/robots.txt"


async def ours(leased) -> bool:
    return True


def attempts(world, ids) -> list[int]:
    return [tracked(world, an_id).attempts for an_id in ids]


def test_pages_of_a_host_that_is_asked_seldom_wait_for_its_robots_txt_without_an_attempt(world):
    """The first page that is taken gives its slot for it, and keeps its place."""
    polite(world, Robots.OBEY, **SELDOM)
    ids = submitted(world, *URLS)
    pages: dict[str, object] = dict.fromkeys(URLS, b"x") | {ROBOTS: ALLOWED}
    leave_alone(world, "a.example", 60)
    assert work(world, pages).deferred == 4
    asked = []

    for _ in range(6):
        world.now += timedelta(seconds=61)
        site = MemoryFetcher(pages)
        work(world, fetcher=site)
        asked.append([body.url for body in site.asked])

    assert asked[0] == [ROBOTS]
    assert sorted(urls for part in asked[1:5] for urls in part) == URLS
    assert all(len(part) == 1 for part in asked[1:5]), "each in a slot of its own"
    assert [state_of(world, an_id) for an_id in ids] == [State.DONE] * 4
    assert attempts(world, ids) == [1] * 4
    assert depth(world) == (0, 0, 0)


def nearly_over(world) -> None:
    """The site's rules are known for some seconds more."""
    polite(world, Robots.OBEY, per_second=1 / 100, concurrency=1)
    old = RobotsCopy(status=404, fetched_ms=to_ms(world.now - timedelta(seconds=86_395)))
    world.robots.save("https://a.example", old, 3_600, "default")


def test_rules_that_expired_when_a_page_begins_cost_it_its_slot_and_no_attempt(world):
    """They were known when it was taken."""
    nearly_over(world)
    [an_id] = submitted(world, SECURE)

    class Late(MemoryFetcher):
        async def fetch(self, body, limits, hop_guard=None, fetch_context=None):
            if body.url == SECURE and not self.asked:
                world.now += timedelta(seconds=10)
            return await super().fetch(body, limits, hop_guard)

    fetcher = Late({SECURE: b"x", ROBOTS: ALLOWED})
    report = work(world, {}, fetcher=fetcher)

    assert [body.url for body in fetcher.asked] == [ROBOTS]
    assert (report.deferred, report.retried, report.dead) == (1, 0, 0)
    found = tracked(world, an_id)
    assert (found.state, found.attempts) == (State.PENDING, 0)
    assert found.timeline[-1].why == reason("robots")
    assert depth(world) == (1, 1, 0)

    world.now += timedelta(seconds=100)
    assert work(world, {SECURE: b"x"}).done == 1


def test_a_page_that_cannot_be_deferred_is_left_to_its_lease(world):
    nearly_over(world)
    [an_id] = submitted(world, SECURE)

    class Late(MemoryFetcher):
        async def fetch(self, body, limits, hop_guard=None, fetch_context=None):
            world.now += timedelta(seconds=10)
            return await super().fetch(body, limits, hop_guard)

    report = work(world, {}, fetcher=Late({}), store=Failing(world.store, release=1))

    assert (report.deferred, report.retried, report.dead) == (0, 0, 0)
    assert state_of(world, an_id) is State.LEASED
    assert any("release: no answer" in warning for warning in world.warnings)


def test_a_page_whose_slot_is_unknown_has_not_begun(world):
    polite(world, Robots.OBEY)
    mine = Parts(world, hosts=Failing(world.hosts, reserve=1))
    leased = Parts(world, name="x").holds(SECURE)

    with pytest.raises(NoSlotError) as caught:
        asyncio.run(mine.hop_guards.of(leased, ours)(SECURE))

    assert caught.value.again_seconds == UNREPORTED_SECONDS
    assert isinstance(caught.value.__cause__, StoreUnavailableError)


@pytest.fixture
def clock(world) -> Time:
    return Time(world)


def test_a_redirect_within_a_host_that_is_asked_seldom_gets_there(world, clock):
    """The redirect leads to https, with another robots.txt: each request has its own slot."""
    polite(world, Robots.OBEY, **SELDOM)
    hosts = Spy(world.hosts)
    pages = {ROBOTS: ALLOWED, "http://a.example/robots.txt": ALLOWED}
    mine = Parts(world, pages, hosts=hosts)
    leased = mine.holds(PLAIN)
    began = clock.now

    async def go():
        await mine.robots.learn(leased)
        leased.slot_at = clock.now + 30
        clock.passes(30)
        world.hosts.reserve([hosts.of("reserve")[0][0][0]], "w")
        hop_guard = mine.hop_guards.of(leased, ours)
        await hop_guard(PLAIN)
        await hop_guard(SECURE)

    asyncio.run(go())

    assert clock.now - began == pytest.approx(90)
    assert [body.url for body in mine.fetcher.asked][-1] == ROBOTS


def test_a_host_that_is_hardly_ever_asked_keeps_no_redirect_waiting_for_ever(world, clock):
    polite(world, per_second=1 / 3_600)
    mine = Parts(world, pauses=PAUSES)
    leased = mine.holds(SECURE)
    began = clock.now

    with pytest.raises(ThrottledError, match=r"a\.example"):
        asyncio.run(mine.hop_guards.wait_for_slot(leased, "https://a.example", led=True))

    assert clock.now - began <= PAUSES.slot + LONGEST_INTERVAL_SECONDS


def test_a_robots_txt_that_leads_to_another_host_takes_a_slot_there(world, clock):
    polite(world, Robots.OBEY, per_second=0.1)
    hosts = Spy(world.hosts)
    led = Page(url=ELSEWHERE, status=200, headers={}, body=ALLOWED, redirects=(ROBOTS,))
    mine = Parts(world, {ROBOTS: led}, hosts=hosts)
    leased = mine.holds(SECURE)

    asyncio.run(mine.robots.check(leased, SECURE))

    asked = [one.host for args in hosts.of("reserve") for one in args[0]]
    assert asked == ["a.example", "b.example"]
    assert world.hosts.states(["b.example"])[0].next_at is not None


def test_a_robots_txt_that_leads_to_a_host_without_a_slot_is_not_read_and_not_remembered(
    world, clock
):
    polite(world, Robots.OBEY)
    led = Page(url=ELSEWHERE, status=200, headers={}, body=ALLOWED, redirects=(ROBOTS,))
    mine = Parts(world, {ROBOTS: led})
    leased = mine.holds(SECURE)
    leave_alone(world, "b.example", 3_600)

    with pytest.raises(RobotsUnknownError, match=r"b\.example") as caught:
        asyncio.run(mine.robots.check(leased, SECURE))

    assert caught.value.retryable
    assert mine.fetcher.asked == []
    assert world.robots.load("https://a.example") is None
    assert not mine.robots.knows(leased)


def test_a_robots_txt_that_waits_on_its_way_for_too_long_is_given_up(world):
    polite(world, Robots.OBEY)

    class Silent(MemoryFetcher):
        async def fetch(self, *args):
            await asyncio.Event().wait()

    mine = Parts(world, fetcher=Silent({}), on_the_way_seconds=0.01)
    leased = mine.holds(SECURE)

    with pytest.raises(RobotsUnknownError, match="TimeoutError"):
        asyncio.run(asyncio.wait_for(mine.robots.check(leased, SECURE), 60))


def test_many_hops_of_a_robots_txt_take_a_slot_each(world, clock):
    polite(world, Robots.OBEY, per_second=1)
    hosts = Spy(world.hosts)
    way = tuple(f"https://h{n}.example/robots.txt" for n in range(3))
    led = Page(url=way[-1], status=200, headers={}, body=ALLOWED, redirects=(ROBOTS, *way[:-1]))
    mine = Parts(world, {ROBOTS: led}, hosts=hosts)
    leased = replace_biz(mine.holds(SECURE))

    asyncio.run(mine.robots.check(leased, SECURE))

    asked = [one.host for args in hosts.of("reserve") for one in args[0]]
    assert asked == ["a.example", "h0.example", "h1.example", "h2.example"]


def replace_biz(leased):
    """Forbid redirects to the biz: requests for robots.txt do not depend on its limit."""
    leased.biz = replace(leased.biz, fetch=replace(leased.biz.fetch, max_redirects=0))
    return leased
