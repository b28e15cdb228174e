"""The Redis keys of the board of jobs that wait for a worker: what keys.py is for lanes.

==============================  ======  ====  =====================================================
key                             type    TTL   holds
==============================  ======  ====  =====================================================
``cf:{fleet}:board_offers``     HASH    no    job -> how it stands, see below
``cf:{fleet}:board_documents``  HASH    no    job -> what workers have to know of it
``cf:{fleet}:board_notes``      HASH    no    job -> a line a pool: why its workers do not apply
``cf:{fleet}:board_queue``      ZSET    no    ``pool tenant rank job`` of what has no award
``cf:{fleet}:board_index``      ZSET    no    every job on the board
``cf:{fleet}:board_turns``      ZSET    no    ``pool pass tenant`` of who has jobs queued
``cf:{fleet}:board_passes``     HASH    no    tenant -> its pass; ``*`` -> the pass served last
``cf:{fleet}:board_counts``     HASH    no    tenant -> its jobs; ``pool tenant`` -> those queued
``cf:{fleet}:board_pools``      HASH    no    pool -> how many of its jobs are queued
``cf:{fleet}:board_waits``      ZSET    no    job by when its wait for an application ends, ms
``cf:{fleet}:board_windows``    ZSET    no    job by when its window ends, epoch ms
``cf:{fleet}:board_awards``     ZSET    no    job by when its award lapses, epoch ms
``cf:{fleet}:board_workers``    HASH    no    worker -> the job that it has applied for, or won
``cf:{fleet}:board_serial``     STRING  no    versions and numbers of awards given so far
``cf:{fleet}:board_begun``      HASH    no    job -> ``number worker`` of its acknowledged award
``cf:{fleet}:board_begun_at``   ZSET    no    that job by when it was acknowledged, epoch ms
``cf:{fleet}:board_at:<job>``   HASH    no    worker -> its application for that job
==============================  ======  ====  =====================================================

A job is ``tenant/biz/name``; the words of a member are parted by a zero byte, and sets without
scores are read by their words. ``board_offers`` has ``state version priority weight lowered since
rank until number pool worker``: ``number`` counts the applications, or is the award's; ``pool`` is
``-`` where any will do.

All of it has the fleet's tag. An award changes the queue of a tenant and sets free applicants that
may go to any other tenant's jobs next, so one script has to see both; and there is little of it: a
job comes by a dozen times in its life, where its tasks come by thousands of times elsewhere.
Documents are there too, as whoever reads the head wants them with it in one call. policy.board
bounds them: some 100,000 offers of half a kilobyte. None has a TTL, as a managed Redis may evict
what does; all of it can be filled again from MongoDB.
"""

from typing import Final

_NAMES: Final = (
    *("offers", "documents", "notes", "queue", "index", "turns", "passes", "counts", "pools"),
    *("waits", "windows", "awards", "workers", "serial", "begun", "begun_at"),
)


def board_keys(fleet: str = "fleet") -> tuple[str, ...]:
    """The keys that every script of the board has, in its prelude's order.

    >>> board_keys()[3]
    'cf:{fleet}:board_queue'
    """
    return tuple(f"cf:{{{fleet}}}:board_{name}" for name in _NAMES)


def applications_key(job: str, fleet: str = "fleet") -> str:
    """The key of a job's applications.

    >>> applications_key("acme/docs/june")
    'cf:{fleet}:board_at:acme/docs/june'
    """
    return f"cf:{{{fleet}}}:board_at:{job}"
