"""The process that pages are read in, as the functions open it that have the parsers."""

import asyncio
import os
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from crawlfleet.config.documents.stage import ReadingLimits
from crawlfleet.crawling.executors.registry import BUILT_IN, REGISTRY
from crawlfleet.crawling.reading.in_worker import WorkerExecutors
from crawlfleet.crawling.reading.reader import PageReader
from crawlfleet.crawling.reading.spawner import Spawner
from crawlfleet.fleet.resources import function_memory_mb
from crawlfleet.kernel.errors import CrawlfleetError

#: The module of the process that readers of pages are forked from.
PAGE_READER: Final = "crawlfleet.apps.page_reader"
LEAST_MEMORY_MB: Final = 64


@lru_cache(maxsize=1)
def _spawner_of(packages: tuple[str, ...], executors: tuple[str, ...]) -> Spawner:
    """Return this process' spawner of readers: with the packages' spiders and these executors."""
    return Spawner(PAGE_READER, packages=list(packages), executors=list(executors))


class PageReaders:
    """The readers of pages of one environment, by the spiders of these packages too."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        own = tuple(name for name in REGISTRY.names() if name not in BUILT_IN)
        self._spawner = _spawner_of(packages, own)
        self._in_worker = WorkerExecutors(REGISTRY)

    def reader(self, limits: Callable[[], ReadingLimits] = ReadingLimits) -> PageReader:
        """Return a reader for one event loop, within these limits."""
        memory_mb = function_memory_mb(os.environ)
        # Whoever has it read takes less than the other half.
        most_mb = None if memory_mb is None else max(LEAST_MEMORY_MB, memory_mb // 2)
        return PageReader(self._spawner, limits, most_mb, in_worker=self._in_worker)

    def defences(self, limits: Callable[[], ReadingLimits] = ReadingLimits) -> dict[str, str]:
        """Start a reader, and tell of each of its defences whether it holds; or why none can be."""

        async def look() -> dict[str, str]:
            async with self.reader(limits) as reader:
                await reader.ready()
                return reader.defences

        try:
            return asyncio.run(look())
        except CrawlfleetError as error:
            return {"reader": str(error)}

    def close(self) -> None:
        """End the process that reads pages."""
        self._spawner.close()
