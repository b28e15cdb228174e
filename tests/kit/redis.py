"""Names tests use of the wrapped Redis driver."""

from crawlfleet.kernel.redis.budget import Budget
from crawlfleet.kernel.redis.clock import ServerClock
from crawlfleet.kernel.redis.connection import ANSWER_SECONDS, QUEUES, RedisConnection
