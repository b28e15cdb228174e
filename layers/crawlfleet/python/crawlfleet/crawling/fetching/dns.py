"""Resolve host names in threads of our own; keep the answers for a few seconds.

The event loop's own look-ups share a handful of threads with everything else, so a few slow name
servers would hold up all other hosts. The names of one site get a few of our threads at most,
because the owner of a domain may name any number of hosts in it. An address is checked with each
socket (crawling.fetching.connections), not here.
"""

import asyncio
import socket
import time
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from aiohttp.abc import AbstractResolver, ResolveResult

from crawlfleet.crawling.extract.links import site_of
from crawlfleet.crawling.fetching.stores import FAILED_SECONDS, Lookup, look_up

#: How long an answer is kept.
FRESH_SECONDS: Final = 10.0
#: Hosts remembered.
HOSTS: Final = 4_096
_THREADS: Final = 64
#: Look-ups of one site at once; others wait for them, for so long.
OF_SITE: Final = 8
WAIT_SECONDS: Final = 10.0


@dataclass(slots=True)
class _Known:
    places: Sequence[ResolveResult]
    error: OSError | None
    until: float


class CachedResolver(AbstractResolver):
    """Ask ``resolver``, by default the system's, once for each host at a time; keep its answers.

    A name waits ``wait_seconds`` for the others of its site.
    """

    def __init__(
        self,
        resolver: AbstractResolver | None = None,
        *,
        fresh_seconds: float = FRESH_SECONDS,
        wait_seconds: float = WAIT_SECONDS,
        hosts: int = HOSTS,
    ) -> None:
        self._resolver = resolver or SystemResolver()
        self._fresh_seconds, self._wait_seconds, self._hosts = fresh_seconds, wait_seconds, hosts
        self._known: OrderedDict[tuple[str, int], _Known] = OrderedDict()
        self._asked: dict[tuple[str, int], asyncio.Task[_Known]] = {}
        # A site is here while a name of it is looked up.
        self._sites: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Get the host's addresses, beginning with another one each time.

        Raises OSError if it has none, or no name server answers.
        """
        key = host, port
        known = self._known.get(key)
        if known is None or known.until < time.monotonic():
            task = self._asked.get(key)
            if task is None:
                task = self._asked[key] = asyncio.create_task(self._ask(host, port, family))
                task.add_done_callback(lambda _: self._asked.pop(key, None))
            # Shielded: others wait for the same answer, or will soon.
            known = await asyncio.shield(task)
        if known.error is not None:
            raise OSError(known.error.errno, known.error.strerror or "no such host")
        known.places = [*known.places[1:], known.places[0]]
        return list(known.places)

    async def _ask(self, host: str, port: int, family: socket.AddressFamily) -> _Known:
        try:
            places = await self._resolve(host, port, family)
            error = None if places else OSError(None, "the host has no address")
        except OSError as failure:
            places, error = (), failure
        except UnicodeError:
            places, error = (), OSError(None, "no name")
        seconds = self._fresh_seconds if error is None else FAILED_SECONDS
        known = self._known[host, port] = _Known(places, error, time.monotonic() + seconds)
        self._known.move_to_end((host, port))
        while len(self._known) > self._hosts:
            self._known.popitem(last=False)
        return known

    async def _resolve(
        self, host: str, port: int, family: socket.AddressFamily
    ) -> Sequence[ResolveResult]:
        site = site_of(host)
        gate = self._sites.get(site)
        if gate is None:
            gate = self._sites[site] = asyncio.Semaphore(OF_SITE)
        try:
            async with asyncio.timeout(self._wait_seconds):
                await gate.acquire()
        except TimeoutError as error:
            raise OSError(None, "the name servers of its site take too long") from error
        try:
            # Without a time-out: the thread waits for as long as the name server takes.
            return await self._resolver.resolve(host, port, family)
        finally:
            gate.release()

    async def close(self) -> None:
        """Cancel the look-ups."""
        for task in list(self._asked.values()):
            task.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)
        await self._resolver.close()


class SystemResolver(AbstractResolver):
    """Run the system's resolver in threads of its own."""

    def __init__(self, look_up: Lookup = look_up) -> None:
        self._look_up = look_up
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Get the host's addresses."""
        found = await asyncio.get_running_loop().run_in_executor(
            self._threads, self._look_up, host, port, family
        )
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=of,
                proto=protocol,
                flags=socket.AI_NUMERICHOST,
            )
            for of, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        """End the idle threads; one that waits ends with its answer."""
        self._threads.shutdown(wait=False, cancel_futures=True)
