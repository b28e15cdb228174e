"""Names tests use of jobs: models, expansion, completion, cancellation, usage."""

from crawlfleet.adapters.mongo.demands import MongoDemands
from crawlfleet.adapters.mongo.job_reopening import MongoJobReopening, MongoJobStates
from crawlfleet.adapters.mongo.jobs import MongoJobs
from crawlfleet.adapters.mongo.lost_jobs import MongoLostJobs
from crawlfleet.adapters.redis_queue.cancellations import RedisCancellations
from crawlfleet.flows import cancelling, ending, jobs
from crawlfleet.flows.advancing import TERM, TURN, AdvancingPorts, advance, can_advance
from crawlfleet.flows.cancelling import CancellingPorts, cancel_job, cancel_jobs
from crawlfleet.flows.ending import EndingPorts, end_jobs
from crawlfleet.flows.expanding import Expanded, ExpandingPorts, expand
from crawlfleet.flows.jobs import JobPorts
from crawlfleet.flows.learning import (
    BATCH,
    GRACE,
    LearningPorts,
    get_demand,
    get_run,
    learn_due,
    learn_run,
    list_demands,
)
from crawlfleet.flows.losing import KEPT, end_lost_jobs
from crawlfleet.flows.starting import StartingPorts, start_job
from crawlfleet.model.job import (
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
from crawlfleet.model.run import RUN_LIFE, RunFigures, RunPart, RunRecord
from crawlfleet.model.usage import JobDemand, Usage
from crawlfleet.policy.cancelling import ANNOUNCED_SECONDS, MOST_ANNOUNCED, cancelled, is_over
from crawlfleet.policy.demand import PEAKS, learn
from crawlfleet.policy.job_orders import key_name
from crawlfleet.policy.job_progress import FURTHEST, progress_of
from crawlfleet.policy.job_turns import (
    LATEST_LOOK,
    LATEST_STILL,
    LONGEST,
    after_trouble,
    until_look,
    until_look_again,
    when_crowded,
)
from crawlfleet.policy.runs import together, usage_of, was_closed
from crawlfleet.ports import Cancellations, DemandStore, JobReopening, JobStates, JobStore, LostJobs
from crawlfleet.ports.cancelling import Heard, JobKey
