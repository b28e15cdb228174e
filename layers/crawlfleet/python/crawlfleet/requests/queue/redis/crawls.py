"""The ledgers of crawls that Scrapy processes share, for whoever reads them (SPEC.md E1, H1).

:mod:`crawlfleet.scrapy.redis` keeps the crawls and draws their keys. What reads their ledgers runs
in functions, which have no Scrapy.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text, whole
from crawlfleet.kernel.redis.server import Script

_LEDGER: Final = Script("requests/queue/redis/crawl_ledger")
#: Crawls of a tenant that are counted in one ledger.
MOST_CRAWLS: Final = 1_000


class CrawlKeys(NamedTuple):
    """The keys of one crawl."""

    queue: str
    leases: str
    requests: str
    seen: str
    starts: str
    dead: str
    deaths: str
    processes: str
    serial: str
    fingerprints: str
    ended: str
    absorbed: str
    counts: str
    beats: str


def crawl_key(tenant: str, crawl: str, name: str) -> str:
    """Return a key of a tenant's crawl by its name; without a crawl, one of all its crawls.

    >>> crawl_key("acme", "shop", "counts"), crawl_key("acme", "", "crawls")
    ('cf:{scrapy:acme:shop}:counts', 'cf:{scrapy:acme:}:crawls')
    """
    return f"cf:{{scrapy:{tenant}:{crawl}}}:{name}"


@lru_cache(maxsize=256)
def crawl_keys(tenant: str, crawl: str) -> CrawlKeys:
    """Return the keys of a tenant's crawl.

    >>> crawl_keys("acme", "shop").queue
    'cf:{scrapy:acme:shop}:queue'
    """
    return CrawlKeys(*(crawl_key(tenant, crawl, name) for name in CrawlKeys._fields))


def crawls_key(tenant: str) -> str:
    """Return the key of a tenant's crawls."""
    return crawl_key(tenant, "", "crawls")


class CrawlLedger(msgspec.Struct, frozen=True, kw_only=True):
    """Counts the requests of crawls, of all their runs."""

    submitted: int = 0
    queued: int = 0
    leased: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0


class RedisCrawlLedgers:
    """The ledgers of the crawls that Scrapy processes share (SPEC.md H1)."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def of_biz(self, tenant: str, biz: str) -> CrawlLedger:
        """Sum up the crawls of a biz, each counted at one moment.

        Crawls without a ledger are forgotten: it goes a month after their end, and those that are
        under way name themselves again. Raises StoreUnavailableError (Redis, or the node of a
        crawl, does not answer).
        """
        (found,) = several(self._redis.together(("HGETALL", crawls_key(tenant))), 1)
        if not isinstance(found, dict):
            raise nonsense()
        names = sorted(name.decode() for name, of in found.items() if of.decode() == biz)
        ledgers = self._each(tenant, names[:MOST_CRAWLS])
        gone = [name for name, ledger in zip(names, ledgers, strict=False) if not any(ledger)]
        if gone:
            self._redis.together(("HDEL", crawls_key(tenant), *gone))
        return _ledger([sum(terms) for terms in zip(*ledgers, strict=True)])

    def of_crawl(self, tenant: str, biz: str, crawl: str) -> CrawlLedger | None:
        """Count one crawl; None where the biz has none of this name."""
        (of,) = several(self._redis.together(("HGET", crawls_key(tenant), crawl)), 1)
        if of is None or text(of).decode() != biz:
            return None
        (terms,) = self._each(tenant, [crawl])
        return _ledger(terms)

    def _each(self, tenant: str, crawls: Sequence[str]) -> list[list[int]]:
        """Count each crawl, in the order of the ledger's fields."""
        asked = []
        for crawl in crawls:
            keys = crawl_keys(tenant, crawl)
            asked.append(((keys.counts, keys.queue, keys.leases), ()))
        found = []
        for answer in self._redis.queue_by_queue(_LEDGER, asked) if asked else ():
            if isinstance(answer, Exception):
                raise answer
            terms = several(answer, len(CrawlLedger.__struct_fields__))
            found.append([whole(term) for term in terms])
        return found


def _ledger(terms: Sequence[int]) -> CrawlLedger:
    return CrawlLedger(**dict(zip(CrawlLedger.__struct_fields__, terms, strict=False)))
