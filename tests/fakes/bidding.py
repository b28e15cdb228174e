"""In-memory fakes keep the job board and link probes, and answer probes from a table."""

import heapq
import time
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import count, islice
from threading import Lock, RLock

from msgspec.structs import replace

from tests.kit.bidding import (
    Applied,
    Bid,
    Decline,
    JobKey,
    JobListing,
    ListingResult,
    ListingState,
    Note,
    Probe,
    ProbeKey,
    Standing,
)
from tests.kit.bidding import board as bounds
from tests.kit.config import FetchLimits
from tests.kit.fetching import NO_FETCH_CONTEXT, FetchContext, HopGuard
from tests.kit.kernel import FetchError, from_ms, to_ms


class _Job:
    """One job of the board; ``bids`` are those of its open window."""

    __slots__ = ("bids", "notes", "rank", "standing")

    def __init__(self, standing: Standing, rank: int) -> None:
        self.standing = standing
        self.rank = rank
        self.bids: dict[str, bytes] = {}
        self.notes: dict[str, Note] = {}


class MemoryBoard:
    """A ``RedisBoard`` that lives as long as it is held; thread-safe."""

    def __init__(self, *, room: bounds.BoardBounds | None = None) -> None:
        self._bounds = room or bounds.BoardBounds()
        self._lock = RLock()
        self._jobs: dict[JobKey, _Job] = {}
        # Of a pool (None: any) and a tenant, what has no award: rank and name.
        self._queues: dict[tuple[str | None, str], list[tuple[int, str]]] = {}
        self._passes: dict[str, int] = {}
        self._served = 0
        self._counts: dict[str, int] = {}
        self._workers: dict[str, JobKey] = {}
        self._begun: dict[JobKey, tuple[int, str, int]] = {}
        self._serial = count(1)

    # ---- jobs come and go

    def add(self, listing: JobListing, now: datetime, wait: timedelta) -> ListingResult:
        bounds.check_listing(listing)
        since_ms, tenant = to_ms(listing.since or now), listing.tenant
        with self._lock:
            if listing.key in self._jobs:
                return ListingResult.STANDING
            begun = self._begun.get(listing.key)
            if begun is not None and begun[2] > to_ms(now - bounds.BEGUN):
                return ListingResult.BEGUN
            has = self._counts.get(tenant, 0)
            if has >= self._bounds.room(len(self._counts) + (has == 0)):
                return ListingResult.FULL
            pools = {pool for pool, _ in self._queues}
            if listing.pool not in pools and len(pools) >= self._bounds.most_pools:
                return ListingResult.FULL
            if has == 0:
                self._passes[tenant] = max(self._passes.get(tenant, 0), self._served)
            self._counts[tenant] = has + 1
            self._begun.pop(listing.key, None)
            standing = Standing(
                listing=replace(listing, since=from_ms(since_ms)),
                state=ListingState.WAITING,
                version=next(self._serial),
                until=from_ms(to_ms(now + wait)),
            )
            job = self._jobs[listing.key] = _Job(standing, bounds.rank(since_ms, listing.priority))
            self._put_in_queue(job)
            return ListingResult.LISTED

    def lower(self, job: JobKey, lowered: int, now: datetime, wait: timedelta) -> bool:
        return self._to_the_tail(job, lowered, now, wait, 1, stays=False)

    def defer(
        self, job: JobKey, lowered: int, now: datetime, wait: timedelta, *, stays: bool = False
    ) -> bool:
        return self._to_the_tail(job, lowered, now, wait, 0, stays=stays)

    def _to_the_tail(
        self, job: JobKey, lowered: int, now: datetime, wait: timedelta, more: int, *, stays: bool
    ) -> bool:
        with self._lock:
            one = self._jobs.get(job)
            if one is None or one.standing.state != ListingState.WAITING:
                return False
            if one.standing.listing.lowered != lowered:
                return False
            if not stays:
                self._take_from_queue(one)
                one.rank = bounds.rank(to_ms(now), 0)
                self._put_in_queue(one)
            listing = replace(one.standing.listing, lowered=lowered + more)
            self._note(one, listing=listing, until=now + wait)
            return True

    def withdraw(self, job: JobKey) -> bool:
        with self._lock:
            one = self._jobs.get(job)
            if one is None:
                return False
            if one.standing.state == ListingState.AWARDED:
                self._workers.pop(one.standing.worker or "", None)
            else:
                self._take_from_queue(one)
                self._free(one)
            self._take_off(one)
            return True

    def drop(self, tenant: str, biz: str, limit: int) -> int:
        return sum(self.withdraw(one.listing.key) for one in self.stands(tenant, biz, None, limit))

    # ---- workers

    def head(self, pool: str, limit: int, first: int = 0) -> list[JobListing]:
        first = max(0, first)
        last = min(first + min(limit, bounds.MOST_READ), bounds.DEEPEST)
        with self._lock:
            return [
                one.standing.listing for one in islice(self._order(pool), first, max(first, last))
            ]

    def apply(
        self, worker: str, job: JobKey, application: bytes, now: datetime, window: timedelta
    ) -> Applied:
        bounds.check_worker(worker)
        bounds.check_bytes("application", application, bounds.APPLICATION_BYTES)
        with self._lock:
            holds, one = self._workers.get(worker), self._jobs.get(job)
            if holds is not None:
                stands = holds == job and one is not None and worker in one.bids
                return Applied.APPLIED if stands else Applied.BUSY
            if one is None or one.standing.state == ListingState.AWARDED:
                return Applied.GONE
            if len(one.bids) >= self._bounds.most_applications:
                return Applied.FULL
            one.bids[worker] = application
            self._workers[worker] = job
            until = one.standing.until if len(one.bids) > 1 else now + window
            self._note(one, state=ListingState.APPLIED, until=until)
            return Applied.APPLIED

    def held(self, worker: str) -> Standing | None:
        with self._lock:
            job = self._workers.get(worker)
            return None if job is None else _seen(self._jobs[job])

    def retract(self, worker: str, now: datetime, wait: timedelta) -> JobKey | None:
        with self._lock:
            job = self._workers.get(worker)
            if job is None:
                return None
            one = self._jobs[job]
            if one.standing.state == ListingState.AWARDED:
                self._take_back(one, now + wait)
                return job
            del self._workers[worker], one.bids[worker]
            if one.bids:
                self._note(one)
            else:
                self._note(one, state=ListingState.WAITING, until=now + wait)
            return job

    def decline(self, pool: str, why: Mapping[JobKey, Decline], now: datetime) -> None:
        bounds.check_pool(pool)
        with self._lock:
            for job, said in list(why.items())[: bounds.MOST_WHYS]:
                one = self._jobs.get(job)
                if one is not None:
                    others = [each for each in one.notes.items() if each[0] != pool]
                    note = bounds.noted(said, one.notes.get(pool), now)
                    one.notes = dict([(pool, note), *others][: self._bounds.most_notes])

    # ---- awards

    def due_windows(self, now: datetime, limit: int) -> list[JobKey]:
        return self._due(ListingState.APPLIED, to_ms(now), limit)

    def due_waits(self, now: datetime, limit: int) -> list[JobKey]:
        return self._due(ListingState.WAITING, to_ms(now), limit)

    def read(self, job: JobKey) -> tuple[Standing, list[Bid]] | None:
        with self._lock:
            one = self._jobs.get(job)
            if one is None:
                return None
            bids = [Bid(worker=name, document=one.bids[name]) for name in sorted(one.bids)]
            return _seen(one), bids

    def award(
        self, job: JobKey, version: int, worker: str, acknowledge_by: datetime
    ) -> Standing | None:
        with self._lock:
            one = self._jobs.get(job)
            if one is None or one.standing.version != version or worker not in one.bids:
                return None
            self._take_from_queue(one)
            listing = one.standing.listing
            self._served = max(self._served, self._passes[listing.tenant])
            self._passes[listing.tenant] += bounds.pass_step(listing.weight)
            self._free(one)
            self._workers[worker] = job
            self._note(
                one,
                state=ListingState.AWARDED,
                until=acknowledge_by,
                worker=worker,
                number=next(self._serial),
            )
            return _seen(one)

    def acknowledge(self, worker: str, job: JobKey, number: int, now: datetime) -> bool:
        now_ms = to_ms(now)
        with self._lock:
            one = self._jobs.get(job)
            if one is None or one.standing.state != ListingState.AWARDED:
                return self._begun.get(job, ())[:2] == (number, worker)
            stands = one.standing
            if (stands.worker, stands.number) != (worker, number) or now_ms > to_ms(stands.until):
                return False
            self._take_off(one)
            del self._workers[worker]
            self._forget_begun(now)
            self._begun[job] = (number, worker, now_ms)
            return True

    def lapse(self, now: datetime, wait: timedelta, limit: int) -> list[tuple[JobKey, str]]:
        with self._lock:
            self._forget_begun(now)
            late = self._due(ListingState.AWARDED, to_ms(now) - 1, limit)
            found = [(job, self._jobs[job].standing.worker or "") for job in late]
            for job in late:
                self._take_back(self._jobs[job], now + wait)
            return found

    # ---- views

    def stands(
        self, tenant: str, biz: str | None, after: JobKey | None, limit: int
    ) -> list[Standing]:
        with self._lock:
            found = sorted(
                (bounds.name_of(key), one)
                for key, one in self._jobs.items()
                if key[0] == tenant and biz in {None, key[1]}
            )
            last = "" if after is None else bounds.name_of(after)
            later = (_seen(one) for name, one in found if name > last)
            return list(islice(later, max(0, min(limit, bounds.MOST_READ))))

    def missing(self, jobs: Sequence[JobKey]) -> list[JobKey]:
        with self._lock:
            return [job for job in jobs if job not in self._jobs]

    # ---- parts of them

    def _order(self, pool: str) -> Iterator[_Job]:
        tenants = {tenant for of, tenant in self._queues if of in {None, pool}}
        ahead = [(self._passes[tenant], tenant) for tenant in tenants]
        heapq.heapify(ahead)
        lists = {
            tenant: heapq.merge(
                self._queues.get((None, tenant), ()), self._queues.get((pool, tenant), ())
            )
            for tenant in tenants
        }
        while ahead:
            moved, tenant = heapq.heappop(ahead)
            entry = next(lists[tenant], None)
            if entry is not None:
                one = self._jobs[bounds.key_of(entry[1])]
                heapq.heappush(
                    ahead, (moved + bounds.pass_step(one.standing.listing.weight), tenant)
                )
                yield one

    def _due(self, state: ListingState, now_ms: int, limit: int) -> list[JobKey]:
        with self._lock:
            due = sorted(
                (until, bounds.name_of(key), key)
                for key, one in self._jobs.items()
                if one.standing.state == state and (until := to_ms(one.standing.until)) <= now_ms
            )
            return [key for _, _, key in due[: max(0, limit)]]

    def _note(self, one: _Job, **changes: object) -> None:
        if isinstance(until := changes.get("until"), datetime):
            changes["until"] = from_ms(to_ms(until))
        one.standing = replace(one.standing, version=next(self._serial), **changes)

    def _put_in_queue(self, one: _Job) -> None:
        listing = one.standing.listing
        place = (one.rank, bounds.name_of(listing.key))
        insort(self._queues.setdefault((listing.pool, listing.tenant), []), place)

    def _take_from_queue(self, one: _Job) -> None:
        listing = one.standing.listing
        queue = self._queues[listing.pool, listing.tenant]
        del queue[bisect_left(queue, (one.rank, bounds.name_of(listing.key)))]
        if not queue:
            del self._queues[listing.pool, listing.tenant]

    def _free(self, one: _Job) -> None:
        for worker in one.bids:
            self._workers.pop(worker, None)
        one.bids = {}

    def _take_back(self, one: _Job, wait_until: datetime) -> None:
        listing = one.standing.listing
        self._workers.pop(one.standing.worker or "", None)
        self._passes[listing.tenant] = max(
            0, self._passes[listing.tenant] - bounds.pass_step(listing.weight)
        )
        heads = [queue[0][0] - 1 for (_, of), queue in self._queues.items() if of == listing.tenant]
        one.rank = max(0, min([one.rank, *heads]))
        self._note(one, state=ListingState.WAITING, until=wait_until, worker=None, number=None)
        self._put_in_queue(one)

    def _take_off(self, one: _Job) -> None:
        key = one.standing.listing.key
        del self._jobs[key]
        self._counts[key[0]] -= 1
        if not self._counts[key[0]]:
            del self._counts[key[0]]
            if self._passes[key[0]] <= self._served:
                del self._passes[key[0]]

    def _forget_begun(self, now: datetime) -> None:
        before = to_ms(now - bounds.BEGUN)
        for job in [each for each, (_, _, at) in self._begun.items() if at <= before]:
            del self._begun[job]


def _seen(one: _Job) -> Standing:
    return replace(one.standing, applications=len(one.bids), why_not=dict(one.notes))


class MemoryProbeCache:
    """A ``RedisProbeCache`` that lives as long as it is held.

    Args:
        steady: Seconds since some moment.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._steady = steady
        self._lock = Lock()
        self._known: dict[ProbeKey, tuple[Probe, float]] = {}
        self._asking: dict[ProbeKey, tuple[str, float]] = {}

    def get_or_claim(self, key: ProbeKey, worker: str, hold: timedelta) -> Probe | bool:
        with self._lock:
            now = self._steady()
            self._forget(now)
            if key in self._known:
                return self._known[key][0]
            if self._asking.get(key, (worker, 0.0))[0] != worker:
                return False
            self._asking[key] = worker, now + hold.total_seconds()
            return True

    def save(self, key: ProbeKey, worker: str, probe: Probe, keep: timedelta) -> None:
        self.release(key, worker)
        with self._lock:
            self._known[key] = probe, self._steady() + keep.total_seconds()

    def release(self, key: ProbeKey, worker: str) -> None:
        with self._lock:
            if self._asking.get(key, ("", 0.0))[0] == worker:
                del self._asking[key]

    def _forget(self, now: float) -> None:
        self._known = {key: found for key, found in self._known.items() if found[1] > now}
        self._asking = {key: found for key, found in self._asking.items() if found[1] > now}


class MemoryProber:
    """A ``HttpProber`` of links that are given by URL.

    ``asked`` lists what was asked for, with its limits and errand.
    """

    def __init__(self, ways: Mapping[str, Probe | FetchError]) -> None:
        self._ways = ways
        self.asked: list[tuple[str, FetchLimits, FetchContext]] = []

    async def probe(
        self,
        url: str,
        limits: FetchLimits,
        hop_guard: HopGuard | None = None,
        fetch_context: FetchContext = NO_FETCH_CONTEXT,
    ) -> Probe:
        if hop_guard is not None:
            await hop_guard(url)
        self.asked.append((url, limits, fetch_context))
        found = self._ways[url]
        if isinstance(found, FetchError):
            raise found
        return found
