"""Answer hubs that call back: whether a subscription is meant, and what becomes of a push.

The router imports this; asking hubs (``hubs``) takes a client that it has none of.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from crawlfleet.kernel.mongo.connection import MongoNodes
from crawlfleet.kernel.time import Clock
from crawlfleet.streams.feeds import websub
from crawlfleet.streams.feeds.mongo import MongoFeeds, MongoHubs
from crawlfleet.streams.feeds.websub import Meant

ACCEPTED: Final = 202
GONE: Final = 410


@dataclass(frozen=True, slots=True)
class HubCallbacks:
    """Answers hubs that call back."""

    feeds: MongoFeeds
    hubs: MongoHubs
    clock: Clock

    def answer(self, callback: str, query: Mapping[str, str]) -> Meant:
        """Answer a hub that asks whether a subscription is meant."""
        known = self.hubs.of(callback)
        lease = None if known is None else known[1]
        meant = websub.answer(lease, query, self.clock())
        if meant.lease is not None and meant.lease != lease:
            self.hubs.keep(callback, meant.lease)
        return meant

    def push(self, callback: str, signature: str, body: bytes) -> int:
        """Take a push; return the status of the answer.

        What is not signed by the secret is acknowledged and ignored, so that nobody learns more.
        410 ends a subscription of a feed that nobody wants.
        """
        known = self.hubs.of(callback)
        if known is None:
            return GONE
        feed, lease = known
        if not websub.is_signed(lease, signature, body):
            return ACCEPTED
        if not self.feeds.wake(feed, self.clock()):
            self.hubs.end(callback)
            return GONE
        if not lease.trusted:
            self.hubs.keep(callback, websub.pushed(lease))
        return ACCEPTED


def callbacks_over(nodes: MongoNodes, clock: Clock) -> HubCallbacks:
    """Open the callbacks of hubs over the home node."""
    return HubCallbacks(MongoFeeds(nodes), MongoHubs(nodes), clock)
