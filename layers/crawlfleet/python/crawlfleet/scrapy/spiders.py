"""Spiders that read start URLs from Redis, where anybody pushes them, as with scrapy-redis.

::

    class Shop(RedisSpider):
        name = "shop"
        redis_key = "shop:start_urls"  # the default; a list, a set or a sorted set

    redis-cli LPUSH shop:start_urls '{"url": "https://shop.example/1", "meta": {"page": 1}}'

One script moves a start URL from there into the crawl's queue, where it is leased like any other
request, so that none is lost with a process.
"""

import json
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from scrapy import FormRequest, Request
from scrapy.spiders import CrawlSpider, Spider

from crawlfleet.scrapy.scrapy_redis import encoding

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

#: Fields of a JSON object that are of its request; the others are a form, which it sends.
_OF_THE_REQUEST: Final = frozenset(
    {"method", "meta", "headers", "body", "cookies", "priority", "cb_kwargs", "dont_filter"}
)


class RedisMixin:
    """Has a spider read its start URLs from Redis, and have none of its own.

    They are at ``redis_key``, where ``%(name)s`` stands for the spider's name; ``redis_batch_size``
    are taken at once, by default as many as are leased. After ``max_idle_time``, seconds without
    work, the spider closes; 0 waits forever. What is pushed is text in ``redis_encoding``, by
    default ``REDIS_ENCODING``.
    """

    redis_key: str | None = None
    redis_batch_size: int | None = None
    redis_encoding: str | None = None
    max_idle_time: float | None = None
    settings: "BaseSettings"
    name: str

    async def start(self) -> AsyncIterator[Any]:
        """Yield no requests: they come from Redis."""
        nothing: tuple[Any, ...] = ()
        for each in nothing:
            yield each

    def start_requests(self) -> Iterator[Request]:
        """The same, for Scrapy 2.12."""
        return iter(())

    def make_request_from_data(self, data: bytes) -> Request | Iterable[Request] | None:
        """Make the requests of a start URL; override it to push something else.

        ``data`` is a URL, or a JSON object with ``url`` and, as a request has them, ``method``,
        ``meta``, ``headers``, ``body``, ``cookies``, ``priority``, ``cb_kwargs``, ``dont_filter``
        and the name of a ``callback``. What else it has is sent as a form. Raises ValueError (it is
        neither; it is kept as dead with this reason).
        """
        # The importer reads start URLs without a crawler.
        given = getattr(self, "settings", {})
        text = data.decode(self.redis_encoding or encoding(given)).strip()
        if not text.startswith("{"):
            return Request(text, dont_filter=True)
        fields = json.loads(text)
        url, callback = fields.pop("url", None), fields.pop("callback", None)
        if not isinstance(url, str):
            raise ValueError("the object has no url")  # noqa: TRY004  all mistakes are one kind
        given = {name: fields.pop(name) for name in _OF_THE_REQUEST & fields.keys()}
        given.setdefault("dont_filter", True)
        if callback is not None:
            given["callback"] = getattr(self, str(callback))
        if fields:
            form = {name: _field(value) for name, value in fields.items()}
            return FormRequest(url, formdata=form, **{"method": "GET", **given})
        return Request(url, **given)


class RedisSpider(RedisMixin, Spider):
    """A spider that waits for start URLs in Redis."""


class RedisCrawlSpider(RedisMixin, CrawlSpider):
    """A spider with rules that waits for start URLs in Redis."""


def _field(value: object) -> str | list[str]:
    return [str(each) for each in value] if isinstance(value, list) else str(value)
