"""What is asked of Scrapy's engine, in the words of each version since 2.12."""

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler


class Loop(Protocol):
    """A function that is called again and again while it runs."""

    @property
    def running(self) -> bool:
        """Whether it is started."""
        ...

    def start(self, interval: float, now: bool = True) -> object:
        """Call the function every so many seconds."""
        ...

    def stop(self) -> object:
        """Call it no more."""
        ...


def looping(function: Callable[[], object]) -> Loop:
    """A loop over the function, on whichever event loop Scrapy runs."""
    try:
        from scrapy.utils.asyncio import create_looping_call
    except ImportError:  # before 2.14
        from twisted.internet.task import LoopingCall

        return LoopingCall(function)  # type: ignore[no-any-return,unused-ignore]  # as newer ones
    return create_looping_call(function)


def under_way(crawler: "Crawler") -> "Container[Request]":
    """The requests that the engine has taken from the scheduler and not done with.

    One leaves when its download has become another request, or when its callback or errback is
    exhausted and each of the items has passed the pipelines. No signal tells that moment, so this
    looks where the engine keeps account of it; it has done so since Scrapy 0.24.

    Raises:
        RuntimeError: this Scrapy keeps it elsewhere; going on would finish requests too early.
    """
    slot = _slot(crawler)
    if slot is None:
        return ()
    found = getattr(slot, "inprogress", None)
    if not isinstance(found, set):
        raise RuntimeError(  # noqa: TRY004  Scrapy is another, not an argument
            "this version of Scrapy keeps its requests where we do not find them"
        )
    return found


def wake(crawler: "Crawler") -> None:
    """Let the engine ask its scheduler soon; by itself it does so every five seconds."""
    slot = _slot(crawler)
    if slot is not None and slot.closing is None:
        slot.nextcall.schedule()


def close_spider(crawler: "Crawler", reason: str) -> None:
    """End the crawl in good order."""
    engine: Any = crawler.engine
    if hasattr(engine, "close_spider_async"):
        from scrapy.utils.defer import deferred_from_coro

        deferred_from_coro(engine.close_spider_async(reason=reason))
    else:
        engine.close_spider(crawler.spider, reason=reason)


def _slot(crawler: "Crawler") -> Any:
    engine: Any = crawler.engine
    return engine._slot if hasattr(engine, "_slot") else engine.slot  # noqa: SLF001  before 2.13
