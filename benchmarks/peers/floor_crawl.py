"""The floor: aiohttp and lexbor. No queue, no claim, no lease, no retry, no bounds, no robots."""

import asyncio

import aiohttp
from selectolax.lexbor import LexborHTMLParser
from work import Items, urls

CONNECTIONS = 64


def item(url: str, body: bytes) -> dict[str, object]:
    page = LexborHTMLParser(body)

    def first(selector: str) -> str | None:
        node = page.css_first(selector)
        return None if node is None else node.text()

    return {
        "url": url,
        "title": first("title"),
        "h1": first("h1"),
        "p": first("p"),
        "h2": [node.text() for node in page.css("h2")],
        "links": len(page.css("a[href]")),
    }


async def main() -> None:
    items = Items()
    todo = iter(urls())
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def crawl() -> None:
            for url in todo:
                async with session.get(url) as response:
                    items.put(item(url, await response.read()))

        await asyncio.gather(*(crawl() for _ in range(CONNECTIONS)))
    items.end()


asyncio.run(main())
