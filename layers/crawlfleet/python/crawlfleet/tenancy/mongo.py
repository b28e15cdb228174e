"""The inventory of what MongoDB has of a tenant: counted, deleted, and looked for again.

A tenant's own databases are found by their names on every node, so nothing is missed of bizs,
generations and collections that no configuration names any more. In the control database, which all
tenants share, its documents are found by their ids or one field (:data:`BY_ID`, :data:`BY_FIELD`).
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pymongo.client_session import ClientSession
from pymongo.collection import Collection

from crawlfleet.kernel.mongo.connection import MAJORITY, Document, MongoNodes, border, database_name
from crawlfleet.kernel.mongo.transactions import TRANSACTION_SECONDS, in_transaction
from crawlfleet.kernel.time import TimeLeft

#: Collections of the control database whose ids begin with the tenant and a slash.
BY_ID: Final = (
    *("jobs", "schedules", "schedule_versions", "schedule_turns", "spiders", "spider_versions"),
    *("rules", "runs", "run_parts", "demands", "histories", "costs", "quotas", "counters"),
    *("submission_keys", "unqueued", "marks", "stream_subscriber_hours"),
)
#: Those that name it in a field.
BY_FIELD: Final = {
    "journal": "tenant",
    "incidents": "place.tenant",
    "incidents_past": "place.tenant",
    "incident_handlings": "tenant",
    "subscriptions": "tenant",
    "stream_deliveries": "tenant",
    "stream_receivers": "tenant",
    "config_changes": "tenant",
}
#: Whose readers are told that documents went, by a number in another collection.
_NUMBERED: Final = "subscriptions"
#: Those that have nothing of any tenant.
OF_THE_FLEET: Final = frozenset(
    {
        *("schedule_looks", "incident_desk", "worker_numbers", "pools"),
        *("subscription_numbers", "stream_items", "stream_cursors"),
        *("stream_feeds", "stream_hubs"),
        *("config_versions", "config_newest"),
        *("stream_readers", "stream_source_hours"),
    }
)
#: The kinds of a biz's collections, by what their names end with; any other has requests.
_KINDS: Final = {
    "records": "records",
    "keyed": "records",
    "seeds": "seeds",
    "visits": "visits",
    "counts": "counters",
    "indexing": "index builds",
}
#: Documents that are deleted at once.
BATCH: Final = 2_000
#: An index of some million entries is counted within this.
_COUNT_SECONDS: Final = 20.0
#: What MongoDB has beside our collections, such as a profile; it goes with them.
_ITS_OWN: Final = "system."


class _Things(NamedTuple):
    """Documents of one kind: those that match, or the whole collection."""

    kind: str
    collection: Collection[Document]
    match: Document | None


class MongoInventory:
    """Count and delete what nodes have of a tenant; ``names`` are the stage's nodes."""

    store = "mongodb"

    def __init__(self, nodes: MongoNodes, names: Sequence[str]) -> None:
        self._nodes, self._names = nodes, names

    def count(self, tenant: str) -> Counter[str]:
        """Count the tenant's documents by kind, and its collections, which may be empty."""
        counted: Counter[str] = Counter()
        for kind, collection, match in self._things(tenant):
            with border(_COUNT_SECONDS):
                if match is None:
                    counted["collections"] += 1
                    counted[kind] += collection.estimated_document_count()
                else:
                    counted[kind] += collection.count_documents(match)
        return +counted

    def clear(self, tenant: str, time_left: TimeLeft) -> None:
        """Delete what is counted, as far as there is time; a later call goes on."""
        for _, collection, match in self._things(tenant):
            if time_left() <= 0:
                return
            if match is None:
                with border():
                    collection.drop()
            elif collection.name == _NUMBERED:
                self._end_subscriptions(collection, match)
            else:
                _delete(collection, match, time_left)

    def _end_subscriptions(self, subscriptions: Collection[Document], match: Document) -> None:
        """Delete subscriptions, and have whoever reads what changed read all of them anew."""
        numbers = self._nodes.control("subscription_numbers")
        fresh = {"$add": ["$number", 1]}

        def write(session: ClientSession) -> None:
            numbers.update_one(
                {}, [{"$set": {"number": fresh, "forgotten": fresh}}], session=session
            )
            subscriptions.delete_many(match, session=session)

        with border(TRANSACTION_SECONDS):
            if subscriptions.find_one(match, {"_id": True}) is not None:
                in_transaction(subscriptions.database.client, write)

    def _things(self, tenant: str) -> Iterator[_Things]:
        # No tenant's name has an underscore, so no other one's database begins like this.
        ours = {"name": {"$regex": f"^{re.escape(database_name(tenant, ''))}"}}
        for node in self._names:
            client = self._nodes.database(node, tenant, "any").client
            with border():
                found = list(client.list_databases(filter=ours, nameOnly=True))
            for name in sorted(one["name"] for one in found):
                database = client.get_database(name, write_concern=MAJORITY)
                with border():
                    collections = database.list_collection_names()
                for each in sorted(collections):
                    if not each.startswith(_ITS_OWN):
                        yield _Things(kind_of(each), database[each], None)
        # "0" is what follows the slash.
        ids = {"_id": {"$gte": f"{tenant}/", "$lt": f"{tenant}0"}}
        for name in BY_ID:
            yield _Things(name.replace("_", " "), self._nodes.control(name), ids)
        for name, field in BY_FIELD.items():
            yield _Things(name.replace("_", " "), self._nodes.control(name), {field: tenant})


def kind_of(collection: str) -> str:
    """Name what a biz's collection has.

    >>> kind_of("shop.main_003"), kind_of("shop.main_003_records"), kind_of("shop.my_seeds_seeds")
    ('requests', 'records', 'seeds')
    """
    return _KINDS.get(collection.rpartition("_")[2], "requests")


def _delete(collection: Collection[Document], match: Document, time_left: TimeLeft) -> None:
    """Delete in batches: one that is cut off has done its part."""
    while time_left() > 0:
        with border():
            found = [one["_id"] for one in collection.find(match, {"_id": True}).limit(BATCH)]
            if not found:
                return
            collection.delete_many({"_id": {"$in": found}})
