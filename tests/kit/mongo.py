"""Names tests use of MongoDB: requests, records, ledgers, and the connection below them."""

from crawlfleet.kernel.mongo.connection import (
    APP_NAME,
    LEFT_ALONE,
    MAJORITY,
    OPERATION_SECONDS,
    SERVER_SELECTION_SECONDS,
    Document,
    MongoNodes,
    UnstorableError,
    Waits,
    border,
    database_name,
    end_abandoned,
)
from crawlfleet.kernel.mongo.refusals import LONGEST_SECONDS, REFUSALS, RENEWAL_SECONDS, Pace
from crawlfleet.kernel.mongo.transactions import in_transaction
from crawlfleet.requests.mongo import reclaim as indexing
from crawlfleet.requests.mongo import settle
from crawlfleet.requests.mongo.documents import LOG_LENGTH, new_document, request_of
from crawlfleet.requests.mongo.insert import MongoInsertion, ShardInsertion
from crawlfleet.requests.mongo.ledger import MongoJournal, MongoLedgers
from crawlfleet.requests.mongo.read import MongoTracking
from crawlfleet.requests.mongo.reclaim import MongoLeaseRevocation
from crawlfleet.requests.mongo.record_search import MongoRecordSearch
from crawlfleet.requests.mongo.records import latest_of
from crawlfleet.requests.mongo.sharding import BY_JOB, BY_POOL, BY_PRIORITY, BY_STATE, Shards
from crawlfleet.requests.mongo.store import MongoRequestStore
from crawlfleet.requests.submission.mongo import MongoRules
