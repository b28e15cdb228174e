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
    bind,
    open_places,
    places,
    problems_with,
    singles,
    size,
    url_at,
)
from crawlfleet.jobs.spiders.mongo import MongoSpiders
from crawlfleet.jobs.spiders.service import SpiderService, refused
