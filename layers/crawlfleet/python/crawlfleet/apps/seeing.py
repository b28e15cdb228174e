"""Keep what a process has seen of streams: figures, statuses of its readers, a line in the log."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from crawlfleet.apps.context import Parts
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import Clock
from crawlfleet.streams.delivery.figures import Tally
from crawlfleet.streams.delivery.mongo.figures import MongoFigures
from crawlfleet.streams.reading.counters import ChannelReport
from crawlfleet.streams.reading.feeds import FeedRunner
from crawlfleet.streams.reading.mongo import MongoReaders
from crawlfleet.streams.reading.status import FEEDS, RENEWED_SECONDS, Pace

#: Statuses between two reports to the log.
_EACH: Final = 6


class Seeing:
    """The figures of one process that reads streams and delivers; ``tally`` is counted on."""

    def __init__(self, parts: Parts, worker: str, clock: Clock) -> None:
        self.tally = Tally()
        self._log, self._worker, self._clock = parts.log, worker, clock
        self._figures, self._readers = MongoFigures(parts.nodes), MongoReaders(parts.nodes)
        self._pace = Pace()
        self._feeds: FeedRunner | None = None

    def of_feeds(self, runner: FeedRunner) -> None:
        """Take the runner of feeds, whose figures are kept, too."""
        self._feeds = runner

    async def report(self, reports: Callable[[], Mapping[str, ChannelReport]]) -> None:
        """Keep what is seen every few seconds, and say it to the log once a minute."""
        round_ = 0
        while True:
            await asyncio.sleep(RENEWED_SECONDS)
            found = reports()
            await asyncio.to_thread(self.keep, found)
            round_ += 1
            if round_ % _EACH == 0 and found:
                said = msgspec.to_builtins(found, builtin_types=())
                self._log.info("read streams", extra={"channels": said})

    def keep(self, found: Mapping[str, ChannelReport]) -> None:
        """Keep figures and statuses; what a store does not take then is not counted."""
        now, feeds = self._clock(), self._feeds
        if feeds is not None and feeds.is_needed:
            found = {**found, FEEDS: feeds.report()}
        try:
            self._figures.add(self.tally.take(), now)
            self._readers.keep(self._pace.statuses(self._worker, found, now))
        except CrawlfleetError as error:
            warn("figures of streams cannot be kept", error)
