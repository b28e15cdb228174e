"""A broad crawl: many hosts, each asked for little. What one fetcher keeps for them is bounded."""

import asyncio
import gc
import socket
from pathlib import Path
from threading import Event

import pytest

from tests.contract.hostile_names import Names
from tests.contract.raw_site import LIMITS, ask, reply, site
from tests.kit.config import FleetLimits
from tests.kit.fetching import MAX_IDLE, AiohttpFetcher, http_names
from tests.waiting import eventually


async def _crawl(hosts):
    """Return how many connections a crawl opened; wait until at most ``MAX_IDLE`` are open."""
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
    """Each idle connection holds a file descriptor, of which a function has 1,024 in all."""
    hosts = [f"h{n}.example" for n in range(MAX_IDLE + 150)]

    assert asyncio.run(_crawl(hosts)) == len(hosts)


def test_of_many_idle_connections_the_oldest_are_closed():
    hosts = [f"h{n}.example" for n in range(MAX_IDLE + 50)]

    connections = asyncio.run(_crawl([*hosts, *hosts[-100:], hosts[0]]))

    assert connections == len(hosts) + 1, "those asked last were kept, the first was not"


def test_a_worker_with_the_most_downloads_stays_within_the_descriptors_of_a_function():
    """The rest of Lambda's 1,024 is for Redis, MongoDB, names and files."""
    most = FleetLimits(concurrency=2_000).concurrency

    async def crawl():
        waiting, all_wait, ended = [], asyncio.Event(), asyncio.Event()

        async def answer(head, writer):
            if b"/held" in head:
                waiting.append(writer)
                if len(waiting) == most:
                    all_wait.set()
                await ended.wait()
            writer.write(reply(b"x"))

        fetcher = AiohttpFetcher(allow_private=True, resolver=Names("127.0.0.1"))
        async with site(answer, backlog=1_000) as stands, fetcher:
            before = descriptors()
            for n in range(MAX_IDLE):
                await fetcher.fetch(ask(stands.url(host=f"idle{n}.example")), LIMITS)
            held = [
                asyncio.create_task(
                    fetcher.fetch(ask(stands.url("/held", host=f"h{n}.example")), LIMITS)
                )
                for n in range(most)
            ]
            async with asyncio.timeout(30):
                await all_wait.wait()
            used = descriptors() - before
            ended.set()
            answers = await asyncio.gather(*held)
        return used, {one.status for one in answers}

    used, statuses = asyncio.run(crawl())
    assert statuses == {200}
    # The site's ends of the connections are this process' too; others of it may have been closed.
    assert most < used / 2 < 1_024 - 150


def descriptors():
    """Count the open descriptors of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_one_site_whose_name_servers_say_nothing_leaves_threads_to_the_others():
    """The owner of a domain may name as many hosts in it as there are threads, and more."""
    begun, answered = Event(), Event()
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 80))]

    def look_up(host, *_):
        if host == "good.example":
            return found
        begun.set()
        return found if answered.wait(120) else []

    def gates():
        gc.collect()
        return sum(isinstance(one, asyncio.Semaphore) for one in gc.get_objects())

    async def run():
        before = gates()
        names = http_names.CachedResolver(http_names.SystemResolver(look_up))
        silent = [
            asyncio.create_task(names.resolve(f"h{n}.deep.silent.example", 80)) for n in range(300)
        ]
        await asyncio.to_thread(begun.wait, 60)
        try:
            async with asyncio.timeout(60):
                place = await names.resolve("good.example", 80)
        finally:
            answered.set()
        everybody = await asyncio.gather(*silent)
        left = gates() - before
        await names.close()
        return place[0]["host"], {found[0]["host"] for found in everybody}, left

    # Of a site nothing is kept once none of its names is looked up.
    assert asyncio.run(run()) == ("127.0.0.1", {"127.0.0.1"}, 0)


def test_a_look_up_that_waits_for_others_of_its_site_does_not_wait_for_ever():
    asked, all_asked, answered = [], asyncio.Event(), asyncio.Event()

    class Slow(Names):
        async def resolve(self, host, port=0, family=socket.AF_UNSPEC):
            asked.append(host)
            if len(asked) == http_names.OF_SITE:
                all_asked.set()
            await answered.wait()
            return await super().resolve(host, port, family)

    async def run():
        names = http_names.CachedResolver(Slow("127.0.0.1"), wait_seconds=0.05)
        first = [
            asyncio.create_task(names.resolve(f"h{n}.example.org", 80))
            for n in range(http_names.OF_SITE)
        ]
        await all_asked.wait()
        with pytest.raises(OSError, match="take too long"):
            await names.resolve("last.example.org", 80)
        answered.set()
        return len(await asyncio.gather(*first))

    assert asyncio.run(run()) == http_names.OF_SITE
