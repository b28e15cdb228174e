"""A worker's leases: leased, settled, returned.

The half of a worker that talks to MongoDB and Redis. It blocks, so the event loop calls it in
threads. MongoDB is written first, Redis follows. How a lease goes, and every way in which it ends::

    leased      Redis has moved the entry to a token of this worker: Leases.take
    claimed     MongoDB says that the request is this worker's, or the entry is let go at once
    waiting     for its slot at its host: Dispatcher
    running     downloaded and read: Attempts
    ended       has an outcome, which is to be written: Settler

    settled     its outcome is written; Redis finishes or delays the entry: Leases.settle
    deferred    no slot at its host yet: pending in the list of the host: Leases.defer
    released    pending, and the next of its queue: the worker ends, is cut off, or Redis does not
                say whose slot it is: Leases.release
    forgotten   its job is cancelled; MongoDB has it as cancelled, or will: Leases.forget
    unconfirmed the answer to the lease was lost; returned by UnconfirmedLeases
    lost        renewing has found that it is another's: Ownership drops it, nothing is written
                (worker.ownership)
    left        its node does not answer, so nobody knows: it ends by itself, others claim it
    reclaimed   its worker died: the reaper revokes it (fleet.recovery.reaper)

docs/how-it-works/architecture.md draws this.
"""

import secrets
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import biz_of
from crawlfleet.crawling.politeness.client import Waiting
from crawlfleet.crawling.politeness.hop_guard import HopGuards
from crawlfleet.crawling.politeness.models import reason
from crawlfleet.kernel.fairness import FairQueue
from crawlfleet.kernel.hosts import origin_of_site, site_of
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.models import Claim, Entry
from crawlfleet.requests.outcomes import Done, Outcome, Retry, Settled
from crawlfleet.requests.queue.ageing import is_parked
from crawlfleet.requests.tokens import new_token
from crawlfleet.worker.affinity import HostAffinity
from crawlfleet.worker.claiming import claim_entries
from crawlfleet.worker.in_flight import UnconfirmedLeases, entries_by_token
from crawlfleet.worker.ready_queues import ReadyQueues
from crawlfleet.worker.session import Session
from crawlfleet.worker.shares import rooms

Outcomes: TypeAlias = Sequence[tuple[Claim, Outcome]]


class Taken(NamedTuple):
    """Requests that were leased, of so many entries."""

    leased: list[LeasedRequest]
    entries: int


NOTHING: Final = Taken([], 0)
#: Entries of ended requests that one look drops from the lists of hosts at most, and for how long
#: it goes on before others have their turn.
SKIPPED_AT_ONCE: Final = 500
SKIPPING_SECONDS: Final = 1.0


class Leases:
    """The leases of one worker. Its methods block; ``affinity`` knows which hosts are its own."""

    def __init__(self, session: Session, hop_guards: HopGuards) -> None:
        services = self._services = session.services
        self._pauses, self._now = services.pauses, services.steady.now
        self._politeness = hop_guards.client
        self._robots = hop_guards.robots
        self._frontier = session.frontier
        self._id = session.worker
        self._session = session
        self._report = session.report
        self._account = session.account
        self._in_flight = session.in_flight
        self.affinity = HostAffinity(services.scaling, session.worker, services.config)
        # Lambda may run one invocation twice, under one id; their leases must not be one.
        self._nonce = secrets.token_hex(4)
        self._leases = 0
        self._ready = ReadyQueues(services.queue, services.pool, services.clock, services.steady)
        self._unconfirmed = UnconfirmedLeases(
            services.queue, services.clock, services.pauses.unconfirmed, services.steady
        )
        self._shares = session.shares
        self._parking = session.spending.parking
        self._ceilings = services.ceilings
        # The bizs of each tenant that has work.
        self._fair_queues: dict[str, FairQueue[QueueKey]] = {}
        self._backing_off: dict[QueueKey, float] = {}

    def take(self, waiting: Mapping[str, int] | None = None) -> Taken:
        """Lease and claim one batch of the tenant whose turn it is, from the biz whose turn it is.

        What comes has a slot at its host, or needs none yet because the site's rules are to be
        learnt first; all else was deferred. ``waiting`` is what could begin now, by tenant.
        """
        tree, limits = self._services.config.current(), self._session.limits
        started = self._now()
        self._unconfirmed.return_unconfirmed()
        by_tenant: dict[str, dict[QueueKey, int]] = defaultdict(dict)
        blocks = self._session.spending.blocks
        for queue_key in self._ready.ready(tree):
            if not self.is_backing_off(queue_key) and not blocks(queue_key):
                _, biz = biz_of(tree, queue_key.tenant, queue_key.biz)
                by_tenant[queue_key.tenant][queue_key] = biz.weight
        in_flight = self._in_flight.by_tenant()
        room = rooms(tree, by_tenant, in_flight, waiting or {}, limits)
        room = {one: at for one, at in room.items() if self._ceilings.may_begin(tree, one)}
        self._ceilings.give_back(tree, self._id, in_flight)
        self._fair_queues = {one: at for one, at in self._fair_queues.items() if one in by_tenant}
        for tenant in self._shares.order(tree, room, in_flight):
            count = self._ceilings.permitted(
                tree, tenant, self._id, room[tenant], in_flight[tenant]
            )
            if not count:
                self._shares.passed(tenant)
                continue
            fair_queue = self._fair_queues.setdefault(tenant, FairQueue())
            weights = by_tenant[tenant]
            for queue_key in fair_queue.order(weights):
                _, biz = biz_of(tree, queue_key.tenant, queue_key.biz)
                self._account.add(queue_key, "lease", self._now() - started)
                try:
                    taken = self._take_from(tree, queue_key, biz, count)
                except Exception:
                    self.back_off(queue_key)
                    raise
                if taken.entries:
                    fair_queue.taken(queue_key, weights, taken.entries)
                    self._ceilings.leased(tenant, taken.entries)
                    return taken
                del weights[queue_key]
                started = self._now()
            self._shares.passed(tenant)
            del self._fair_queues[tenant]
        if not by_tenant:
            self._shares.lull()
        return NOTHING

    def back_off(self, queue_key: QueueKey) -> None:
        """Lease nothing of this queue for a while: its store does not answer."""
        self._backing_off[queue_key] = self._now() + self._pauses.rest

    def is_backing_off(self, queue_key: QueueKey) -> bool:
        """Tell whether that while is not over."""
        return self._backing_off.get(queue_key, 0.0) > self._now()

    def _take_from(self, tree: Tree, queue_key: QueueKey, biz: Biz, count: int) -> Taken:
        """Lease from hosts whose time has come, then from the queue, up to so many."""
        taken = self._take_deferred(tree, queue_key, biz, count)
        room = count - taken.entries
        if room <= 0:
            return taken
        try:
            more = self._take_queued(queue_key, biz, room)
        except Exception as error:
            if not taken.leased:
                raise
            # What is taken already must not be lost; what was to come has been handed back.
            warn("no more requests could be leased", error)
            self.back_off(queue_key)
            return taken
        return Taken([*taken.leased, *more.leased], taken.entries + more.entries)

    def _take_queued(self, queue_key: QueueKey, biz: Biz, count: int) -> Taken:
        """Lease the next entries of the queue; those of hosts without a slot are deferred."""
        started = self._now()
        token, now, until = self._token(), self._services.clock(), self._session.lease_end()
        with self._unconfirmed.asking(queue_key, token, until):
            entries = self._services.queue.lease(queue_key, token, count, now, until, biz.ageing)
        leased_at = self._now()
        self._account.add(queue_key, "lease", leased_at - started)
        if not entries:
            return NOTHING
        leased = claim_entries(self._session, queue_key, biz, token, entries, until, self.release)
        self._account.add(queue_key, "claim", self._now() - leased_at)
        leased, over = self._park(queue_key, biz, leased)
        known = [one for one in leased if self._robots.knows(one)]
        others = [*over, *(one for one in leased if one not in set(known))]
        granted = self.admit(queue_key, biz, known, others)
        return Taken([*granted, *others], len(entries))

    def _take_deferred(self, tree: Tree, queue_key: QueueKey, biz: Biz, batch: int) -> Taken:
        """Lease from hosts whose time has come, as many entries as they have slots for."""
        started, now = self._now(), self._services.clock()
        deferred = self._services.queue.deferred(queue_key, now, batch)
        deferred = self.affinity.choose(queue_key, deferred, now)
        if not deferred:
            return NOTHING
        each = max(1, batch // len(deferred))
        counts = {origin_of_site(one.host): min(one.count, each) for one in deferred}
        closed = self._parking.again_at(queue_key, biz, list(filter(is_parked, counts)))
        lifted = {at: 0 if until else counts[at] for at, until in closed.items()}
        again_at = {at: until or now for at, until in closed.items()}
        counts = {at: count for at, count in counts.items() if at not in closed}
        slots = self._politeness.ask(tree, queue_key, biz, counts) if counts else {}
        free = {origin: granted.count for origin, granted in slots.items()}
        again_at |= {origin: granted.again_at for origin, granted in slots.items()}
        self._account.add(queue_key, "lease", self._now() - started)
        leased, found = self._claim_deferred(queue_key, biz, free | lifted, again_at)
        entries = sum(found.values())
        if not entries:
            return NOTHING
        if len(leased) < entries:
            leased += self._claim_behind_ended(queue_key, biz, free, again_at, leased)
        leased, over = self._park(queue_key, biz, leased)
        by_origin: dict[str, list[LeasedRequest]] = defaultdict(list)
        for one in leased:
            by_origin[one.origin].append(one)
        for origin, part in by_origin.items():
            if origin in slots:
                slots[origin].give(part)
        for one in leased:
            one.to_learn = not self._robots.knows(one)
        # Older versions named the host alone, whatever the scheme and the port.
        without_slot = [one for one in leased if one.slot_at is None]
        if not without_slot:
            return Taken([*leased, *over], entries)
        granted = [*over, *(one for one in leased if one.slot_at is not None)]
        more = self.admit(queue_key, biz, without_slot, granted)
        return Taken([*granted, *more], entries)

    def _park(
        self, queue_key: QueueKey, biz: Biz, leased: list[LeasedRequest]
    ) -> tuple[list[LeasedRequest], list[LeasedRequest]]:
        """Have those wait whose job's or user's limit is used up: they take no slots.

        Return those that go on, and those that a limit ends: they take none, either.
        """
        try:
            waiting = self._parking.over(biz, leased)
            if waiting:
                self.defer(queue_key, biz, waiting)
        except Exception:
            claims = [one.claim for one in leased]
            self.release(queue_key, biz, claims, "handed back: its quotas could not be asked")
            raise
        parked = {one for part in waiting for one in part.leased}
        over = [one for one in leased if one.ended is not None]
        return [one for one in leased if one.ended is None and one not in parked], over

    def _claim_behind_ended(
        self,
        queue_key: QueueKey,
        biz: Biz,
        free: Mapping[str, int],
        again_at: Mapping[str, datetime],
        leased: Sequence[LeasedRequest],
    ) -> list[LeasedRequest]:
        """Claim for slots of hosts whose entries were of ended requests, which spend none.

        The lists are gone through in growing batches, for a while; what is claimed beyond the slots
        is deferred again.
        """
        more: list[LeasedRequest] = []
        until, size = self._now() + SKIPPING_SECONDS, 1
        while self._now() < until:
            used = Counter(one.origin for one in (*leased, *more))
            size = min(2 * size, SKIPPED_AT_ONCE)
            wanted = {
                origin: max(size, slots - used[origin])
                for origin, slots in free.items()
                if used[origin] < slots
            }
            if not wanted:
                break
            try:
                claimed, found = self._claim_deferred(queue_key, biz, wanted, again_at)
            except Exception as error:  # noqa: BLE001  what is claimed already must not be lost
                warn("no more requests could be leased", error)
                self.back_off(queue_key)
                break
            more += claimed
            free = {origin: free[origin] for origin in wanted if found.get(origin)}
        return more

    def _claim_deferred(
        self,
        queue_key: QueueKey,
        biz: Biz,
        wanted: Mapping[str, int],
        again_at: Mapping[str, datetime],
    ) -> tuple[list[LeasedRequest], dict[str, int]]:
        """Lease up to so many entries that wait for origins; count the entries of each."""
        started = self._now()
        token, until = self._token(), self._session.lease_end()
        asked = [(site_of(origin), count, again_at[origin]) for origin, count in wanted.items()]
        with self._unconfirmed.asking(queue_key, token, until):
            found = self._services.queue.lease_deferred(queue_key, token, asked, until, biz.ageing)
        leased_at = self._now()
        self._account.add(queue_key, "lease", leased_at - started)
        counts = {origin: len(found.get(site_of(origin), ())) for origin in wanted}
        entries = [entry for part in found.values() for entry in part]
        if not entries:
            return [], counts
        leased = claim_entries(self._session, queue_key, biz, token, entries, until, self.release)
        self._account.add(queue_key, "claim", self._now() - leased_at)
        return leased, counts

    def admit(
        self,
        queue_key: QueueKey,
        biz: Biz,
        leased: Sequence[LeasedRequest],
        others: Sequence[LeasedRequest] = (),
    ) -> list[LeasedRequest]:
        """Return those that have a slot at their host; defer the rest.

        Where that fails ``others`` that were claimed with them are released, too.
        """
        if not leased:
            return []
        started, tree = self._now(), self._services.config.current()
        try:
            is_left = partial(self.affinity.is_left, queue_key)
            granted, waiting = self._politeness.share_out(tree, queue_key, biz, leased, is_left)
            if waiting:
                self.defer(queue_key, biz, waiting)
        except Exception:
            why = "handed back: no slots of its host could be had"
            self.release(queue_key, biz, [one.claim for one in (*leased, *others)], why)
            raise
        self._account.add(queue_key, "turn", self._now() - started)
        return granted

    def defer(self, queue_key: QueueKey, biz: Biz, waiting: Sequence[Waiting]) -> None:
        """Make requests pending again, in the list of their host, until it has slots for them."""
        now = self._services.clock()
        by_why: dict[str, list[Claim]] = defaultdict(list)
        by_token: dict[str, list[tuple[str, datetime, list[Entry]]]] = defaultdict(list)
        for part in waiting:
            claims = [one.claim for one in part.leased]
            by_why[part.said or reason(part.why)] += claims
            for token, entries in entries_by_token(claims).items():
                by_token[token].append((part.site, part.until, entries))
        for why, claims in by_why.items():
            self._services.store.release(queue_key, biz, claims, self._id, why, now)
            self._report.deferred += len(claims)
        for token, hosts in by_token.items():
            self._services.queue.defer(queue_key, token, hosts)

    def settle(self, queue_key: QueueKey, biz: Biz, outcomes: Outcomes) -> Settled:
        """Write outcomes to MongoDB, then to Redis; returns what MongoDB has made of them.

        What it could not hold has ended as a dead letter: for the page, its seed and the report.
        """
        now = self._services.clock()
        self._report.links += self._frontier.add_links(queue_key, biz, outcomes)
        settled = self._services.store.settle(queue_key, biz, outcomes, self._id, now)
        lost = settled.lost
        if settled.unstorable:
            outcomes = [(c, settled.unstorable.get(c.request.id, end)) for c, end in outcomes]
        self._remember(queue_key, biz, outcomes, lost)
        self._frontier.ended(queue_key, biz, outcomes, lost)
        finished: dict[str, list[Entry]] = defaultdict(list)
        delayed: dict[str, list[tuple[Entry, datetime]]] = defaultdict(list)
        for claim, outcome in outcomes:
            if claim.request.id in lost:
                continue
            if isinstance(outcome, Retry):
                delayed[claim.token].append((claim.entry, outcome.due_at))
            else:
                finished[claim.token].append(claim.entry)
        try:
            for token, entries in finished.items():
                self._services.queue.finish(queue_key, token, entries, len(entries), now)
            for token, pairs in delayed.items():
                self._services.queue.delay(queue_key, token, pairs)
        except Exception as error:  # noqa: BLE001
            # MongoDB has it. Redis forgets these entries when their leases end.
            warn("leases could not be finished", error)
        return settled

    def _remember(
        self, queue_key: QueueKey, biz: Biz, outcomes: Outcomes, lost: set[RequestId]
    ) -> None:
        """Remember what was seen of pages, now that their records are stored."""
        visits = [
            outcome.visit
            for claim, outcome in outcomes
            if isinstance(outcome, Done) and outcome.visit and claim.request.id not in lost
        ]
        if not visits:
            return
        try:
            self._services.visits.saw(queue_key, biz, visits)
        except Exception as error:  # noqa: BLE001  they are read in full next time
            warn("what was seen of pages could not be kept", error)

    def _token(self) -> str:
        """Make a token that no lease has had: what a lost answer has moved is found by it alone."""
        self._leases += 1
        return new_token(self._id, self._nonce, self._leases)

    def forget(self, queue_key: QueueKey, claims: Sequence[Claim]) -> None:
        """End leases in Redis: in MongoDB these requests are cancelled, or will be."""
        now = self._services.clock()
        for token, entries in entries_by_token(claims).items():
            self._services.queue.finish(queue_key, token, entries, 0, now)

    def release(self, queue_key: QueueKey, biz: Biz, claims: Sequence[Claim], why: str) -> None:
        """Make requests pending again, and their entries the next to be served."""
        self._services.store.release(queue_key, biz, claims, self._id, why, self._services.clock())
        for token, entries in entries_by_token(claims).items():
            self._services.queue.give_back(queue_key, token, entries)
