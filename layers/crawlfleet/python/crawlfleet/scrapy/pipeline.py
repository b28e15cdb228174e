"""``crawlfleet.scrapy.Pipeline`` in ``ITEM_PIPELINES``: send items to the data queue (SPEC.md B9).

An item is sent as it is when it reaches this pipeline, under the rule of ``CRAWLFLEET_RULE``. Items
are sent in batches, and always before the request that yielded them is finished. With
``REDIS_ITEMS_KEY`` they also go, as JSON, to that list, as scrapy-redis has it; without a
``CRAWLFLEET_BIZ`` they go there alone.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from scrapy import signals
from scrapy.exceptions import DropItem
from scrapy.http import Response
from scrapy.utils.serialize import ScrapyJSONEncoder

from crawlfleet.crawling.executors.scrapy_wire import NotPortableError, item_fields
from crawlfleet.crawling.records.normalise import LARGEST_ITEM, refuse_large, wire_of
from crawlfleet.crawling.records.redis import RedisDataQueue
from crawlfleet.fleet.redis.scheduler import RedisBizs
from crawlfleet.kernel import errors
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.models import Item
from crawlfleet.requests.queue.redis.keys import redis_keys
from crawlfleet.scrapy.engine import session_of
from crawlfleet.scrapy.redis import beat, gone

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
_log = logging.getLogger(__name__)

#: Items that are sent at once, or all that wait once the oldest has waited this long.
_TOGETHER: Final = 200
_TOGETHER_BYTES: Final = 4_000_000
_SECONDS: Final = 1.0
#: Bytes that wait for a Redis that is away; a request that yields more is done again.
_MOST_BYTES: Final = 50_000_000
_LONGEST_URL: Final = 8_000
#: The journal's name for the beats of the data queue.
_ITEMS: Final = "items"
#: Bytes of JSON that a character takes at most.
_JSON_BYTES: Final = 6


@dataclass(slots=True)
class _Waiting:
    """An item to be sent; its page is known once all pipelines have seen it."""

    item: object
    fields: dict[str, Any]
    url: str
    number: int
    since: float
    size: int = 0
    # For the list of REDIS_ITEMS_KEY, and whether the data queue has it already.
    listed: str = ""
    queued: bool = False


class Pipeline:
    """The pipeline of one crawler; ``most_bytes`` of items wait for a Redis that is away."""

    def __init__(
        self,
        crawler: "Crawler",
        *,
        clock: Callable[[], float] = time.monotonic,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        self._clock, self._most_bytes = clock, most_bytes
        self._session = session_of(crawler)
        settings = self._session.settings
        if not settings.biz and not settings.items_key:
            wanted = "must name the biz whose records the items become, or REDIS_ITEMS_KEY a list"
            raise errors.ConfigError([errors.Problem("CRAWLFLEET_BIZ", wanted)])
        self._crawler = crawler
        self._queue_key = QueueKey(settings.tenant, settings.biz, settings.queue)
        self._queue = RedisDataQueue(self._session.connection)
        self._encode = ScrapyJSONEncoder().encode
        if settings.biz:
            _check_biz(RedisBizs(self._session.connection), self._queue_key)
        self._waiting: list[_Waiting] = []
        # Those whose page is not known yet, by the identity of the item, which they keep alive.
        self._pageless: dict[int, _Waiting] = {}
        self._bytes = 0
        self._since = self._away_until = 0.0
        self._session.flush_items = self.flush
        if settings.biz:
            self._session.check_items = self._check_items
        crawler.signals.connect(self._scraped, signal=signals.item_scraped)
        crawler.signals.connect(self._try_flush, signal=signals.spider_idle)

    @classmethod
    def from_crawler(cls, crawler: "Crawler") -> Self:
        """Make it for a crawler."""
        return cls(crawler)

    def process_item(self, item: Any, spider: object = None) -> Any:  # noqa: ARG002  of older Scrapy
        """Take the item, and pass it on.

        Raises:
            DropItem: no record can hold it; names the field, or says that it is too large.
            StoreUnavailableError: Redis is away for too long; its page will be done again.
        """
        if self._bytes > self._most_bytes:
            self._session.spoil()
            why = "as many items wait as may; the page is repeated"
            raise errors.StoreUnavailableError("redis", why)
        try:
            # A list takes what JSON can be made of, records are more exact.
            fields = item_fields(item) if self._session.settings.biz else {}
            url = fields.get("url")
            known = url if isinstance(url, str) else ""
            waiting = _Waiting(item, fields, known, self._session.items_given, self._clock())
            wire = self._wire(waiting)
            refuse_large([wire])
            if self._session.settings.items_key:
                waiting.listed = self._encode(item)
        except (NotPortableError, errors.InvalidRequestError, TypeError, ValueError) as error:
            if self._crawler.stats is not None:
                self._crawler.stats.inc_value("crawlfleet/items_refused")
            raise DropItem(f"no record can hold it: {error}") from error
        is_late = bool(self._waiting) and self._clock() - self._since > _SECONDS
        if len(self._waiting) >= _TOGETHER or self._bytes >= _TOGETHER_BYTES or is_late:
            self._try_flush()
        waiting.size = len(wire) + len(waiting.listed)
        self._bytes += waiting.size
        self._session.items_given += 1
        if not self._waiting:
            self._since = self._clock()
        self._waiting.append(waiting)
        if self._session.settings.biz and not waiting.url:
            self._pageless[id(item)] = waiting
        return item

    def close_spider(self, spider: object = None) -> None:  # noqa: ARG002  of older Scrapy
        """Send what waits; where that fails, the requests are not finished either."""
        self._try_flush(at_last=True)

    def flush(self, all_of_them: bool) -> int:
        """Send what waits; return how many of the first items have been sent.

        Some are left for a second, as Scrapy has not said yet of which page they are.

        Raises:
            StoreError: Redis is away; they still wait.
            BacklogFullError: the biz has as many items as it may; the same.
        """
        left: list[_Waiting] = []
        sent: list[_Waiting] = []
        for each in self._waiting:
            (left if not all_of_them and self._may_wait(each) else sent).append(each)
        while sent:
            part = sent[:_TOGETHER]
            self._send(part)
            del sent[:_TOGETHER]
            self._waiting = sent + left
            for each in part:
                self._bytes -= each.size
                if self._pageless.get(id(each.item)) is each:
                    del self._pageless[id(each.item)]
            if self._crawler.stats is not None:
                self._crawler.stats.inc_value("crawlfleet/items", len(part))
        return min((each.number for each in left), default=self._session.items_given)

    def _send(self, part: list[_Waiting]) -> None:
        settings = self._session.settings
        if settings.biz and (new := [each for each in part if not each.queued]):
            wires = [self._wire(each) for each in new]
            ids = self._queue.name(self._queue_key, len(new))
            self._queue.put_as(self._queue_key, ids, wires)
            self._session.journal.add_items(zip(ids, wires, strict=True))
            self._is_whole()
            for each in new:
                each.queued = True
        if settings.items_key:
            # Where the answer is lost they are there twice.
            listed = [each.listed for each in part]
            self._session.connection.together(("RPUSH", settings.items_key, *listed))

    def _check_items(self) -> None:
        """Find out which items are stored; put in again what Redis has lost.

        Raises:
            StoreError: Redis is away.
            BacklogFullError: the biz has as many items as it may; the same is tried again.
        """
        journal = self._session.journal
        items = redis_keys(self._queue_key).items
        stored = gone(self._session.connection, items, journal.some_items())
        if self._is_whole():
            journal.end_items(stored)

    def _is_whole(self) -> bool:
        journal, connection = self._session.journal, self._session.connection
        beats, last = redis_keys(self._queue_key).item_beats, journal.beat(_ITEMS)
        is_whole = beat(connection, beats, journal.id, last) == 1
        if not is_whole:
            count = 0
            for items in journal.items():
                ids, wires = zip(*items, strict=True)
                self._queue.put_as(self._queue_key, ids, wires)
                count += len(items)
            if count:
                _log.warning("Redis has lost the data queue: %d items are put again", count)
            beat(connection, beats, journal.id, last, force=True)
        journal.has_beaten(_ITEMS, last + 1)
        return is_whole

    def _may_wait(self, waiting: _Waiting) -> bool:
        if self._pageless.get(id(waiting.item)) is not waiting or waiting.queued:
            return False
        return self._clock() - waiting.since < _SECONDS

    def _try_flush(self, *, at_last: bool = False) -> None:
        if not at_last and self._clock() < self._away_until:
            return
        try:
            self.flush(at_last)
        except (errors.StoreError, errors.BacklogFullError) as error:
            self._away_until = self._clock() + _SECONDS
            _log.warning("%d items wait: %s", len(self._waiting), error)

    def _scraped(self, item: Any, response: object) -> None:
        """Set the page of an item, once every pipeline has seen it."""
        waiting = self._pageless.pop(id(item), None)
        if waiting is None or not isinstance(response, Response):
            return
        # It was measured without its page: one that would be too large with it goes without, as it
        # would be refused together with all that wait beside it, again and again.
        if waiting.size + _LONGEST_URL * _JSON_BYTES <= LARGEST_ITEM:
            waiting.url = response.url[:_LONGEST_URL]

    def _wire(self, waiting: _Waiting) -> bytes:
        url = waiting.url[:_LONGEST_URL]
        return wire_of(Item(rule=self._session.settings.rule, url=url, fields=waiting.fields))


def _check_biz(bizs: RedisBizs, queue_key: QueueKey) -> None:
    """Raise ConfigError before anything is crawled for a biz that the fleet says is none."""
    try:
        there, others = bizs.ask(queue_key)
    except errors.StoreError as error:
        _log.warning("whether there is a biz %r could not be asked: %s", queue_key.biz, error)
        return
    if there is None:
        _log.warning(
            "no fleet has said yet which bizs the tenant %r has: items for %r wait in Redis until "
            "one does; see that CRAWLFLEET_TENANT and CRAWLFLEET_BIZ are right",
            *(queue_key.tenant, queue_key.biz),
        )
    elif not there:
        said = (
            f"the tenant {queue_key.tenant!r} has no biz {queue_key.biz!r}; "
            f"it has {', '.join(others)}. One that was just pushed is known within a minute"
        )
        raise errors.ConfigError([errors.Problem("CRAWLFLEET_BIZ", said)])
