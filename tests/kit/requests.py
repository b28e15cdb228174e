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
from crawlfleet.model.page import SAMPLE_BYTES, Answer, Page
