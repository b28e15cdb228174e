"""The whole of ports.RequestStore on MongoDB, put together from its parts."""

from crawlfleet.adapters.mongo.claims import MongoClaims
from crawlfleet.adapters.mongo.connection import MongoNodes
from crawlfleet.adapters.mongo.indexing import MongoIndexing
from crawlfleet.adapters.mongo.insertion import MongoInsertion
from crawlfleet.adapters.mongo.job_cancelling import MongoJobCancelling
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
    """Requests and records in the shards of their biz."""

    def __init__(self, nodes: MongoNodes) -> None:
        self.nodes = nodes
        shards = Shards(nodes)
        MongoInsertion.__init__(self, shards)
        MongoClaims.__init__(self, shards)
        MongoSettlement.__init__(self, nodes, shards)
        MongoStreaming.__init__(self, shards)
        MongoTracking.__init__(self, shards)
        MongoRecovery.__init__(self, shards)
        MongoIndexing.__init__(self, shards)
        MongoJobCancelling.__init__(self, shards)
