"""Names tests use of subscriptions to streams."""

from crawlfleet.streams.subscriptions.models import (
    ENDED_FOR_EACH,
    TOMBSTONE,
    Active,
    Content,
    Day,
    Deliver,
    Hours,
    Seen,
    StreamKind,
    Subscription,
    after,
    canonical_feed,
    is_active,
    is_zone,
    subscription_id,
)
from crawlfleet.streams.subscriptions.mongo import MongoSubscriptions
from crawlfleet.streams.subscriptions.service import problems_of, targets_of
from crawlfleet.streams.subscriptions.trial import MOST_CHARACTERS, SavedItem, tried
from crawlfleet.streams.subscriptions.validation import problems_with
