"""Reap dead workers (SPEC.md C5, D12): reclaim their leases, free their host slots, forget them.

Every worker and the scheduler do so; a lock in Redis keeps it to one at a time. Leases are revoked
in MongoDB first: from then on the worker's tokens are worth nothing, so one that was only slow
finds out and writes nothing. Doing any of it twice has no second effect.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import biz_of, every_queue
from crawlfleet.crawling.politeness.models import HostReport
from crawlfleet.crawling.politeness.redis import RedisHosts
from crawlfleet.fleet.failure_detector import status, worth_a_look
from crawlfleet.fleet.models import Health, WorkerHealth
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import Clock
from crawlfleet.requests.models import Entry, JournalLine
from crawlfleet.requests.mongo.ledger import MongoJournal
from crawlfleet.requests.mongo.reclaim import MongoLeaseRevocation
from crawlfleet.requests.queue.redis.queue import RedisQueue
from crawlfleet.requests.queue.redis.recovery import RedisLeaseBook
from crawlfleet.requests.tokens import worker_of

#: The lock's name, how often it is given, and after what a reaper that vanished loses it.
LOCK: Final = "watch"
EVERY: Final = timedelta(seconds=1)
TERM: Final = timedelta(seconds=5)
#: Rounds of a caller that stays to be sure: beyond what the detector takes, and altogether. The
#: scheduler has two minutes, and other things to do.
MORE_LOOKS: Final = 7
MOST_LOOKS: Final = 40
#: Leases revoked in one call.
CHUNK: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """Dead workers of one round, their pools, and how many leases were reclaimed.

    ``mine`` is False where another caller had the lock.
    """

    mine: bool = True
    dead: tuple[str, ...] = ()
    pools: frozenset[str] = frozenset()
    returned: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaimer:
    """Revoke the leases of a worker that is gone, and queue its requests again."""

    detector: RedisFailureDetector
    book: RedisLeaseBook
    queue: RedisQueue
    revocation: MongoLeaseRevocation
    journal: MongoJournal

    def reclaim(
        self,
        tree: Tree,
        queue_key: QueueKey,
        held: Sequence[tuple[str, Entry]],
        worker: str,
        by: str,
        why: str,
        now: datetime,
    ) -> int:
        """Revoke leases of a worker in one queue, and queue their requests; return how many."""
        _, biz = biz_of(tree, queue_key.tenant, queue_key.biz)
        owned = 0
        for start in range(0, len(held), CHUNK):
            part = held[start : start + CHUNK]
            entries = [entry for _, entry in part]
            owned += self.revocation.revoke(queue_key, biz, entries, worker, by, why, now)
            for token, leased in _by_token(part).items():
                self.queue.give_back(queue_key, token, leased)
        if owned:
            # What Redis lists beyond that is stale: an old snapshot, or leases not yet claimed.
            line = JournalLine(at=now, by=by, kind="taken-back", why=why, count=owned)
            self.note(queue_key, line)
        return len(held)

    def note(self, queue_key: QueueKey, line: JournalLine) -> None:
        """Write down what was done; that it was done does not depend on it."""
        try:
            self.journal.note(queue_key, line)
        except Exception as error:  # noqa: BLE001  it is done, whoever can read of it
            warn("the journal could not be written", error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaper(Reclaimer):
    """Find dead workers, and reap them."""

    hosts: RedisHosts

    def reap(self, tree: Tree, by: str, now: datetime) -> Reaped:
        """Reap the workers that are dead now, if the caller gets the lock; ``by`` is the caller."""
        if not self.detector.acquire_lock(LOCK, by, EVERY, TERM):
            return Reaped(mine=False)
        try:
            limits = tree.stage.detector
            silent = self.detector.heartbeats(worth_a_look(limits))
            found = [status(beats, limits) for beats in silent]
            dead = {one.worker: one for one in found if one.health is Health.DEAD}
            returned = self._reap(tree, dead, by, now) if dead else 0
            pools = frozenset(one.worker_status.pool for one in dead.values())
            return Reaped(dead=tuple(dead), pools=pools, returned=returned)
        finally:
            self.detector.release_lock(LOCK, by)

    def reap_until_sure(
        self, tree: Tree, by: str, clock: Clock, pause: Callable[[float], None]
    ) -> tuple[str, ...]:
        """Reap for some seconds if nobody else does; return the workers that were found dead.

        Silence counts only while somebody observes the fleet. Where all workers have died nobody
        did, so the scheduler, at its tick, stays for as long as it takes to be sure.
        """
        dead: list[str] = []
        sure_after = worth_a_look(tree.stage.detector)
        began = clock()
        for _ in range(min(MOST_LOOKS, MORE_LOOKS + math.ceil(sure_after / EVERY))):
            found = self.reap(tree, by, clock())
            dead += found.dead
            pools = (beats.worker_status.pool for beats in self.detector.heartbeats())
            queues = every_queue(tree, pools)
            if not any(depth.leased or depth.away for depth in self.queue.depths(queues)):
                break
            observed = clock() - began
            # The lock may be that of a worker that was killed with it. One that beats reaps, too.
            silent = self.detector.heartbeats(observed)
            if not found.mine and len(silent) < len(self.detector.heartbeats()):
                break
            if observed > sure_after and not self.detector.heartbeats(sure_after):
                break
            pause(EVERY.total_seconds())
        return tuple(dead)

    def _reap(self, tree: Tree, dead: Mapping[str, WorkerHealth], by: str, now: datetime) -> int:
        returned = 0
        queues = every_queue(tree, (one.worker_status.pool for one in dead.values()))
        for queue_key, depth in zip(queues, self.queue.depths(queues), strict=True):
            if not depth.leased and not depth.away:
                continue
            try:
                for worker, held in _holders(self.book, queue_key, tuple(dead)).items():
                    why = _why(dead[worker])
                    returned += self.reclaim(tree, queue_key, held, worker, by, why, now)
            except Exception as error:  # noqa: BLE001  the other queues are to have theirs
                # Recovery finds what belongs to nobody, and the leases have an end.
                whose = f"{queue_key.tenant}/{queue_key.biz}"
                warn(f"{whose} did not get a dead worker's work back", error)
        for worker, one in dead.items():
            self._free_hosts(tree, one)
            self.detector.reap(worker, one.worker_status.pool)
        return returned

    def _free_hosts(self, tree: Tree, one: WorkerHealth) -> None:
        """Free the worker's permits at hosts, as far as its status has named them.

        What it has begun since its last beat, or could not name, is free when its permits end.
        """
        limits, usual = tree.stage.host_limits, tree.stage.hosts
        reports = [
            HostReport(host=host, tenant=tenant, running=0, limits=limits.get(host, usual))
            for host, tenant in one.worker_status.hosts
        ]
        if not reports:
            return
        try:
            self.hosts.report(reports, one.worker)
        except Exception as error:  # noqa: BLE001  the permits have an end
            warn(f"what {one.worker} was allowed at hosts could not be given to others", error)


def _holders(
    book: RedisLeaseBook, queue_key: QueueKey, workers: Sequence[str]
) -> dict[str, list[tuple[str, Entry]]]:
    """List the leases of each of the workers in one queue, in one pass over its leases."""
    held: dict[str, list[tuple[str, Entry]]] = defaultdict(list)
    for token, entry in book.leases(queue_key, workers[0] if len(workers) == 1 else None):
        if (worker := worker_of(token)) in workers:
            held[worker].append((token, entry))
    return held


def _why(one: WorkerHealth) -> str:
    silence = f"silent for {one.silent_ms / 1000:.1f} s that were observed, phi {one.phi:.1f}"
    return f"worker {one.worker} is taken to be dead: {silence}"


def _by_token(held: Iterable[tuple[str, Entry]]) -> dict[str, list[Entry]]:
    tokens: dict[str, list[Entry]] = defaultdict(list)
    for token, entry in held:
        tokens[token].append(entry)
    return tokens
