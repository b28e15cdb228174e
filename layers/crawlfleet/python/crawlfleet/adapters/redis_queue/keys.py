"""The dictionary of every Redis key.

========================================  ======  ====  ===========================================
key                                       type    TTL   holds
========================================  ======  ====  ===========================================
``cf:{tenant:biz}:queue:<queue>``         LIST    no    entries as JSON, newest first, served last
``cf:{tenant:biz}:leases:<queue>``        ZSET    no    ``token:entry`` by the lease's end, epoch ms
``cf:{tenant:biz}:delayed:<queue>``       ZSET    no    entry by its due time, epoch ms
``cf:{tenant:biz}:filled:<queue>``        STRING  no    ``reached:nonce`` of a filling, see below
``cf:{tenant:biz}:intake``                STRING  yes   when the rate's bucket is full, epoch us
``cf:{tenant:biz}:submitted``             HASH    yes   epoch second -> requests submitted in it
``cf:{tenant:biz}:processed``             HASH    yes   epoch second -> requests processed in it
``cf:{tenant:biz}:phases``                HASH    yes   phase -> seconds that workers spent in it
``cf:{tenant:biz}:coverage``              HASH    no    ``rule version`` -> its counts, a line each
``cf:{tenant:biz}:items``                 HASH    no    id -> item of the data queue, as JSON
``cf:{tenant:biz}:item_queue``            LIST    no    ids of items, newest first, served last
``cf:{tenant:biz}:item_leases``           ZSET    no    ``token:id`` by the lease's end, epoch ms
``cf:{tenant:biz}:item_tries``            HASH    no    id -> how often the item was handed out
``cf:{tenant:biz}:item_bytes``            STRING  no    bytes of all items
``cf:{tenant:biz}:cookies:<job>``         STRING  yes   a job's cookies, as its workers encode them
``cf:{fleet}:workers``                    ZSET    no    worker id by its last beat, epoch ms
``cf:{fleet}:wakes``                      ZSET    no    wake-up not yet a worker, by its time
``cf:{fleet}:pulses``                     ZSET    no    worker id by its last beat, server's ms
``cf:{fleet}:intervals``                  HASH    no    worker id -> its latest intervals, ms
``cf:{fleet}:cards``                      HASH    no    worker id -> its card as JSON
``cf:{fleet}:watch``                      HASH    no    ``since``, ``seen``: server's epoch ms
``cf:{fleet}:turns``                      HASH    no    turn -> ``started ends holder``, server's ms
``cf:{fleet}:numbers``                    ZSET    no    Snowflake worker number by its lease's end
``cf:{fleet}:fences``                     HASH    no    worker number -> fence of its latest lease
``cf:{fleet}:marks``                      HASH    no    worker number -> mark (policy.snowflake)
``cf:{fleet}:fence_count``                STRING  no    worker number leases given so far
========================================  ======  ====  ===========================================

What must not be lost never carries a TTL: a managed Redis may evict what does. Braces hold the hash
tag: on a cluster, all keys that one script touches live in one slot. A lane's tag has a colon and
the fleet's has none, so neither can be taken for the other; slugs hold neither colons nor braces.
Statistics belong to the biz and outlive a change of the queue's name; so do its rate of intake and
its items. Of coverage at most 100 versions of rules are kept, the latest counted ones.

``filled`` tells whether the queue is whole: ``1767225600000:nonce`` while it is being filled and
has come so far, ``:nonce`` when it is filled, no key when Redis has lost it. ``workers`` is by the
clock of whoever beats, and counts the living; ``pulses`` is by the server's, and finds the dead. Of
each worker there are at most 32 intervals and one card, forgotten with it.
"""

from functools import lru_cache
from typing import NamedTuple

from crawlfleet.model.lane import Lane


class LaneKeys(NamedTuple):
    """The keys of one lane."""

    queue: str
    leases: str
    delayed: str
    filled: str
    intake: str
    submitted: str
    processed: str
    phases: str
    coverage: str
    items: str
    item_queue: str
    item_leases: str
    item_tries: str
    item_bytes: str


class FleetKeys(NamedTuple):
    """The keys that all lanes of a stage share."""

    workers: str
    wakes: str
    pulses: str
    intervals: str
    cards: str
    watch: str
    turns: str
    numbers: str
    fences: str
    marks: str
    fence_count: str


@lru_cache(maxsize=4096)
def lane_keys(lane: Lane) -> LaneKeys:
    """The keys of a lane.

    >>> lane_keys(Lane("acme", "docs", "main")).queue
    'cf:{acme:docs}:queue:main'
    """
    stem = f"cf:{{{lane.tenant}:{lane.biz}}}"
    return LaneKeys(
        queue=f"{stem}:queue:{lane.queue}",
        leases=f"{stem}:leases:{lane.queue}",
        delayed=f"{stem}:delayed:{lane.queue}",
        filled=f"{stem}:filled:{lane.queue}",
        intake=f"{stem}:intake",
        submitted=f"{stem}:submitted",
        processed=f"{stem}:processed",
        phases=f"{stem}:phases",
        coverage=f"{stem}:coverage",
        items=f"{stem}:items",
        item_queue=f"{stem}:item_queue",
        item_leases=f"{stem}:item_leases",
        item_tries=f"{stem}:item_tries",
        item_bytes=f"{stem}:item_bytes",
    )


def cookies_key(lane: Lane, job: str) -> str:
    """The key of a job's cookies.

    >>> cookies_key(Lane("acme", "docs", "main"), "june")
    'cf:{acme:docs}:cookies:june'
    """
    return f"cf:{{{lane.tenant}:{lane.biz}}}:cookies:{job}"


def fleet_keys(fleet: str = "fleet") -> FleetKeys:
    """The stage-wide keys; another name keeps a second fleet apart on the same Redis.

    >>> fleet_keys().workers
    'cf:{fleet}:workers'
    """
    return FleetKeys(*(f"cf:{{{fleet}}}:{name}" for name in FleetKeys._fields))
