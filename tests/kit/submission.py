"""Names tests use of submission: admission, idempotency, back-pressure, tracking."""

from crawlfleet.requests.submission.admission import (
    LONGEST_SECONDS,
    MEMORY_SECONDS,
    SHORTEST_SECONDS,
    Intake,
    event_name,
    fire_name,
    is_reserved,
    job_name,
    refusal,
    retry_after,
    run_now_name,
)
from crawlfleet.requests.submission.idempotency import (
    digest_of_call,
    digest_of_entry,
    is_old,
    kept_until,
    outlived,
    reused,
)
from crawlfleet.requests.submission.mongo import MongoSubmissionKeys
from crawlfleet.requests.submission.redis import GOOD_SECONDS, RedisIntake, RememberedIntake
from crawlfleet.requests.submission.service import Submissions
from crawlfleet.requests.submission.tracking import Tracking, state_label
from crawlfleet.requests.submission.waking import PoolStarter
