"""The Redis keys of Scrapy projects' crawls: what keys.py is for lanes.

==============================================  ======  ===  =======================================
key                                             type    TTL  holds
==============================================  ======  ===  =======================================
``cf:{scrapy:tenant:crawl}:queue``              ZSET    no   id by minus its priority
``cf:{scrapy:tenant:crawl}:leases``             ZSET    no   ``process:id`` by the lease's end, ms
``cf:{scrapy:tenant:crawl}:requests``           HASH    no   id -> ``score``, a space, the request
``cf:{scrapy:tenant:crawl}:seen``               SET     no   fingerprints, 16 bytes each
``cf:{scrapy:tenant:crawl}:starts``             SET     no   marks of the start requests of this run
``cf:{scrapy:tenant:crawl}:dead``               LIST    no   reason and request on two lines, newest
                                                             first, at most 10,000
``cf:{scrapy:tenant:crawl}:deaths``             HASH   no   id -> how many processes have ended
                                                             while they had it
``cf:{scrapy:tenant:crawl}:processes``          ZSET    no   process by when it is taken to be gone
``cf:{scrapy:tenant:crawl}:serial``             STRING  no   ids given so far
``cf:{scrapy:tenant:crawl}:fingerprints``       STRING  no   how fingerprints are made, see below
``cf:{scrapy:tenant:crawl}:ended``              STRING  no   1: to be forgotten when nobody is left
``cf:{scrapy:tenant:crawl}:absorbed``           ZSET    yes  batch of start URLs by when it came in
``cf:{<source>}:taking:tenant:crawl``           LIST    no   a batch's name, then its start URLs
``cf:{scrapy:tenant:}:bizs``                    HASH    no   biz -> 1 if there is one, else 0, and
                                                             the name of its queue
==============================================  ======  ===  =======================================

An id is 15 digits; of equal priority the least is served first. A request is ``r`` and JSON, or
``s`` and what somebody has pushed to a spider's ``redis_key``. An id that is neither queued nor
leased has no request. Times are epoch ms of the server. ``fingerprints`` is there where an import
has brought fingerprints of another make; without it they are those of the running Scrapy. ``ended``
is left by whoever came to the end of the crawl while others still took part. ``bizs`` is told by
the scheduler, once a minute; bizs that are gone, or were asked for before it has told, stay in it.

All keys of a crawl are in one slot. The tag has two colons and a lane's one, so neither can be
taken for the other. The start URLs that others push are under a key of theirs: on a cluster a batch
of them goes over in steps, by way of ``taking``, which is in the slot of that key.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

#: What decides of a key's slot in place of the whole of it: first braces, something in between.
_TAG: Final = re.compile(r"[^{]*\{([^}]+)\}", re.DOTALL)


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


@lru_cache(maxsize=256)
def crawl_keys(tenant: str, crawl: str) -> CrawlKeys:
    """The keys of a tenant's crawl of that name.

    >>> crawl_keys("acme", "shop").queue
    'cf:{scrapy:acme:shop}:queue'
    """
    return CrawlKeys(*(f"cf:{{scrapy:{tenant}:{crawl}}}:{name}" for name in CrawlKeys._fields))


def absorbed_key(tenant: str, crawl: str) -> str:
    """The key of the batches of start URLs that have come to the crawl from another slot.

    >>> absorbed_key("acme", "shop")
    'cf:{scrapy:acme:shop}:absorbed'
    """
    return f"cf:{{scrapy:{tenant}:{crawl}}}:absorbed"


def taking_key(source: str, tenant: str, crawl: str) -> str:
    """The key of what is on its way from a source of start URLs to the crawl.

    It is in the source's slot, unless the source's name has a ``}`` and no hash tag.

    >>> taking_key("shop:start_urls", "acme", "shop")
    'cf:{shop:start_urls}:taking:acme:shop'
    >>> taking_key("{shop}:start_urls", "acme", "shop")
    'cf:{shop}:taking:acme:shop'
    """
    tagged = _TAG.match(source)
    return f"cf:{{{tagged[1] if tagged else source}}}:taking:{tenant}:{crawl}"


def bizs_key(tenant: str) -> str:
    """The key of a tenant's bizs, for its crawls to read; no crawl's name is empty.

    >>> bizs_key("acme")
    'cf:{scrapy:acme:}:bizs'
    """
    return f"cf:{{scrapy:{tenant}:}}:bizs"
