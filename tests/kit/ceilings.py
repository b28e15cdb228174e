"""Names tests use of the ceilings of tenants."""

from crawlfleet.config.documents.ceilings import Ceilings
from crawlfleet.kernel.mongo.connection import MongoNodes
from crawlfleet.kernel.redis.connection import RedisConnection
from crawlfleet.requests.ceilings.models import (
    REDIS_SECONDS,
    STORED_SECONDS,
    CeilingState,
    PermitAsk,
    Permits,
)
from crawlfleet.requests.ceilings.mongo import MongoSizes
from crawlfleet.requests.ceilings.redis import TERM, QueueBytes, RedisCeilings
from crawlfleet.requests.ceilings.service import TenantCeilings, TenantSizesBook
from crawlfleet.requests.queue.redis.queue import RedisQueue


def ceilings_at(redis: RedisConnection, nodes: MongoNodes) -> TenantCeilings:
    """The ceilings as a function opens them."""
    found = RedisCeilings(redis)
    book = TenantSizesBook(redis=found, stored=MongoSizes(nodes), open=RedisQueue(redis).open)
    return TenantCeilings(redis=found, sizes=book)
