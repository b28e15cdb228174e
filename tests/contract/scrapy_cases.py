"""Scheduler and pipeline of a spider, beside an engine that the test plays."""

from types import SimpleNamespace

import scrapy
from scrapy import signals
from scrapy.utils.test import get_crawler

from tests.kit.kernel import QueueKey
from tests.kit.recovery import RedisBizs
from tests.kit.scrapy import Pipeline, RedisSpider, Scheduler, session_of


class ShopSpider(scrapy.Spider):
    name = "shop"

    def lamp(self, response):
        """A callback."""


class FedSpider(RedisSpider):
    name = "fed"

    def make_request_from_data(self, data):
        if data == b"two":
            return [scrapy.Request(f"https://shop.example/{n}") for n in (1, 2)]
        if data == b"none":
            return None
        return super().make_request_from_data(data)


class Loop:
    """A loop that nobody turns but the test."""

    def __init__(self, turn):
        self.turn = turn
        self.running = False

    def start(self, interval, now=True):
        self.running = True

    def stop(self):
        self.running = False


class Station:
    """A scheduler and a pipeline, the part of the engine that they look at, and Redis behind."""

    def __init__(self, url, tenant, kind=ShopSpider, bounds=None, most_bytes=None, **options):
        self.seconds = 1_000.0
        given = {
            "CRAWLFLEET_REDIS_URL": url,
            "CRAWLFLEET_TENANT": tenant,
            "CRAWLFLEET_BIZ": "garden",
            "CRAWLFLEET_JOURNAL": "memory",
            **options,
        }
        self.crawler = get_crawler(kind, given)
        self.spider = self.crawler.spider = self.crawler._create_spider()
        self.slot = SimpleNamespace(
            inprogress=set(), closing=None, nextcall=SimpleNamespace(schedule=lambda: None)
        )
        self.closed = []
        self.crawler.engine = SimpleNamespace(
            _slot=self.slot, close_spider=lambda spider, reason: self.closed.append(reason)
        )
        self.dropped = []
        self.crawler.signals.connect(self._on_dropped, signals.request_dropped)
        self.session = session_of(self.crawler)
        clock = {"clock": lambda: self.seconds}
        self.scheduler = Scheduler(self.crawler, looping=self._looping, **clock, **(bounds or {}))
        garden = QueueKey(tenant, given["CRAWLFLEET_BIZ"], "main")
        RedisBizs(self.session.connection).report({tenant: [garden]})
        items = {"most_bytes": most_bytes} if most_bytes else {}
        self.pipeline = Pipeline(self.crawler, **clock, **items)
        self.scheduler.open(self.spider)

    def _looping(self, turn):
        self.loop = Loop(turn)
        return self.loop

    def tick(self, seconds=0.0):
        """Let so much time go by, after which the scheduler acts unasked."""
        self.seconds += seconds
        self.loop.turn()

    def _on_dropped(self, request):
        self.dropped.append(request.url)

    def request(self, number):
        return scrapy.Request(f"https://shop.example/{number}")

    def take(self):
        request = self.scheduler.next_request()
        if request is not None:
            self.slot.inprogress.add(request)
        return request

    def stat(self, name):
        return self.crawler.stats.get_value(name, 0)
