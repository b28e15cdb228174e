"""Names tests use of a Scrapy project's parts: scheduler, pipeline, importer."""

from crawlfleet.scrapy import redis as crawl_keys_module
from crawlfleet.scrapy import redis_source as unpickling
from crawlfleet.scrapy import scheduler, settings
from crawlfleet.scrapy.engine import session_of
from crawlfleet.scrapy.fingerprints import FINGERPRINTERS, DupeFilter, Legacy26Fingerprinter
from crawlfleet.scrapy.pipeline import Pipeline
from crawlfleet.scrapy.redis import (
    CrawlKeys,
    Forget,
    Marks,
    Order,
    Pushed,
    RedisCrawl,
    crawl_keys,
    taking_key,
)
from crawlfleet.scrapy.redis_source import UnreadablePickleError, loads
from crawlfleet.scrapy.scheduler import Scheduler
from crawlfleet.scrapy.settings import SETTINGS
from crawlfleet.scrapy.spiders import RedisSpider
