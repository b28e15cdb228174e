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
from crawlfleet.crawling.frontier.dispatch import SeedingPorts, hand_out, look_after, seeds_ended
from crawlfleet.crawling.frontier.models import Offer
from crawlfleet.crawling.frontier.offers import adopt, offer_each, offer_of
from crawlfleet.kernel.errors import InvalidRequestError, Problem
from crawlfleet.kernel.fairness import from_elsewhere
from crawlfleet.kernel.ids import RequestId
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import Lane
from crawlfleet.kernel.time import STEADY, SteadyTime
from crawlfleet.requests.models import Claim, is_visit
from crawlfleet.requests.outcomes import Dead, Done, Outcome, Retry

#: Offers of one call.
OFFERS: Final = 2_000
#: A lane in which a worker has met a seed or a link is looked after by it for so long.
ACTIVE_SECONDS: Final = 60.0
#: Adopted requests that a worker remembers.
MOST_ADOPTED: Final = 10_000
#: The tick has other things to do than to wait for a silent node, lane by lane.
MARGIN_SECONDS: Final = 60.0

Outcomes = Sequence[tuple[Claim, Outcome]]


class Sower:
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
        offers: int = OFFERS,
        most_adopted: int = MOST_ADOPTED,
    ) -> None:
        self._ports = ports
        self._clock = clock
        self._now = steady.now
        self._offers = offers
        self._most_adopted = most_adopted
        self._active: dict[Lane, float] = {}
        # By lane too: counters give several lanes the same ids.
        self._adopted: dict[tuple[Lane, RequestId], str] = {}
        self._lock = Lock()

    def offer_links(self, lane: Lane, biz: Biz, outcomes: Outcomes) -> int:
        """Offer what was found to go on with; returns how many are new.

        Raises:
            StoreUnavailableError: some may not have been offered: the outcomes are not to be stored
                yet.
        """
        self._adopt(lane, biz, outcomes)
        # One after another: a hundred pages may have millions of links.
        offers = (
            offer_of(claim, link)
            for claim, outcome in outcomes
            if isinstance(outcome, Done)
            for link in outcome.links
        )
        now, new, refused = self._clock(), 0, 0
        why: InvalidRequestError | None = None
        while part := list(islice(offers, self._offers)):
            self._active[lane] = self._now()
            for one in offer_each(self._ports, lane, biz, part, now):
                if isinstance(one, Problem):
                    refused, why = refused + 1, why or InvalidRequestError([one])
                else:
                    new += one.accepted
        if why is not None:
            warn(f"{refused} links of {lane.biz} cannot be seeds", why)
        return new

    def _adopt(self, lane: Lane, biz: Biz, outcomes: Outcomes) -> None:
        """Make known what was submitted as it is and has links: some may lead back to it."""
        begun = [
            Offer(
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
        adopted = adopt(self._ports, lane, biz, begun, self._clock())
        with self._lock:
            for request_id, seed in adopted.items():
                self._adopted[lane, request_id] = seed
            while len(self._adopted) > self._most_adopted:
                del self._adopted[next(iter(self._adopted))]

    def ended(self, lane: Lane, biz: Biz, outcomes: Outcomes, lost: set[RequestId]) -> None:
        """End the seeds of the requests whose outcomes were stored.

        Never fails, as the outcomes stand: what cannot be told is found out later.
        """
        try:
            if adopted := self._ends_of_adopted(lane, outcomes, lost):
                self._ports.seeds.ended(lane, biz, adopted, self._clock())
            ours = [
                (claim, outcome)
                for claim, outcome in outcomes
                if claim.request.body.seed is not None and claim.request.id not in lost
            ]
            if ours:
                self._active[lane] = self._now()
                seeds_ended(self._ports, lane, biz, ours, self._clock())
        except Exception as error:  # noqa: BLE001  they are looked after when their time is up
            warn("seeds have ended, which is found out later", error)

    def _ends_of_adopted(
        self, lane: Lane, outcomes: Outcomes, lost: set[RequestId]
    ) -> dict[str, tuple[RequestId, str]]:
        """How the seeds end that were adopted here; one whose request is tried again does not."""
        ends: dict[str, tuple[RequestId, str]] = {}
        for claim, outcome in outcomes:
            an_id = claim.request.id
            if isinstance(outcome, Retry) and an_id not in lost:
                continue
            with self._lock:
                seed = self._adopted.pop((lane, an_id), None)
            if seed is not None and an_id not in lost:
                why = ""
                if isinstance(outcome, Dead):
                    why = f"request {an_id} is dead: {outcome.error}"
                ends[seed] = an_id, why
        return ends

    def hand_out(self, tree: Tree) -> int:
        """Make requests of due seeds in the lanes that this worker knows of; how many."""
        made = 0
        for lane, seen_at in list(self._active.items()):
            biz = tree.bizs.get(lane.tenant, {}).get(lane.biz)
            if biz is None or self._now() - seen_at > ACTIVE_SECONDS:
                self._active.pop(lane, None)
                continue
            try:
                count = hand_out(self._ports, tree, lane, biz, self._clock())
            except Exception as error:  # noqa: BLE001  the next one, or the tick, does it
                warn("seeds could not be handed out", error)
                continue
            if count:
                self._active[lane] = self._now()
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
    for lane in from_elsewhere(tree.lanes(), now):
        biz = tree.bizs[lane.tenant][lane.biz]
        if time_left() < MARGIN_SECONDS:
            break
        try:
            made += hand_out(ports, tree, lane, biz, now)
            look_after(ports, lane, biz, now)
        except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
            warn(f"seeds of {lane.biz} could not be seen to", error)
    return made
