"""Crawlee for Python: its ParselCrawler, with the queue in memory."""

import asyncio
import logging
from typing import Any

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import MemoryStorageClient
from work import Items, urls

CONNECTIONS = 64


async def main() -> None:
    items = Items()
    crawler = ParselCrawler(
        concurrency_settings=ConcurrencySettings(
            min_concurrency=CONNECTIONS // 2,
            desired_concurrency=CONNECTIONS,
            max_concurrency=CONNECTIONS,
        ),
        storage_client=MemoryStorageClient(),
        configure_logging=False,
        respect_robots_txt_file=False,
    )

    @crawler.router.default_handler
    async def read(context: ParselCrawlingContext) -> None:
        page: Any = context.selector
        paragraphs = page.css("p")
        items.put(
            {
                "url": context.request.url,
                "title": page.css("title::text").get(),
                "h1": "".join(page.css("h1 ::text").getall()),
                "p": "".join(paragraphs[0].css("::text").getall()) if paragraphs else None,
                "h2": ["".join(h2.css("::text").getall()) for h2 in page.css("h2")],
                "links": len(page.css("a::attr(href)").getall()),
            }
        )

    await crawler.run(urls())
    items.end()


logging.disable(logging.CRITICAL)
asyncio.run(main())
