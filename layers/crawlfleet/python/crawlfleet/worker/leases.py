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
from crawlfleet.config.lookup import biz_of, served_lanes
from crawlfleet.crawling.frontier.worker import Sower
from crawlfleet.crawling.politeness.client import Courtesy, Waiting, reason
from crawlfleet.crawling.politeness.robots import RobotsBook
from crawlfleet.crawling.recrawl import service as recrawling
from crawlfleet.fleet.models import WorkReport
from crawlfleet.kernel.fairness import Turns
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import Lane
from crawlfleet.kernel.time import from_ms, to_ms
from crawlfleet.requests.leased import NOTHING, Held, Kept, Taken, by_lane, entries_by_token
from crawlfleet.requests.models import Claim, Entry
from crawlfleet.requests.outcomes import Done, Outcome, Retry, Settled
from crawlfleet.requests.queue.leases import new_token
from crawlfleet.worker.affinity import Placing
from crawlfleet.worker.lost_replies import Unanswered
from crawlfleet.worker.parsing import Phases
from crawlfleet.worker.ports import WorkPorts


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
        courtesy: Courtesy,
        robots: RobotsBook,
        sower: Sower,
        placing: Placing,
    ) -> None:
        self._ports = ports
        self._pauses, self._now = ports.pauses, ports.steady.now
        self._placing = placing
        self._courtesy = courtesy
        self._robots = robots
        self._sower = sower
        self._id = worker
        self._limits = limits
        self._report = report
        self._phases = phases
        # Lambda may run one invocation twice, under one id; their leases must not be one.
        self._nonce = secrets.token_hex(4)
        self._leases = 0
        self._unanswered = Unanswered(
            ports.queue, ports.clock, ports.pauses.unanswered, ports.steady
        )
        self._turns = Turns[Lane]()
        self._resting: dict[Lane, float] = {}

    def take(self) -> Taken:
        """Lease and claim one batch from the lane whose turn it is of those that have any.

        What comes has a turn at its host, or needs none yet because the site's rules are to be
        learnt first; all else was put aside.
        """
        tree = self._ports.config.current()
        lanes = served_lanes(tree, self._ports.pool)
        if not lanes:
            return NOTHING
        started = self._now()
        self._unanswered.disclaim()
        loads = self._ports.queue.loads(lanes, self._ports.clock())
        weights = {
            lane: biz_of(tree, lane.tenant, lane.biz)[1].weight
            for lane, load in zip(lanes, loads, strict=True)
            if load.ready and not self.rests(lane)
        }
        for lane in self._turns.order(weights):
            _, biz = biz_of(tree, lane.tenant, lane.biz)
            self._phases.add(lane, "lease", self._now() - started)
            try:
                taken = self._take_parked(tree, lane, biz)
                room = self._limits.batch - taken.entries
                if room > 0:
                    more = partial(self._take_queued, tree, lane, biz, room)
                    taken = taken.with_more(more() if not taken.held else self._safely(more, lane))
            except Exception:
                self.rest(lane)
                raise
            if taken.entries:
                self._turns.taken(lane, weights, taken.entries)
                return taken
            del weights[lane]
            started = self._now()
        self._turns.lull()
        return NOTHING

    def _safely(self, more: Callable[[], Taken], lane: Lane) -> Taken:
        """What there is beside what is taken already, which must not be lost with it."""
        try:
            return more()
        except Exception as error:  # noqa: BLE001  what was to come has been handed back
            warn("no more work could be leased", error)
            self.rest(lane)
            return NOTHING

    def _take_queued(self, tree: Tree, lane: Lane, biz: Biz, count: int) -> Taken:
        """From the lane's queue, whatever comes; hosts that have no turn are put aside."""
        started = self._now()
        token, now, until = self._token(), *self._term()
        with self._unanswered.asking(lane, token, until):
            entries = self._ports.queue.lease(lane, token, count, now, until, biz.ageing)
        leased = self._now()
        self._phases.add(lane, "lease", leased - started)
        if not entries:
            return NOTHING
        held = self._claim(lane, biz, token, entries, until)
        self._phases.add(lane, "claim", self._now() - leased)
        known = [one for one in held if self._robots.knows(one)]
        if len(known) == len(held):
            return Taken(self._admit(tree, lane, biz, held), len(entries))
        unknown = [one for one in held if one not in set(known)]
        granted = self._admit_beside(tree, lane, biz, known, unknown)
        return Taken([*granted, *unknown], len(entries))

    def _take_parked(self, tree: Tree, lane: Lane, biz: Biz) -> Taken:
        """From hosts whose time has come, as many as they have turns for: the turn comes first."""
        started = self._now()
        token, now, until = self._token(), *self._term()
        parked = self._ports.queue.parked(lane, now, self._limits.batch)
        parked = self._placing.choose(lane, parked, now)
        if not parked:
            return NOTHING
        each = max(1, self._limits.batch // len(parked))
        turns = self._courtesy.ask(
            tree, lane, biz, {one.host: min(one.count, each) for one in parked}
        )
        wanted = [(host, turn.count, turn.again_at) for host, turn in turns.items()]
        with self._unanswered.asking(lane, token, until):
            found = self._ports.queue.lease_parked(lane, token, wanted, until, biz.ageing)
        leased = self._now()
        self._phases.add(lane, "lease", leased - started)
        entries = [entry for part in found.values() for entry in part]
        if not entries:
            return NOTHING
        held = self._claim(lane, biz, token, entries, until)
        self._phases.add(lane, "claim", self._now() - leased)
        by_host: dict[str, list[Held]] = defaultdict(list)
        for one in held:
            by_host[one.host[0]].append(one)
        for host, part in by_host.items():
            if host in turns:
                turns[host].give(part)
        for one in held:
            one.to_learn = not self._robots.knows(one)
        # A host's name is spelled alike here and there; one that is not would wait for ever.
        stray = [one for one in held if one.turn_at is None]
        if not stray:
            return Taken(held, len(entries))
        granted = [one for one in held if one.turn_at is not None]
        more = self._admit_beside(tree, lane, biz, stray, granted)
        return Taken([*granted, *more], len(entries))

    def admit(self, lane: Lane, biz: Biz, held: Sequence[Held]) -> list[Held]:
        """Those that have a turn at their host; the others are put aside and no longer ours."""
        return self._admit(self._ports.config.current(), lane, biz, held)

    def _admit_beside(
        self, tree: Tree, lane: Lane, biz: Biz, held: Sequence[Held], others: Sequence[Held]
    ) -> list[Held]:
        """Admit some of what was claimed; where that fails, nobody would have the others."""
        try:
            return self._admit(tree, lane, biz, held)
        except Exception:
            why = "handed back: whose turn it is could not be told"
            self.release(lane, biz, [one.claim for one in others], why)
            raise

    def _admit(self, tree: Tree, lane: Lane, biz: Biz, held: Sequence[Held]) -> list[Held]:
        if not held:
            return []
        started = self._now()
        try:
            granted, waiting = self._courtesy.share_out(tree, lane, biz, held)
            if waiting:
                self.put_aside(lane, biz, waiting)
        except Exception:
            why = "handed back: whose turn it is could not be told"
            self.release(lane, biz, [one.claim for one in held], why)
            raise
        self._phases.add(lane, "turn", self._now() - started)
        return granted

    def put_aside(self, lane: Lane, biz: Biz, waiting: Sequence[Waiting]) -> None:
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
            self._ports.store.release(lane, biz, claims, self._id, why, now)
            self._report.put_aside += len(claims)
        for token, hosts in by_token.items():
            self._ports.queue.park(lane, token, hosts)

    def rest(self, lane: Lane) -> None:
        """Take nothing of this lane for a while: its store does not answer."""
        self._resting[lane] = self._now() + self._pauses.rest

    def rests(self, lane: Lane) -> bool:
        """Whether that while is not over."""
        return self._resting.get(lane, 0.0) > self._now()

    def _claim(
        self, lane: Lane, biz: Biz, token: str, entries: Sequence[Entry], until: datetime
    ) -> list[Held]:
        # The truth's lease ends with the index's: where the index hands out an ended lease, the
        # truth lets it be claimed.
        now = self._ports.clock()
        try:
            claims = self._ports.store.claim(lane, biz, entries, self._id, now, until, token)
        except Exception:
            self._ports.queue.give_back(lane, token, entries)
            raise
        self._report.leased += len(claims)
        if len(claims) < len(entries):
            won = {claim.entry.id for claim in claims}
            self._let_go(lane, biz, token, [e for e in entries if e.id not in won])
        ends_at = self._now() + (until - self._ports.clock()).total_seconds()
        try:
            held = [Held(lane, biz, claim, self._rule(lane, claim), ends_at) for claim in claims]
        except Exception:
            self.release(lane, biz, claims, "handed back: its rule could not be looked up")
            raise
        self._recall(lane, biz, held)
        return held

    def _recall(self, lane: Lane, biz: Biz, held: Sequence[Held]) -> None:
        """What is known of the pages since they were last read, where that matters."""
        if biz.recrawl is None:
            return
        known = recrawling.prepare(
            self._ports.visits,
            lane,
            biz,
            [one.claim for one in held],
            self._ports.seeding.resolver,
        )
        for one in held:
            one.known = known.get(one.claim.request.id)

    def _let_go(self, lane: Lane, biz: Biz, token: str, entries: Sequence[Entry]) -> None:
        """Entries that were not won: gone or final ones are dropped, as repeats are.

        What is another's comes back when its lease ends: that other may be dead, and this entry
        the only one that the index has.
        """
        self._report.skipped += len(entries)
        try:
            busy = self._ports.store.due(lane, biz, entries)
        except Exception as error:  # noqa: BLE001  recovery finds what comes to be missing
            warn("entries that are another's could not be looked up", error)
            busy = []
        kept = {entry.id for entry, _ in busy}
        dropped = [entry for entry in entries if entry.id not in kept]
        try:
            self._ports.queue.delay(lane, token, busy)
            self._ports.queue.finish(lane, token, dropped, 0, self._ports.clock())
        except Exception as error:  # noqa: BLE001  the lease in the index ends by itself
            warn("entries that were not won could not be let go", error)

    def _rule(self, lane: Lane, claim: Claim) -> Rule | Spider | None:
        body = claim.request.body
        return self._ports.rules.frozen(lane, body.rule, body.rule_version)

    def settle(self, lane: Lane, biz: Biz, outcomes: Sequence[tuple[Claim, Outcome]]) -> Settled:
        """Write outcomes to the truth, then to the index; returns what the truth has made of them.

        What it could not hold has ended as a dead letter: for the page, its seed and the report.
        """
        now = self._ports.clock()
        self._report.links += self._sower.offer_links(lane, biz, outcomes)
        settled = self._ports.store.settle(lane, biz, outcomes, self._id, now)
        lost = settled.lost
        if settled.buried:
            outcomes = [(c, settled.buried.get(c.request.id, end)) for c, end in outcomes]
        self._remember(lane, biz, outcomes, lost)
        self._sower.ended(lane, biz, outcomes, lost)
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
                self._ports.queue.finish(lane, token, entries, len(entries), now)
            for token, pairs in delayed.items():
                self._ports.queue.delay(lane, token, pairs)
        except Exception as error:  # noqa: BLE001
            # The truth is written. The index forgets these entries when their leases end.
            warn("leases could not be finished", error)
        return settled

    def _remember(
        self,
        lane: Lane,
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
            self._ports.visits.saw(lane, biz, visits)
        except Exception as error:  # noqa: BLE001  they are read in full next time
            warn("what was seen of pages could not be kept", error)

    def keep(self, held: Sequence[Held], is_settled: Callable[[Held], bool]) -> Kept:
        """Renew the leases; returns what is another's now, and of what that is not known.

        Some may be settled meanwhile: those may be among what is another's, as they are nobody's.
        """
        ends_at = self._now() + self._limits.lease_seconds
        _, until = self._term()
        gone: list[tuple[Held, Claim]] = []
        unseen: list[Held] = []
        patience = self._pauses.index
        for (lane, _), part in by_lane(held).items():
            pairs = [(one, one.claim) for one in part]
            try:
                claims = [claim for _, claim in pairs]
                lost = self._ports.store.renew(lane, part[0].biz, claims, until)
            except Exception as error:  # noqa: BLE001  the others' leases are to be renewed too
                warn("leases could not be renewed", error)
                unseen += part
                continue
            for one in part:
                one.ends_at = ends_at
            if patience > 0:
                still = [pair for pair in pairs if pair[1].request.id not in lost]
                patience -= self._renew_in_index(lane, still, until, is_settled)
            gone += [pair for pair in pairs if pair[1].request.id in lost]
        return Kept(gone, unseen)

    def _renew_in_index(
        self,
        lane: Lane,
        pairs: Sequence[tuple[Held, Claim]],
        until: datetime,
        is_settled: Callable[[Held], bool],
    ) -> float:
        """The index follows the truth; returns for how long it was waited for in vain."""
        # Right after the truth was asked.
        started = self._now()
        whose = {claim.entry.id: one for one, claim in pairs}
        try:
            for token, entries in entries_by_token(claim for _, claim in pairs).items():
                forgotten = self._ports.queue.renew(lane, token, entries, until)
                # What has ended since is forgotten for good.
                forgotten = [entry for entry in forgotten if not is_settled(whose[entry.id])]
                # The truth says that they are ours: Redis has lost them, and would not know whose
                # they are when this worker is killed. One that was frozen since it asked does not
                # know either: what it listed would belong to nobody any more.
                if forgotten and self._now() - started < self._pauses.true:
                    self._ports.book.relist(lane, token, forgotten, until)
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

    def forget(self, lane: Lane, claims: Sequence[Claim]) -> None:
        """End the leases in the index: in the truth these requests are, or will be, cancelled."""
        now = self._ports.clock()
        for token, entries in entries_by_token(claims).items():
            self._ports.queue.finish(lane, token, entries, 0, now)

    def release(self, lane: Lane, biz: Biz, claims: Sequence[Claim], why: str) -> None:
        """Make claimed requests pending again, and their entries the next to be served."""
        self._ports.store.release(lane, biz, claims, self._id, why, self._ports.clock())
        for token, entries in entries_by_token(claims).items():
            self._ports.queue.give_back(lane, token, entries)
