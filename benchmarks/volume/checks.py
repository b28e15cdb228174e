"""Nothing is lost: what was accepted is what is done, each once, each with its record.

Of millions of ids each is looked at without a list of them: ids are folded into sums of their
remainders, by whoever submitted and by MongoDB over what it holds. One that is missing, or is there
twice, or is another one, changes them; that two faults cancel out is one in 10^18.
"""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
import pymongo
from pymongo.collection import Collection

from benchmarks.house import BIZ, QUEUE_KEY, TENANT
from benchmarks.routing import Router, event
from crawlfleet.apps.context import now
from crawlfleet.kernel.ids import State
from crawlfleet.kernel.mongo.connection import database_name
from crawlfleet.requests.models import Ledger

#: Two primes, so large that sums of millions of remainders stay below 2^63.
MODULI: Final = (2_147_483_647, 1_000_000_007)


class Fingerprint(msgspec.Struct):
    """A fingerprint of many ids.

    >>> one, other = Fingerprint(), Fingerprint()
    >>> one.add([1, 2**40]); other.add([2**40, 1])
    >>> one == other
    True
    """

    count: int = 0
    sums: list[int] = msgspec.field(default_factory=lambda: [0, 0])

    def add(self, ids: Iterable[int]) -> None:
        """Add ids."""
        for an_id in ids:
            self.count += 1
            for place, modulus in enumerate(MODULI):
                self.sums[place] += an_id % modulus

    def merge(self, other: "Fingerprint") -> None:
        """Add the ids of another fingerprint."""
        self.count += other.count
        self.sums = [mine + theirs for mine, theirs in zip(self.sums, other.sums, strict=True)]


def stored(mongo: pymongo.MongoClient[dict[str, Any]], field: str, part: str) -> Fingerprint:
    """The fingerprint of the ids in ``field`` over the collections of one kind."""
    found = Fingerprint()
    for collection in collections(mongo, part):
        match = {} if part == "records" else {"flag": int(State.DONE)}
        sums = {
            f"sum{place}": {"$sum": {"$mod": [f"${field}", modulus]}}
            for place, modulus in enumerate(MODULI)
        }
        group = {"$group": {"_id": None, "count": {"$sum": 1}, **sums}}
        for row in collection.aggregate([{"$match": match}, group]):
            sums_found = [int(row[f"sum{place}"]) for place in range(len(MODULI))]
            found.merge(Fingerprint(int(row["count"]), sums_found))
    return found


def collections(
    mongo: pymongo.MongoClient[dict[str, Any]], part: str
) -> list[Collection[dict[str, Any]]]:
    """The shards' collections of ``requests`` or ``records``."""
    database = mongo[database_name(TENANT, "docs")]
    names = [name for name in database.list_collection_names() if name.startswith(f"{BIZ}.")]
    if part == "records":
        return [database[name] for name in names if name.endswith("_records")]
    return [database[name] for name in names if name.rpartition("_")[2].isdigit()]


def audit_of(router: Router) -> Ledger:
    """The ledger, each term counted by itself."""
    biz = router.parts.config.current().bizs[TENANT][BIZ]
    return router.parts.ledgers.audit(QUEUE_KEY, biz, now())


def problems_of_ledger(ledger: Ledger, accepted: int) -> list[str]:
    """Find the problems of a ledger when all is done.

    >>> problems_of_ledger(Ledger(submitted=2, done=2), 2)
    []
    >>> problems_of_ledger(Ledger(submitted=2, done=1, pending=1), 2)
    ['1 of 2 are done: Ledger(submitted=2, pending=1, ...done=1, ...)']
    """
    found = []
    if ledger.difference:
        found.append(f"the ledger's difference is {ledger.difference}: {ledger}")
    if ledger.submitted != accepted:
        found.append(f"{accepted} were accepted and {ledger.submitted} are counted as submitted")
    if ledger.done != accepted:
        found.append(f"{ledger.done} of {accepted} are done: {ledger}")
    return found


def problems_of_ids(mongo: pymongo.MongoClient[dict[str, Any]], accepted: Fingerprint) -> list[str]:
    """Check that the requests that are done, and have a record, are those accepted."""
    found = []
    for reported, field, part in (("done", "_id", "requests"), ("recorded", "_id.r", "records")):
        there = stored(mongo, field, part)
        if there != accepted:
            found.append(f"what is {reported} is not what was accepted: {there} is not {accepted}")
    return found


def problems_of_one(router: Router, an_id: str) -> list[str]:
    """Look it up as a client does: it is done, with its record."""
    body = router.call(event("GET", f"/v1/{BIZ}/requests/{an_id}"), 200)
    view = msgspec.json.decode(body)
    if (view["id"], view["state"], view["records"]) == (an_id, "done", 1):
        return []
    return [f"{an_id} is not done with one record: {body[:500]}"]


def problems_of_queue(router: Router) -> list[str]:
    """Check that Redis has forgotten what is done."""
    depth = router.parts.queue.depth(QUEUE_KEY)
    if depth.queued or depth.leased or depth.delayed:
        return [f"the queue is not empty: {depth}"]
    return []
