"""Names tests use of ids and the numbers of workers that issue them."""

from crawlfleet.requests.ids.issuer import (
    BLOCK_LIFE,
    LONGEST_WAIT_MS,
    PER_MILLISECOND,
    TERM,
    UNMARKED_GUARD_MS,
    WINDOW_MS,
    WORKER_NUMBERS,
    Allot,
    Issuer,
    SteppedBack,
    Wait,
    WorkerNumbers,
    allot,
    first_mark,
    position,
    runs,
)
from crawlfleet.requests.ids.mongo import MongoCounter, MongoWorkerNumbers
from crawlfleet.requests.ids.redis import RedisWorkerNumbers
