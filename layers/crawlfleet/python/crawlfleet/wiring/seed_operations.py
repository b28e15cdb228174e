"""The router's calls about seeds: each is a flow, given the configuration in force and the time."""

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from crawlfleet.errors import CrawlfleetError, InvalidRequestError
from crawlfleet.flows.configuration import biz_of
from crawlfleet.flows.submission import SubmissionPorts
from crawlfleet.flows.tracking import Listing
from crawlfleet.model.seed import Offer, Offered, Seed, SeedsMeant, SeedTotals
from crawlfleet.wiring.parts import Parts

if TYPE_CHECKING:
    from crawlfleet.flows.seeding import SeedingPorts
    from crawlfleet.flows.seeds import SeedsChanged

# What few calls are about is imported by them: canonical forms and time zones cost a cold start.


class RouterSeeds:
    """edge.seed_operations.SeedOperations.

    Args:
        parts: The parts of the world.
        submission: What makes requests of seeds.
    """

    def __init__(self, parts: Parts, submission: SubmissionPorts) -> None:
        self._parts = parts
        self._submission = submission

    @cached_property
    def _seeding(self) -> "SeedingPorts":
        from crawlfleet.wiring.seeding import seeding_ports

        return seeding_ports(self._parts, self._submission)

    def offer_seeds(
        self, tenant: str, biz: str, offers: Sequence[Offer | InvalidRequestError]
    ) -> list[Offered | InvalidRequestError]:
        """flows.seeds; what is accepted begins at once, as far as there is room."""
        from crawlfleet.flows.seeding import hand_out
        from crawlfleet.flows.seeds import offer_seeds

        tree = self._parts.config.current()
        answers = offer_seeds(self._seeding, tree, tenant, biz, offers, self._parts.now())
        accepted = sum(isinstance(one, Offered) and one.accepted for one in answers)
        if accepted:
            lane, found = biz_of(tree, tenant, biz)
            try:
                hand_out(self._seeding, tree, lane, found, self._parts.now(), most=accepted)
            except CrawlfleetError as error:
                self._parts.warn("seeds are stored, and handed out by the next tick", error)
        return answers

    def list_seeds(
        self, tenant: str, biz: str, meant: SeedsMeant, *, cursor: str | None, limit: int
    ) -> Listing[Seed]:
        """flows.seeds."""
        from crawlfleet.flows.seeds import list_seeds

        tree = self._parts.config.current()
        return list_seeds(self._seeding, tree, tenant, biz, meant, cursor=cursor, limit=limit)

    def seed_totals(self, tenant: str, biz: str) -> list[SeedTotals]:
        """flows.seeds."""
        from crawlfleet.flows.seeds import seed_totals

        return seed_totals(
            self._seeding, self._parts.config.current(), tenant, biz, self._parts.now()
        )

    def release_seed(self, tenant: str, biz: str, seed: str) -> Seed:
        """flows.seeds."""
        from crawlfleet.flows.seeds import release_seed

        tree, by = self._parts.config.current(), f"api:{tenant}"
        return release_seed(self._seeding, tree, tenant, biz, seed, by, self._parts.now())

    def release_seeds(self, tenant: str, biz: str, seeds: Sequence[str]) -> "SeedsChanged":
        """flows.seeds."""
        from crawlfleet.flows.seeds import release_seeds

        tree, by = self._parts.config.current(), f"api:{tenant}"
        return release_seeds(self._seeding, tree, tenant, biz, seeds, by, self._parts.now())

    def release_those(
        self, tenant: str, biz: str, meant: SeedsMeant, *, cursor: str | None, limit: int
    ) -> "SeedsChanged":
        """flows.seeds."""
        from crawlfleet.flows.seeds import release_those

        tree, by = self._parts.config.current(), f"api:{tenant}"
        return release_those(
            self._seeding,
            tree,
            tenant,
            biz,
            meant,
            by,
            self._parts.now(),
            cursor=cursor,
            limit=limit,
        )

    def forget_seed(self, tenant: str, biz: str, seed: str) -> None:
        """flows.seeds."""
        from crawlfleet.flows.seeds import forget_seed

        forget_seed(self._seeding, self._parts.config.current(), tenant, biz, seed)

    def forget_seeds(self, tenant: str, biz: str, seeds: Sequence[str]) -> "SeedsChanged":
        """flows.seeds."""
        from crawlfleet.flows.seeds import forget_seeds

        return forget_seeds(self._seeding, self._parts.config.current(), tenant, biz, seeds)

    def forget_those(
        self, tenant: str, biz: str, meant: SeedsMeant, *, cursor: str | None, limit: int
    ) -> "SeedsChanged":
        """flows.seeds."""
        from crawlfleet.flows.seeds import forget_those

        tree = self._parts.config.current()
        return forget_those(self._seeding, tree, tenant, biz, meant, cursor=cursor, limit=limit)
