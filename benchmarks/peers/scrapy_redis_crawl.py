"""Scrapy with scrapy-redis: start URLs, frontier and dupefilter in Redis."""

from collections.abc import Iterator
from typing import Any

import redis
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response
from scrapy_redis.spiders import RedisSpider
from work import REDIS, Items, urls

KEY = "docs:start_urls"
CONNECTIONS = 64


class Store:
    """The pipeline that hands items in."""

    def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
        items.put(dict(item))
        return item


class Docs(RedisSpider):
    name = "docs"
    redis_key = KEY
    redis_batch_size = 100
    max_idle_time = 2

    def parse(self, response: Response, **_: Any) -> Iterator[dict[str, Any]]:
        paragraphs = response.css("p")
        yield {
            "url": response.url,
            "title": response.css("title::text").get(),
            "h1": "".join(response.css("h1 ::text").getall()),
            "p": "".join(paragraphs[0].css("::text").getall()) if paragraphs else None,
            "h2": ["".join(h2.css("::text").getall()) for h2 in response.css("h2")],
            "links": len(response.css("a::attr(href)").getall()),
        }


with redis.Redis.from_url(REDIS) as client:
    client.lpush(KEY, *urls())
items = Items()
process = CrawlerProcess(
    {
        "SCHEDULER": "scrapy_redis.scheduler.Scheduler",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "REDIS_URL": REDIS,
        "CONCURRENT_REQUESTS": CONNECTIONS,
        "CONCURRENT_REQUESTS_PER_DOMAIN": CONNECTIONS,
        "DOWNLOAD_DELAY": 0,
        "ITEM_PIPELINES": {Store: 300},
        "ROBOTSTXT_OBEY": False,
        "COOKIES_ENABLED": False,
        "RETRY_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "LOG_LEVEL": "ERROR",
    }
)
process.crawl(Docs)
process.start()
items.end()
