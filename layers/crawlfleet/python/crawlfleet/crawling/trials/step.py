"""Fetch the page of a trial, as far as one step may: with the one host slot that came with it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import msgspec

from crawlfleet.config.documents.biz import Biz, FetchLimits
from crawlfleet.crawling.fetching.models import (
    NO_FETCH_CONTEXT,
    FetchContext,
    Fetcher,
    Followed,
    HeldUpError,
    HopGuard,
)
from crawlfleet.crawling.politeness.client import observed
from crawlfleet.crawling.politeness.models import Observation, RobotsCopy
from crawlfleet.crawling.politeness.robots import RobotsBook
from crawlfleet.crawling.trials.messages import FETCH_SECONDS, Learnt, Question, Wanted
from crawlfleet.kernel import errors
from crawlfleet.kernel.hosts import host_of, origin_of
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.time import Clock, to_ms
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.models import Body

_NONE: Final = 404


class LacksError(HeldUpError):
    """The step lacks a slot at an origin, or that origin's robots.txt."""

    def __init__(self, origin: str, *, robots: bool = False) -> None:
        self.origin, self.robots = origin, robots
        super().__init__(origin)


@dataclass(slots=True, kw_only=True)
class Step:
    """The downloads of one step.

    To the robots.txt book it is the fleet's cache, which knows the one that came with the question;
    to whoever downloads it is a fetcher that goes on behind the redirects of earlier steps.
    """

    question: Question
    fetcher: Fetcher
    clock: Clock
    learnt: Learnt | None = None
    seen: tuple[Observation, ...] = ()
    _followed: dict[str, tuple[Followed, ...]] = field(init=False)
    _has_slot: bool = field(init=False)
    _was_sent: bool = field(default=False, init=False)
    _last: str = field(default="", init=False)
    _book: RobotsBook = field(init=False)

    def __post_init__(self) -> None:
        self._followed = dict(self.question.followed)
        self._has_slot = self.question.with_slot
        terms = self.question.terms
        self._book = RobotsBook(
            *(self, self, self.clock, asyncio.to_thread, self.wait_for_slot),  # type: ignore[arg-type]
            agent=lambda: terms.robots_agent,
        )

    async def page(self, leased: LeasedRequest) -> Page:
        """Fetch the page; raises FetchError where there is none, LacksError where it stops."""
        terms, seconds = self.question.terms, self.question.fetch_seconds
        limits = msgspec.structs.replace(
            terms.fetch, cookies=False, total_seconds=min(terms.fetch.total_seconds, seconds)
        )
        context = FetchContext(queue_key=leased.queue_key, pool=terms.pool, proxies=terms.proxies)
        guard = partial(self._guard, leased)
        try:
            async with asyncio.timeout(seconds):
                page = await self.fetch(leased.claim.request.body, limits, guard, context)
        except TimeoutError as error:
            late = errors.FetchTimeoutError(f"not there within {FETCH_SECONDS:g} seconds")
            self._saw(leased, late)
            raise late from error
        except errors.FetchError as error:
            self._saw(leased, error)
            raise
        finally:
            await self._book.close()
        self._saw(leased, None, page.seconds)
        return page

    def wanted(self, error: LacksError, biz: Biz) -> Wanted:
        """Say what the next step needs."""
        return Wanted(
            origin=error.origin,
            robots=error.robots,
            crawl_delay=self._book.crawl_delay(host_of(error.origin), biz),
            followed=self._followed,
        )

    async def fetch(
        self,
        body: Body,
        limits: FetchLimits,
        hop_guard: HopGuard | None = None,
        fetch_context: FetchContext = NO_FETCH_CONTEXT,
    ) -> Page:
        """Download one page, or its rest."""
        followed = self._followed.get(body.url, ())
        context = msgspec.structs.replace(fetch_context, followed=followed)
        try:
            return await self.fetcher.fetch(body, limits, hop_guard, context)
        except HeldUpError as error:
            self._followed[body.url] = error.followed
            raise
        except errors.AddressRefusedError:
            if body.url == f"{self._last}/robots.txt":
                # The page itself fails so. For others this says nothing of the site.
                none = RobotsCopy(status=_NONE, fetched_ms=to_ms(self.clock()))
                self.learnt = Learnt(origin=self._last, copy=none, seconds=0.0)
            raise

    async def _guard(self, leased: LeasedRequest, url: str) -> None:
        self._was_sent, self._last = False, origin_of(url)
        await self._book.check(leased, url)
        await self.wait_for_slot(leased, self._last)
        self._was_sent = True

    async def wait_for_slot(self, _leased: LeasedRequest, origin: str, **_: bool) -> None:
        """Take the slot that came with the question; LacksError where it is taken."""
        if not self._has_slot:
            raise LacksError(origin)
        self._has_slot = False

    def load(self, origin: str) -> RobotsCopy | None:
        """Return the fleet's robots.txt of an origin; LacksError where it did not come along."""
        if origin != self.question.origin:
            raise LacksError(origin, robots=True)
        return self.question.robots

    def save(self, origin: str, copy: RobotsCopy, seconds: float, _tenant: str) -> None:
        """Keep a robots.txt for whoever asks."""
        self.learnt = Learnt(origin=origin, copy=copy, seconds=seconds)

    def _saw(
        self, leased: LeasedRequest, error: errors.FetchError | None, seconds: float = 0.0
    ) -> None:
        # Without a slot nothing was learnt of the host.
        if not self._was_sent:
            return
        if error is not None and error.answer is not None:
            seconds = error.answer.seconds
        origin = leased.origin if error is None else self._last
        proxied = self.question.terms.proxies is not None
        found = observed(origin, seconds, error, proxied=proxied)
        self.seen = () if found is None else (found,)
