"""Names tests use of a Scrapy project's parts: scheduler, pipeline, importer."""

from crawlfleet.adapters.redis_queue import crawl_keys as crawl_keys_module
from crawlfleet.adapters.redis_queue.crawl import Forget, Marks, Order, Pushed, RedisCrawl
from crawlfleet.adapters.redis_queue.crawl_keys import CrawlKeys, crawl_keys, taking_key
from crawlfleet.scrapy import (
    DupeFilter,
    Legacy26Fingerprinter,
    Pipeline,
    RedisSpider,
    Scheduler,
    scheduler,
    settings,
    unpickling,
)
from crawlfleet.scrapy.fingerprints import MAKES
from crawlfleet.scrapy.joint import joint_of
from crawlfleet.scrapy.logs import SETTINGS
from crawlfleet.scrapy.unpickling import UnreadablePickleError, loads
