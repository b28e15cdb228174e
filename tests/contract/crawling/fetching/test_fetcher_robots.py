"""A site's robots.txt is fetched while pages of the site wait for it, by the same fetcher."""

import asyncio

from tests.contract.raw_site import reply, site
from tests.fakes.politeness import MemoryRobotsCache
from tests.kit.config import FetchLimits, Politeness
from tests.kit.fetching import AiohttpFetcher
from tests.kit.politeness import RobotsBook
from tests.kit.requests import Body, Claim, Entry, LeasedRequest, Request
from tests.kit.worlds.memory import DOCS, START, World, make_biz


async def _threaded(function, *args):
    return function(*args)


async def _at_once(*_, **__) -> None:
    return None


def test_a_robots_txt_does_not_wait_for_the_slots_of_the_pages_that_wait_for_it():
    """A host of which one page at a time may be fetched, and a page there that has its slot."""
    asked: list[bytes] = []

    async def answer(head, writer):
        asked.append(head.split()[1])
        writer.write(reply(b"User-agent: *\nAllow: /\n"))

    async def go():
        biz = make_biz(fetch=FetchLimits(per_host=1), politeness=Politeness())
        async with site(answer) as stands, AiohttpFetcher(allow_private=True) as fetcher:
            world = World()
            cache = MemoryRobotsCache(clock=world.clock)
            book = RobotsBook(fetcher, cache, world.clock, _threaded, _at_once)
            body = Body(url=stands.url("/page"), rule="page", rule_version="")
            request = Request(id=1, tenant="default", biz="docs", queued_at=START, body=body)
            claim = Claim(request=request, entry=Entry(1, "docs", 0), token="", attempt=1)
            held = LeasedRequest(DOCS, biz, claim, None)
            async with asyncio.timeout(60):
                await fetcher.fetch(body, biz.fetch, lambda url: book.check(held, url))

    asyncio.run(go())

    assert asked == [b"/robots.txt", b"/page"]
