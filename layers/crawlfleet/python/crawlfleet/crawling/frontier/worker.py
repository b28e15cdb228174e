"""The frontier in a worker and in the tick (SPEC.md F1-F5): add links, dispatch seeds, end them.

Links are added before the outcome of their page is stored: whoever does that page again adds them
again, and each is a seed once. A worker dispatches seeds of those queue keys in which it has met
any; the scheduler's tick does it for all.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from threading import Lock
from typing import Final

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import active_queues, is_suspended, share_of
from crawlfleet.crawling.frontier.adding import spec_of_link
from crawlfleet.crawling.frontier.dispatch import (
    DISPATCHED_A_CALL,
    RECHECKED_A_CALL,
    SeedDispatcher,
    why_dead,
)
from crawlfleet.crawling.frontier.models import AddResult, SeedSpec
from crawlfleet.crawling.frontier.segments import is_of_job
from crawlfleet.kernel.errors import InvalidRequestError, Problem, StoreError
from crawlfleet.kernel.fairness import TENANT, by_shares, in_turns
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import STEADY, Clock, SteadyTime
from crawlfleet.requests.models import Claim, Link
from crawlfleet.requests.outcomes import Done, Outcome, Retry
from crawlfleet.requests.visits import is_visit

#: Links added in one call.
LINKS_A_CALL: Final = 2_000
#: A worker dispatches so long for a queue key in which it has met a seed or a link.
ACTIVE_SECONDS: Final = 60.0
#: Seeds of a tenant that a round of a worker makes requests of while other tenants have work there.
DISPATCHED_BESIDE: Final = 500
#: Such a round begins with another queue key after this.
TURNS: Final = timedelta(seconds=1)
#: Requests made seeds while they ran that a worker remembers.
MOST_RUNNING: Final = 10_000
#: Pages that a worker remembers to have met in a job: each is counted once.
MOST_MET: Final = 50_000
#: Calls in which one queue key's seeds are rechecked in a tick: after a night without workers all
#: that were dispatched have expired.
RECHECKS: Final = 20
#: The tick has other things to do than to wait for a silent node, one queue key after the other.
MARGIN_SECONDS: Final = 60.0

Outcomes = Sequence[tuple[Claim, Outcome]]


@dataclass(frozen=True, slots=True, eq=False)
class FrontierClient:
    """The frontier as one worker uses it. Its methods block, and may be called by threads.

    ``steady`` measures how long ago something was met under a queue key. The tick rechecks the
    oldest requests beyond ``most_running``.
    """

    seeds: SeedDispatcher
    clock: Clock
    steady: SteadyTime = STEADY
    links_a_call: int = LINKS_A_CALL
    most_running: int = MOST_RUNNING
    _active: dict[QueueKey, float] = field(default_factory=dict, init=False)
    # By queue key too: counters give several queue keys the same ids.
    _running: dict[tuple[QueueKey, RequestId], str] = field(default_factory=dict, init=False)
    _met: dict[int, None] = field(default_factory=dict, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def add_links(self, queue_key: QueueKey, biz: Biz, outcomes: Outcomes) -> int:
        """Add what was found to go on with; return how many are new.

        With a StoreUnavailableError some may be missing: the outcomes must not be stored yet.
        """
        self._add_running(queue_key, biz, outcomes)
        # One after another: a hundred pages may have millions of links.
        specs = (
            spec_of_link(claim, link)
            for claim, outcome in outcomes
            if isinstance(outcome, Done)
            for link in outcome.links
        )
        now, new, refused = self.clock(), 0, 0
        why: InvalidRequestError | None = None
        while part := list(islice(specs, self.links_a_call)):
            self._active[queue_key] = self.steady.now()
            added = self.seeds.add_each(queue_key, biz, part, now)
            for one in added:
                if isinstance(one, Problem):
                    refused, why = refused + 1, why or InvalidRequestError([one])
                else:
                    new += one.accepted
            self._count_known(queue_key, biz, zip(part, added, strict=True))
        if why is not None:
            warn(f"{refused} links of {queue_key.biz} cannot be seeds", why)
        return new

    def _count_known(
        self,
        queue_key: QueueKey,
        biz: Biz,
        added: Iterable[tuple[SeedSpec, AddResult | Problem]],
    ) -> None:
        """Count, in their jobs, the links that are not followed as somebody else's seed is known.

        Each page counts once a worker and job, as long as the worker remembers it. In a segment of
        a job's own there is nobody else.
        """
        doubtful: dict[tuple[str, str], str] = {}
        with self._lock:
            for spec, one in added:
                if isinstance(one, Problem) or spec.job is None or is_of_job(spec.segment):
                    continue
                seed = f"{one.segment}/{one.key}"
                met = hash((queue_key, spec.job, seed))
                if met not in self._met and not one.accepted:
                    doubtful[spec.job, seed] = one.segment
                self._met[met] = None
            while len(self._met) > MOST_MET:
                del self._met[next(iter(self._met))]
        if not doubtful:
            return
        try:
            owners = self.seeds.seeds.jobs_of(queue_key, biz, [seed for _, seed in doubtful])
            known: dict[str, Counter[str]] = defaultdict(Counter)
            for (job, seed), segment in doubtful.items():
                if owners.get(seed) != job:
                    known[job][segment] += 1
            if self.seeds.jobs is not None and known:
                self.seeds.jobs.note_known(queue_key.tenant, queue_key.biz, known)
        except StoreError as error:
            warn("links that were known are not counted in their jobs", error)

    def _add_running(self, queue_key: QueueKey, biz: Biz, outcomes: Outcomes) -> None:
        """Make seeds of what was submitted as it is and has links: some may lead back to it."""
        begun = [
            spec_of_link(claim, Link(url=claim.request.body.url, depth=claim.request.body.depth))
            for claim, outcome in outcomes
            if isinstance(outcome, Done)
            and outcome.links
            and claim.request.body.seed is None
            and is_visit(claim.request.body)
        ]
        if not begun:
            return
        running, there = self.seeds.add_running(queue_key, biz, begun, self.clock())
        with self._lock:
            # They are read now, whoever made them known.
            for job in {spec.job for spec in begun}:
                self._met.update((hash((queue_key, job, seed)), None) for seed in there)
            for request_id, seed in running.items():
                self._running[queue_key, request_id] = seed
            while len(self._running) > self.most_running:
                del self._running[next(iter(self._running))]

    def ended(
        self, queue_key: QueueKey, biz: Biz, outcomes: Outcomes, lost: set[RequestId]
    ) -> None:
        """End the seeds of the requests whose outcomes were stored.

        Never fails, as the outcomes stand: what cannot be stored now is found out later.
        """
        try:
            if running := self._ends_of_running(queue_key, outcomes, lost):
                self.seeds.seeds.ended(queue_key, biz, running, self.clock())
            ours = [
                (claim, outcome)
                for claim, outcome in outcomes
                if claim.request.body.seed is not None and claim.request.id not in lost
            ]
            if ours:
                self._active[queue_key] = self.steady.now()
                self.seeds.end(queue_key, biz, ours, self.clock())
        except Exception as error:  # noqa: BLE001  they are rechecked when their time is up
            warn("seeds have ended, which is found out later", error)

    def _ends_of_running(
        self, queue_key: QueueKey, outcomes: Outcomes, lost: set[RequestId]
    ) -> dict[str, tuple[RequestId, str]]:
        """Return the ends of the seeds made of running requests; a retried request has none."""
        ends: dict[str, tuple[RequestId, str]] = {}
        for claim, outcome in outcomes:
            an_id = claim.request.id
            if isinstance(outcome, Retry) and an_id not in lost:
                continue
            with self._lock:
                seed = self._running.pop((queue_key, an_id), None)
            if seed is not None and an_id not in lost:
                ends[seed] = an_id, why_dead(an_id, outcome)
        return ends

    def dispatch(
        self,
        tree: Tree,
        working: Collection[str] = (),
        charge: Callable[[str, float], None] = lambda _tenant, _seconds: None,
    ) -> int:
        """Make requests of due seeds under the queue keys that this worker has met; how many.

        Of a tenant beside others that are ``working`` it is a few, of each of its bizs in turn.
        ``charge`` is called with the seconds of the worker that this takes.
        """
        made: Counter[str] = Counter()
        turns = in_turns(list(self._active), self.clock(), TURNS)
        for queue_key in by_shares(turns, TENANT, partial(share_of, tree), self.steady.now):
            tenant, seen_at = queue_key.tenant, self._active[queue_key]
            biz = tree.bizs.get(queue_key.tenant, {}).get(queue_key.biz)
            rests = is_suspended(tree, queue_key.tenant)
            if biz is None or rests or self.steady.now() - seen_at > ACTIVE_SECONDS:
                self._active.pop(queue_key, None)
                continue
            most = DISPATCHED_A_CALL
            if any(one != tenant for one in working):
                most = DISPATCHED_BESIDE - made[tenant]
                if most <= 0:
                    continue
            began = self.steady.now()
            try:
                count = self.seeds.dispatch(tree, queue_key, biz, self.clock(), most)
            except Exception as error:  # noqa: BLE001  the next one, or the tick, does it
                warn("seeds could not be dispatched", error)
                continue
            finally:
                charge(tenant, self.steady.now() - began)
            if count:
                self._active[queue_key] = self.steady.now()
            made[tenant] += count
        return made.total()


def tend_seeds(
    seeds: SeedDispatcher,
    tree: Tree,
    now: datetime,
    time_left: Callable[[], float],
    steady: SteadyTime = STEADY,
) -> int:
    """Dispatch what is due under every queue key, and recheck what is overdue; how many.

    A queue key that cannot be served is logged and stops no other; what there is no time for is
    done by a later tick: each begins with another tenant, and goes on with who took least time.
    """
    made = 0
    shares, turns = partial(share_of, tree), in_turns(active_queues(tree), now)
    for queue_key in by_shares(turns, TENANT, shares, steady.now):
        biz = tree.bizs[queue_key.tenant][queue_key.biz]
        if time_left() < MARGIN_SECONDS:
            break
        try:
            made += seeds.dispatch(tree, queue_key, biz, now)
            for _ in range(RECHECKS):
                if seeds.recheck(queue_key, biz, now) < RECHECKED_A_CALL:
                    break
                if time_left() < MARGIN_SECONDS:
                    break
        except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
            warn(f"seeds of {queue_key.biz} could not be dispatched", error)
    return made
