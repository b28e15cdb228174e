"""Names tests use of records: normalisation, schema, coverage and the pipeline."""

from crawlfleet.adapters.redis_queue.coverages import RedisCoverages
from crawlfleet.adapters.redis_queue.data_queue import _PUT, RedisDataQueue
from crawlfleet.adapters.schema import KEPT_SCHEMAS, LONGEST_MESSAGE, MOST_PROBLEMS, SchemaValidator
from crawlfleet.adapters.schema_bounds import LARGEST_BYTES as LARGEST_SCHEMA_BYTES
from crawlfleet.adapters.schema_bounds import LONGEST_CHAIN, LONGEST_PATTERN, MOST_PATTERNS
from crawlfleet.flows.coverage import CoveragePorts, coverage
from crawlfleet.flows.draining import BATCHES, Drainer
from crawlfleet.flows.draining import LEASE as ITEM_LEASE
from crawlfleet.flows.processing import (
    BATCH,
    DROPPED,
    LONGEST_TOLD,
    MOST_ATTEMPTS,
    MOST_TOLD,
    DrainPorts,
    drain,
    prepare,
)
from crawlfleet.policy.items import (
    LANE_BYTES,
    LARGEST_ITEM,
    LEASE_BYTES,
    item_ids,
    item_of,
    no_room,
    put_of,
    refuse_large,
    wire_of,
)
from crawlfleet.policy.normal_form import DEEPEST, LARGEST_BYTES, VALUE_BYTES, normal_form
from crawlfleet.policy.record_keys import KEY_BYTES, key_of, key_of_content, key_of_text
from crawlfleet.ports import Coverages, DataQueue
