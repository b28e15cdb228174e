"""An in-memory fake reads pages in the test's own process."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any

from tests.kit.extract import check_rule, try_page
from tests.kit.kernel import Problem
from tests.kit.reading import SLICE


class MemoryPageReader:
    """A ``PageReader`` of a rule extractor and of executors; spiders' things come in slices."""

    def __init__(
        self,
        extractor: Any,
        executors: Any,
        check: Callable[[Any], list[Problem]] = check_rule,
    ) -> None:
        self._extractor, self._executors, self._check = extractor, executors, check

    async def ready(self) -> None:
        """It always is."""

    async def harvest(self, rule: Any, page: Any, body: Any, tenant: str = "") -> tuple[Any, float]:
        return self._extractor.harvest(rule, page, body.depth, body.meta), 0.0

    @asynccontextmanager
    async def begin(
        self, spider: Any, page: Any, body: Any, mask: Any = None, owner: Any = ("", "")
    ) -> AsyncIterator["_Begun"]:
        yield _Begun(self._executors.read(spider, page, body, mask, owner))

    async def tried(
        self, reader: Any, page: Any, body: Any, mask: Any = None, owner: Any = ("", "")
    ) -> Any:
        return try_page(self._executors, reader, page, body, owner)

    async def checked(self, reader: Any) -> list[Problem]:
        return self._check(reader)


class _Begun:
    def __init__(self, given: Any) -> None:
        self._given = given

    async def next(self, seconds: float) -> tuple[list[Any], bool, float]:
        found: list[Any] = []
        until = time.perf_counter() + seconds
        for one in islice(self._given, SLICE):
            found.append(one)
            if time.perf_counter() > until:
                return found, True, 0.0
        return found, len(found) == SLICE, 0.0
