"""Keep the board of jobs that wait for a worker in Redis (SPEC.md B4-B6).

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
scores are ordered by their words. ``board_offers`` has ``state version priority weight lowered
since rank until number pool worker``: ``number`` counts the applications, or is the award's;
``pool`` is ``-`` where any will do.

All of the board has the fleet's tag: an award changes the queue of a tenant and frees applicants
for any other tenant's jobs, so one script sees both. There is little of it, as a job is changed a
dozen times where its tasks are thousands of times. jobs.bidding.listing bounds it: some 100,000
listings of half a kilobyte. No key has a TTL, as a managed Redis may evict those that do; all can
be rebuilt from MongoDB.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from crawlfleet.jobs.bidding import listing as bounds
from crawlfleet.jobs.bidding import models
from crawlfleet.jobs.models import JobKey
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text, whole
from crawlfleet.kernel.redis.server import Script
from crawlfleet.kernel.time import from_ms, to_ms

_NAMES: Final = (
    *("offers", "documents", "notes", "queue", "index", "turns", "passes", "counts", "pools"),
    *("waits", "windows", "awards", "workers", "serial", "begun", "begun_at"),
)


def board_keys(fleet: str = "fleet") -> tuple[str, ...]:
    """Return the keys that every script of the board has, in its prelude's order.

    >>> board_keys()[3]
    'cf:{fleet}:board_queue'
    """
    return tuple(f"cf:{{{fleet}}}:board_{name}" for name in _NAMES)


def applications_key(job: str, fleet: str = "fleet") -> str:
    """Return the key of a job's applications.

    >>> applications_key("acme/docs/june")
    'cf:{fleet}:board_at:acme/docs/june'
    """
    return f"cf:{{{fleet}}}:board_at:{job}"


_PRELUDE: Final = "jobs/bidding/board_prelude"
_ADD: Final = Script("jobs/bidding/board_add", _PRELUDE)
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
#: Values of one standing.
_WIDTH: Final = 4


class RedisBoard:
    """The jobs that wait for a worker, in order, and their bids.

    ::

        add -> waiting -> applied -> awarded -> (acknowledged: not here any more)
                ^  |lower             |lapse
                +--+------------------+

    This is an index of the jobs that are ``placing`` in MongoDB. Each change is one script:
    whatever many do at once, a job is in one state, and a worker has one application or award open.
    What names a job, an application or a worker that is not there has no effect. Documents beyond
    ``room`` are an :class:`InvalidRequestError`. ``fleet`` separates fleets that share a Redis.
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
        self._listings, self._waits, self._windows = (self._keys[at] for at in (0, 9, 10))
        self._workers = self._keys[12]

    def add(
        self, listing: models.JobListing, now: datetime, wait: timedelta
    ) -> models.ListingResult:
        """List a job, to wait so long for its first application; one that is listed stays as it is.

        A job that a worker has acknowledged within ``BEGUN`` is not listed again. ``full``: its
        tenant has as many as it may, or too many pools have jobs of their own.
        """
        bounds.check_listing(listing)
        since_ms = to_ms(listing.since or now)
        answer = self._redis.again(
            _ADD,
            self._keys,
            bounds.name_of(listing.key),
            listing.pool or _ANY_POOL,
            *(listing.priority, listing.weight, listing.lowered),
            *(since_ms, bounds.rank(since_ms, listing.priority), to_ms(now + wait)),
            *(self._bounds.tenant_listings, self._bounds.most_listings),
            *(self._bounds.least_listings, self._bounds.most_pools),
            *(to_ms(now - bounds.BEGUN), listing.document),
        )
        with self._redis.translated():
            return models.ListingResult(text(answer).decode())

    def lower(self, job: JobKey, lowered: int, now: datetime, wait: timedelta) -> bool:
        """Lower once more a job that was ``lowered`` so often and got no application: to the tail.

        False where another call has lowered it, or somebody has applied.
        """
        return self._to_the_tail(job, lowered, now, wait, 1, stays=False)

    def defer(
        self, job: JobKey, lowered: int, now: datetime, wait: timedelta, *, stays: bool = False
    ) -> bool:
        """Have a job wait on that got no application: at the tail, or where it is if it ``stays``.

        False where another call has lowered it, or somebody has applied.
        """
        return self._to_the_tail(job, lowered, now, wait, 0, stays=stays)

    def _to_the_tail(
        self, job: JobKey, lowered: int, now: datetime, wait: timedelta, more: int, *, stays: bool
    ) -> bool:
        name = bounds.name_of(job)
        rank = "" if stays else bounds.rank(to_ms(now), 0)
        arguments = (name, lowered, rank, to_ms(now + wait), more)
        return whole(self._redis.again(_LOWER, self._keys, *arguments)) == 1

    def withdraw(self, job: JobKey) -> bool:
        """Remove a job; whoever applied or won is free. False where it is not listed."""
        name = bounds.name_of(job)
        return whole(self._redis.again(_WITHDRAW, self._with_bids(name), name)) == 1

    def drop(self, tenant: str, biz: str, limit: int) -> int:
        """Withdraw up to so many jobs of a biz that is gone; return how many."""
        return sum(self.withdraw(one.listing.key) for one in self.stands(tenant, biz, None, limit))

    def head(self, pool: str, limit: int, first: int = 0) -> list[models.JobListing]:
        """Read the head of the queue for a worker of the pool: jobs without an award, in order.

        Tenants alternate by weight, and inside a tenant jobs go by rank. ``first`` skips as many;
        nothing is beyond ``DEEPEST``.
        """
        first = max(0, first)
        count = min(limit, bounds.MOST_READ, bounds.DEEPEST - first)
        if count < 1:
            return []
        return [one.listing for one in self._standings(_HEAD, pool, first, count)]

    def apply(
        self, worker: str, job: JobKey, application: bytes, now: datetime, window: timedelta
    ) -> models.Applied:
        """Apply for a job, once; the first application of all opens its window."""
        bounds.check_worker(worker)
        bounds.check_bytes("application", application, bounds.APPLICATION_BYTES)
        name = bounds.name_of(job)
        bid = (worker, name, to_ms(now + window), self._bounds.most_applications, application)
        answer = self._redis.again(_APPLY, self._with_bids(name), *bid)
        with self._redis.translated():
            return models.Applied(text(answer).decode())

    def held(self, worker: str) -> models.Standing | None:
        """Get the job that the worker has applied for or won; None where neither."""
        return next(iter(self._standings(_HELD, worker)), None)

    def retract(self, worker: str, now: datetime, wait: timedelta) -> JobKey | None:
        """Void the worker's open application, or its award: it leaves, or is dead.

        A job without another application waits again; one that was awarded is at the head of its
        tenant's queue.
        """
        (found,) = several(self._redis.together(("HGET", self._workers, worker)), 1)
        if found is None:
            return None
        with self._redis.translated():
            name = text(found).decode()
            job = bounds.key_of(name)
        arguments = (worker, name, to_ms(now + wait))
        done = whole(self._redis.again(_RETRACT, self._with_bids(name), *arguments))
        return job if done else None

    def decline(self, pool: str, why: Mapping[JobKey, models.Decline], now: datetime) -> None:
        """Note why a worker of the pool has examined jobs and does not apply."""
        bounds.check_pool(pool)
        declines: list[str] = []
        for job, decline in list(why.items())[: bounds.MOST_WHYS]:
            said = f"{decline.kind} {decline.lowered}"
            declines += (bounds.name_of(job), said, bounds.why(decline.why))
        if declines:
            suits = bounds.SUITS // timedelta(milliseconds=1)
            first = (pool, str(self._bounds.most_notes), str(to_ms(now)), str(suits))
            whole(self._redis.again(_DECLINE, self._keys, *first, *declines))

    def due_windows(self, now: datetime, limit: int) -> list[JobKey]:
        """List jobs whose window has ended, the longest ago first: to be awarded."""
        return self._due(self._windows, now, limit)

    def due_waits(self, now: datetime, limit: int) -> list[JobKey]:
        """List jobs for which nobody has applied in their wait, the longest ago first."""
        return self._due(self._waits, now, limit)

    def read(self, job: JobKey) -> tuple[models.Standing, list[models.Bid]] | None:
        """Get the standing of a job, with its bids by worker; None where it is not listed."""
        name = bounds.name_of(job)
        found = several(self._redis.again(_READ, self._with_bids(name), name))
        if not found:
            return None
        with self._redis.translated():
            *answer, bids = found
            (standing,) = _standings(answer)
            words = [text(word) for word in several(bids)]
            made = [
                models.Bid(worker=worker.decode(), document=document)
                for worker, document in zip(words[::2], words[1::2], strict=True)
            ]
        return standing, sorted(made, key=lambda one: one.worker)

    def award(
        self, job: JobKey, version: int, worker: str, acknowledge_by: datetime
    ) -> models.Standing | None:
        """Award the job to an applicant, if it still has the version that was read.

        It leaves the queue, and the others are free to apply elsewhere. None where the job has
        changed since: it is to be read again.
        """
        name = bounds.name_of(job)
        arguments = (name, version, worker, to_ms(acknowledge_by))
        found = several(self._redis.again(_AWARD, self._with_bids(name), *arguments))
        with self._redis.translated():
            return next(iter(_standings(found)), None)

    def acknowledge(self, worker: str, job: JobKey, number: int, now: datetime) -> bool:
        """Acknowledge an award: the job leaves the board.

        Repeated within ``BEGUN`` it is true again. False where the award has lapsed: then nothing
        of the job may be done.
        """
        arguments = (worker, bounds.name_of(job), number, to_ms(now), to_ms(now - bounds.BEGUN))
        return whole(self._redis.again(_ACKNOWLEDGE, self._keys, *arguments)) == 1

    def lapse(self, now: datetime, wait: timedelta, limit: int) -> list[tuple[JobKey, str]]:
        """Void the awards that nobody acknowledged in time; return each job and its winner.

        Each job is at the head of its tenant's queue again.
        """
        arguments = (to_ms(now), to_ms(now + wait), max(0, limit), to_ms(now - bounds.BEGUN))
        # Not repeated: the awards of a lost answer would be reported to nobody.
        found = several(self._redis.once(_LAPSE, self._keys, *arguments))
        with self._redis.translated():
            words = [text(word).decode() for word in found]
            return [
                (bounds.key_of(job), worker)
                for job, worker in zip(words[::2], words[1::2], strict=True)
            ]

    def stands(
        self, tenant: str, biz: str | None, after: JobKey | None, limit: int
    ) -> list[models.Standing]:
        """List the standings of a tenant's jobs, or of one biz of it, by name."""
        count = min(limit, bounds.MOST_READ)
        if count < 1:
            return []
        prefix = f"{tenant}/" if biz is None else f"{tenant}/{biz}/"
        last = "" if after is None else bounds.name_of(after)
        return self._standings(_LIST, prefix, last if last.startswith(prefix) else "", count)

    def missing(self, jobs: Sequence[JobKey]) -> list[JobKey]:
        """Return those of the jobs that are not listed."""
        if not jobs:
            return []
        names = [bounds.name_of(job) for job in jobs]
        (found,) = several(self._redis.together(("HMGET", self._listings, *names)), 1)
        lines = several(found, len(names))
        return [job for job, line in zip(jobs, lines, strict=True) if line is None]

    def _with_bids(self, name: str) -> tuple[str, ...]:
        return (*self._keys, applications_key(name, self._fleet))

    def _due(self, key: str, now: datetime, limit: int) -> list[JobKey]:
        if limit < 1:
            return []
        ask = ("ZRANGEBYSCORE", key, "-inf", to_ms(now), "LIMIT", 0, limit)
        (found,) = several(self._redis.together(ask), 1)
        with self._redis.translated():
            return [bounds.key_of(text(name).decode()) for name in several(found)]

    def _standings(self, script: Script, *arguments: str | int) -> list[models.Standing]:
        found = several(self._redis.again(script, self._keys, *arguments))
        with self._redis.translated():
            return _standings(found)


def _standings(answer: Sequence[object]) -> list[models.Standing]:
    """Read the answer of the prelude's ``standings``."""
    if len(answer) % _WIDTH:
        raise nonsense()
    return [
        _standing(*(text(word) for word in answer[at : at + _WIDTH]))
        for at in range(0, len(answer), _WIDTH)
    ]


def _standing(name: bytes, line: bytes, document: bytes, notes: bytes) -> models.Standing:
    state, *rest, pool, worker = line.decode().split(" ")
    version, priority, weight, lowered, since, _rank, until, number = map(int, rest)
    tenant, biz, job = bounds.key_of(name.decode())
    awarded = state == models.ListingState.AWARDED
    return models.Standing(
        listing=models.JobListing(
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
        state=models.ListingState(state),
        version=version,
        until=from_ms(until),
        applications=0 if awarded else number,
        worker=worker if awarded else None,
        number=number if awarded else None,
        why_not=dict(_note(one) for one in notes.decode().splitlines()),
    )


def _note(line: str) -> tuple[str, models.Note]:
    pool, kind, lowered, since, at, *why = line.split(" ", 5)
    first, last, said = from_ms(int(since)), from_ms(int(at)), "".join(why)
    return pool, models.Note(
        kind=models.WhyNot(kind), lowered=int(lowered), since=first, at=last, why=said
    )
