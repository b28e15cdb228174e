"""Follows every link of the site, and one item a page."""

import os
import signal

import scrapy

from crawlfleet.scrapy.spiders import RedisSpider


class PagesSpider(scrapy.Spider):
    """Begins at the front page, which is given as ``-a site=http://...``."""

    name = "pages"

    def __init__(self, site: str = "", **options: object) -> None:
        super().__init__(**options)
        self.start_urls = [site]

    def parse(self, response, depth=0):
        yield {
            "page": int(response.css("h1::text").get()),
            "url": response.url,
            "depth": depth,
        }
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, self.parse, cb_kwargs={"depth": depth + 1})


class DeadlySpider(PagesSpider):
    """Ends its process at one page, as what takes all memory would: ``-a deadly=7``."""

    name = "deadly"

    def parse(self, response, depth=0):
        if response.url.endswith(f"/{self.deadly}"):
            os.kill(os.getpid(), signal.SIGKILL)
        yield from super().parse(response, depth)


class FedSpider(RedisSpider):
    """Waits for pages that somebody pushes."""

    name = "fed"

    def parse(self, response):
        yield {"page": int(response.css("h1::text").get()), "mark": response.meta.get("mark")}
