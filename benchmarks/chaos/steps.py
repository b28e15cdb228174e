"""Dying at a named step: ports that call through, and kill their process where they are armed.

The product has no hooks for this. A consumer of the harness gets its ports wrapped, and the wrapper
ends the process by SIGKILL, so that nothing of what Python does at an exit happens.
"""

import os
import signal
from collections.abc import Callable
from enum import StrEnum
from typing import Any, cast

import msgspec

from crawlfleet.config.documents.biz import FetchLimits
from crawlfleet.crawling.fetching.downloader import AiohttpFetcher
from crawlfleet.crawling.fetching.models import NO_FETCH_CONTEXT, FetchContext, HopGuard
from crawlfleet.kernel.page import Page
from crawlfleet.requests.models import Body
from crawlfleet.requests.mongo.store import MongoRequestStore
from crawlfleet.requests.queue.redis.queue import RedisQueue


class Step(StrEnum):
    """The steps at which a consumer dies."""

    AFTER_LEASE = "after-lease"
    AFTER_CLAIM = "after-claim"
    AFTER_FETCH = "after-fetch"
    BEFORE_STORE = "before-store"
    AFTER_STORE = "after-store"
    BEFORE_FINISH = "before-finish"


class Armed(msgspec.Struct, frozen=True, kw_only=True):
    """Die when ``step`` is reached for the ``count``-th time."""

    step: Step
    count: int = 1


class Fuse:
    """Counts how often steps are reached; burns at the armed one."""

    def __init__(self, armed: Armed | None) -> None:
        self._armed = armed
        self._left = armed.count if armed else 0

    def reach(self, step: Step) -> None:
        """The process is at this step, and ends here if it is to."""
        if self._armed is None or step is not self._armed.step:
            return
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


class _Through:
    """A port that does what the real one does, with somebody looking at some calls."""

    def __init__(self, inner: object, **looks: Callable[..., Any]) -> None:
        self._inner = inner
        self._looks = looks

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        look = self._looks.get(name)
        if look is None:
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            return look(lambda: found(*arguments, **named), *arguments, **named)

        return call


def armed_queue(queue: RedisQueue, fuse: Fuse) -> RedisQueue:
    """The queue, with its steps."""

    def lease(call: Callable[[], Any], *_: Any, **__: Any) -> Any:
        entries = call()
        if entries:
            fuse.reach(Step.AFTER_LEASE)
        return entries

    def finish(call: Callable[[], Any], *_: Any, **__: Any) -> Any:
        fuse.reach(Step.BEFORE_FINISH)
        return call()

    return cast("RedisQueue", _Through(queue, lease=lease, finish=finish))


def armed_store(store: MongoRequestStore, fuse: Fuse) -> MongoRequestStore:
    """The store, with its steps."""

    def claim(call: Callable[[], Any], *_: Any, **__: Any) -> Any:
        claims = call()
        if claims:
            fuse.reach(Step.AFTER_CLAIM)
        return claims

    def settle(call: Callable[[], Any], *_: Any, **__: Any) -> Any:
        fuse.reach(Step.BEFORE_STORE)
        lost = call()
        fuse.reach(Step.AFTER_STORE)
        return lost

    return cast("MongoRequestStore", _Through(store, claim=claim, settle=settle))


def armed_fetcher(fuse: Fuse) -> type[AiohttpFetcher]:
    """The fetcher, with its step."""

    class ArmedFetcher(AiohttpFetcher):
        async def fetch(
            self,
            body: Body,
            limits: FetchLimits,
            hop_guard: HopGuard | None = None,
            fetch_context: FetchContext = NO_FETCH_CONTEXT,
        ) -> Page:
            page = await super().fetch(body, limits, hop_guard, fetch_context)
            fuse.reach(Step.AFTER_FETCH)
            return page

    return ArmedFetcher
