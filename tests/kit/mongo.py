"""Names tests use of MongoDB: requests, records, ledgers, and the connection below them."""

from crawlfleet.adapters.mongo import indexing
from crawlfleet.adapters.mongo.connection import (
    APP_NAME,
    GLANCE_SECONDS,
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
from crawlfleet.adapters.mongo.disowning import MongoDisowning
from crawlfleet.adapters.mongo.documents import LOG_LENGTH
from crawlfleet.adapters.mongo.insertion import MongoInsertion, ShardInsertion
from crawlfleet.adapters.mongo.journal import MongoJournal
from crawlfleet.adapters.mongo.ledgers import MongoLedgers
from crawlfleet.adapters.mongo.record_documents import latest_of
from crawlfleet.adapters.mongo.refusals import LONGEST_SECONDS, REFUSALS, RENEWAL_SECONDS, Pace
from crawlfleet.adapters.mongo.rules import MongoRules
from crawlfleet.adapters.mongo.settlement import MongoSettlement
from crawlfleet.adapters.mongo.shards import BY_POOL, BY_PRIORITY, BY_STATE, Shards
from crawlfleet.adapters.mongo.store import MongoRequestStore
from crawlfleet.adapters.mongo.transactions import in_transaction
