"""A worker's part in seeds (SPEC.md F1-F5): links become seeds, seeds become requests, and end.

Links are offered before the outcome of their page is stored: whoever does that page again offers
them again, and each is a seed once. A worker hands out seeds of those lanes in which it has met
any; the scheduler's tick does it for all.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice
from threading import Lock
from typing import Final

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.crawling.frontier.dispatch import SeedingPorts, dispatch, end_seeds, look_after
from crawlfleet.crawling.frontier.models import SeedSpec
from crawlfleet.crawling.frontier.offers import add_each, add_running, spec_of_link
from crawlfleet.kernel.errors import InvalidRequestError, Problem
from crawlfleet.kernel.fairness import from_elsewhere
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import STEADY, SteadyTime
from crawlfleet.requests.models import Claim, is_visit
from crawlfleet.requests.outcomes import Dead, Done, Outcome, Retry

#: Offers of one call.
LINKS_A_CALL: Final = 2_000
#: A lane in which a worker has met a seed or a link is looked after by it for so long.
ACTIVE_SECONDS: Final = 60.0
#: Adopted requests that a worker remembers.
MOST_RUNNING: Final = 10_000
#: The tick has other things to do than to wait for a silent node, lane by lane.
MARGIN_SECONDS: Final = 60.0

Outcomes = Sequence[tuple[Claim, Outcome]]


class FrontierClient:
    """The seeds that one worker has to do with. Its methods block, and may be called by threads.

    Args:
        ports: Seeds, and everything that makes requests of them.
        clock: The time.
        steady: What it goes by how long ago something was met in a lane.
        offers: Links that are offered in one call.
        most_adopted: Adopted requests that are remembered till they end; the oldest beyond are
            looked after by the tick.
    """

    def __init__(
        self,
        ports: SeedingPorts,
        clock: Callable[[], datetime],
        steady: SteadyTime = STEADY,
        specs: int = LINKS_A_CALL,
        most_running: int = MOST_RUNNING,
    ) -> None:
        self._ports = ports
        self._clock = clock
        self._now = steady.now
        self._links_a_call = specs
        self._most_running = most_running
        self._active: dict[QueueKey, float] = {}
        # By lane too: counters give several lanes the same ids.
        self._running: dict[tuple[QueueKey, RequestId], str] = {}
        self._lock = Lock()

    def add_links(self, queue_key: QueueKey, biz: Biz, outcomes: Outcomes) -> int:
        """Offer what was found to go on with; returns how many are new.

        Raises:
            StoreUnavailableError: some may not have been offered: the outcomes are not to be stored
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
            for one in add_each(self._ports, queue_key, biz, part, now):
                if isinstance(one, Problem):
                    refused, why = refused + 1, why or InvalidRequestError([one])
                else:
                    new += one.accepted
        if why is not None:
            warn(f"{refused} links of {queue_key.biz} cannot be seeds", why)
        return new

    def _add_running(self, queue_key: QueueKey, biz: Biz, outcomes: Outcomes) -> None:
        """Make known what was submitted as it is and has links: some may lead back to it."""
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
        running = add_running(self._ports, queue_key, biz, begun, self._clock())
        with self._lock:
            for request_id, seed in running.items():
                self._running[queue_key, request_id] = seed
            while len(self._running) > self._most_running:
                del self._running[next(iter(self._running))]

    def ended(
        self, queue_key: QueueKey, biz: Biz, outcomes: Outcomes, lost: set[RequestId]
    ) -> None:
        """End the seeds of the requests whose outcomes were stored.

        Never fails, as the outcomes stand: what cannot be told is found out later.
        """
        try:
            if running := self._ends_of_running(queue_key, outcomes, lost):
                self._ports.seeds.ended(queue_key, biz, running, self._clock())
            ours = [
                (claim, outcome)
                for claim, outcome in outcomes
                if claim.request.body.seed is not None and claim.request.id not in lost
            ]
            if ours:
                self._active[queue_key] = self._now()
                end_seeds(self._ports, queue_key, biz, ours, self._clock())
        except Exception as error:  # noqa: BLE001  they are looked after when their time is up
            warn("seeds have ended, which is found out later", error)

    def _ends_of_running(
        self, queue_key: QueueKey, outcomes: Outcomes, lost: set[RequestId]
    ) -> dict[str, tuple[RequestId, str]]:
        """How the seeds end that were adopted here; one whose request is tried again does not."""
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
        """Make requests of due seeds in the lanes that this worker knows of; how many."""
        made = 0
        for queue_key, seen_at in list(self._active.items()):
            biz = tree.bizs.get(queue_key.tenant, {}).get(queue_key.biz)
            if biz is None or self._now() - seen_at > ACTIVE_SECONDS:
                self._active.pop(queue_key, None)
                continue
            try:
                count = dispatch(self._ports, tree, queue_key, biz, self._clock())
            except Exception as error:  # noqa: BLE001  the next one, or the tick, does it
                warn("seeds could not be handed out", error)
                continue
            if count:
                self._active[queue_key] = self._now()
            made += count
        return made


def tend_seeds(
    ports: SeedingPorts, tree: Tree, now: datetime, time_left: Callable[[], float]
) -> int:
    """Hand out what is due in every lane, and see what became of what is overdue; how many.

    A lane that cannot be served is warned of and stops no other; what there is no
    time for is done by a later tick: each begins with another lane.
    """
    made = 0
    for queue_key in from_elsewhere(tree.queues(), now):
        biz = tree.bizs[queue_key.tenant][queue_key.biz]
        if time_left() < MARGIN_SECONDS:
            break
        try:
            made += dispatch(ports, tree, queue_key, biz, now)
            look_after(ports, queue_key, biz, now)
        except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
            warn(f"seeds of {queue_key.biz} could not be seen to", error)
    return made
