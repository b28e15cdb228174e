"""A broad crawl: many hosts, each asked for little. What one fetcher keeps for them is bounded."""

import asyncio

from crawlfleet.adapters.http_connections import MAX_IDLE
from crawlfleet.adapters.http_fetcher import AiohttpFetcher
from tests.contract.hostile_names import Names
from tests.contract.raw_site import LIMITS, ask, reply, site
from tests.waiting import eventually


async def _crawl(hosts):
    """How many connections it took, when at last no more than may be are kept open."""
    open_at_site = []

    async def answer(_, writer):
        if writer not in open_at_site:
            open_at_site.append(writer)
        writer.write(reply(b"x"))

    def are_open():
        return sum(not writer.is_closing() for writer in open_at_site)

    fetcher = AiohttpFetcher(allow_private=True, resolver=Names("127.0.0.1"))
    async with site(answer, backlog=500) as stands, fetcher:
        for host in hosts:
            await fetcher.fetch(ask(stands.url(host=host)), LIMITS)
        # The site hears of what was closed a moment later.
        await asyncio.to_thread(eventually, lambda: are_open() <= MAX_IDLE, 10.0, "all are kept")
        return stands.connections


def test_idle_connections_are_bounded_over_all_hosts():
    """Each holds a descriptor, of which a function has 1,024 for all it does."""
    hosts = [f"h{n}.example" for n in range(MAX_IDLE + 150)]

    assert asyncio.run(_crawl(hosts)) == len(hosts)


def test_of_many_idle_connections_the_oldest_are_closed():
    hosts = [f"h{n}.example" for n in range(MAX_IDLE + 50)]

    connections = asyncio.run(_crawl([*hosts, *hosts[-100:], hosts[0]]))

    assert connections == len(hosts) + 1, "those asked last were kept, the first was not"
