"""Names tests use of a Scrapy project's parts: scheduler, pipeline, importer."""

from crawlfleet.requests.queue.redis.crawls import (
    CrawlKeys,
    CrawlLedger,
    RedisCrawlLedgers,
    crawl_keys,
)
from crawlfleet.scrapy import Addon, politeness, scheduler, settings
from crawlfleet.scrapy import redis as crawl_keys_module
from crawlfleet.scrapy import redis_source as unpickling
from crawlfleet.scrapy.engine import session_of
from crawlfleet.scrapy.fingerprints import FINGERPRINTERS, DupeFilter, Legacy26Fingerprinter
from crawlfleet.scrapy.journal import Journal, Kept
from crawlfleet.scrapy.pipeline import Pipeline
from crawlfleet.scrapy.politeness import HostSlots
from crawlfleet.scrapy.redis import (
    Forget,
    Marks,
    Order,
    Pushed,
    RedisCrawl,
    beat,
    taking_key,
)
from crawlfleet.scrapy.redis_source import UnreadablePickleError, loads
from crawlfleet.scrapy.scheduler import Scheduler
from crawlfleet.scrapy.settings import SETTINGS
from crawlfleet.scrapy.spiders import RedisSpider
from crawlfleet.scrapy.stats import StatsCollector
from crawlfleet.wire.slots import GrantedSlots, SlotsAnswer
