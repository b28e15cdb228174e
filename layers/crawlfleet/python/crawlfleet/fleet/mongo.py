"""The book of pools: one small document each in the control database, ``{_id: pool, seen}``."""

from collections.abc import Collection
from datetime import datetime

from pymongo import UpdateOne

from crawlfleet.kernel.mongo.connection import MongoNodes, border


class MongoPoolBook:
    """ports.PoolBook."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes

    def known(self) -> dict[str, datetime]:
        """See ports.PoolBook.known."""
        with border():
            return {one["_id"]: one["seen"] for one in self._nodes.control("pools").find({})}

    def saw(self, pools: Collection[str], now: datetime) -> None:
        """See ports.PoolBook.saw: of two that come at once the later one counts."""
        if not pools:
            return
        writes = [
            UpdateOne({"_id": pool}, {"$max": {"seen": now}}, upsert=True) for pool in sorted(pools)
        ]
        with border():
            self._nodes.control("pools").bulk_write(writes, ordered=False)

    def forget(self, pool: str, seen: datetime) -> None:
        """See ports.PoolBook.forget."""
        with border():
            self._nodes.control("pools").delete_one({"_id": pool, "seen": {"$lte": seen}})
