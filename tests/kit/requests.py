"""Names tests use of requests: models, outcomes, routing, ledger and their ports."""

from crawlfleet.flows.holding import PARKED_BATCHES, PARKED_BYTES, Held, Holding
from crawlfleet.model.harvest import (
    Coverage,
    Harvest,
    Item,
    Link,
    QueuedItem,
    RuleCoverage,
    Skipped,
)
from crawlfleet.model.journal import JournalLine
from crawlfleet.model.keyed import Keyed, KeyKind, KeyName, Pin
from crawlfleet.model.ledger import JOB_LIFE, Correction, Ledger
from crawlfleet.model.outcome import Dead, Done, Outcome, Retry, Settled
from crawlfleet.model.record import NS_OF_MS, Record
from crawlfleet.model.recrawl import Validators, Visit, VisitTotals
from crawlfleet.model.request import (
    FINAL_STATES,
    Body,
    Claim,
    Entry,
    Event,
    Inserted,
    Mark,
    Request,
    State,
    Tracked,
)
from crawlfleet.model.submission import BATCH_LIMIT, Accepted, Receipt, Refused, Submission
from crawlfleet.page import SAMPLE_BYTES, Answer, Page
from crawlfleet.policy import retry
from crawlfleet.policy.finishing import done_with
from crawlfleet.policy.recrawl import is_visit
from crawlfleet.policy.retry import (
    CUT_OFF,
    CUT_OFFS,
    INTERNAL,
    LONGEST_RETRY_AFTER,
    REASONS,
    UNREADABLE,
    UNSTORABLE,
    after_failure,
    reason_of,
)
from crawlfleet.policy.routing import (
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
from crawlfleet.ports import Disowning, Journal, Ledgers, RequestStore, RuleStore
