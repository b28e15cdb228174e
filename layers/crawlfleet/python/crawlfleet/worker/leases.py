"""A worker's leases: taken, kept, settled, handed back.

The half of a worker that talks to the store and the queue. It blocks, so the event loop runs it in
threads; between the two stand values only. MongoDB is written first, Redis follows.
"""

import secrets
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from crawlfleet.config.documents.biz import Biz, FleetLimits, Tree
from crawlfleet.config.documents.rule import Rule, Spider
from crawlfleet.config.lookup import biz_of, served_queues
from crawlfleet.crawling.frontier.worker import FrontierClient
from crawlfleet.crawling.politeness.client import PolitenessClient, Waiting, reason
from crawlfleet.crawling.politeness.robots import RobotsBook
from crawlfleet.crawling.recrawl import service as recrawling
from crawlfleet.fleet.models import WorkReport
from crawlfleet.kernel.fairness import FairQueue
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.leased import (
    NOTHING,
    Kept,
    LeasedRequest,
    Taken,
    by_queue,
    entries_by_token,
)
from crawlfleet.requests.models import Claim, Entry
from crawlfleet.requests.outcomes import Done, Outcome, Retry, Settled
from crawlfleet.requests.queue.leases import new_token
from crawlfleet.worker.affinity import Placing
from crawlfleet.worker.parsing import Phases
from crawlfleet.worker.ports import WorkPorts
from crawlfleet.worker.unconfirmed_leases import UnconfirmedLeases


class Leasing:
    """The leases of one worker.

    Args:
        ports: The world.
        worker: The worker's id.
        limits: How much is taken at once, and for how long.
        report: Counts what is taken and what is dropped.
        phases: Seconds by lane and phase; adds those of lease, claim and turn.
        courtesy: Asks for turns at hosts.
        robots: Knows whose rules are to be learnt first.
        sower: Makes seeds of links.
        placing: Knows which hosts are this worker's own.
    """

    def __init__(
        self,
        ports: WorkPorts,
        worker: str,
        limits: FleetLimits,
        report: WorkReport,
        phases: Phases,
        politeness: PolitenessClient,
        robots: RobotsBook,
        frontier: FrontierClient,
        placing: Placing,
    ) -> None:
        self._ports = ports
        self._pauses, self._now = ports.pauses, ports.steady.now
        self._placing = placing
        self._politeness = politeness
        self._robots = robots
        self._frontier = frontier
        self._id = worker
        self._limits = limits
        self._report = report
        self._phases = phases
        # Lambda may run one invocation twice, under one id; their leases must not be one.
        self._nonce = secrets.token_hex(4)
        self._leases = 0
        self._unconfirmed = UnconfirmedLeases(
            ports.queue, ports.clock, ports.pauses.unconfirmed, ports.steady
        )
        self._fair_queue = FairQueue[QueueKey]()
        self._backing_off: dict[QueueKey, float] = {}

    def take(self) -> Taken:
        """Lease and claim one batch from the lane whose turn it is of those that have any.

        What comes has a turn at its host, or needs none yet because the site's rules are to be
        learnt first; all else was put aside.
        """
        tree = self._ports.config.current()
        queues = served_queues(tree, self._ports.pool)
        if not queues:
            return NOTHING
        started = self._now()
        self._unconfirmed.return_unconfirmed()
        loads = self._ports.queue.loads(queues, self._ports.clock())
        weights = {
            queue_key: biz_of(tree, queue_key.tenant, queue_key.biz)[1].weight
            for queue_key, load in zip(queues, loads, strict=True)
            if load.ready and not self.rests(queue_key)
        }
        for queue_key in self._fair_queue.order(weights):
            _, biz = biz_of(tree, queue_key.tenant, queue_key.biz)
            self._phases.add(queue_key, "lease", self._now() - started)
            try:
                taken = self._take_deferred(tree, queue_key, biz)
                room = self._limits.batch - taken.entries
                if room > 0:
                    more = partial(self._take_queued, tree, queue_key, biz, room)
                    taken = taken.with_more(
                        more() if not taken.held else self._safely(more, queue_key)
                    )
            except Exception:
                self.rest(queue_key)
                raise
            if taken.entries:
                self._fair_queue.taken(queue_key, weights, taken.entries)
                return taken
            del weights[queue_key]
            started = self._now()
        self._fair_queue.lull()
        return NOTHING

    def _safely(self, more: Callable[[], Taken], queue_key: QueueKey) -> Taken:
        """What there is beside what is taken already, which must not be lost with it."""
        try:
            return more()
        except Exception as error:  # noqa: BLE001  what was to come has been handed back
            warn("no more work could be leased", error)
            self.rest(queue_key)
            return NOTHING

    def _take_queued(self, tree: Tree, queue_key: QueueKey, biz: Biz, count: int) -> Taken:
        """From the lane's queue, whatever comes; hosts that have no turn are put aside."""
        started = self._now()
        token, now, until = self._token(), *self._term()
        with self._unconfirmed.asking(queue_key, token, until):
            entries = self._ports.queue.lease(queue_key, token, count, now, until, biz.ageing)
        leased = self._now()
        self._phases.add(queue_key, "lease", leased - started)
        if not entries:
            return NOTHING
        held = self._claim(queue_key, biz, token, entries, until)
        self._phases.add(queue_key, "claim", self._now() - leased)
        known = [one for one in held if self._robots.knows(one)]
        if len(known) == len(held):
            return Taken(self._admit(tree, queue_key, biz, held), len(entries))
        unknown = [one for one in held if one not in set(known)]
        granted = self._admit_beside(tree, queue_key, biz, known, unknown)
        return Taken([*granted, *unknown], len(entries))

    def _take_deferred(self, tree: Tree, queue_key: QueueKey, biz: Biz) -> Taken:
        """From hosts whose time has come, as many as they have turns for: the turn comes first."""
        started = self._now()
        token, now, until = self._token(), *self._term()
        deferred = self._ports.queue.deferred(queue_key, now, self._limits.batch)
        deferred = self._placing.choose(queue_key, deferred, now)
        if not deferred:
            return NOTHING
        each = max(1, self._limits.batch // len(deferred))
        slots = self._politeness.ask(
            tree, queue_key, biz, {one.host: min(one.count, each) for one in deferred}
        )
        wanted = [(host, granted.count, granted.again_at) for host, granted in slots.items()]
        with self._unconfirmed.asking(queue_key, token, until):
            found = self._ports.queue.lease_deferred(queue_key, token, wanted, until, biz.ageing)
        leased = self._now()
        self._phases.add(queue_key, "lease", leased - started)
        entries = [entry for part in found.values() for entry in part]
        if not entries:
            return NOTHING
        held = self._claim(queue_key, biz, token, entries, until)
        self._phases.add(queue_key, "claim", self._now() - leased)
        by_host: dict[str, list[LeasedRequest]] = defaultdict(list)
        for one in held:
            by_host[one.host[0]].append(one)
        for host, part in by_host.items():
            if host in slots:
                slots[host].give(part)
        for one in held:
            one.to_learn = not self._robots.knows(one)
        # A host's name is spelled alike here and there; one that is not would wait for ever.
        without_slot = [one for one in held if one.slot_at is None]
        if not without_slot:
            return Taken(held, len(entries))
        granted = [one for one in held if one.slot_at is not None]
        more = self._admit_beside(tree, queue_key, biz, without_slot, granted)
        return Taken([*granted, *more], len(entries))

    def admit(
        self, queue_key: QueueKey, biz: Biz, held: Sequence[LeasedRequest]
    ) -> list[LeasedRequest]:
        """Those that have a turn at their host; the others are put aside and no longer ours."""
        return self._admit(self._ports.config.current(), queue_key, biz, held)

    def _admit_beside(
        self,
        tree: Tree,
        queue_key: QueueKey,
        biz: Biz,
        held: Sequence[LeasedRequest],
        others: Sequence[LeasedRequest],
    ) -> list[LeasedRequest]:
        """Admit some of what was claimed; where that fails, nobody would have the others."""
        try:
            return self._admit(tree, queue_key, biz, held)
        except Exception:
            why = "handed back: whose turn it is could not be told"
            self.release(queue_key, biz, [one.claim for one in others], why)
            raise

    def _admit(
        self, tree: Tree, queue_key: QueueKey, biz: Biz, held: Sequence[LeasedRequest]
    ) -> list[LeasedRequest]:
        if not held:
            return []
        started = self._now()
        try:
            granted, waiting = self._politeness.share_out(tree, queue_key, biz, held)
            if waiting:
                self.put_aside(queue_key, biz, waiting)
        except Exception:
            why = "handed back: whose turn it is could not be told"
            self.release(queue_key, biz, [one.claim for one in held], why)
            raise
        self._phases.add(queue_key, "turn", self._now() - started)
        return granted

    def put_aside(self, queue_key: QueueKey, biz: Biz, waiting: Sequence[Waiting]) -> None:
        """Pending again, in the list of their host: they are taken when they have a turn."""
        now = self._ports.clock()
        by_why: dict[str, list[Claim]] = defaultdict(list)
        by_token: dict[str, list[tuple[str, datetime, list[Entry]]]] = defaultdict(list)
        for part in waiting:
            claims = [one.claim for one in part.held]
            by_why[part.said or reason(part.why)] += claims
            for token, entries in entries_by_token(claims).items():
                by_token[token].append((part.host, part.until, entries))
        for why, claims in by_why.items():
            self._ports.store.release(queue_key, biz, claims, self._id, why, now)
            self._report.put_aside += len(claims)
        for token, hosts in by_token.items():
            self._ports.queue.defer(queue_key, token, hosts)

    def rest(self, queue_key: QueueKey) -> None:
        """Take nothing of this lane for a while: its store does not answer."""
        self._backing_off[queue_key] = self._now() + self._pauses.rest

    def rests(self, queue_key: QueueKey) -> bool:
        """Whether that while is not over."""
        return self._backing_off.get(queue_key, 0.0) > self._now()

    def _claim(
        self, queue_key: QueueKey, biz: Biz, token: str, entries: Sequence[Entry], until: datetime
    ) -> list[LeasedRequest]:
        # The truth's lease ends with the index's: where the index hands out an ended lease, the
        # truth lets it be claimed.
        now = self._ports.clock()
        try:
            claims = self._ports.store.claim(queue_key, biz, entries, self._id, now, until, token)
        except Exception:
            self._ports.queue.give_back(queue_key, token, entries)
            raise
        self._report.leased += len(claims)
        if len(claims) < len(entries):
            won = {claim.entry.id for claim in claims}
            self._let_go(queue_key, biz, token, [e for e in entries if e.id not in won])
        ends_at = self._now() + (until - self._ports.clock()).total_seconds()
        try:
            held = [
                LeasedRequest(queue_key, biz, claim, self._rule(queue_key, claim), ends_at)
                for claim in claims
            ]
        except Exception:
            self.release(queue_key, biz, claims, "handed back: its rule could not be looked up")
            raise
        self._recall(queue_key, biz, held)
        return held

    def _recall(self, queue_key: QueueKey, biz: Biz, held: Sequence[LeasedRequest]) -> None:
        """What is known of the pages since they were last read, where that matters."""
        if biz.recrawl is None:
            return
        known = recrawling.prepare(
            self._ports.visits,
            queue_key,
            biz,
            [one.claim for one in held],
            self._ports.seeding.resolver,
        )
        for one in held:
            one.known = known.get(one.claim.request.id)

    def _let_go(self, queue_key: QueueKey, biz: Biz, token: str, entries: Sequence[Entry]) -> None:
        """Entries that were not won: gone or final ones are dropped, as repeats are.

        What is another's comes back when its lease ends: that other may be dead, and this entry
        the only one that the index has.
        """
        self._report.skipped += len(entries)
        try:
            busy = self._ports.store.due(queue_key, biz, entries)
        except Exception as error:  # noqa: BLE001  recovery finds what comes to be missing
            warn("entries that are another's could not be looked up", error)
            busy = []
        kept = {entry.id for entry, _ in busy}
        dropped = [entry for entry in entries if entry.id not in kept]
        try:
            self._ports.queue.delay(queue_key, token, busy)
            self._ports.queue.finish(queue_key, token, dropped, 0, self._ports.clock())
        except Exception as error:  # noqa: BLE001  the lease in the index ends by itself
            warn("entries that were not won could not be let go", error)

    def _rule(self, queue_key: QueueKey, claim: Claim) -> Rule | Spider | None:
        body = claim.request.body
        return self._ports.rules.frozen(queue_key, body.rule, body.rule_version)

    def settle(
        self, queue_key: QueueKey, biz: Biz, outcomes: Sequence[tuple[Claim, Outcome]]
    ) -> Settled:
        """Write outcomes to the truth, then to the index; returns what the truth has made of them.

        What it could not hold has ended as a dead letter: for the page, its seed and the report.
        """
        now = self._ports.clock()
        self._report.links += self._frontier.add_links(queue_key, biz, outcomes)
        settled = self._ports.store.settle(queue_key, biz, outcomes, self._id, now)
        lost = settled.lost
        if settled.buried:
            outcomes = [(c, settled.buried.get(c.request.id, end)) for c, end in outcomes]
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
                self._ports.queue.finish(queue_key, token, entries, len(entries), now)
            for token, pairs in delayed.items():
                self._ports.queue.delay(queue_key, token, pairs)
        except Exception as error:  # noqa: BLE001
            # The truth is written. The index forgets these entries when their leases end.
            warn("leases could not be finished", error)
        return settled

    def _remember(
        self,
        queue_key: QueueKey,
        biz: Biz,
        outcomes: Sequence[tuple[Claim, Outcome]],
        lost: set[RequestId],
    ) -> None:
        """What was seen of pages, now that their records are stored."""
        visits = [
            outcome.visit
            for claim, outcome in outcomes
            if isinstance(outcome, Done) and outcome.visit and claim.request.id not in lost
        ]
        if not visits:
            return
        try:
            self._ports.visits.saw(queue_key, biz, visits)
        except Exception as error:  # noqa: BLE001  they are read in full next time
            warn("what was seen of pages could not be kept", error)

    def keep(
        self, held: Sequence[LeasedRequest], is_settled: Callable[[LeasedRequest], bool]
    ) -> Kept:
        """Renew the leases; returns what is another's now, and of what that is not known.

        Some may be settled meanwhile: those may be among what is another's, as they are nobody's.
        """
        ends_at = self._now() + self._limits.lease_seconds
        _, until = self._term()
        gone: list[tuple[LeasedRequest, Claim]] = []
        unseen: list[LeasedRequest] = []
        patience = self._pauses.index
        for (queue_key, _), part in by_queue(held).items():
            pairs = [(one, one.claim) for one in part]
            try:
                claims = [claim for _, claim in pairs]
                lost = self._ports.store.renew(queue_key, part[0].biz, claims, until)
            except Exception as error:  # noqa: BLE001  the others' leases are to be renewed too
                warn("leases could not be renewed", error)
                unseen += part
                continue
            for one in part:
                one.ends_at = ends_at
            if patience > 0:
                still = [pair for pair in pairs if pair[1].request.id not in lost]
                patience -= self._renew_in_index(queue_key, still, until, is_settled)
            gone += [pair for pair in pairs if pair[1].request.id in lost]
        return Kept(gone, unseen)

    def _renew_in_index(
        self,
        queue_key: QueueKey,
        pairs: Sequence[tuple[LeasedRequest, Claim]],
        until: datetime,
        is_settled: Callable[[LeasedRequest], bool],
    ) -> float:
        """The index follows the truth; returns for how long it was waited for in vain."""
        # Right after the truth was asked.
        started = self._now()
        whose = {claim.entry.id: one for one, claim in pairs}
        try:
            for token, entries in entries_by_token(claim for _, claim in pairs).items():
                forgotten = self._ports.queue.renew(queue_key, token, entries, until)
                # What has ended since is forgotten for good.
                forgotten = [entry for entry in forgotten if not is_settled(whose[entry.id])]
                # The truth says that they are ours: Redis has lost them, and would not know whose
                # they are when this worker is killed. One that was frozen since it asked does not
                # know either: what it listed would belong to nobody any more.
                if forgotten and self._now() - started < self._pauses.true:
                    self._ports.book.relist(queue_key, token, forgotten, until)
        except Exception as error:  # noqa: BLE001  the truth has it; the index follows
            warn("leases could not be renewed in the index", error)
            return self._now() - started
        return 0.0

    def _token(self) -> str:
        """One that no lease has had: what a lost answer has moved is not to be taken for others."""
        self._leases += 1
        return new_token(self._id, self._nonce, self._leases)

    def _term(self) -> tuple[datetime, datetime]:
        """Now, and when a lease taken or renewed now ends."""
        now = self._ports.clock()
        return now, from_ms(to_ms(now + timedelta(seconds=self._limits.lease_seconds)))

    def forget(self, queue_key: QueueKey, claims: Sequence[Claim]) -> None:
        """End the leases in the index: in the truth these requests are, or will be, cancelled."""
        now = self._ports.clock()
        for token, entries in entries_by_token(claims).items():
            self._ports.queue.finish(queue_key, token, entries, 0, now)

    def release(self, queue_key: QueueKey, biz: Biz, claims: Sequence[Claim], why: str) -> None:
        """Make claimed requests pending again, and their entries the next to be served."""
        self._ports.store.release(queue_key, biz, claims, self._id, why, self._ports.clock())
        for token, entries in entries_by_token(claims).items():
            self._ports.queue.give_back(queue_key, token, entries)
