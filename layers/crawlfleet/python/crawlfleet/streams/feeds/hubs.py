"""Ask hubs to push feeds, and hear what they pushed: a push has its feed be asked at once.

What a hub pushes is believed to be news by its signature, and is not read: the feed is asked on
condition, as in any round. So its items come by one way, whoever says that there are some, and a
hub cannot make up an item. Hubs ask back and push at ``/hubs/{callback}`` of the API, whose address
is ``streams.hub_callback`` of the stage; without it no hub is asked.
"""

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from yarl import URL

from crawlfleet.kernel.errors import FetchError, StoreError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.time import Clock
from crawlfleet.streams.feeds import websub
from crawlfleet.streams.feeds.models import Feed
from crawlfleet.streams.feeds.mongo import MongoFeeds, MongoHubs
from crawlfleet.streams.http.connection import StreamClient

#: Hubs that are asked at once by one worker, and seconds that one may take to answer.
AT_ONCE: Final = 2
SECONDS: Final = 15.0


@dataclass(slots=True, eq=False)
class HubSubscriber:
    """Asks the hubs of feeds to push them; ``callback`` returns the API's address, "" for none."""

    feeds: MongoFeeds
    hubs: MongoHubs
    client: StreamClient
    callback: Callable[[], str]
    user_agent: Callable[[], str]
    clock: Clock
    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE), init=False)

    async def tend(self, feed: Feed) -> None:
        """Ask the hub of a feed where that is due; polling goes on, whatever it answers."""
        hub = feed.offers
        if hub is None or not websub.wants_asking(feed.hub, hub, self.clock()):
            return
        async with self._room:
            if not (place := self.callback()):
                return
            try:
                asked = await asyncio.to_thread(self.hubs.ask, feed.url, hub, self.clock())
                if asked is None:
                    return
                callback, lease = asked
                form = websub.form(lease, f"{place.rstrip('/')}/hubs/{callback}")
                headers = {"User-Agent": self.user_agent()}
                await self.client.post_form(URL(hub.url), headers, form, SECONDS)
            except (FetchError, StoreError, ValueError) as error:
                warn("a hub cannot be asked", error)

    async def distrust(self, feeds: Collection[str]) -> None:
        """Trust the hubs of feeds no longer, until they push."""
        try:
            await asyncio.to_thread(self.hubs.distrust, feeds)
        except StoreError as error:
            warn("hubs cannot be distrusted", error)

    async def waking(self) -> tuple[str, ...]:
        """List feeds that hubs have pushed."""
        if not self.callback():
            return ()
        try:
            return await asyncio.to_thread(self.feeds.waking, self.clock())
        except StoreError as error:
            warn("pushes of hubs cannot be read", error)
            return ()
