"""Names tests use of seeds: models, filter, offers, dispatch and their stores."""

from crawlfleet.adapters.mongo.seeds import MongoSeeds
from crawlfleet.adapters.redis_queue.seed_filter import FOREVER_LIFE, MARGIN, RedisSeedFilter
from crawlfleet.adapters.seed_keys import SeedKeys
from crawlfleet.flows import seeds
from crawlfleet.flows.offering import adopt, offer, offer_each
from crawlfleet.flows.seeding import (
    PUT_OFF,
    SeedingPorts,
    hand_out,
    look_after,
    seeds_ended,
)
from crawlfleet.flows.seeds import SeedsChanged
from crawlfleet.flows.sowing import ACTIVE_SECONDS, MARGIN_SECONDS, Sower, tend_seeds
from crawlfleet.model.seed import (
    LARGEST_OFFER,
    Offer,
    Offered,
    Seed,
    SeedsMeant,
    SeedState,
    SeedTotals,
    Segment,
)
from crawlfleet.policy.bloom import BLOCK_BYTES, error_at, layers
from crawlfleet.policy.seedkey import (
    KEY_BYTES,
    SeedKeyResolver,
    canonical,
    default_resolver,
    keys_of,
    seed_key,
)
from crawlfleet.policy.seedroute import candidates, homes
from crawlfleet.policy.segment import FOREVER, anchor_of, segment_of
from crawlfleet.ports import SeedFilter, SeedStore
