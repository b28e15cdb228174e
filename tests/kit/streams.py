"""Names tests use of the streams that many share."""

from crawlfleet.streams import matching
from crawlfleet.streams.delivery import explaining, messages, retries
from crawlfleet.streams.delivery.aws import AwsPusher
from crawlfleet.streams.delivery.conversations import MOST_LEVELS, MOST_TURNS, tree_of
from crawlfleet.streams.delivery.dead_letters import StreamDeadLetters
from crawlfleet.streams.delivery.deliverer import SLICE, TERM, Deliverer, run
from crawlfleet.streams.delivery.explaining import ItemExplainer
from crawlfleet.streams.delivery.figures import LAG_BOUNDS, Tally, quantile
from crawlfleet.streams.delivery.models import (
    Addressed,
    Delivery,
    Fault,
    Reason,
    Subscriber,
    delivery_key,
    item_key,
)
from crawlfleet.streams.delivery.mongo.accepting import MongoAccepting
from crawlfleet.streams.delivery.mongo.conversations import MongoConversations
from crawlfleet.streams.delivery.mongo.dead_letters import MongoStreamDeadLetters
from crawlfleet.streams.delivery.mongo.figures import MongoFigures
from crawlfleet.streams.delivery.mongo.leasing import MongoLeasing
from crawlfleet.streams.delivery.mongo.traces import MongoTraces
from crawlfleet.streams.delivery.redis import RedisPusher, stream_key
from crawlfleet.streams.filters import (
    Facts,
    Filter,
    Group,
    Item,
    Kind,
    Leaf,
    Op,
    anchors,
    covers,
    excluded,
    is_anchored,
)
from crawlfleet.streams.holds import (
    DRIFT,
    KEEP_SECONDS,
    LEASE_SECONDS,
    OFFER_SECONDS,
    ReaderHold,
)
from crawlfleet.streams.http.backoff import (
    MOST_ASKED_SECONDS,
    MOST_NETWORK_SECONDS,
    Backoff,
    End,
)
from crawlfleet.streams.http.connection import StreamClient
from crawlfleet.streams.http.lines import Lines
from crawlfleet.streams.items import StreamItem, Withdrawn
from crawlfleet.streams.matching import Matcher
from crawlfleet.streams.ndjson.mapping import read_line
from crawlfleet.streams.ndjson.reader import NdjsonReader
from crawlfleet.streams.packing import Packing, RuleLimits, channels, least, repack
from crawlfleet.streams.parsing import (
    MOST_CHARACTERS,
    MOST_DEPTH,
    MOST_TERM_CHARACTERS,
    MOST_TERMS,
    parse,
)
from crawlfleet.streams.reading.changes import Changed, KnownFilters
from crawlfleet.streams.reading.channel import Stores
from crawlfleet.streams.reading.closing import Closing
from crawlfleet.streams.reading.counters import ChannelCounters
from crawlfleet.streams.reading.metering import Metering, Taker, Wanted
from crawlfleet.streams.reading.mongo import MongoCursors
from crawlfleet.streams.reading.plan import WHOLE, owned, planned
from crawlfleet.streams.reading.runner import StreamRunner, Terms
from crawlfleet.streams.reading.seen import sources_over
from crawlfleet.streams.reading.sharing import allot, shares_of
from crawlfleet.streams.reading.status import FEEDS, FRESH, Pace, ReaderStatus, together
from crawlfleet.streams.reading.succession import (
    Demand,
    Tenure,
    may_leave,
    readers_needed,
    readers_wanted,
)
from crawlfleet.streams.redis import RedisHolds, Taken, hold_key
from crawlfleet.streams.silence import ENOUGH, LEAST, Gaps, after_items, silent_at
from crawlfleet.streams.sources import NOTHING, Source, Subscription, needed, reload, worker_of
from crawlfleet.streams.targets import Target, TargetKind, is_allowed, must_be_allowed, target_of
from crawlfleet.streams.text import fold, hashtags, is_whole, mentions, occurrences
from crawlfleet.streams.x import posts as x_posts
from crawlfleet.streams.x import rules as x_rules
from crawlfleet.streams.x.api import XApi
from crawlfleet.streams.x.reader import XReader
