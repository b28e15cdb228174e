"""Names tests use of submission: admission, idempotency, back-pressure, tracking."""

from crawlfleet.adapters.mongo.submission_keys import MongoSubmissionKeys
from crawlfleet.adapters.redis_queue.intake import RedisIntake
from crawlfleet.adapters.remembered_intake import GOOD_SECONDS, RememberedIntake
from crawlfleet.flows import tracking
from crawlfleet.flows.submission import Crew, SubmissionPorts, persist_and_enqueue, submit
from crawlfleet.flows.tracking import TrackingPorts, stats
from crawlfleet.policy.back_pressure import (
    LONGEST_SECONDS,
    MEMORY_SECONDS,
    SHORTEST_SECONDS,
    refusal,
    retry_after,
)
from crawlfleet.policy.job_names import event_name, fire_name, is_reserved, job_name, run_now_name
from crawlfleet.policy.repeats import (
    digest_of_call,
    digest_of_entry,
    is_old,
    kept_until,
    outlived,
    reused,
)
from crawlfleet.ports import Intake, SubmissionKeys
