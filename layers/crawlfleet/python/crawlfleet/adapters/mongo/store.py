"""The whole of ports.RequestStore on MongoDB, put together from its parts."""

from crawlfleet.adapters.mongo.claims import MongoClaims
from crawlfleet.adapters.mongo.connection import MongoNodes
from crawlfleet.adapters.mongo.indexing import BUILD_SECONDS, SMALL, MongoIndexing
from crawlfleet.adapters.mongo.insertion import MongoInsertion
from crawlfleet.adapters.mongo.job_cancelling import MongoJobCancelling
from crawlfleet.adapters.mongo.missing import SCAN
from crawlfleet.adapters.mongo.recovery import MongoRecovery
from crawlfleet.adapters.mongo.settlement import MongoSettlement
from crawlfleet.adapters.mongo.shards import Shards
from crawlfleet.adapters.mongo.streaming import MongoStreaming
from crawlfleet.adapters.mongo.tracking import MongoTracking


class MongoRequestStore(
    MongoInsertion,
    MongoClaims,
    MongoSettlement,
    MongoStreaming,
    MongoTracking,
    MongoRecovery,
    MongoIndexing,
    MongoJobCancelling,
):
    """Requests and records in the shards of their biz.

    Args:
        nodes: Where they are.
        scan: Requests of a shard that recovery looks at where no index tells their priority.
        small: Documents of a collection that an index is built for in passing.
        build_seconds: How long building one may take.
    """

    def __init__(
        self,
        nodes: MongoNodes,
        *,
        scan: int = SCAN,
        small: int = SMALL,
        build_seconds: float = BUILD_SECONDS,
    ) -> None:
        self.nodes = nodes
        shards = Shards(nodes)
        MongoInsertion.__init__(self, shards)
        MongoClaims.__init__(self, shards)
        MongoSettlement.__init__(self, nodes, shards)
        MongoStreaming.__init__(self, shards)
        MongoTracking.__init__(self, shards)
        MongoRecovery.__init__(self, shards, scan)
        MongoIndexing.__init__(self, shards, small, build_seconds)
        MongoJobCancelling.__init__(self, shards)
