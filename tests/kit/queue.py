"""Names tests use of the queue of requests: leases, deferral, ageing, stats."""

from crawlfleet.adapters.redis_queue import keys
from crawlfleet.adapters.redis_queue.crawl_keys import bizs_key
from crawlfleet.adapters.redis_queue.filling import RedisFilling
from crawlfleet.adapters.redis_queue.keys import (
    cookies_key,
    filter_keys,
    fleet_keys,
    host_key,
    host_list,
    lane_keys,
    level_keys,
    robots_key,
    troubled_key,
)
from crawlfleet.adapters.redis_queue.lease_book import RedisLeaseBook
from crawlfleet.adapters.redis_queue.outlook import RedisOutlook
from crawlfleet.adapters.redis_queue.overview import RedisOverview
from crawlfleet.adapters.redis_queue.queue import RedisQueue
from crawlfleet.model.staff import LaneWork
from crawlfleet.model.totals import Depth, Load, NodeHealth, Pressure, Rates, Stats
from crawlfleet.policy import parking
from crawlfleet.policy.ageing import (
    BASE,
    NONE,
    kept,
    longest_wait,
    next_level,
    settle,
    ticks_to_pass,
    urgency,
)
from crawlfleet.policy.parking import LOOKED_AT, READY_EACH, aged, joined, places, ready, served
from crawlfleet.policy.queue_order import each_queued_before, queued_before
from crawlfleet.policy.rates import KEPT_SECONDS, before, full_minute, rates
from crawlfleet.policy.tokens import is_of, new_token, worker_of
from crawlfleet.ports import LeaseBook, Outlook, Overview, QueueFilling, RequestQueue
