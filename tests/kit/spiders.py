"""Names tests use of spiders: models, start URLs, their store and service."""

from crawlfleet.adapters.mongo.spiders import MongoSpiders
from crawlfleet.flows.spiders import (
    SpiderPorts,
    delete_spider,
    get_spider,
    list_spiders,
    list_versions,
    put_spider,
)
from crawlfleet.model.plan import (
    HOLD,
    LARGEST_PLAN,
    MOST_SPIDERS,
    MOST_VERSIONS,
    ConfiguredSpider,
    KeptSpider,
    LinkNeeds,
    SpiderPlan,
)
from crawlfleet.model.start import LARGEST_JOB, Range, Start
from crawlfleet.policy.start_admission import refused
from crawlfleet.policy.starting import bind, open_places, places, problems_with, size, url_at
from crawlfleet.ports import SpiderStore
