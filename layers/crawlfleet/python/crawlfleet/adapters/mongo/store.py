"""The whole of ports.RequestStore on MongoDB, put together from its parts."""

from crawlfleet.adapters.mongo.connection import MongoNodes
from crawlfleet.adapters.mongo.recovery import MongoRecovery
from crawlfleet.adapters.mongo.requests import MongoRequestWrites
from crawlfleet.adapters.mongo.shards import Shards
from crawlfleet.adapters.mongo.tracking import MongoTracking


class MongoRequestStore(MongoRequestWrites, MongoTracking, MongoRecovery):
    """Requests and records in the shards of their biz."""

    def __init__(self, nodes: MongoNodes) -> None:
        shards = Shards(nodes)
        MongoRequestWrites.__init__(self, nodes, shards)
        MongoTracking.__init__(self, shards)
        MongoRecovery.__init__(self, nodes, shards)
