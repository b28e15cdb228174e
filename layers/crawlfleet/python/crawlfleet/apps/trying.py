"""Open the service by which the router has rules tried: host slots, robots.txt, secrets."""

from crawlfleet.apps.context import Parts
from crawlfleet.crawling.fetching.stores import StoreAddresses
from crawlfleet.crawling.politeness.redis import RedisHosts, RedisRobotsCache
from crawlfleet.crawling.trials.remote import TrialService


def open_trials(parts: Parts) -> TrialService:
    """Open the service that tries rules."""
    stores = StoreAddresses(parts.store_places)
    return TrialService(
        trials=parts.trials,
        hosts=RedisHosts(parts.redis),
        robots=RedisRobotsCache(parts.redis),
        read_secret=parts.read_secret,
        read_tenant_secret=parts.read_tenant_secret,
        stores=lambda: stores.known,
    )
