"""Names tests use of requests: models, outcomes, routing, ledger and their ports."""

from crawlfleet.kernel.ids import FINAL_STATES, State
from crawlfleet.kernel.page import SAMPLE_BYTES, Answer, Page
from crawlfleet.requests import outcomes as retry
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.models import (
    JOB_LIFE,
    NS_OF_MS,
    Body,
    Claim,
    Correction,
    Coverage,
    Entry,
    Event,
    Harvest,
    Inserted,
    Item,
    JournalLine,
    Ledger,
    Link,
    QueuedItem,
    QueueEpoch,
    Record,
    Request,
    RuleCoverage,
    Skipped,
    Tracked,
    Validators,
    Visit,
    VisitTotals,
    is_visit,
)
from crawlfleet.requests.outcomes import (
    CUT_OFF,
    CUT_OFFS,
    INTERNAL,
    LONGEST_RETRY_AFTER,
    REASONS,
    UNREADABLE,
    UNSTORABLE,
    Dead,
    Done,
    Outcome,
    Retry,
    Settled,
    after_failure,
    done_with,
    reason_of,
)
from crawlfleet.requests.routing import (
    Shard,
    all_shards,
    bits,
    candidates,
    generation_at,
    keyed_home,
    live_shards,
    mix,
    route,
    shard_of,
)
from crawlfleet.requests.submission.admission import (
    BATCH_LIMIT,
    Accepted,
    Keyed,
    KeyKind,
    KeyName,
    Receipt,
    Refused,
    RuleVersion,
    Submission,
)
