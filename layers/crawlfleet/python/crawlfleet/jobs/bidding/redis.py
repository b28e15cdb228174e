"""What is known of ways to sites, on Redis.

================================  ======  ====  ==============================================
key                               type    TTL   holds
================================  ======  ====  ==============================================
``cf:{probe:<digest>}:probe``     STRING  yes   what a way was like, as JSON
``cf:{probe:<digest>}:probing``   STRING  yes   the worker that is finding it out
================================  ======  ====  ==============================================

The digest is jobs.bidding.probing's of tenant, biz, pool and origin: nothing that anybody has put
into a URL stands in a key, and no tenant's ways are another's. Both keys may be evicted at any
time.

The board of jobs that wait for a worker, on Redis: see board_keys.py for what is where.

The Redis keys of the board of jobs that wait for a worker: what keys.py is for lanes.

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
Documents are there too, as whoever reads the head wants them with it in one call.
jobs.bidding.listing bounds them: some 100,000 offers of half a kilobyte. None has a TTL, as a
managed Redis may evict what does; all of it can be filled again from MongoDB.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from crawlfleet.jobs.bidding import listing as bounds
from crawlfleet.jobs.bidding.models import (
    Applied,
    Bid,
    Decline,
    JobKey,
    ListingState,
    Note,
    Offer,
    Offered,
    Probe,
    ProbeKey,
    Standing,
    WhyNot,
)
from crawlfleet.jobs.bidding.probing import digest
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.kernel.time import from_ms, to_ms

_LOOK: Final = Script("jobs/bidding/probe_look")
_SAVE: Final = Script("jobs/bidding/probe_save")


def probe_keys(key: ProbeKey) -> tuple[str, str]:
    """The keys of a way."""
    stem = f"cf:{{probe:{digest(key)}}}"
    return f"{stem}:probe", f"{stem}:probing"


class RedisProbeCache:
    """A :class:`~crawlfleet.jobs.bidding.probing.ProbeBook`."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def look(self, key: ProbeKey, worker: str, hold: timedelta) -> Probe | bool:
        """See jobs.bidding.probing.ProbeBook.look."""
        reported = self._redis.again(_LOOK, probe_keys(key), worker, _ms(hold))
        known, mine = several(reported, 2)
        if known is not None:
            try:
                return msgspec.json.decode(text(known), type=Probe)
            except msgspec.DecodeError:
                return True  # whatever stands there, it is found out anew
        return whole(mine) == 1

    def save(self, key: ProbeKey, worker: str, probe: Probe, keep: timedelta) -> None:
        """See jobs.bidding.probing.ProbeBook.save."""
        whole(
            self._redis.again(
                _SAVE, probe_keys(key), worker, msgspec.json.encode(probe), max(1, _ms(keep))
            )
        )

    def release(self, key: ProbeKey, worker: str) -> None:
        """See jobs.bidding.probing.ProbeBook.release."""
        whole(self._redis.again(_SAVE, probe_keys(key), worker, "", 1))


def _ms(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)


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


_PRELUDE: Final = "jobs/bidding/board_prelude"
_OFFER: Final = Script("jobs/bidding/board_offer", _PRELUDE)
_HEAD: Final = Script("jobs/bidding/board_head", _PRELUDE)
_APPLY: Final = Script("jobs/bidding/board_apply", _PRELUDE)
_HELD: Final = Script("jobs/bidding/board_held", _PRELUDE)
_RETRACT: Final = Script("jobs/bidding/board_retract", _PRELUDE)
_DECLINE: Final = Script("jobs/bidding/board_decline", _PRELUDE)
_READ: Final = Script("jobs/bidding/board_read", _PRELUDE)
_AWARD: Final = Script("jobs/bidding/board_award", _PRELUDE)
_ACKNOWLEDGE: Final = Script("jobs/bidding/board_acknowledge", _PRELUDE)
_LAPSE: Final = Script("jobs/bidding/board_lapse", _PRELUDE)
_LOWER: Final = Script("jobs/bidding/board_lower", _PRELUDE)
_WITHDRAW: Final = Script("jobs/bidding/board_withdraw", _PRELUDE)
_LIST: Final = Script("jobs/bidding/board_list", _PRELUDE)

_ANY_POOL: Final = "-"
#: Values that say how one job stands.
_WIDTH: Final = 4


class RedisBoard:
    """A :class:`~crawlfleet.ports.JobBoard`.

    Args:
        connection: The stage's Redis.
        fleet: Keeps fleets apart that share a Redis.
        room: How much it takes.
    """

    def __init__(
        self,
        connection: RedisConnection,
        *,
        fleet: str = "fleet",
        room: bounds.BoardBounds | None = None,
    ) -> None:
        self._redis = connection
        self._bounds = room or bounds.BoardBounds()
        self._fleet = fleet
        self._keys = board_keys(fleet)
        self._offers, self._waits, self._windows = (self._keys[at] for at in (0, 9, 10))
        self._workers = self._keys[12]

    # ---- jobs come and go

    def offer(self, offer: Offer, now: datetime, wait: timedelta) -> Offered:
        """See ports.JobBoard.offer."""
        bounds.check_listing(offer)
        since_ms = to_ms(offer.since or now)
        reported = self._redis.again(
            _OFFER,
            self._keys,
            bounds.name_of(offer.key),
            offer.pool or _ANY_POOL,
            *(offer.priority, offer.weight, offer.lowered),
            *(since_ms, bounds.rank(since_ms, offer.priority), to_ms(now + wait)),
            *(self._bounds.tenant_listings, self._bounds.most_listings),
            *(self._bounds.least_listings, self._bounds.most_pools),
            *(to_ms(now - bounds.BEGUN), offer.document),
        )
        with self._redis.translated():
            return Offered(text(reported).decode())

    def lower(self, job: JobKey, lowered: int, now: datetime, wait: timedelta) -> bool:
        """See ports.JobBoard.lower."""
        return self._to_the_tail(job, lowered, now, wait, 1, stays=False)

    def defer(
        self, job: JobKey, lowered: int, now: datetime, wait: timedelta, *, stays: bool = False
    ) -> bool:
        """See ports.JobBoard.defer."""
        return self._to_the_tail(job, lowered, now, wait, 0, stays=stays)

    def _to_the_tail(
        self, job: JobKey, lowered: int, now: datetime, wait: timedelta, more: int, *, stays: bool
    ) -> bool:
        name = bounds.name_of(job)
        rank = "" if stays else bounds.rank(to_ms(now), 0)
        reported = (name, lowered, rank, to_ms(now + wait), more)
        return whole(self._redis.again(_LOWER, self._keys, *reported)) == 1

    def withdraw(self, job: JobKey) -> bool:
        """See ports.JobBoard.withdraw."""
        name = bounds.name_of(job)
        return whole(self._redis.again(_WITHDRAW, self._with_bids(name), name)) == 1

    def drop(self, tenant: str, biz: str, limit: int) -> int:
        """See ports.JobBoard.drop."""
        return sum(self.withdraw(one.offer.key) for one in self.stands(tenant, biz, None, limit))

    # ---- workers

    def head(self, pool: str, limit: int, first: int = 0) -> list[Offer]:
        """See ports.JobBoard.head."""
        first = max(0, first)
        count = min(limit, bounds.MOST_READ, bounds.DEEPEST - first)
        if count < 1:
            return []
        return [one.offer for one in self._standings(_HEAD, pool, first, count)]

    def apply(
        self, worker: str, job: JobKey, application: bytes, now: datetime, window: timedelta
    ) -> Applied:
        """See ports.JobBoard.apply."""
        bounds.check_worker(worker)
        bounds.check_bytes("application", application, bounds.APPLICATION_BYTES)
        name = bounds.name_of(job)
        reported = self._redis.again(
            _APPLY,
            self._with_bids(name),
            *(worker, name, to_ms(now + window), self._bounds.most_applications, application),
        )
        with self._redis.translated():
            return Applied(text(reported).decode())

    def held(self, worker: str) -> Standing | None:
        """See ports.JobBoard.held."""
        return next(iter(self._standings(_HELD, worker)), None)

    def retract(self, worker: str, now: datetime, wait: timedelta) -> JobKey | None:
        """See ports.JobBoard.retract."""
        (found,) = several(self._redis.together(("HGET", self._workers, worker)), 1)
        if found is None:
            return None
        with self._redis.translated():
            name = text(found).decode()
            job = bounds.key_of(name)
        reported = (worker, name, to_ms(now + wait))
        done = whole(self._redis.again(_RETRACT, self._with_bids(name), *reported))
        return job if done else None

    def decline(self, pool: str, why: Mapping[JobKey, Decline], now: datetime) -> None:
        """See ports.JobBoard.decline."""
        bounds.check_pool(pool)
        reported: list[str] = []
        for job, said in list(why.items())[: bounds.MOST_WHYS]:
            reported += (bounds.name_of(job), f"{said.kind} {said.lowered}", bounds.why(said.why))
        if reported:
            suits = bounds.SUITS // timedelta(milliseconds=1)
            reported = [pool, str(self._bounds.most_notes), str(to_ms(now)), str(suits), *reported]
            whole(self._redis.again(_DECLINE, self._keys, *reported))

    # ---- awards

    def due_windows(self, now: datetime, limit: int) -> list[JobKey]:
        """See ports.JobBoard.due_windows."""
        return self._due(self._windows, now, limit)

    def due_waits(self, now: datetime, limit: int) -> list[JobKey]:
        """See ports.JobBoard.due_waits."""
        return self._due(self._waits, now, limit)

    def read(self, job: JobKey) -> tuple[Standing, list[Bid]] | None:
        """See ports.JobBoard.read."""
        name = bounds.name_of(job)
        found = several(self._redis.again(_READ, self._with_bids(name), name))
        if not found:
            return None
        with self._redis.translated():
            *reported, bids = found
            (standing,) = _standings(reported)
            words = [text(word) for word in several(bids)]
            made = [
                Bid(worker=worker.decode(), document=document)
                for worker, document in zip(words[::2], words[1::2], strict=True)
            ]
        return standing, sorted(made, key=lambda one: one.worker)

    def award(
        self, job: JobKey, version: int, worker: str, acknowledge_by: datetime
    ) -> Standing | None:
        """See ports.JobBoard.award."""
        name = bounds.name_of(job)
        reported = (name, version, worker, to_ms(acknowledge_by))
        found = several(self._redis.again(_AWARD, self._with_bids(name), *reported))
        with self._redis.translated():
            return next(iter(_standings(found)), None)

    def acknowledge(self, worker: str, job: JobKey, number: int, now: datetime) -> bool:
        """See ports.JobBoard.acknowledge."""
        reported = (worker, bounds.name_of(job), number, to_ms(now), to_ms(now - bounds.BEGUN))
        return whole(self._redis.again(_ACKNOWLEDGE, self._keys, *reported)) == 1

    def lapse(self, now: datetime, wait: timedelta, limit: int) -> list[tuple[JobKey, str]]:
        """See ports.JobBoard.lapse."""
        reported = (to_ms(now), to_ms(now + wait), max(0, limit), to_ms(now - bounds.BEGUN))
        # Not repeated: what the lost answer told would be told to nobody.
        found = several(self._redis.once(_LAPSE, self._keys, *reported))
        with self._redis.translated():
            words = [text(word).decode() for word in found]
            return [
                (bounds.key_of(job), worker)
                for job, worker in zip(words[::2], words[1::2], strict=True)
            ]

    # ---- views

    def stands(
        self, tenant: str, biz: str | None, after: JobKey | None, limit: int
    ) -> list[Standing]:
        """See ports.JobBoard.stands."""
        count = min(limit, bounds.MOST_READ)
        if count < 1:
            return []
        prefix = f"{tenant}/" if biz is None else f"{tenant}/{biz}/"
        last = "" if after is None else bounds.name_of(after)
        return self._standings(_LIST, prefix, last if last.startswith(prefix) else "", count)

    def missing(self, jobs: Sequence[JobKey]) -> list[JobKey]:
        """See ports.JobBoard.missing."""
        if not jobs:
            return []
        names = [bounds.name_of(job) for job in jobs]
        (found,) = several(self._redis.together(("HMGET", self._offers, *names)), 1)
        lines = several(found, len(names))
        return [job for job, line in zip(jobs, lines, strict=True) if line is None]

    # ---- how they are asked

    def _with_bids(self, name: str) -> tuple[str, ...]:
        return (*self._keys, applications_key(name, self._fleet))

    def _due(self, key: str, now: datetime, limit: int) -> list[JobKey]:
        if limit < 1:
            return []
        ask = ("ZRANGEBYSCORE", key, "-inf", to_ms(now), "LIMIT", 0, limit)
        (found,) = several(self._redis.together(ask), 1)
        with self._redis.translated():
            return [bounds.key_of(text(name).decode()) for name in several(found)]

    def _standings(self, script: Script, *arguments: str | int) -> list[Standing]:
        found = several(self._redis.again(script, self._keys, *arguments))
        with self._redis.translated():
            return _standings(found)


def _standings(reported: Sequence[object]) -> list[Standing]:
    """What ``told`` of the prelude tells."""
    if len(reported) % _WIDTH:
        raise nonsense()
    return [
        _standing(*(text(word) for word in reported[at : at + _WIDTH]))
        for at in range(0, len(reported), _WIDTH)
    ]


def _standing(name: bytes, line: bytes, document: bytes, notes: bytes) -> Standing:
    state, *rest, pool, worker = line.decode().split(" ")
    version, priority, weight, lowered, since, _rank, until, number = map(int, rest)
    tenant, biz, job = bounds.key_of(name.decode())
    awarded = state == ListingState.AWARDED
    return Standing(
        offer=Offer(
            tenant=tenant,
            biz=biz,
            job=job,
            document=document,
            priority=priority,
            weight=weight,
            pool=None if pool == _ANY_POOL else pool,
            lowered=lowered,
            since=from_ms(since),
        ),
        state=ListingState(state),
        version=version,
        until=from_ms(until),
        applications=0 if awarded else number,
        worker=worker if awarded else None,
        number=number if awarded else None,
        why_not=dict(_note(one) for one in notes.decode().splitlines()),
    )


def _note(line: str) -> tuple[str, Note]:
    pool, kind, lowered, since, at, *why = line.split(" ", 5)
    return pool, Note(
        kind=WhyNot(kind),
        lowered=int(lowered),
        since=from_ms(int(since)),
        at=from_ms(int(at)),
        why="".join(why),
    )
