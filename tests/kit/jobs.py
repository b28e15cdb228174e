"""Names tests use of jobs: models, expansion, completion, cancellation, usage."""

from crawlfleet.jobs import cancellation as cancelling
from crawlfleet.jobs import completion as ending
from crawlfleet.jobs import service as jobs
from crawlfleet.jobs.cancellation import JobCancellation, is_over
from crawlfleet.jobs.completion import FURTHEST, KEPT, LOCK, REST, TERM, JobRounds, progress_of
from crawlfleet.jobs.expansion import (
    LONGEST,
    LONGEST_IDLE_POLL,
    LONGEST_POLL,
    Expanded,
    JobExpansion,
    backlog_backoff,
    backoff_after,
    next_poll_interval,
    poll_interval,
)
from crawlfleet.jobs.models import (
    ENDED,
    EXPANDABLE,
    LONGEST_REFUSAL,
    MOST_REFUSALS,
    PLACEABLE,
    RETRIABLE,
    RUN_LIFE,
    SUBMITTED,
    WATCHED,
    Band,
    Job,
    JobDemand,
    JobForecast,
    JobKey,
    JobOrder,
    JobState,
    RunFigures,
    RunPart,
    RunRecord,
    StatedAmount,
    StatedDemand,
    TaskBatch,
    Usage,
    cancelled,
    day_name,
)
from crawlfleet.jobs.mongo.lists import MongoJobReopening, MongoOrphanedJobs
from crawlfleet.jobs.mongo.store import MongoJobs
from crawlfleet.jobs.mongo.usage import MongoDemands
from crawlfleet.jobs.orders import is_as_ordered, job_of, key_name, problems_of, rule_and_start
from crawlfleet.jobs.redis import (
    ANNOUNCED_SECONDS,
    MOST_ANNOUNCED,
    Announced,
    RedisCancellations,
)
from crawlfleet.jobs.service import JobService, JobStarter, wake_for
from crawlfleet.jobs.sqs import HIDDEN_SECONDS, StartsQueue
from crawlfleet.jobs.submitted import MOST_A_CALL, NOTED_SECONDS, SubmittedJobs
from crawlfleet.jobs.usage import BATCH, GRACE, PEAKS, RunUsage, learn, together, usage_of
