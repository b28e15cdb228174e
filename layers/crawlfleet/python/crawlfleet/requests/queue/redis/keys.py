"""The dictionary of every Redis key.

========================================  ======  ====  ===========================================
key                                       type    TTL   holds
========================================  ======  ====  ===========================================
``cf:{tenant:biz}:queue:<queue>[:<p>]``   LIST    no    entries as JSON, newest first, served last
``cf:{tenant:biz}:ticks:<queue>``         STRING  no    ``time oldest ...`` of the last ticks, ms
``cf:{tenant:biz}:leases:<queue>``        ZSET    no    ``token:entry`` by the lease's end, epoch ms
``cf:{tenant:biz}:delayed:<queue>``       ZSET    no    entry by its due time, epoch ms
``cf:{tenant:biz}:at_host:<queue>:<place>``  LIST    no    what waits for a site, oldest first
``cf:{tenant:biz}:parked:<queue>``        HASH    no    place -> its list in figures, see below
``cf:{tenant:biz}:parked_due:<queue>``    ZSET    no    place by when to look at it, epoch ms
``cf:{tenant:biz}:parked_low:<queue>``    ZSET    no    place by the least ``ts`` of its list
``cf:{tenant:biz}:filled:<queue>``        STRING  no    ``reached:nonce`` of a rebuild, see below
``cf:{tenant:biz}:intake``                STRING  yes   when the rate's bucket is full, epoch us
``cf:{tenant:biz}:submitted``             HASH    yes   epoch second -> requests submitted in it
``cf:{tenant:biz}:processed``             HASH    yes   epoch second -> requests processed in it
``cf:{tenant:biz}:phases``                HASH    yes   phase -> seconds that workers spent in it
``cf:{tenant:biz}:coverage``              HASH    no    ``rule version`` -> its counts, a line each
``cf:{tenant:biz}:coverage_hours``        HASH    yes   ``hour rule version`` -> those of an hour
``cf:{tenant:biz}:items``                 HASH    no    id -> item of the data queue, as JSON
``cf:{tenant:biz}:item_queue``            LIST    no    ids of items, newest first, served last
``cf:{tenant:biz}:item_leases``           ZSET    no    ``token:id`` by the lease's end, epoch ms
``cf:{tenant:biz}:item_tries``            HASH    no    id -> how often the item was leased
``cf:{tenant:biz}:item_bytes``            STRING  no    bytes of all items
``cf:{tenant:biz}:item_beats``            HASH    no    journal of a Scrapy process -> its number
``cf:{tenant:biz}:cookies:<job>``         STRING  yes   a job's cookies, as its workers encode them
``cf:{tenant:biz}:seeds:<segment>``       HASH    yes   plan of the segment's filter, keys in it
``cf:{tenant:biz}:bits<n>:<segment>``     STRING  yes   bits of that filter, 64 MB at most
``cf:{host:<host>}:host``                 HASH    yes   its slots, tenants and permits, see below
``cf:{host:<host>}:strain``               HASH    yes   origin -> ``until overload slow``, us
``cf:{host:<host>}:own_strain:<tenant>``  HASH    yes   the same for one tenant; ``*`` its pace
``cf:{hosts:<tenant>}:troubled``          ZSET    yes   host by its latest overload or failure, ms
``cf:{quota:<tenant>}:shares:<of>``       HASH    yes   shares of a quota, and what of it is spent
``cf:{quota:<tenant>}:share_ends:<of>``   ZSET    yes   who holds one, by when its lease ends, ms
``cf:{quota:<tenant>}:ledgers``           ZSET    yes   account by its latest exchange, epoch ms
``cf:{quota:<tenant>}:used_up``           ZSET    yes   the same of those that had too little left
``cf:{ceilings:<tenant>}:permits``        HASH    yes   worker -> its permits, ``*`` -> all of them
``cf:{ceilings:<tenant>}:permit_ends``    ZSET    yes   worker by the end of its permits, epoch ms
``cf:{ceilings:<tenant>}:trials``         HASH    yes   trial under way -> 1, ``*`` -> all of them
``cf:{ceilings:<tenant>}:trial_ends``     ZSET    yes   trial by when it has ended, epoch ms
``cf:{ceilings:<tenant>}:begun``          STRING  yes   when the bucket of leases is full, epoch us
``cf:{ceilings:<tenant>}:taken``          STRING  yes   when that of submissions is, epoch us
``cf:{<origin>}:robots``                  STRING  yes   a site's robots.txt: status, time, text
``cf:{room:<tenant>}:robots_put``         ZSET    yes   origin by when its robots.txt was put, us
``cf:{room:<tenant>}:robots_sizes``       HASH    yes   origin -> its bytes; of nothing, all bytes
``cf:{room:<tenant>}:cookies_put``        ZSET    yes   ``biz/job`` by when its cookies were put
``cf:{room:<tenant>}:cookies_sizes``      HASH    yes   ``biz/job`` -> their bytes; of nothing, all
``cf:{fleet}:workers``                    ZSET    no    worker id by its last beat, epoch ms
``cf:{fleet}:wakes``                      ZSET    no    wake-up not yet a worker, by its time
``cf:{fleet}:pulses``                     ZSET    no    worker id by its last beat, server's ms
``cf:{fleet}:intervals``                  HASH    no    worker id -> its latest intervals, ms
``cf:{fleet}:cards``                      HASH    no    worker id -> its status as JSON
``cf:{fleet}:watch``                      HASH    no    ``since``, ``seen``: server's epoch ms
``cf:{fleet}:turns``                      HASH    no    fleet lock -> ``started ends holder``, ms
``cf:{fleet}:numbers``                    ZSET    no    Snowflake worker number by its lease's end
``cf:{fleet}:fences``                     HASH    no    worker number -> fence of its latest lease
``cf:{fleet}:marks``                      HASH    no    worker number -> mark (requests.ids.issuer)
``cf:{fleet}:fence_count``                STRING  no    worker number leases given so far
``cf:{fleet}:staff``                      HASH    no    pool -> how many workers; ``pool pace``
``cf:{fleet}:paces``                      HASH    no    ``pool tenant/biz`` -> ``pace at``
``cf:{fleet}:leaving``                    ZSET    no    worker told to leave, by the server's ms
``cf:{fleet}:needs``                      HASH    no    ``tenant/biz`` -> last at work, server's ms
``cf:{fleet}:tick``                       STRING  no    ``at took part count ...`` of the last tick
``cf:{fleet}:between_ticks``              ZSET    no    ``part what`` that failed between ticks, ms
``cf:{fleet}:cancelled``                  ZSET    no    ``tenant/biz/job``, by the server's ms
``cf:{fleet}:revision``                   STRING  no    revision of the configuration, see config
``cf:{fleet}:revision_turn``              STRING  yes   there while somebody asks SSM for it
``cf:{fleet}:open``                       ZSET    no    ``tenant/biz/queue``, by server's ms
``cf:{fleet}:open_items``                 ZSET    no    the same of data queues
``cf:{fleet}:proxies``                    HASH    yes   ``pool key`` -> state of a proxy, see below
``cf:{fleet}:proxies_seen``               ZSET    yes   ``pool key`` by its last report, epoch ms
``cf:{fleet}:proxies_news``               ZSET    yes   ``pool key`` by the number of its change
``cf:{fleet}:proxy_pools``                HASH    yes   pool -> ``size away at`` of its proxies
========================================  ======  ====  ===========================================

What must not be lost never carries a TTL: a managed Redis may evict what does. Braces hold the hash
tag: on a cluster, all keys that one script touches live in one slot. A biz's tag has a colon and
the fleet's has none, so neither can be taken for the other; slugs hold neither colons nor braces.
In cluster mode that makes a biz, its queues, filters and items, the keys of one node, and the
fleet's of one node, whose clock is the fleet's. What grows with the nodes is what there are many
of: bizs, hosts, sites, crawls; one biz has the room and the speed of one node.
Statistics belong to the biz and outlive a change of the queue's name; so do its rate of intake and
its items. Of coverage at most 100 versions of rules are kept, the latest counted ones.
Hosts and sites are shared by all tenants and fleets on the Redis. Their tags have a colon too, but
nothing behind them is named as a key of a biz is. An idle host is forgotten after 150 seconds, one
that was slow or overloaded after an hour, though never before its next slot or the end of its
back-off, a robots.txt within a day. ``shares`` and ``share_ends`` are of one account and period
(fleet.quotas), for 30 days after its last exchange and its period's end, 10,000 of them a tenant;
what they lose counts as used, up to the ceiling in MongoDB. ``host`` holds
numbers as crawling/politeness/lua/host_prelude.lua names them: under ``*`` those of the host and,
once something was reported of it, the counts of two minutes, under a tenant's name its slots (128
tenants at most), under ``worker tenant`` permits; those that have ended go with
the next ask, and others are no more than the downloads that the host is asked for at once.
``robots`` is 16 KiB at most (crawling.politeness.robots_txt), and those that one tenant has asked
for, like its cookies, have a room of their own: where it is full its own oldest go.
``strain`` is the overload of each origin (scheme, host and port) by what the host itself answered;
what one tenant alone goes by, as it had no connection or came through a proxy, is in its own.
Older versions kept one overload of the whole host in ``host``: it is obeyed until it is over.
``open`` are the queues that may have something, by when that was announced last (open_queues.py).
``proxies`` holds no more than 20,000, each for two hours after it was reported or its cool-down has
ended, under a digest of its address and user (fleet/redis/lua/proxies_prelude.lua); no password.
``cancelled`` are jobs that are being cancelled, each for a minute after its last announcement, and
5,000 at most, of which the tenant with most loses its oldest: whoever does not hear of one finds
out when it renews its leases.

A *place* is a site, or ``site p`` for what waits for it of another priority than 5: each has its
list and its figures (requests.queue.ageing). ``parked`` holds of each place ``count old
least_of_old least_of_new``: how many entries wait there, how many of those were there when the
least was taken anew, and the least ``ts`` of these and of the others. Its field ``*`` is how many
wait for all hosts. Where one of these keys is lost the others tell what it said; what a lost list
held is found by recovery.

Of each priority from 0 to 10 (requests.queue.ageing) there is a list of the queue. That of the
usual one, 5, does not name it: it is the only one of a queue of older versions, whose workers go on
beside newer ones. ``ticks`` are some hundred at most, and made up for where they are lost.

``filled`` tells whether the queue is whole: ``1767225600000:nonce`` while it is being rebuilt and
has come so far, ``:nonce`` when it is whole, no key when Redis has lost it. ``workers`` is by the
clock of whoever beats, and counts the living; ``pulses`` is by the server's, and finds the dead. Of
each worker there are at most 32 intervals and one status, forgotten with it. ``staff`` has of each
pool ``version needed kept at quiet peak allowed`` (fleet.models), ``floor stated`` behind it where
capacity is stated, and what its workers can do in a second; of the usual pool under ``fleet``. Who
is to be counted, started or sent away is each pool's own: of a further one the keys are
``workers:<pool>``, ``wakes:<pool>`` and ``leaving:<pool>``. Pulses and statuses are of all.
``needs`` is of those that state needs, and of nobody else.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from crawlfleet.kernel.queue_key import DEFAULT_PRIORITY, LEVELS, QueueKey
from crawlfleet.requests.queue.ageing import places

#: Fields of RedisKeys that a queue has of its own.
_OF_QUEUE: Final = 8


class RedisKeys(NamedTuple):
    """The Redis keys of one queue and its biz."""

    queue: str
    leases: str
    delayed: str
    ticks: str
    parked: str
    parked_due: str
    parked_low: str
    filled: str
    # From here on they are the biz's, whatever its queues are called.
    intake: str
    submitted: str
    processed: str
    phases: str
    coverage: str
    coverage_hours: str
    items: str
    item_queue: str
    item_leases: str
    item_tries: str
    item_bytes: str
    item_beats: str


@lru_cache(maxsize=4096)
def redis_keys(queue_key: QueueKey) -> RedisKeys:
    """Return the Redis keys of a queue.

    >>> redis_keys(QueueKey("acme", "docs", "main")).queue
    'cf:{acme:docs}:queue:main'
    """
    stem, fields = f"cf:{{{queue_key.tenant}:{queue_key.biz}}}", RedisKeys._fields
    own = (f"{stem}:{name}:{queue_key.queue}" for name in fields[:_OF_QUEUE])
    return RedisKeys(*own, *(f"{stem}:{name}" for name in fields[_OF_QUEUE:]))


@lru_cache(maxsize=4096)
def level_keys(queue_key: QueueKey) -> tuple[str, ...]:
    """Return the lists of the queue, of priority 0 to 10.

    >>> level_keys(QueueKey("acme", "docs", "main"))[4:6]
    ('cf:{acme:docs}:queue:main:4', 'cf:{acme:docs}:queue:main')
    """
    usual = redis_keys(queue_key).queue
    return tuple(usual if p == DEFAULT_PRIORITY else f"{usual}:{p}" for p in range(LEVELS))


def cookies_key(queue_key: QueueKey, job: str) -> str:
    """Return the key of a job's cookies.

    >>> cookies_key(QueueKey("acme", "docs", "main"), "june")
    'cf:{acme:docs}:cookies:june'
    """
    return f"cf:{{{queue_key.tenant}:{queue_key.biz}}}:cookies:{job}"


def filter_keys(queue_key: QueueKey, segment: str, parts: int) -> list[str]:
    """Return the keys of a segment's filter of so many strings; its bits begin with ``bits0``.

    >>> filter_keys(QueueKey("acme", "docs", "main"), "2026-03-01", 1)
    ['cf:{acme:docs}:seeds:2026-03-01', 'cf:{acme:docs}:bits0:2026-03-01']
    """
    stem = f"cf:{{{queue_key.tenant}:{queue_key.biz}}}"
    return [f"{stem}:seeds:{segment}", *(f"{stem}:bits{n}:{segment}" for n in range(parts))]


def host_list(queue_key: QueueKey, place: str) -> str:
    """Return the key of the list of a place: of a host, of one priority.

    >>> host_list(QueueKey("acme", "docs", "main"), "example.org")
    'cf:{acme:docs}:at_host:main:example.org'
    """
    return f"cf:{{{queue_key.tenant}:{queue_key.biz}}}:at_host:{queue_key.queue}:{place}"


def host_lists(queue_key: QueueKey, host: str) -> list[str]:
    """Return the keys of a host's lists, of priority 0 to 10."""
    return [host_list(queue_key, place) for place in places(host)]


def host_key(host: str) -> str:
    """Return the key of a host.

    >>> host_key("example.org")
    'cf:{host:example.org}:host'
    """
    return f"cf:{{host:{host}}}:host"


def strain_keys(host: str, tenant: str) -> tuple[str, str]:
    """Return the keys of a host's overload by origin: for all tenants, and for one.

    >>> strain_keys("example.org", "acme")
    ('cf:{host:example.org}:strain', 'cf:{host:example.org}:own_strain:acme')
    """
    stem = f"cf:{{host:{host}}}"
    return f"{stem}:strain", f"{stem}:own_strain:{tenant}"


def troubled_key(tenant: str) -> str:
    """Return the key of hosts at which a tenant has met overload or failures.

    >>> troubled_key("acme")
    'cf:{hosts:acme}:troubled'
    """
    return f"cf:{{hosts:{tenant}}}:troubled"


def quota_keys(tenant: str, account: str) -> tuple[str, str, str, str]:
    """Return the keys of a quota's account: its shares, their ends; all ledgers, those used up.

    >>> quota_keys("acme", "biz:shop:requests:all")[0]
    'cf:{quota:acme}:shares:biz:shop:requests:all'
    """
    stem = f"cf:{{quota:{tenant}}}"
    own = f"{stem}:shares:{account}", f"{stem}:share_ends:{account}"
    return *own, f"{stem}:ledgers", f"{stem}:used_up"


class CeilingKeys(NamedTuple):
    """The keys of what a tenant with ceilings has."""

    permits: str
    permit_ends: str
    begun: str
    taken: str
    trials: str
    trial_ends: str


def ceiling_keys(tenant: str) -> CeilingKeys:
    """Return the keys of what a tenant with ceilings has.

    >>> ceiling_keys("acme").permits
    'cf:{ceilings:acme}:permits'
    """
    return CeilingKeys(*(f"cf:{{ceilings:{tenant}}}:{name}" for name in CeilingKeys._fields))


def robots_key(origin: str) -> str:
    """Return the key of a site's robots.txt.

    >>> robots_key("https://example.org")
    'cf:{https://example.org}:robots'
    """
    return f"cf:{{{origin}}}:robots"


def room_keys(tenant: str, of: str) -> tuple[str, str]:
    """Return the keys of what a tenant has put: when, and how many bytes.

    >>> room_keys("acme", "robots")
    ('cf:{room:acme}:robots_put', 'cf:{room:acme}:robots_sizes')
    """
    stem = f"cf:{{room:{tenant}}}:{of}"
    return f"{stem}_put", f"{stem}_sizes"


def bizs_key(tenant: str) -> str:
    """Return the key of a tenant's bizs, for its crawls to read; no crawl's name is empty.

    >>> bizs_key("acme")
    'cf:{scrapy:acme:}:bizs'
    """
    return f"cf:{{scrapy:{tenant}:}}:bizs"
