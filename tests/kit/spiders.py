"""Names tests use of spiders: models, start URLs, their store and service."""

from crawlfleet.jobs.spiders.models import (
    HOLD,
    LARGEST_JOB,
    LARGEST_PLAN,
    MOST_SPIDERS,
    MOST_VERSIONS,
    ConfiguredSpider,
    KeptSpider,
    LinkNeeds,
    Range,
    SpiderPlan,
    Start,
)
from crawlfleet.jobs.spiders.mongo import MongoSpiders
from crawlfleet.jobs.spiders.service import (
    SpiderPorts,
    SpiderStore,
    delete_spider,
    get_spider,
    list_spiders,
    list_versions,
    put_spider,
)
from crawlfleet.jobs.spiders.starts import (
    bind,
    open_places,
    places,
    problems_with,
    refused,
    size,
    url_at,
)
