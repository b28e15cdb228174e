"""The pools that were ever known, in MongoDB (SPEC.md B12)."""

from collections.abc import Collection
from datetime import datetime

from pymongo import UpdateOne

from crawlfleet.kernel.mongo.connection import MongoNodes, border


class MongoPoolBook:
    """Pools beside the usual one that anybody knew of, whatever has become of them.

    What is bound for a pool outlives its configuration and its workers: by this it is found. Each
    is a small document in the control database, ``{_id: pool, seen}``.
    """

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes

    def known(self) -> dict[str, datetime]:
        """Read when each pool was last known."""
        with border():
            return {one["_id"]: one["seen"] for one in self._nodes.control("pools").find({})}

    def saw(self, pools: Collection[str], now: datetime) -> None:
        """Note pools that are configured, or have a live worker; the later note counts."""
        if not pools:
            return
        writes = [
            UpdateOne({"_id": pool}, {"$max": {"seen": now}}, upsert=True) for pool in sorted(pools)
        ]
        with border():
            self._nodes.control("pools").bulk_write(writes, ordered=False)

    def forget(self, pool: str, seen: datetime) -> None:
        """Forget a pool, unless it was known later than ``seen``."""
        with border():
            self._nodes.control("pools").delete_one({"_id": pool, "seen": {"$lte": seen}})
