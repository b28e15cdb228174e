"""Names tests use of the queue of requests: leases, deferral, ageing, stats."""

from crawlfleet.kernel.redis.server import fleet_keys
from crawlfleet.requests.queue.ageing import (
    LOOKED_AT,
    NO_TS,
    READY_EACH,
    by_account,
    by_host,
    deferred_hosts,
    hosts_among,
    is_parked,
    kept,
    place,
    places,
    ready_count,
)
from crawlfleet.requests.queue.redis import keys
from crawlfleet.requests.queue.redis.keys import (
    bizs_key,
    ceiling_keys,
    cookies_key,
    filter_keys,
    host_key,
    host_list,
    level_keys,
    quota_keys,
    redis_keys,
    robots_key,
    room_keys,
    strain_keys,
    troubled_key,
)
from crawlfleet.requests.queue.redis.open_queues import LINGER, RedisOpenQueues
from crawlfleet.requests.queue.redis.queue import RedisQueue
from crawlfleet.requests.queue.redis.recovery import RedisLeaseBook, RedisQueueRebuild
from crawlfleet.requests.queue.redis.stats import RedisOverview, RedisQueueSampler
from crawlfleet.requests.queue.stats import (
    KEPT_SECONDS,
    Depth,
    Load,
    NodeHealth,
    Pressure,
    QueueWork,
    Rates,
    Stats,
    before,
    each_queued_before,
    full_minute,
    queued_before,
    rates,
)
from crawlfleet.requests.tokens import is_of, new_token, worker_of
