"""Names tests use of jobs: models, expansion, completion, cancellation, usage."""

from crawlfleet.jobs import cancellation as cancelling
from crawlfleet.jobs import completion as ending
from crawlfleet.jobs import service as jobs
from crawlfleet.jobs.background import LOCK, TERM, AdvancingPorts, advance, can_advance
from crawlfleet.jobs.cancellation import (
    ANNOUNCED_SECONDS,
    MOST_ANNOUNCED,
    Announced,
    Cancellations,
    CancellingPorts,
    JobKey,
    cancel_job,
    cancel_jobs,
    cancelled,
    is_over,
)
from crawlfleet.jobs.completion import (
    FURTHEST,
    KEPT,
    EndingPorts,
    end_jobs,
    end_orphaned_jobs,
    progress_of,
)
from crawlfleet.jobs.expansion import (
    LONGEST,
    LONGEST_IDLE_POLL,
    LONGEST_POLL,
    Expanded,
    ExpandingPorts,
    backlog_backoff,
    backoff_after,
    expand,
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
    WATCHED,
    Job,
    JobOrder,
    JobState,
    TaskBatch,
)
from crawlfleet.jobs.mongo.reopening import MongoJobReopening, MongoJobStates, MongoOrphanedJobs
from crawlfleet.jobs.mongo.store import MongoJobs
from crawlfleet.jobs.mongo.usage import MongoDemands
from crawlfleet.jobs.ports import DemandStore, JobReopening, JobStates, JobStore, OrphanedJobs
from crawlfleet.jobs.redis import RedisCancellations
from crawlfleet.jobs.service import JobPorts
from crawlfleet.jobs.starting import StartingPorts, is_as_ordered, key_name, start_job
from crawlfleet.jobs.usage import (
    PEAKS,
    RUN_LIFE,
    JobDemand,
    RunFigures,
    RunPart,
    RunRecord,
    Usage,
    learn,
    together,
    usage_of,
    was_closed,
)
from crawlfleet.jobs.usage_averages import (
    BATCH,
    GRACE,
    LearningPorts,
    get_demand,
    get_run,
    learn_due,
    learn_run,
    list_demands,
)
