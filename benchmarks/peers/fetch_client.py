"""One HTTP client, downloading the site's pages over 64 connections and doing nothing with them.

``python fetch_client.py CLIENT`` reads the addresses from standard input, one a line. What is told
of CPU is what the downloads took: neither the start of the process nor its imports. A client that
is not installed says so instead.
"""

import asyncio
import importlib
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

CONNECTIONS = 64
#: urllib3 takes a thread a connection; more of them only wait for each other.
THREADS = 16
HEADERS = {"User-Agent": "Crawlfleet", "Accept-Encoding": "gzip, deflate, br, zstd"}

Fetch = Callable[[str], Awaitable[int]]
Over = Callable[[list[str]], Any]
Run = Callable[[list[str]], list[int]]


async def _in_turns(urls: list[str], fetch: Fetch) -> list[int]:
    """Call ``fetch`` for every address, ``CONNECTIONS`` at once."""
    todo = iter(urls)

    async def one() -> list[int]:
        return [await fetch(url) for url in todo]

    each = await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
    return [size for sizes in each for size in sizes]


async def over_aiohttp(urls: list[str]) -> list[int]:
    import aiohttp

    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector, headers=HEADERS) as session:

        async def fetch(url: str) -> int:
            async with session.get(url) as answer:
                return len(await answer.read())

        return await _in_turns(urls, fetch)


async def over_ours(urls: list[str]) -> list[int]:
    from crawlfleet.config.documents.biz import FetchLimits
    from crawlfleet.crawling.fetching.downloader import AiohttpFetcher
    from crawlfleet.requests.models import Body

    limits = FetchLimits(per_host=CONNECTIONS)

    async def passage(_url: str) -> None:
        return

    # The site is on loopback, and addresses are checked all the same.
    async with AiohttpFetcher(allow_private=False, may_connect=lambda _: True) as fetcher:

        async def fetch(url: str) -> int:
            page = await fetcher.fetch(Body(url=url, rule="r", rule_version="1"), limits, passage)
            return len(page.body)

        return await _in_turns(urls, fetch)


async def over_httpx(urls: list[str]) -> list[int]:
    import httpx

    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    async with httpx.AsyncClient(limits=limits, headers=HEADERS, timeout=60) as client:

        async def fetch(url: str) -> int:
            return len((await client.get(url)).content)

        return await _in_turns(urls, fetch)


def over_pycurl(urls: list[str]) -> list[int]:
    import pycurl

    multi, todo, sizes = pycurl.CurlMulti(), iter(urls), []
    bodies: dict[int, bytearray] = {}

    def begin(handle: Any) -> int:
        url = next(todo, None)
        if url is None:
            return 0
        body = bodies[id(handle)] = bytearray()
        handle.setopt(pycurl.URL, url)
        handle.setopt(pycurl.WRITEFUNCTION, body.extend)
        multi.add_handle(handle)
        return 1

    handles = [pycurl.Curl() for _ in range(CONNECTIONS)]
    for handle in handles:
        handle.setopt(pycurl.HTTPHEADER, [f"{name}: {value}" for name, value in HEADERS.items()])
        handle.setopt(pycurl.NOSIGNAL, 1)
    running = sum(map(begin, handles))
    while running:
        multi.perform()
        while True:
            left, done, failed = multi.info_read()
            if failed:
                raise RuntimeError(failed)
            for handle in done:
                multi.remove_handle(handle)
                sizes.append(len(bodies[id(handle)]))
                running += begin(handle) - 1
            if not left:
                break
        multi.select(0.1)
    return sizes


def over_urllib3(urls: list[str]) -> list[int]:
    from concurrent.futures import ThreadPoolExecutor

    import urllib3

    with (
        urllib3.PoolManager(maxsize=THREADS, headers=HEADERS) as pool,
        ThreadPoolExecutor(THREADS) as threads,
    ):
        return list(threads.map(lambda url: len(pool.request("GET", url).data), urls))


def _on_asyncio(over: Over) -> Run:
    return lambda urls: asyncio.run(over(urls))


def _on_uvloop(over: Over) -> Run:
    def run(urls: list[str]) -> list[int]:
        import uvloop

        return uvloop.run(over(urls))

    return run


#: What each needs, and how it downloads.
CLIENTS = {
    "aiohttp": (["aiohttp"], _on_asyncio(over_aiohttp)),
    "aiohttp, uvloop": (["aiohttp", "uvloop"], _on_uvloop(over_aiohttp)),
    "ours": (["crawlfleet", "aiohttp"], _on_asyncio(over_ours)),
    "ours, uvloop": (["crawlfleet", "aiohttp", "uvloop"], _on_uvloop(over_ours)),
    "pycurl": (["pycurl"], over_pycurl),
    "httpx": (["httpx"], _on_asyncio(over_httpx)),
    "httpx, uvloop": (["httpx", "uvloop"], _on_uvloop(over_httpx)),
    "urllib3, threads": (["urllib3"], over_urllib3),
}


def _used() -> float:
    spent = resource.getrusage(resource.RUSAGE_SELF)
    return spent.ru_utime + spent.ru_stime


def main() -> None:
    needs, run = CLIENTS[sys.argv[1]]
    urls = sys.stdin.read().split()
    try:
        for name in needs:
            importlib.import_module(name)
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))
        return
    run(urls[:CONNECTIONS])
    cpu, started = _used(), time.perf_counter()
    sizes = run(urls)
    answer = {
        "pages": len(sizes),
        "bytes": sum(sizes),
        "cpu": _used() - cpu,
        "seconds": time.perf_counter() - started,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
