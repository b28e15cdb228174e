"""Transactions whose client is gone.

A worker that is killed in the middle of a transaction leaves it open, and the server keeps it for a
minute (``transactionLifetimeLimitSeconds``). Until then every write to the documents that it has
touched waits: the claims and outcomes of all other workers, and the very update that is to take the
dead worker's requests from it.
"""

import logging
from datetime import timedelta
from typing import Final

from pymongo import MongoClient
from pymongo.errors import OperationFailure

from crawlfleet.adapters.mongo.connection import APP_NAME, Document, border

#: Between two statements of a transaction of ours lie microseconds. One that has waited for this
#: long has lost its client; should that be only frozen, it is told to do it all again.
LEFT_ALONE: Final = timedelta(seconds=2)
_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


def end_abandoned(client: MongoClient[Document]) -> int:
    """End what has been left open on a node by any process of the fleet; returns how many.

    A user of MongoDB may see and end sessions of its own without a further right. Where the server
    does not let it all the same (shared tiers), they end by themselves within the minute.
    """
    look: list[Document] = [
        {"$currentOp": {"allUsers": False, "idleSessions": True}},
        {
            "$match": {
                "type": "idleSession",
                "appName": APP_NAME,
                "transaction.timeInactiveMicros": {"$gte": LEFT_ALONE // timedelta(microseconds=1)},
            }
        },
        {"$project": {"_id": 0, "id": "$lsid.id"}},
    ]
    with border(_SECONDS):
        try:
            left = list(client.admin.aggregate(look))
            if left:
                client.admin.command("killSessions", left)
        except OperationFailure as error:
            _log.info("transactions left open are not ended", extra={"reason": str(error)[:200]})
            return 0
    return len(left)
