"""Names tests use of requests: models, outcomes, routing, ledger and their ports."""

from crawlfleet.kernel.ids import FINAL_STATES, OWN, OWN_FINAL, State, is_final
from crawlfleet.kernel.page import SAMPLE_BYTES, Answer, Page
from crawlfleet.requests import outcomes as retry
from crawlfleet.requests.leased import Bill, LeasedRequest
from crawlfleet.requests.models import (
    ALL_REQUESTS,
    JOB_LIFE,
    NEWEST_REQUESTS,
    NS_OF_MS,
    SCRAPY_META,
    Body,
    Claim,
    Correction,
    Coverage,
    Entry,
    Event,
    Harvest,
    HourCoverage,
    Inserted,
    Item,
    JournalLine,
    Ledger,
    Link,
    QueuedItem,
    QueueEpoch,
    Record,
    RecordFilter,
    Request,
    RequestFilter,
    RuleCoverage,
    Skipped,
    Tracked,
)
from crawlfleet.requests.mongo.documents import term_of
from crawlfleet.requests.mongo.transitions import Transited, Transition
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
    keyed_homes,
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
from crawlfleet.requests.visits import Validators, Visit, VisitTotals, is_visit
