"""Deliveries of subscriptions: dead letters are read and replayed; conversations are read."""

from typing import Any

from crawlfleet.sdk.calls import PAGE_SIZE, Calls, Pages, parameters, path_of
from crawlfleet.wire.deliveries import (
    Conversation,
    ExplainedItem,
    Redelivered,
    TakenItem,
    TakenItemsPage,
    UndeliveredItem,
    UndeliveredPage,
)


class DeliveryCalls(Calls):
    """The calls about deliveries of subscriptions."""

    def undelivered(
        self,
        biz: str,
        *,
        subscription: str | None = None,
        reason: str | None = None,
        cursor: str | None = None,
    ) -> "Pages[UndeliveredItem]":
        """List items of subscriptions that were not delivered and are given up, oldest first.

        ``reason`` is ``refused``, ``too_large``, ``tried_out`` or ``away``.
        """
        params = parameters(limit=PAGE_SIZE, subscription=subscription, reason=reason)
        path = path_of(biz, "undelivered")
        return self._pages(path, UndeliveredPage, params, cursor, identity=lambda one: one.id)

    def undelivered_item(self, biz: str, delivery: str) -> UndeliveredItem:
        """Read one of them, by the id of its message.

        Raises:
            NotFoundError: there is none of this id.
        """
        return self._get(path_of(biz, "undelivered", delivery), UndeliveredItem)

    def redeliver(self, biz: str, delivery: str) -> None:
        """Deliver one item again, to where its subscription delivers now.

        Raises:
            NotFoundError: there is none of this id; it may have been replayed.
        """
        self._post(path_of(biz, "undelivered", delivery, "replay"), {}, Redelivered, [])

    def redeliver_all(
        self,
        biz: str,
        *,
        subscription: str | None = None,
        reason: str | None = None,
        everything: bool = False,
    ) -> int:
        """Deliver items again, call by call, until none is left; return how many.

        Without a subscription or a reason say ``everything=True``, so that it does not happen by a
        slip.

        Raises:
            InvalidRequestError: nothing says which, or both do.
        """
        given = {"subscription": subscription, "reason": reason, "all": everything or None}
        document: dict[str, Any] = {
            name: value for name, value in given.items() if value is not None
        }
        path, count = path_of(biz, "undelivered", "replay"), 0
        while True:
            done = self._post(path, document, Redelivered, [])
            count += done.replayed
            if not done.more:
                return count
            document["cursor"] = done.cursor

    def conversation(self, biz: str, channel: str, item: str) -> Conversation:
        """Read the conversation that an item is in, as far as subscriptions of the biz have it.

        Raises:
            NotFoundError: no subscription of the biz has the item.
        """
        which = parameters(channel=channel, item=item)
        return self._get(path_of(biz, "conversations"), Conversation, which)

    def stream_items(self, biz: str, *, cursor: str | None = None) -> "Pages[TakenItem]":
        """List items that the biz's subscriptions have taken, oldest first.

        Those of the last five seconds come with a later call: a cursor that is kept misses none.
        """
        params = parameters(limit=PAGE_SIZE)
        path = path_of(biz, "stream-items")
        return self._pages(path, TakenItemsPage, params, cursor, identity=lambda one: one.id)

    def explain_item(
        self,
        biz: str,
        item: str,
        *,
        channel: str | None = None,
        subscription: str | None = None,
    ) -> ExplainedItem:
        """Explain which subscriptions took an item, why others did not, where it was delivered.

        ``item`` is its id in its channel, or that of a message of it. Without a ``channel``, which
        may be the URL of a feed, it is looked for in those that the biz subscribes to.

        Raises:
            NotFoundError: no subscription of the biz has the item.
            InvalidRequestError: several channels have an item of this id.
        """
        which = parameters(item=item, channel=channel, subscription=subscription)
        return self._get(path_of(biz, "stream-items", "explain"), ExplainedItem, which)
