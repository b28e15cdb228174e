"""The tools of a garden shop: a list of several pages, and a record of each product."""

import scrapy


class ToolsSpider(scrapy.Spider):
    """``scrapy crawl tools -a currency=EUR``."""

    name = "tools"
    allowed_domains = ["garden.example"]
    start_urls = ["https://garden.example/tools"]

    def __init__(self, currency="EUR", **options):
        super().__init__(**options)
        self.currency = currency

    def parse(self, response, page=1):
        for card in response.css("li.card"):
            yield {
                "sku": card.css("a::attr(data-sku)").get(),
                "name": card.css(".name::text").get(),
                "price": card.css(".price::text").re_first(r"[\d.]+"),
                "currency": self.currency,
                "page": page,
            }
        following = response.css("a[rel=next]::attr(href)").get()
        if following:
            yield response.follow(following, self.parse, cb_kwargs={"page": page + 1})
