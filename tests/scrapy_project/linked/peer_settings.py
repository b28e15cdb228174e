"""The same project joined to scrapy-redis, as its README says, with what keeps most."""

import os

from linked.settings import *  # noqa: F403  all else is the same

ADDONS = {}
SCHEDULER = "scrapy_redis.scheduler.Scheduler"
DUPEFILTER_CLASS = "scrapy_redis.dupefilter.RFPDupeFilter"
ITEM_PIPELINES = {"scrapy_redis.pipelines.RedisPipeline": 300}
SCHEDULER_PERSIST = True

REDIS_URL = os.environ.get("CRAWLFLEET_REDIS_URL", "")
_TENANT = os.environ.get("LINKED_TENANT", "default")
SCHEDULER_QUEUE_KEY = f"{_TENANT}:%(spider)s:requests"
SCHEDULER_DUPEFILTER_KEY = f"{_TENANT}:%(spider)s:dupefilter"
REDIS_ITEMS_KEY = f"{_TENANT}:%(spider)s:items"
