"""Items of conversations in MongoDB, as far as subscriptions of a biz have them."""

from collections.abc import Iterable
from typing import Final

from bson import Binary

from crawlfleet.kernel.mongo.connection import Document, MongoNodes, border
from crawlfleet.streams.delivery.conversations import MOST_LEVELS, MOST_TURNS, Turn, tree_of
from crawlfleet.streams.delivery.messages import read
from crawlfleet.streams.delivery.models import (
    DELIVERY_BYTES,
    ITEM_BYTES,
    item_key,
    owner_key,
)
from crawlfleet.streams.delivery.mongo.outbox import Outbox, chunks
from crawlfleet.streams.items import StreamItem

_ITEMS_AT_ONCE: Final = 100


class MongoConversations:
    """Read conversations; an item that no subscription of the biz has is a placeholder in it."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._outbox = Outbox(nodes)

    def read(self, tenant: str, biz: str, channel: str, id_: str) -> Turn | None:
        """Read the tree that an item is in; None where no subscription of the biz has the item."""
        with border():
            (start,) = self._visible(tenant, biz, [item_key(channel, id_)]) or (None,)
            if start is None:
                return None
            top = self._top(tenant, biz, start)
            root = start.conversation or top.replies_to or top.id
            found = self._below(item_key(channel, root))
            found |= {item_key(channel, start.id), item_key(channel, top.id)}
            found |= {item_key(channel, root)}
            return tree_of(root, [start, *self._visible(tenant, biz, found)])

    def _top(self, tenant: str, biz: str, item: StreamItem) -> StreamItem:
        """Climb from an item by what it replies to, as far as that is there."""
        seen = {item.id}
        for _ in range(MOST_LEVELS):
            if not item.replies_to or item.replies_to in seen:
                break
            above = self._visible(tenant, biz, [item_key(item.channel, item.replies_to)])
            if not above:
                break
            (item,) = above
            seen.add(item.id)
        return item

    def _below(self, root: bytes) -> set[bytes]:
        """Find keys of the items that reply to the root, or to one that does, or name it."""
        look = self._outbox.items.find({"thread": Binary(root)}, ["_id"], limit=MOST_TURNS)
        found = {bytes(one["_id"]) for one in look}
        level = {root, *found}
        for _ in range(MOST_LEVELS):
            parents = [Binary(key) for key in level]
            look = self._outbox.items.find({"parent": {"$in": parents}}, ["_id"], limit=MOST_TURNS)
            level = {bytes(one["_id"]) for one in look} - found
            found |= level
            if not level or len(found) >= MOST_TURNS:
                break
        return found

    def _visible(self, tenant: str, biz: str, keys: Iterable[bytes]) -> list[StreamItem]:
        """Read those items that a subscription of the biz has."""
        owner = owner_key(tenant, biz)
        rest = DELIVERY_BYTES - ITEM_BYTES - len(owner)
        items: list[StreamItem] = []
        for part in chunks(keys, _ITEMS_AT_ONCE):
            ranges: list[Document] = [
                {
                    "_id": {
                        "$gte": Binary(key + owner + bytes(rest)),
                        "$lte": Binary(key + owner + b"\xff" * rest),
                    }
                }
                for key in part
            ]
            look = self._outbox.deliveries.find({"$or": ranges}, ["_id"])
            theirs = {bytes(one["_id"][:ITEM_BYTES]) for one in look}
            look = self._outbox.items.find(
                {"_id": {"$in": [Binary(key) for key in theirs]}, "body": {"$exists": True}}
            )
            items += [read(one["body"]) for one in look]
        return items
