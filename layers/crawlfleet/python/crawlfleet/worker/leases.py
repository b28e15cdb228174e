"""A worker's leases: leased, renewed, settled, returned.

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
    left        its node does not answer, so nobody knows: it ends by itself, others claim it
    reclaimed   its worker died: the reaper revokes it (fleet.recovery.reaper)

docs/how-it-works/architecture.md draws this.
"""

import secrets
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import biz_of, served_queues
from crawlfleet.crawling.politeness.client import Waiting, reason
from crawlfleet.crawling.politeness.hop_guard import HopGuards
from crawlfleet.crawling.recrawl import service as recrawling
from crawlfleet.kernel.fairness import FairQueue
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.models import Claim, Entry, new_token
from crawlfleet.requests.outcomes import Done, Outcome, Retry, Settled
from crawlfleet.worker.affinity import HostAffinity
from crawlfleet.worker.in_flight import UnconfirmedLeases, by_queue, entries_by_token
from crawlfleet.worker.session import Session


class Taken(NamedTuple):
    """Requests that were leased, of so many entries."""

    leased: list[LeasedRequest]
    entries: int


NOTHING: Final = Taken([], 0)


class Renewed(NamedTuple):
    """The leases that are another's now, and those that MongoDB could not be asked for."""

    lost: list[tuple[LeasedRequest, Claim]]
    unknown: list[LeasedRequest]


class Leases:
    """The leases of one worker. Its methods block.

    ``affinity`` knows which hosts are this worker's own.
    """

    def __init__(self, session: Session, hop_guards: HopGuards) -> None:
        services = self._services = session.services
        self._pauses, self._now = services.pauses, services.steady.now
        self._politeness = hop_guards.client
        self._robots = hop_guards.robots
        self._frontier = session.frontier
        self._id = session.worker
        self._limits = session.limits
        self._report = session.report
        self._account = session.account
        self._in_flight = session.in_flight
        self.affinity = HostAffinity(services.scaling, session.worker, services.config)
        # Lambda may run one invocation twice, under one id; their leases must not be one.
        self._nonce = secrets.token_hex(4)
        self._leases = 0
        self._unconfirmed = UnconfirmedLeases(
            services.queue, services.clock, services.pauses.unconfirmed, services.steady
        )
        self._fair_queue = FairQueue[QueueKey]()
        self._backing_off: dict[QueueKey, float] = {}

    def take(self) -> Taken:
        """Lease and claim one batch from the queue whose turn it is of those that have any.

        What comes has a slot at its host, or needs none yet because the site's rules are to be
        learnt first; all else was deferred.
        """
        tree = self._services.config.current()
        queues = served_queues(tree, self._services.pool)
        if not queues:
            return NOTHING
        started = self._now()
        self._unconfirmed.return_unconfirmed()
        loads = self._services.queue.loads(queues, self._services.clock())
        weights = {
            queue_key: biz_of(tree, queue_key.tenant, queue_key.biz)[1].weight
            for queue_key, load in zip(queues, loads, strict=True)
            if load.ready and not self.is_backing_off(queue_key)
        }
        for queue_key in self._fair_queue.order(weights):
            _, biz = biz_of(tree, queue_key.tenant, queue_key.biz)
            self._account.add(queue_key, "lease", self._now() - started)
            try:
                taken = self._take_from(tree, queue_key, biz)
            except Exception:
                self.back_off(queue_key)
                raise
            if taken.entries:
                self._fair_queue.taken(queue_key, weights, taken.entries)
                return taken
            del weights[queue_key]
            started = self._now()
        self._fair_queue.lull()
        return NOTHING

    def back_off(self, queue_key: QueueKey) -> None:
        """Lease nothing of this queue for a while: its store does not answer."""
        self._backing_off[queue_key] = self._now() + self._pauses.rest

    def is_backing_off(self, queue_key: QueueKey) -> bool:
        """Tell whether that while is not over."""
        return self._backing_off.get(queue_key, 0.0) > self._now()

    def _take_from(self, tree: Tree, queue_key: QueueKey, biz: Biz) -> Taken:
        """Lease from hosts whose time has come, then from the queue, up to a batch."""
        taken = self._take_deferred(tree, queue_key, biz)
        room = self._limits.batch - taken.entries
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
        token, now, until = self._token(), *self._term()
        with self._unconfirmed.asking(queue_key, token, until):
            entries = self._services.queue.lease(queue_key, token, count, now, until, biz.ageing)
        leased_at = self._now()
        self._account.add(queue_key, "lease", leased_at - started)
        if not entries:
            return NOTHING
        leased = self._claim(queue_key, biz, token, entries, until)
        self._account.add(queue_key, "claim", self._now() - leased_at)
        known = [one for one in leased if self._robots.knows(one)]
        if len(known) == len(leased):
            return Taken(self.admit(queue_key, biz, leased), len(entries))
        unknown = [one for one in leased if one not in set(known)]
        granted = self.admit(queue_key, biz, known, unknown)
        return Taken([*granted, *unknown], len(entries))

    def _take_deferred(self, tree: Tree, queue_key: QueueKey, biz: Biz) -> Taken:
        """Lease from hosts whose time has come, as many entries as they have slots for."""
        started = self._now()
        token, now, until = self._token(), *self._term()
        deferred = self._services.queue.deferred(queue_key, now, self._limits.batch)
        deferred = self.affinity.choose(queue_key, deferred, now)
        if not deferred:
            return NOTHING
        each = max(1, self._limits.batch // len(deferred))
        slots = self._politeness.ask(
            tree, queue_key, biz, {one.host: min(one.count, each) for one in deferred}
        )
        wanted = [(host, granted.count, granted.again_at) for host, granted in slots.items()]
        with self._unconfirmed.asking(queue_key, token, until):
            found = self._services.queue.lease_deferred(queue_key, token, wanted, until, biz.ageing)
        leased_at = self._now()
        self._account.add(queue_key, "lease", leased_at - started)
        entries = [entry for part in found.values() for entry in part]
        if not entries:
            return NOTHING
        leased = self._claim(queue_key, biz, token, entries, until)
        self._account.add(queue_key, "claim", self._now() - leased_at)
        by_host: dict[str, list[LeasedRequest]] = defaultdict(list)
        for one in leased:
            by_host[one.host[0]].append(one)
        for host, part in by_host.items():
            if host in slots:
                slots[host].give(part)
        for one in leased:
            one.to_learn = not self._robots.knows(one)
        # A host's name is spelled alike here and there; one that is not would wait for ever.
        without_slot = [one for one in leased if one.slot_at is None]
        if not without_slot:
            return Taken(leased, len(entries))
        granted = [one for one in leased if one.slot_at is not None]
        more = self.admit(queue_key, biz, without_slot, granted)
        return Taken([*granted, *more], len(entries))

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
            granted, waiting = self._politeness.share_out(tree, queue_key, biz, leased)
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
                by_token[token].append((part.host, part.until, entries))
        for why, claims in by_why.items():
            self._services.store.release(queue_key, biz, claims, self._id, why, now)
            self._report.deferred += len(claims)
        for token, hosts in by_token.items():
            self._services.queue.defer(queue_key, token, hosts)

    def _claim(
        self, queue_key: QueueKey, biz: Biz, token: str, entries: Sequence[Entry], until: datetime
    ) -> list[LeasedRequest]:
        # Both leases end at one time: where Redis leases an entry again, MongoDB lets it be
        # claimed.
        now = self._services.clock()
        try:
            claims = self._services.store.claim(
                queue_key, biz, entries, self._id, now, until, token
            )
        except Exception:
            self._services.queue.give_back(queue_key, token, entries)
            raise
        self._report.leased += len(claims)
        if len(claims) < len(entries):
            won = {claim.entry.id for claim in claims}
            self._let_go(queue_key, biz, token, [e for e in entries if e.id not in won])
        ends_at = self._now() + (until - self._services.clock()).total_seconds()
        try:
            leased = []
            for claim in claims:
                body = claim.request.body
                rule = self._services.rules.get_version(queue_key, body.rule, body.rule_version)
                leased.append(LeasedRequest(queue_key, biz, claim, rule, ends_at))
        except Exception:
            self.release(queue_key, biz, claims, "handed back: its rule could not be looked up")
            raise
        self._recall(queue_key, biz, leased)
        return leased

    def _recall(self, queue_key: QueueKey, biz: Biz, leased: Sequence[LeasedRequest]) -> None:
        """Look up what is known of pages since they were last read, where that matters."""
        if biz.recrawl is None:
            return
        known = recrawling.prepare(
            self._services.visits,
            queue_key,
            biz,
            [one.claim for one in leased],
            self._services.seeding.resolver,
        )
        for one in leased:
            one.known = known.get(one.claim.request.id)

    def _let_go(self, queue_key: QueueKey, biz: Biz, token: str, entries: Sequence[Entry]) -> None:
        """Drop entries of gone or final requests and repeats; delay those that are another's.

        These come back when its lease ends: that other may be dead, and this the only entry.
        """
        self._report.skipped += len(entries)
        try:
            busy = self._services.store.due(queue_key, biz, entries)
        except Exception as error:  # noqa: BLE001  recovery finds what comes to be missing
            warn("entries that are another's could not be looked up", error)
            busy = []
        kept = {entry.id for entry, _ in busy}
        dropped = [entry for entry in entries if entry.id not in kept]
        try:
            self._services.queue.delay(queue_key, token, busy)
            self._services.queue.finish(queue_key, token, dropped, 0, self._services.clock())
        except Exception as error:  # noqa: BLE001  the lease in Redis ends by itself
            warn("entries that were not won could not be let go", error)

    def settle(
        self, queue_key: QueueKey, biz: Biz, outcomes: Sequence[tuple[Claim, Outcome]]
    ) -> Settled:
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
        self,
        queue_key: QueueKey,
        biz: Biz,
        outcomes: Sequence[tuple[Claim, Outcome]],
        lost: set[RequestId],
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

    def renew(self, leased: Sequence[LeasedRequest]) -> Renewed:
        """Renew leases; requests that are settled meanwhile may be among the lost, as nobody's."""
        ends_at = self._now() + self._limits.lease_seconds
        _, until = self._term()
        lost_pairs: list[tuple[LeasedRequest, Claim]] = []
        unknown: list[LeasedRequest] = []
        patience = self._pauses.redis
        for (queue_key, _), part in by_queue(leased).items():
            pairs = [(one, one.claim) for one in part]
            try:
                claims = [claim for _, claim in pairs]
                lost = self._services.store.renew(queue_key, part[0].biz, claims, until)
            except Exception as error:  # noqa: BLE001  the others' leases are to be renewed too
                warn("leases could not be renewed", error)
                unknown += part
                continue
            for one in part:
                one.ends_at = ends_at
            if patience > 0:
                still = [pair for pair in pairs if pair[1].request.id not in lost]
                patience -= self._renew_in_redis(queue_key, still, until)
            lost_pairs += [pair for pair in pairs if pair[1].request.id in lost]
        return Renewed(lost_pairs, unknown)

    def _renew_in_redis(
        self,
        queue_key: QueueKey,
        pairs: Sequence[tuple[LeasedRequest, Claim]],
        until: datetime,
    ) -> float:
        """Renew leases in Redis as in MongoDB; returns the seconds that were waited in vain."""
        started = self._now()
        whose = {claim.entry.id: one for one, claim in pairs}
        try:
            for token, entries in entries_by_token(claim for _, claim in pairs).items():
                forgotten = self._services.queue.renew(queue_key, token, entries, until)
                # What has ended since is forgotten for good.
                is_settled = self._in_flight.is_settled
                forgotten = [entry for entry in forgotten if not is_settled(whose[entry.id])]
                # MongoDB says that they are ours: Redis has lost them, and would not know whose
                # they are when this worker is killed. One that was frozen since it asked does not
                # know either: what it listed would belong to nobody any more.
                if forgotten and self._now() - started < self._pauses.trusted:
                    self._services.book.relist(queue_key, token, forgotten, until)
        except Exception as error:  # noqa: BLE001  MongoDB has it; Redis follows
            warn("leases could not be renewed in Redis", error)
            return self._now() - started
        return 0.0

    def _token(self) -> str:
        """Make a token that no lease has had: what a lost answer has moved is found by it alone."""
        self._leases += 1
        return new_token(self._id, self._nonce, self._leases)

    def _term(self) -> tuple[datetime, datetime]:
        """Return now, and when a lease taken or renewed now ends."""
        now = self._services.clock()
        return now, from_ms(to_ms(now + timedelta(seconds=self._limits.lease_seconds)))

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
