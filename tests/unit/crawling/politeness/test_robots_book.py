"""The robots book of one worker."""

import asyncio
import random
import re
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.kit.config import Politeness, Robots
from tests.kit.kernel import (
    AddressRefusedError,
    ConnectFailedError,
    FetchTimeoutError,
    PageGoneError,
    RobotsDeniedError,
    RobotsUnknownError,
    ServerFaultError,
    StoreUnavailableError,
    ThrottledError,
    to_ms,
)
from tests.kit.politeness import MOST_PORTS, REFUSED_SECONDS, RobotsBook, RobotsCopy
from tests.kit.requests import Answer, LeasedRequest
from tests.kit.worlds.doubles import Broken, Failing
from tests.kit.worlds.memory import DOCS, make_biz
from tests.kit.worlds.worker import ROBOTS, Parts, Web, obedient

PAGE = "https://a.example/1"
NOT_HERE = b"User-agent: *\nDisallow: /private\nCrawl-delay: 3\n"
DAY = timedelta(days=1)


async def at_once(function, *args, **kwargs):
    await asyncio.sleep(0)
    return function(*args, **kwargs)


class Noting(Web):
    """Pages, and within which limits each was asked for."""

    def __init__(self, pages) -> None:
        super().__init__(pages)
        self.limits = []

    async def fetch(self, body, limits, *args):
        self.limits.append(limits)
        return await super().fetch(body, limits, *args)


class Site:
    """A book of rules, the web it reads, and a request by which it asks."""

    def __init__(
        self,
        world,
        pages=None,
        cache=None,
        no_slot: Exception | None = None,
        agent: str = "Fleet",
        remembered: int = 2_000,
    ) -> None:
        self.world = obedient(world)
        self.web = Noting(pages or {})
        self.slots: list[str] = []
        self.no_slot = no_slot
        self.book = RobotsBook(
            self.web,
            cache or world.robots,
            world.clock,
            at_once,
            self.wait_for_slot,
            lambda: agent,
            remembered,
        )
        self.leased = Parts(world).holds(PAGE)

    async def wait_for_slot(self, leased, host, *, led):
        self.slots.append(host)
        if self.no_slot is not None:
            raise self.no_slot

    def check(self, url: str = PAGE, leased=None) -> None:
        asyncio.run(self.book.check(leased or self.leased, url))


def test_a_robots_txt_is_asked_for_once_however_many_requests_wait_for_it(world):
    site = Site(world, {ROBOTS: NOT_HERE})

    async def go():
        await asyncio.gather(*(site.book.check(site.leased, f"{PAGE}{n}") for n in range(20)))
        await site.book.learn(site.leased)
        assert site.book.knows(site.leased)

    assert not site.book.knows(site.leased)
    asyncio.run(go())

    assert site.web.times(ROBOTS) == 1
    assert site.slots == ["https://a.example"]


def test_a_robots_txt_is_asked_for_again_after_its_life(world):
    site = Site(world, {ROBOTS: NOT_HERE})
    site.check()
    world.now += DAY - timedelta(seconds=1)
    site.check()
    assert site.web.times(ROBOTS) == 1

    world.now += timedelta(seconds=1)
    assert not site.book.knows(site.leased)
    site.web.answers[ROBOTS] = b"User-agent: *\nDisallow: /\n"
    with pytest.raises(RobotsDeniedError):
        site.check()

    assert site.web.times(ROBOTS) == 2


def test_what_one_worker_has_read_others_need_not_and_it_is_as_old_for_them(world):
    Site(world, {ROBOTS: NOT_HERE}).check()
    world.now += DAY / 2
    other = Site(world)
    with pytest.raises(RobotsDeniedError):
        other.check("https://a.example/private")
    assert other.web.asked == []

    world.now += DAY / 2
    assert not other.book.knows(other.leased)


def test_a_copy_that_is_over_is_not_believed(world):
    """The cache's clock is its own."""
    site = Site(world)
    old = RobotsCopy(status=500, fetched_ms=to_ms(world.now - timedelta(hours=1)))
    world.robots.save("https://a.example", old, 3600, "default")

    site.check()

    assert site.web.times(ROBOTS) == 1


def test_a_page_that_the_site_does_not_want_is_denied_and_the_line_is_reported(world):
    site = Site(world, {ROBOTS: NOT_HERE})

    site.check()
    with pytest.raises(RobotsDeniedError, match="Disallow: /private") as caught:
        site.check("https://a.example/private/1")

    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("answer", "kind", "cause"),
    [
        (ConnectFailedError("refused"), ConnectFailedError, "robots.txt: refused"),
        (FetchTimeoutError("too long"), FetchTimeoutError, "robots.txt: too long"),
        (ServerFaultError("answered 500", status=500), RobotsUnknownError, "answered 500"),
        (ServerFaultError("hung up"), RobotsUnknownError, "hung up"),
    ],
)
def test_nothing_is_asked_of_a_site_whose_rules_cannot_be_read_now(world, answer, kind, cause):
    site = Site(world, {ROBOTS: answer})

    with pytest.raises(kind, match=re.escape(cause)) as caught:
        site.check()
    assert type(caught.value) is kind
    assert caught.value.retryable

    site.web.answers[ROBOTS] = NOT_HERE
    with pytest.raises(kind):
        site.check()
    world.now += timedelta(minutes=5)
    site.check()


def test_what_another_worker_could_not_read_is_unknown_here_too_without_a_cause(world):
    copy = RobotsCopy(status=503, fetched_ms=to_ms(world.now))
    world.robots.save("https://a.example", copy, 300, "default")
    site = Site(world)

    with pytest.raises(RobotsUnknownError, match=r"answered 503.*read$"):
        site.check()

    assert site.web.asked == []


def test_a_site_that_another_worker_could_not_reach_is_unreached_here_too(world):
    with pytest.raises(ConnectFailedError):
        Site(world, {ROBOTS: ConnectFailedError("host name not found")}).check()
    other = Site(world)

    with pytest.raises(ConnectFailedError, match="not found"):
        other.check()

    assert other.web.asked == []


def test_a_robots_txt_that_leads_to_where_nobody_answers_says_nothing_of_the_sites_connection(
    world,
):
    moved = Answer.of(ROBOTS, 302, {"location": "https://b.example/"}, 0.0)
    site = Site(world, {ROBOTS: ConnectFailedError("refused", answer=moved)})

    with pytest.raises(RobotsUnknownError, match="refused"):
        site.check()


def test_a_site_without_a_robots_txt_allows_everything(world):
    site = Site(world, {ROBOTS: PageGoneError("answered 404", status=404)})

    site.check("https://a.example/private")

    assert site.book.crawl_delay("a.example", world.biz) is None


def test_who_ignores_robots_txt_asks_for_none(world):
    site = Site(world, {ROBOTS: b"User-agent: *\nDisallow: /\nCrawl-delay: 9\n"})
    with pytest.raises(RobotsDeniedError):
        site.check()
    biz = make_biz(politeness=Politeness(robots=Robots.IGNORE))
    site.leased.biz = biz

    site.check()
    site.check("https://b.example/")

    assert site.book.knows(site.leased)
    assert site.book.crawl_delay("a.example", biz) is None
    assert site.web.times("https://b.example/robots.txt") == 0


def test_the_longest_crawl_delay_of_a_hosts_sites_counts_for_the_product_it_is_given_to(world):
    slow = b"User-agent: acme\nCrawl-delay: 7\nUser-agent: *\nCrawl-delay: 1\n"
    site = Site(world, {ROBOTS: NOT_HERE, "https://a.example:8443/robots.txt": slow})
    site.check()
    site.check("https://a.example:8443/")
    acme = make_biz(politeness=Politeness(product="acme"))

    assert site.book.crawl_delay("a.example", world.biz) == 3
    assert site.book.crawl_delay("a.example", acme) == 7
    assert site.book.crawl_delay("b.example", acme) is None


def test_an_address_that_is_refused_does_not_make_the_site_unknown_to_others(world):
    """A name that leads into our own network here may be a site for a worker elsewhere."""
    site = Site(world, {ROBOTS: AddressRefusedError("leads to 127.0.0.1")})

    site.check()

    assert world.robots.load("https://a.example") is None
    world.now += timedelta(seconds=REFUSED_SECONDS)
    assert not site.book.knows(site.leased)


def test_a_cache_that_fails_is_warned_of_and_done_without(world):
    site = Site(world, {ROBOTS: NOT_HERE}, cache=Broken())

    with pytest.raises(RobotsDeniedError):
        site.check("https://a.example/private")

    looked_up, kept = world.warnings
    assert "load: no answer" in looked_up
    assert "save: no answer" in kept


def test_a_copy_that_cannot_be_kept_is_still_known_here(world):
    site = Site(world, {ROBOTS: NOT_HERE}, cache=Failing(world.robots, save=1))

    site.check()
    site.check()

    assert site.web.times(ROBOTS) == 1


@pytest.mark.parametrize(
    ("no_slot", "warnings"),
    [
        (ThrottledError("leads to a.example, which has no free slot", status=0), 0),
        (StoreUnavailableError("redis", "no answer"), 1),
    ],
)
def test_a_missing_slot_says_nothing_about_the_site(world, no_slot, warnings):
    """Else a host that is left alone for a while would be closed to the whole fleet as well."""
    site = Site(world, {ROBOTS: NOT_HERE}, no_slot=no_slot)

    asyncio.run(site.book.learn(site.leased))
    with pytest.raises(type(no_slot), match=str(no_slot)):
        site.check()
    assert site.web.asked == []
    assert world.robots.load("https://a.example") is None
    assert not site.book.knows(site.leased)
    assert len(world.warnings) == 2 * warnings

    site.no_slot = None
    site.check()


def test_what_nobody_foresaw_makes_the_rules_unknown_and_keeps_nobody_waiting(world):
    site = Site(world, {ROBOTS: ValueError("not foreseen")})

    asyncio.run(site.book.learn(site.leased))

    with pytest.raises(RobotsUnknownError):
        site.check()
    [warning] = world.warnings
    assert "not foreseen" in warning


def test_who_is_cancelled_while_it_waits_does_not_take_the_answer_from_the_others(world):
    site = Site(world, {ROBOTS: NOT_HERE})

    async def go():
        first = asyncio.create_task(site.book.check(site.leased, PAGE))
        second = asyncio.create_task(site.book.check(site.leased, PAGE))
        await asyncio.sleep(0)
        first.cancel()
        await second
        assert first.cancelled()

    asyncio.run(go())

    assert site.web.times(ROBOTS) == 1


def test_a_robots_txt_is_asked_for_quickly_plainly_and_without_cookies(world):
    site = Site(world, {ROBOTS: NOT_HERE})
    fetch = replace(world.biz.fetch, total_seconds=300, content_types=("text/html",), cookies=True)
    site.leased.biz = replace(world.biz, fetch=fetch)

    site.check()

    [limits] = site.web.limits
    assert (limits.total_seconds, limits.content_types, limits.cookies) == (10, (), False)


def test_a_worker_remembers_few_hosts(world):
    hosts = [f"h{n}.example" for n in range(9)]
    site = Site(world, {f"https://{host}/robots.txt": NOT_HERE for host in hosts}, remembered=3)

    for host in hosts:
        site.check(f"https://{host}/")

    assert [site.book.crawl_delay(host, world.biz) for host in hosts] == [None] * 6 + [3] * 3


def test_a_worker_remembers_few_causes(world):
    urls = [f"https://h{n}.example/" for n in range(9)]
    site = Site(world, remembered=3)
    site.web.answers = {f"{url}robots.txt": ServerFaultError("hung up") for url in urls}

    def reported(url: str) -> str:
        with pytest.raises(RobotsUnknownError) as caught:
            site.check(url)
        return str(caught.value)

    assert all("hung up" in reported(url) for url in urls)
    assert ["hung up" in reported(url) for url in urls] == [False] * 6 + [True] * 3


def test_a_worker_remembers_few_ports_of_a_host(world):
    ports = {1_000 + n: f"bot-{chr(97 + n)}" for n in range(MOST_PORTS + 4)}
    site = Site(world)
    site.web.answers = {
        f"https://a.example:{port}/robots.txt": f"User-agent: {product}\nCrawl-delay: 7\n".encode()
        for port, product in ports.items()
    }
    for port in ports:
        site.check(f"https://a.example:{port}/")

    bizs = [make_biz(politeness=Politeness(product=product)) for product in ports.values()]
    delays = [site.book.crawl_delay("a.example", biz) for biz in bizs]

    assert sorted(delays, key=str) == [7] * MOST_PORTS + [None] * 4


def test_ports_of_a_host_beyond_those_remembered_are_known_all_the_same(world):
    site = Site(world)

    async def go():
        for n in range(MOST_PORTS + 4):
            await site.book.check(site.leased, f"https://a.example:{n + 1000}/")
        for n in range(MOST_PORTS + 4):
            await site.book.check(site.leased, f"https://a.example:{n + 1000}/")

    asyncio.run(go())

    assert len(site.web.asked) == MOST_PORTS + 4


def test_two_tenants_are_reported_the_same_of_a_site_that_is_asked_once(world):
    site = Site(world, {ROBOTS: NOT_HERE})
    theirs = Parts(world).holds("https://a.example/private", tenant="acme")

    site.check()
    with pytest.raises(RobotsDeniedError):
        site.check("https://a.example/private", theirs)

    assert site.web.times(ROBOTS) == 1
    assert (site.leased.queue_key, theirs.queue_key.tenant) == (DOCS, "acme")


def test_what_one_biz_sends_along_does_not_decide_what_all_tenants_are_reported(world):
    """The copy is the fleet's for a day: Range or If-None-Match would make it say nothing."""
    site = Site(world, {ROBOTS: NOT_HERE}, agent="fleet/1 (+https://fleet.example)")
    hasty = replace(
        world.biz.fetch,
        user_agent="Nobody",
        headers={"Range": "bytes=0-0", "If-None-Match": "*"},
        connect_seconds=0.001,
        first_byte_seconds=0.001,
        total_seconds=0.001,
    )
    site.leased.biz = replace(world.biz, fetch=hasty)

    site.check()

    [limits] = site.web.limits
    assert (limits.user_agent, limits.headers) == ("fleet/1 (+https://fleet.example)", {})
    assert (limits.connect_seconds, limits.first_byte_seconds, limits.total_seconds) == (5, 10, 10)


def of_product(leased, product: str):
    """The request, of a biz that is known to sites by that name."""
    biz = replace(leased.biz, politeness=replace(leased.biz.politeness, product=product))
    return LeasedRequest(leased.queue_key, biz, leased.claim, leased.rule)


def test_a_long_robots_txt_is_read_again_for_a_biz_of_another_name_and_then_known_for_both(world):
    noise = "".join(f"Disallow: /{random.randbytes(30).hex()}\n" for _ in range(2_000))
    text = f"User-agent: x\n{noise}\nUser-agent: two\nDisallow: /1\nUser-agent: *\nAllow: /\n"
    site = Site(world, {ROBOTS: text.encode()})
    one, two = of_product(site.leased, "one"), of_product(site.leased, "two")

    site.check(leased=one)
    assert (site.book.knows(one), site.book.knows(two)) == (True, False)
    with pytest.raises(RobotsDeniedError):
        site.check(leased=two)
    site.check(leased=one)

    assert site.web.times(ROBOTS) == 2
    assert (site.book.knows(one), site.book.knows(two)) == (True, True)
    other = Site(world)
    assert asyncio.run(other.book.learn(two)) is None
    assert other.book.knows(two)
    assert other.web.asked == []


def test_bizs_of_two_names_that_ask_at_once_each_learn_what_is_said_to_them(world):
    noise = "".join(f"Disallow: /{random.randbytes(30).hex()}\n" for _ in range(2_000))
    site = Site(world, {ROBOTS: f"User-agent: two\nDisallow: /1\nUser-agent: x\n{noise}".encode()})

    async def go():
        asked = (site.book.check(of_product(site.leased, one), PAGE) for one in ("one", "two"))
        return await asyncio.gather(*asked, return_exceptions=True)

    found = asyncio.run(go())

    assert found[0] is None
    assert isinstance(found[1], RobotsDeniedError)
