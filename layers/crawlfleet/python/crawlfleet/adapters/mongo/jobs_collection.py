"""Where jobs are kept, with the indexes by which they are found; part of :mod:`.jobs`."""

from typing import Final

from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.collection import Collection

from crawlfleet.adapters.mongo.connection import Document, MongoNodes
from crawlfleet.model.ledger import JOB_LIFE

#: Names of indexes, each of nothing but what is so.
MAKING: Final = "making"
WATCHED: Final = "watched"
PLACING: Final = "placing"
WAITING: Final = "waiting"
SWEEPABLE: Final = "sweepable"
UNPLACED: Final = "unplaced"
OPEN: Final = "open"
_INDEXES: Final = [
    IndexModel(
        [("tenant", ASCENDING), ("due_at", ASCENDING), ("_id", ASCENDING)],
        name=MAKING,
        partialFilterExpression={"making": True},
    ),
    IndexModel(
        [
            ("tenant", ASCENDING),
            ("due_at", ASCENDING),
            ("_id", ASCENDING),
            ("state", ASCENDING),
        ],
        name=WATCHED,
        partialFilterExpression={"watched": True},
    ),
    # What is being cancelled has such a time, and nothing else.
    IndexModel(
        [("tenant", ASCENDING), ("sweep_at", ASCENDING), ("_id", ASCENDING)],
        name=SWEEPABLE,
        partialFilterExpression={"sweep_at": {"$exists": True}},
    ),
    IndexModel(
        [("tenant", ASCENDING), ("due_at", ASCENDING), ("_id", ASCENDING)],
        name=PLACING,
        partialFilterExpression={"placing": True},
    ),
    IndexModel(
        [("tenant", ASCENDING), ("created_at", ASCENDING), ("_id", ASCENDING)],
        name=WAITING,
        partialFilterExpression={"placing": True},
    ),
    IndexModel(
        [("ended_at", DESCENDING), ("_id", DESCENDING)],
        name=UNPLACED,
        partialFilterExpression={"unplaced": True},
    ),
    IndexModel(
        [("tenant", ASCENDING), ("biz", ASCENDING), ("schedule", ASCENDING)],
        name=OPEN,
        partialFilterExpression={"open": True},
    ),
    *(
        IndexModel(
            [
                ("tenant", ASCENDING),
                ("biz", ASCENDING),
                *((field, ASCENDING) for field in fields),
                ("created_at", DESCENDING),
                ("name", DESCENDING),
            ],
            name="_".join(("newest", *fields)),
        )
        for fields in ((), ("spider",), ("schedule",))
    ),
    # What has not ended has no such time, and stays.
    IndexModel(
        [("ended_at", ASCENDING)],
        name="ttl",
        expireAfterSeconds=int(JOB_LIFE.total_seconds()),
    ),
]


class JobsCollection:
    """The collection of jobs on the home node."""

    def __init__(self, nodes: MongoNodes) -> None:
        self._nodes = nodes
        self._sure = False

    def _jobs(self) -> Collection[Document]:
        """The jobs, with their indexes."""
        jobs = self._nodes.control("jobs")
        if not self._sure:
            jobs.create_indexes(_INDEXES)
            self._sure = True
        return jobs
