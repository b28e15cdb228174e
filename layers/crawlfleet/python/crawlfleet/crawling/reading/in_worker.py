"""Pages that executors of the operator's own read in the worker, as they have asked for.

An executor that keeps what it reads, or asks something of its operator's, cannot do so where there
are no files and no network. Its code is trusted as the product's is; what it does with a page that
means harm is its own to bound.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from crawlfleet.config.documents.rule import Spider
from crawlfleet.crawling.executors.base import Owner
from crawlfleet.crawling.executors.registry import BUILT_IN, Registry
from crawlfleet.crawling.reading.messages import SLICE
from crawlfleet.kernel.errors import ConfigError
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.redaction import Mask
from crawlfleet.requests.models import Body

if TYPE_CHECKING:
    from crawlfleet.crawling.executors.runner import SpiderExecutors


class WorkerExecutors:
    """The executors that read in the worker: ``isolated`` is false there."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._executors: SpiderExecutors | None = None

    def has(self, spider: Spider) -> bool:
        """Tell whether a spider's executor is one of these."""
        if spider.executor in BUILT_IN:
            return False
        try:
            return not self._registry.find(spider.executor).isolated
        except ConfigError:
            return False  # the reader says why

    def begin(self, spider: Spider, page: Page, body: Body, mask: Mask, owner: Owner) -> WorkerPage:
        """Begin to read a page."""
        if self._executors is None:
            # Few workers have such executors; all others need no parsers.
            from crawlfleet.crawling.executors.runner import SpiderExecutors
            from crawlfleet.crawling.extract.extractor import RuleExtractor

            self._executors = SpiderExecutors(self._registry, RuleExtractor())
        return WorkerPage(self._executors.read(spider, page, body, mask, owner))


class WorkerPage:
    """A page that is read in the worker, slice by slice."""

    def __init__(self, given: Iterator[Any]) -> None:
        self._given = given

    async def next(self, seconds: float) -> tuple[list[Any], bool, float]:
        """Return the next things, whether there may be more, and the CPU seconds they took."""
        started, until = time.thread_time(), time.perf_counter() + seconds
        found: list[Any] = []
        for one in islice(self._given, SLICE):
            found.append(one)
            if time.perf_counter() > until:
                return found, True, time.thread_time() - started
        return found, len(found) == SLICE, time.thread_time() - started
