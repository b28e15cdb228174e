"""Names tests use of the wrapped Redis driver."""

from crawlfleet.adapters.redis_queue.clock import ServerClock
from crawlfleet.adapters.redis_queue.connection import ANSWER_SECONDS, LANES, RedisConnection
