"""Names tests use of ids and the numbers of workers that issue them."""

from crawlfleet.adapters.mongo.numbers import MongoCounter, MongoWorkerNumbers
from crawlfleet.adapters.redis_queue.numbers import RedisWorkerNumbers
from crawlfleet.flows.issuing import BLOCK_LIFE, TERM, Issuer
from crawlfleet.policy.snowflake import (
    LONGEST_WAIT_MS,
    PER_MILLISECOND,
    UNMARKED_GUARD_MS,
    WINDOW_MS,
    WORKER_NUMBERS,
    Allot,
    SteppedBack,
    Wait,
    allot,
    first_mark,
    position,
    runs,
)
from crawlfleet.ports import WorkerNumbers
