"""The frontier in a worker and in the tick (SPEC.md F1-F5): add links, dispatch seeds, end them.

Links are added before the outcome of their page is stored: whoever does that page again adds them
again, and each is a seed once. A worker dispatches seeds of those queue keys in which it has met
any; the scheduler's tick does it for all.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice
from threading import Lock
from typing import Final

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.crawling.frontier.adding import spec_of_link
from crawlfleet.crawling.frontier.dispatch import SeedDispatcher
from crawlfleet.crawling.frontier.models import SeedSpec
from crawlfleet.kernel.errors import InvalidRequestError, Problem
from crawlfleet.kernel.fairness import rotated
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import STEADY, SteadyTime
from crawlfleet.requests.models import Claim, is_visit
from crawlfleet.requests.outcomes import Dead, Done, Outcome, Retry

#: Links added in one call.
LINKS_A_CALL: Final = 2_000
#: A worker dispatches so long for a queue key in which it has met a seed or a link.
ACTIVE_SECONDS: Final = 60.0
#: Requests made seeds while they ran that a worker remembers.
MOST_RUNNING: Final = 10_000
#: The tick has other things to do than to wait for a silent node, one queue key after the other.
MARGIN_SECONDS: Final = 60.0

Outcomes = Sequence[tuple[Claim, Outcome]]


class FrontierClient:
    """The frontier as one worker uses it. Its methods block, and may be called by threads.

    Args:
        seeds: Adds, dispatches and ends seeds.
        clock: The time.
        steady: Measures how long ago something was met under a queue key.
        links_a_call: Links that are added in one call.
        most_running: Requests made seeds while they ran that are remembered till they end; the tick
            rechecks the oldest beyond.
    """

    def __init__(
        self,
        seeds: SeedDispatcher,
        clock: Callable[[], datetime],
        steady: SteadyTime = STEADY,
        links_a_call: int = LINKS_A_CALL,
        most_running: int = MOST_RUNNING,
    ) -> None:
        self._seeds = seeds
        self._clock = clock
        self._now = steady.now
        self._links_a_call = links_a_call
        self._most_running = most_running
        self._active: dict[QueueKey, float] = {}
        # By queue key too: counters give several queue keys the same ids.
        self._running: dict[tuple[QueueKey, RequestId], str] = {}
        self._lock = Lock()

    def add_links(self, queue_key: QueueKey, biz: Biz, outcomes: Outcomes) -> int:
        """Add what was found to go on with; return how many are new.

        Raises:
            StoreUnavailableError: some may not have been added: the outcomes must not be stored
                yet.
        """
        self._add_running(queue_key, biz, outcomes)
        # One after another: a hundred pages may have millions of links.
        specs = (
            spec_of_link(claim, link)
            for claim, outcome in outcomes
            if isinstance(outcome, Done)
            for link in outcome.links
        )
        now, new, refused = self._clock(), 0, 0
        why: InvalidRequestError | None = None
        while part := list(islice(specs, self._links_a_call)):
            self._active[queue_key] = self._now()
            for one in self._seeds.add_each(queue_key, biz, part, now):
                if isinstance(one, Problem):
                    refused, why = refused + 1, why or InvalidRequestError([one])
                else:
                    new += one.accepted
        if why is not None:
            warn(f"{refused} links of {queue_key.biz} cannot be seeds", why)
        return new

    def _add_running(self, queue_key: QueueKey, biz: Biz, outcomes: Outcomes) -> None:
        """Make seeds of what was submitted as it is and has links: some may lead back to it."""
        begun = [
            SeedSpec(
                url=claim.request.body.url,
                rule=claim.request.body.rule,
                depth=claim.request.body.depth,
                job=claim.request.job,
                priority=claim.request.priority,
                pool=claim.request.pool,
                found_by=claim.request.id,
            )
            for claim, outcome in outcomes
            if isinstance(outcome, Done)
            and outcome.links
            and claim.request.body.seed is None
            and is_visit(claim.request.body)
        ]
        if not begun:
            return
        running = self._seeds.add_running(queue_key, biz, begun, self._clock())
        with self._lock:
            for request_id, seed in running.items():
                self._running[queue_key, request_id] = seed
            while len(self._running) > self._most_running:
                del self._running[next(iter(self._running))]

    def ended(
        self, queue_key: QueueKey, biz: Biz, outcomes: Outcomes, lost: set[RequestId]
    ) -> None:
        """End the seeds of the requests whose outcomes were stored.

        Never fails, as the outcomes stand: what cannot be stored now is found out later.
        """
        try:
            if running := self._ends_of_running(queue_key, outcomes, lost):
                self._seeds.seeds.ended(queue_key, biz, running, self._clock())
            ours = [
                (claim, outcome)
                for claim, outcome in outcomes
                if claim.request.body.seed is not None and claim.request.id not in lost
            ]
            if ours:
                self._active[queue_key] = self._now()
                self._seeds.end(queue_key, biz, ours, self._clock())
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
                why = ""
                if isinstance(outcome, Dead):
                    why = f"request {an_id} is dead: {outcome.error}"
                ends[seed] = an_id, why
        return ends

    def dispatch(self, tree: Tree) -> int:
        """Make requests of due seeds under the queue keys that this worker has met; how many."""
        made = 0
        for queue_key, seen_at in list(self._active.items()):
            biz = tree.bizs.get(queue_key.tenant, {}).get(queue_key.biz)
            if biz is None or self._now() - seen_at > ACTIVE_SECONDS:
                self._active.pop(queue_key, None)
                continue
            try:
                count = self._seeds.dispatch(tree, queue_key, biz, self._clock())
            except Exception as error:  # noqa: BLE001  the next one, or the tick, does it
                warn("seeds could not be dispatched", error)
                continue
            if count:
                self._active[queue_key] = self._now()
            made += count
        return made


def tend_seeds(
    seeds: SeedDispatcher, tree: Tree, now: datetime, time_left: Callable[[], float]
) -> int:
    """Dispatch what is due under every queue key, and recheck what is overdue; how many.

    A queue key that cannot be served is logged and stops no other; what there is no time for is
    done by a later tick: each begins with another queue key.
    """
    made = 0
    for queue_key in rotated(tree.queues(), now):
        biz = tree.bizs[queue_key.tenant][queue_key.biz]
        if time_left() < MARGIN_SECONDS:
            break
        try:
            made += seeds.dispatch(tree, queue_key, biz, now)
            seeds.recheck(queue_key, biz, now)
        except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
            warn(f"seeds of {queue_key.biz} could not be dispatched", error)
    return made
