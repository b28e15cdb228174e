"""Names tests use of records: normalisation, schema, coverage and the pipeline."""

from crawlfleet.crawling.records.falls import JobCoverage, covered, falls, is_busy
from crawlfleet.crawling.records.normalise import (
    DEEPEST,
    LARGEST_BYTES,
    LARGEST_ITEM,
    LEASE_BYTES,
    LONGEST_REPORTED,
    MOST_REPORTED,
    QUEUE_BYTES,
    VALUE_BYTES,
    item_ids,
    item_of,
    key_of,
    key_of_content,
    key_of_text,
    no_room,
    normalised,
    put_of,
    refuse_large,
    wire_of,
)
from crawlfleet.crawling.records.pipeline import (
    BATCH,
    BATCHES,
    DROPPED,
    MOST_ATTEMPTS,
    DataProcessor,
    Drainer,
)
from crawlfleet.crawling.records.pipeline import LEASE as ITEM_LEASE
from crawlfleet.crawling.records.preparation import prepare
from crawlfleet.crawling.records.redis import (
    _PUT,
    HOURS,
    MOST_OF_HOURS,
    MOST_VERSIONS,
    RedisCoverages,
    RedisDataQueue,
    coverage,
)
from crawlfleet.crawling.records.schema import (
    KEPT_SCHEMAS,
    LONGEST_CHAIN,
    LONGEST_MESSAGE,
    LONGEST_PATTERN,
    MOST_PATTERNS,
    MOST_PROBLEMS,
    SchemaValidator,
)
from crawlfleet.crawling.records.schema import LARGEST_BYTES as LARGEST_SCHEMA_BYTES
from crawlfleet.requests.models import KEY_BYTES
