"""Names tests use of feeds."""

from crawlfleet.streams.feeds import identity, interval, outcomes, websub
from crawlfleet.streams.feeds.callbacks import HubCallbacks
from crawlfleet.streams.feeds.conditions import condition, digest, is_unchanged, kept
from crawlfleet.streams.feeds.entries import is_fresh, items_of, reading_of
from crawlfleet.streams.feeds.fetching import PoliteFeeds, moved_to
from crawlfleet.streams.feeds.hubs import HubSubscriber
from crawlfleet.streams.feeds.identity import (
    KEPT,
    KEYS_MAX,
    Level,
    item_id,
    key_of,
    level_of,
    same_of,
    told,
)
from crawlfleet.streams.feeds.interval import (
    WEEK_SECONDS,
    Bounds,
    Wishes,
    first_rate,
    kept_seconds,
    learnt_rate,
    next_at,
)
from crawlfleet.streams.feeds.models import About, Download, Entry, Feed, Hub, Lease
from crawlfleet.streams.feeds.mongo import MOST, MongoFeeds, MongoHubs
from crawlfleet.streams.feeds.places import FeedPlaces
from crawlfleet.streams.feeds.reader import FeedReader, parsed_by
from crawlfleet.streams.reading.feeds import FeedRunner
from crawlfleet.streams.reading.runner import Terms
