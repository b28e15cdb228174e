"""Names tests use of subscriptions to streams."""

from crawlfleet.streams.subscriptions.models import (
    ENDED_FOR_EACH,
    TOMBSTONE,
    Active,
    Content,
    Day,
    Hours,
    Seen,
    StreamKind,
    Subscription,
    Target,
    after,
    is_active,
    is_zone,
    subscription_id,
)
from crawlfleet.streams.subscriptions.mongo import MongoSubscriptions
