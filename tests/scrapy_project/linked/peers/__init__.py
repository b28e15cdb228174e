"""Spiders of scrapy-redis, as its users have them."""

from scrapy_redis.spiders import RedisSpider


class MySpider(RedisSpider):
    """Follows every link, from the start URLs on."""

    name = "myspider"

    def parse(self, response):
        yield {"page": int(response.css("h1::text").get())}
        for href in response.css("a::attr(href)").getall():
            yield response.follow(href, self.parse)
