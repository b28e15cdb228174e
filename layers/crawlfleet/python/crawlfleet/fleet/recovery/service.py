"""Recover what Redis has lost (SPEC.md A5, A9, D12): nothing that was accepted stays forgotten.

A round goes through each queue: requests past their time to live are counted before they disappear;
a queue that Redis has lost is rebuilt; requests that are persisted but not queued are queued again;
leases of unknown workers are reclaimed. All of it is read of MongoDB. Repeats do no harm: the claim
decides.

Every worker and the scheduler may do a round; a lock keeps it to one at a time. What a round costs
grows with what is missing and what is leased, not with what is queued.

**A queue that Redis has lost**, in whole or in part, is rebuilt from MongoDB (SPEC.md A5). Redis
keeps an epoch beside each queue, and MongoDB remembers it. Another epoch, or another server (a
restart, a failover to a replica, a restored snapshot), and nothing of the queue can be relied on:
what is there is dropped and everything that is pending or waiting is queued. What workers hold they
go on with; MongoDB knows that they own it.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final
from uuid import uuid4

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import biz_of, every_queue, share_of
from crawlfleet.fleet.failure_detector import worth_a_look
from crawlfleet.fleet.mongo import MongoPoolBook
from crawlfleet.fleet.recovery.reaper import Reclaimer
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.fairness import TENANT, by_shares, in_turns
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey, bound
from crawlfleet.kernel.time import STEADY, SteadyTime, TimeLeft, from_ms, to_ms
from crawlfleet.requests.models import Entry, JournalLine, QueueEpoch
from crawlfleet.requests.mongo.ledger import MongoLedgers
from crawlfleet.requests.mongo.store import MongoRequestStore
from crawlfleet.requests.queue.redis.recovery import RedisQueueRebuild
from crawlfleet.requests.queue.stats import each_queued_before
from crawlfleet.requests.tokens import worker_of

#: Retries that are listed at once; more are found when they are due.
DELAYED: Final = 100_000
#: Clocks differ: what was stamped by one that runs ahead was in the queue too. What is submitted
#: while the queue is rebuilt may so be queued twice, which the claim sees.
SKEW: Final = timedelta(minutes=5)
#: With less time left a rebuild is left to the next round, which goes on from there.
REBUILD_MARGIN_SECONDS: Final = 10.0


def is_whole(epoch: QueueEpoch, remembered: QueueEpoch | None) -> bool:
    """Tell whether the queue is the one that was rebuilt last, on the same server."""
    return (
        remembered is not None
        and epoch.reached is None
        and epoch.nonce is not None
        and (epoch.nonce, epoch.server) == (remembered.nonce, remembered.server)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """Counts of one round over all queues; ``mine`` is False where another had the lock."""

    mine: bool = True
    requeued: int = 0
    expired: int = 0
    orphans: int = 0
    corrected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery(Reclaimer):
    """Do rounds of recovery over all queues.

    ``chunk`` entries are queued again in one call; a queue that is rebuilt gets ``fill_chunk``.
    """

    store: MongoRequestStore
    ledgers: MongoLedgers
    rebuild: RedisQueueRebuild
    pools: MongoPoolBook
    chunk: int = 5_000
    fill_chunk: int = 10_000
    steady: SteadyTime = STEADY

    def rebuild_if_lost(
        self, queue_key: QueueKey, biz: Biz, by: str, now: datetime, time_left: TimeLeft
    ) -> int | None:
        """Rebuild a queue that is not what it was; return how many were queued, None if it is.

        A round that ends half-way, or is killed, leaves a note of how far it has come.
        """
        epoch = self.rebuild.epoch(queue_key)
        remembered = self.revocation.remembered_epoch(queue_key)
        if is_whole(epoch, remembered):
            return None
        self.queue.announce((queue_key,))
        nonce, since = epoch.nonce, epoch.reached
        if nonce is None or since is None or not nonce.startswith(_stem(epoch)):
            nonce, since = f"{_stem(epoch)}{uuid4().hex[:16]}", 0
            self.rebuild.clear(queue_key, nonce)
        else:
            since += 1
        count, complete = self._fill(queue_key, biz, nonce, since, now, time_left)
        if complete and self.rebuild.filled(queue_key, nonce):
            rebuilt = QueueEpoch(server=epoch.server, nonce=nonce)
            self.revocation.remember_epoch(queue_key, rebuilt)
        if count or remembered is not None:
            why = f"{_reason(epoch, remembered)}: queued again from MongoDB"
            self.note(queue_key, JournalLine(at=now, by=by, kind="filled", why=why, count=count))
        return count

    def _fill(
        self,
        queue_key: QueueKey,
        biz: Biz,
        nonce: str,
        since: int,
        now: datetime,
        time_left: TimeLeft,
    ) -> tuple[int, bool]:
        """Queue what is pending from ``since`` on, then retries; return how many, and if all."""
        count = 0
        while True:
            if time_left() < REBUILD_MARGIN_SECONDS:
                return count, False
            entries = self.revocation.pending(
                queue_key, biz, since=since, before=now + SKEW, now=now, limit=self.fill_chunk
            )
            if not entries:
                break
            reached = entries[-1].ts
            if not self.rebuild.fill(queue_key, nonce, entries, reached):
                return count, False  # somebody else has begun anew
            count += len(entries)
            since = reached + 1
            if since > to_ms(now + SKEW):
                break
        waiting = self.revocation.waiting(queue_key, biz, now=now, limit=DELAYED)
        for start in range(0, len(waiting), self.fill_chunk):
            part = waiting[start : start + self.fill_chunk]
            if not self.rebuild.fill_delayed(queue_key, nonce, part):
                return count, False
        return count + len(waiting), True

    def recover(self, tree: Tree, by: str, now: datetime, time_left: TimeLeft) -> Recovered:
        """Do one round over every queue, if the caller gets the lock; ``by`` is the caller.

        A queue that fails, however it does, is left for the next round; its account and its entries
        fail each for itself. A node that does not answer costs seconds, so the round ends when less
        than :data:`MARGIN_SECONDS` are left. Each round begins with another tenant, and goes on
        with the one that took least time by its share. Without Redis nobody gets the lock: then
        every caller counts what expires, and nothing can be queued.
        """
        has_lock = self._acquire_lock(by)
        if has_lock is False:
            return Recovered(mine=False)
        time_left = _Kept(self.detector, by, time_left, has_lock=bool(has_lock))
        found: Counter[str] = Counter()

        def account(queue_key: QueueKey, biz: Biz) -> None:
            found["expired"] += self.store.expire(queue_key, biz, now)
            found["corrected"] += self._reconcile(queue_key, biz, by, now)

        def queue(queue_key: QueueKey, biz: Biz) -> None:
            filled = self.rebuild_if_lost(queue_key, biz, by, now, time_left)
            found["requeued"] += self._requeue(queue_key, biz, now) if filled is None else filled
            if filled is None:
                found["orphans"] += self._reclaim_orphaned(tree, queue_key, by, now)

        def others(queue_key: QueueKey, biz: Biz) -> None:
            # Where no pool is known nothing is asked.
            for pool in sorted(self.revocation.pools(queue_key, biz, known, now)) if known else ():
                if time_left() < MARGIN_SECONDS:
                    break
                queue(bound(queue_key, pool), biz)

        try:
            known, noted = self._known_pools(tree), self._noted()
            due = self._due(tree, known, noted, now)
            for queue_key in by_shares(due, TENANT, partial(share_of, tree), self.steady.now):
                if time_left() < MARGIN_SECONDS:
                    break
                _, biz = biz_of(tree, queue_key.tenant, queue_key.biz)
                # A biz has one account, and a queue for each pool that anything of it is bound for.
                # One that fails does not keep the others from being done.
                done = [_is_done(part, queue_key, biz) for part in (account, queue, others)]
                noted_at = noted.get((queue_key.tenant, queue_key.biz))
                if noted_at and all(done) and time_left() >= MARGIN_SECONDS:
                    self._forget_noted(queue_key, noted_at, now)
            if has_lock:
                self._build_indexes(tree, due, now, time_left)
        finally:
            if has_lock:
                self._release_lock(by)
        return Recovered(
            requeued=found["requeued"],
            expired=found["expired"],
            orphans=found["orphans"],
            corrected=found["corrected"],
        )

    def _due(
        self,
        tree: Tree,
        known: Collection[str],
        noted: Collection[tuple[str, str]],
        now: datetime,
    ) -> list[QueueKey]:
        """List the queues that a round looks into: those that may have work, and some others.

        Redis is asked for what all queues have and hold, some hundred in a round trip: a queue that
        has something and was not announced is announced, and one that is not what it was is looked
        into, like all that are open and those of bizs that were ``noted``. Of the rest, of which
        nothing is known to be wrong, each has its turn. Queues of bizs and pools that there are no
        more are open no more.
        """
        rest = in_turns(tree.queues(), now, EVERY)
        most = max(QUIET, len(rest) // QUIET_ROUNDS)
        try:
            listed = self.queue.open.listed()
            every = dict.fromkeys(every_queue(tree, known))
            unlisted = [one for one in every if one not in listed]
            found = [
                queue_key
                for queue_key, load in zip(unlisted, self.queue.loads(unlisted, now), strict=True)
                if load.ready or load.leased or load.next_ts is not None
            ]
            self.queue.announce(found)
            self.queue.open.forget({one: at for one, at in listed.items() if one not in every})
            if len(rest) <= most:
                return rest
            epochs = self.rebuild.epochs(rest)
            remembered = self.revocation.remembered_epochs(rest)
        except Exception as error:  # noqa: BLE001  what is not known is looked for everywhere
            warn("which queues have work is not known: all are recovered", error)
            return rest
        opened = {*((one.tenant, one.biz) for one in (*listed, *found)), *noted}
        lost = {
            (one.tenant, one.biz)
            for one, epoch in epochs.items()
            if one in remembered and (epoch is None or not is_whole(epoch, remembered[one]))
        }
        first = [one for one in rest if (one.tenant, one.biz) in opened | lost]
        quiet = [one for one in rest if (one.tenant, one.biz) not in opened | lost]
        return first + quiet[:most]

    def _build_indexes(
        self, tree: Tree, due: Sequence[QueueKey], now: datetime, time_left: TimeLeft
    ) -> None:
        """Have indexes built where that is cheap; no queue waits for it."""
        end = max(MARGIN_SECONDS, time_left() - INDEX_SECONDS)
        for queue_key in due:
            if time_left() <= end:
                return
            _, biz = biz_of(tree, queue_key.tenant, queue_key.biz)
            name = f"{queue_key.tenant}/{queue_key.biz}"
            try:
                for reported in self.store.index(queue_key, biz, now, lambda: time_left() - end):
                    warn(f"an index of {name} is not there", StoreError(reported))
            except Exception as error:  # noqa: BLE001  nothing depends on it
                warn(f"the indexes of {name} could not be looked at", error)

    def _known_pools(self, tree: Tree) -> set[str]:
        """List the pools that requests may be bound for, those of former configurations too."""
        try:
            return {*tree.further_pools, *self.pools.known()}
        except Exception as error:  # noqa: BLE001  what is known without is to be done
            warn("which pools there have been is not known", error)
            return {*tree.further_pools}

    def _noted(self) -> dict[tuple[str, str], datetime]:
        """Return the bizs of which something could not be queued, and when that was noted."""
        try:
            return self.store.noted_unqueued()
        except Exception as error:  # noqa: BLE001  they have their turns all the same
            warn("which bizs have requests that are not queued is not known", error)
            return {}

    def _forget_noted(self, queue_key: QueueKey, noted_at: datetime, now: datetime) -> None:
        """Forget the note of a biz that was looked into, once nothing of it is on its way."""
        if now - noted_at <= NOTED:
            return
        try:
            self.store.forget_unqueued(queue_key, noted_at)
        except Exception as error:  # noqa: BLE001  it is looked into once more
            warn("the note of a biz whose requests are queued stays", error)

    def _acquire_lock(self, by: str) -> bool | None:
        try:
            return self.detector.acquire_lock(LOCK, by, EVERY, TERM)
        except Exception as error:  # noqa: BLE001  what does not need Redis is to be done
            warn("the lock of recovery is not known", error)
            return None

    def _release_lock(self, by: str) -> None:
        try:
            self.detector.release_lock(LOCK, by)
        except Exception as error:  # noqa: BLE001  what was done is done, and the lock has a term
            warn("the lock of recovery could not be released", error)

    def _reconcile(self, queue_key: QueueKey, biz: Biz, by: str, now: datetime) -> int:
        corrections = self.ledgers.reconcile(queue_key, biz, now)
        for one in corrections:
            line = JournalLine(at=now, by=by, kind="corrected", why=one.why, count=one.count)
            self.journal.note(queue_key, line)
        return len(corrections)

    def _requeue(self, queue_key: QueueKey, biz: Biz, now: datetime) -> int:
        """Queue requests that are overdue, or older than all queued ones of their priority."""
        depth = self.queue.depth(queue_key)
        bounds = each_queued_before(depth, now, SLACK_SECONDS)
        before = tuple(map(from_ms, bounds))
        entries = self.store.unqueued(queue_key, biz, before=before, now=now - OVERDUE, limit=BATCH)
        # Overdue ones may be queued since an earlier round, where nobody works: the same bound
        # keeps them from being queued in every round.
        missing = [entry for entry in entries if entry.ts < bounds[entry.priority]]
        # Each call puts its entries before all others, so the oldest go last: a round that dies on
        # the way leaves the oldest out, and those are what the next round looks for.
        for start in reversed(range(0, len(missing), self.chunk)):
            self.queue.requeue(queue_key, missing[start : start + self.chunk])
        return len(missing)

    def _reclaim_orphaned(self, tree: Tree, queue_key: QueueKey, by: str, now: datetime) -> int:
        """Reclaim leases of unknown workers, which the reaper never finds; return how many."""
        holders: dict[str, list[tuple[str, Entry]]] = defaultdict(list)
        for token, entry in self.book.leases(queue_key):
            holders[worker_of(token)].append((token, entry))
        # MongoDB may know of a lease that Redis has forgotten: a claim that was under way when its
        # worker was reaped, for one.
        _, biz = biz_of(tree, queue_key.tenant, queue_key.biz)
        claimed: dict[str, list[Entry]] = defaultdict(list)
        for worker, entry in self.revocation.held(queue_key, biz, now=now, limit=BATCH):
            claimed[worker].append(entry)
        if not holders and not claimed:
            return 0
        # Looked up after the leases: a worker registers before it leases anything.
        known = {beats.worker for beats in self.detector.heartbeats()}
        if self.detector.observed_for() < worth_a_look(tree.stage.detector):
            return 0  # Redis was just emptied or came back: live workers have yet to beat
        reclaimed = 0
        for worker in (holders.keys() | claimed.keys()) - known:
            why = f"worker {worker} is not known any more"
            reclaimed += self.reclaim(tree, queue_key, holders[worker], worker, by, why, now)
            listed = {entry for _, entry in holders[worker]}
            forgotten = [entry for entry in claimed[worker] if entry not in listed]
            if forgotten:
                self.revocation.revoke(queue_key, biz, forgotten, worker, by, why, now)
                self.queue.requeue(queue_key, forgotten)
                reclaimed += len(forgotten)
        return reclaimed


def _is_done(part: Callable[[QueueKey, Biz], None], queue_key: QueueKey, biz: Biz) -> bool:
    """Do a part of a round for one biz; False where that fails."""
    try:
        part(queue_key, biz)
    except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
        name = f"{queue_key.tenant}/{queue_key.biz}"
        warn(f"the {part.__name__} of {name} could not be recovered", error)
        return False
    return True


class _Kept:
    """The time left of a round: asking for it keeps the lock, where the round has that.

    A round that has lost it, as one call took too long, has no time left: another one goes on.
    """

    def __init__(
        self, detector: RedisFailureDetector, by: str, time_left: TimeLeft, *, has_lock: bool
    ) -> None:
        self._detector, self._by, self._time_left = detector, by, time_left
        self._kept_at = time_left()
        self._has_lock, self._lost = has_lock, False

    def __call__(self) -> float:
        left = self._time_left()
        if self._has_lock and not self._lost and self._kept_at - left >= KEPT_SECONDS:
            self._kept_at = left
            try:
                self._lost = not self._detector.keep_lock(LOCK, self._by, TERM)
            except Exception as error:  # noqa: BLE001  it goes on: doing it twice does no harm
                warn("the lock of recovery could not be kept", error)
        return 0.0 if self._lost else left


def _stem(epoch: QueueEpoch) -> str:
    """Return the prefix of a rebuild's nonce: what another server began is no good here."""
    return f"{epoch.server[:16]}."


def _reason(epoch: QueueEpoch, remembered: QueueEpoch | None) -> str:
    if remembered is None:
        return "its queue had never been filled"
    if epoch.reached is not None:
        return "its queue was still being filled"
    if epoch.server != remembered.server:
        return "Redis was restarted, or another one answers than held its queue"
    return "Redis had lost its queue"


#: The lock's name, how often it is given, and after what a holder that vanished loses it.
LOCK: Final = "recover"
EVERY: Final = timedelta(seconds=20)
TERM: Final = timedelta(seconds=20)
#: The lock is kept so often by who goes on for longer: one that dies holds nobody up for its term.
KEPT_SECONDS: Final = 5.0
#: A submission gets this long from MongoDB to Redis before it counts as lost on the way.
SLACK_SECONDS: Final = 5.0
#: Since a note was made for so long all that it is of counts as lost on the way.
NOTED: Final = timedelta(seconds=2 * SLACK_SECONDS)
#: Expired leases are reclaimed by the queue itself; recovery steps in when it did not.
OVERDUE: Final = timedelta(seconds=10)
#: With less time left than one queue of a silent node may cost, no other one is begun.
MARGIN_SECONDS: Final = 30.0
#: Seconds that a round may spend on indexes after all queues, beside that margin.
INDEX_SECONDS: Final = 20.0
#: Queues of which nothing is known to be wrong, and that a round looks into all the same; of more
#: than so many hundred, as many that each has its turn in some ten minutes.
QUIET: Final = 30
QUIET_ROUNDS: Final = 30
#: Entries queued again in one round for one queue.
BATCH: Final = 100_000
