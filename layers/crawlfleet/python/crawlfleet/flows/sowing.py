"""A worker's part in seeds (SPEC.md F1-F5): links become seeds, seeds become requests, and end.

Links are offered before the outcome of their page is stored: whoever does that page again offers
them again, and each is a seed once. A worker hands out seeds of those lanes in which it has met
any; the scheduler's tick does it for all.
"""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from crawlfleet.errors import StoreUnavailableError
from crawlfleet.flows.offering import adopt, offer
from crawlfleet.flows.seeding import SeedingPorts, hand_out, look_after, seeds_ended
from crawlfleet.model.biz import Biz, Tree
from crawlfleet.model.ids import RequestId
from crawlfleet.model.lane import Lane
from crawlfleet.model.outcome import Done, Outcome
from crawlfleet.model.request import Claim
from crawlfleet.model.seed import Offer
from crawlfleet.policy.recrawl import is_visit

#: Offers of one call.
OFFERS: Final = 2_000
#: A lane in which a worker has met a seed or a link is looked after by it for so long.
ACTIVE_SECONDS: Final = 60.0
#: The tick has other things to do than to wait for a silent node, lane by lane.
MARGIN_SECONDS: Final = 60.0

Outcomes = Sequence[tuple[Claim, Outcome]]


class Sower:
    """The seeds that one worker has to do with. Its methods block, and may be called by threads.

    Args:
        ports: Seeds, and everything that makes requests of them.
        clock: The time.
        warn: Is told what is wrong but not fatal.
    """

    def __init__(
        self,
        ports: SeedingPorts,
        clock: Callable[[], datetime],
        warn: Callable[[str, Exception], None],
    ) -> None:
        self._ports = ports
        self._clock = clock
        self._warn = warn
        self._active: dict[Lane, float] = {}
        self._adopted: dict[RequestId, str] = {}

    def offer_links(self, lane: Lane, biz: Biz, outcomes: Outcomes) -> int:
        """Offer what was found to go on with; returns how many are new.

        Raises:
            StoreUnavailableError: some may not have been offered: the outcomes are not to be stored
                yet.
        """
        self._adopt(lane, biz, outcomes)
        offers = [
            Offer(
                url=link.url,
                rule=link.rule or claim.request.body.rule,
                depth=link.depth,
                meta=link.meta,
                headers=link.headers,
                job=claim.request.job,
                found_by=claim.request.id,
            )
            for claim, outcome in outcomes
            if isinstance(outcome, Done)
            for link in outcome.links
        ]
        if not offers:
            return 0
        self._active[lane] = time.monotonic()
        now, new = self._clock(), 0
        for first in range(0, len(offers), OFFERS):
            answers = offer(self._ports, lane, biz, offers[first : first + OFFERS], now)
            new += sum(one.accepted for one in answers)
        return new

    def _adopt(self, lane: Lane, biz: Biz, outcomes: Outcomes) -> None:
        """Make known what was submitted as it is and has links: some may lead back to it."""
        begun = [
            Offer(
                url=claim.request.body.url,
                rule=claim.request.body.rule,
                depth=claim.request.body.depth,
                job=claim.request.job,
                found_by=claim.request.id,
            )
            for claim, outcome in outcomes
            if isinstance(outcome, Done)
            and outcome.links
            and claim.request.body.seed is None
            and is_visit(claim.request.body)
        ]
        if begun:
            self._adopted |= adopt(self._ports, lane, biz, begun, self._clock())

    def ended(self, lane: Lane, biz: Biz, outcomes: Outcomes, lost: set[RequestId]) -> None:
        """End the seeds of the requests whose outcomes were stored."""
        adopted = {
            seed: (claim.request.id, "")
            for claim, _ in outcomes
            if (seed := self._adopted.pop(claim.request.id, None)) is not None
            and claim.request.id not in lost
        }
        if adopted:
            try:
                self._ports.seeds.ended(lane, biz, adopted, self._clock())
            except StoreUnavailableError as error:
                self._warn("seeds have ended, which is found out later", error)
        ours = [
            (claim, outcome)
            for claim, outcome in outcomes
            if claim.request.body.seed is not None and claim.request.id not in lost
        ]
        if ours:
            self._active[lane] = time.monotonic()
            seeds_ended(self._ports, lane, biz, ours, self._clock())

    def hand_out(self, tree: Tree) -> int:
        """Make requests of due seeds in the lanes that this worker knows of; how many."""
        made = 0
        for lane, seen_at in list(self._active.items()):
            biz = tree.bizs.get(lane.tenant, {}).get(lane.biz)
            if biz is None or time.monotonic() - seen_at > ACTIVE_SECONDS:
                self._active.pop(lane, None)
                continue
            try:
                count = hand_out(self._ports, tree, lane, biz, self._clock())
            except Exception as error:  # noqa: BLE001  the next one, or the tick, does it
                self._warn("seeds could not be handed out", error)
                continue
            if count:
                self._active[lane] = time.monotonic()
            made += count
        return made


def tend_seeds(
    ports: SeedingPorts, tree: Tree, now: datetime, time_left: Callable[[], float]
) -> int:
    """Hand out what is due in every lane, and see what became of what is overdue; how many.

    A lane that cannot be served is reported through ``warn`` and stops no other; what there is no
    time for is done by the next tick.
    """
    made = 0
    for lane in tree.lanes():
        biz = tree.bizs[lane.tenant][lane.biz]
        if time_left() < MARGIN_SECONDS:
            break
        try:
            made += hand_out(ports, tree, lane, biz, now)
            look_after(ports, lane, biz, now)
        except Exception as error:  # noqa: BLE001  no tenant's fault may be another's
            ports.warn(f"seeds of {lane.biz} could not be seen to", error)
    return made
