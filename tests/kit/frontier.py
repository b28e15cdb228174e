"""Names tests use of seeds: models, filter, offers, dispatch and their stores."""

from crawlfleet.config.documents.policies import LARGEST_SEED
from crawlfleet.crawling.frontier import service as seeds
from crawlfleet.crawling.frontier.adding import Sparing, spec_of_link
from crawlfleet.crawling.frontier.bloom import BLOCK_BYTES, error_at, layers
from crawlfleet.crawling.frontier.dispatch import (
    DISPATCHED_A_CALL,
    NODE_AWAY_RETRY,
    SeedDispatcher,
    SeededJobs,
)
from crawlfleet.crawling.frontier.fingerprint import (
    KEY_BYTES,
    SeedKeyResolver,
    canonical,
    default_resolver,
    keys_of,
    seed_key,
)
from crawlfleet.crawling.frontier.models import (
    AddResult,
    Seed,
    SeedSelection,
    SeedSpec,
    SeedState,
    SeedTotals,
    Segment,
    SegmentChoice,
)
from crawlfleet.crawling.frontier.mongo.store import MongoSeeds
from crawlfleet.crawling.frontier.redis import FOREVER_LIFE, MARGIN, RedisSeedFilter
from crawlfleet.crawling.frontier.resolvers import SEED_KEYS, SEGMENTS, SeedKeys, Segments, missing
from crawlfleet.crawling.frontier.segments import (
    FOREVER,
    anchor_of,
    candidates,
    choice_problem,
    homes,
    newest_first,
    segment_in,
    segment_of,
    segment_of_job,
)
from crawlfleet.crawling.frontier.service import SeedsChanged
from crawlfleet.crawling.frontier.worker import (
    ACTIVE_SECONDS,
    DISPATCHED_BESIDE,
    MARGIN_SECONDS,
    FrontierClient,
    tend_seeds,
)
