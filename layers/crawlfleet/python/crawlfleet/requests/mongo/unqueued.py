"""Notes of the bizs of which requests were persisted and could not be queued (SPEC.md A5, D12).

Redis knows nothing of what it could not take, and of bizs that are quiet recovery looks into some
in each round. By its note a biz is among them.
"""

from datetime import datetime

from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.mongo.connection import MongoNodes, border
from crawlfleet.kernel.queue_key import QueueKey


class MongoUnqueued:
    """The notes, in the control database: a small document a biz, ``{_id: tenant/biz, at}``."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes

    def note(self, queue_key: QueueKey, now: datetime) -> None:
        """Note a biz. Where that fails recovery looks into the biz when it has its turn."""
        try:
            with border():
                self._nodes.control("unqueued").replace_one(
                    {"_id": _name(queue_key)}, {"at": now}, upsert=True
                )
        except StoreError as error:
            warn(f"requests of {_name(queue_key)} are found by recovery's turns alone", error)

    def noted(self) -> dict[tuple[str, str], datetime]:
        """Return when each biz, by tenant and name, was noted last."""
        with border():
            found = list(self._nodes.control("unqueued").find({}))
        return {tuple(one["_id"].split("/")): one["at"] for one in found}

    def forget(self, queue_key: QueueKey, noted_at: datetime) -> None:
        """Forget a biz, unless it was noted later."""
        with border():
            kept = self._nodes.control("unqueued")
            kept.delete_one({"_id": _name(queue_key), "at": noted_at})


def _name(queue_key: QueueKey) -> str:
    # Neither of the two may contain a slash.
    return f"{queue_key.tenant}/{queue_key.biz}"
