"""What the API asks of whoever wires it about seeds."""

from collections.abc import Sequence
from typing import Protocol

from crawlfleet.errors import InvalidRequestError
from crawlfleet.model.seed import Offer, Offered, Seed, SeedsMeant, SeedTotals


class SeedChanges(Protocol):
    """What a change of many seeds did."""

    @property
    def count(self) -> int:
        """How many were changed."""
        ...

    @property
    def cursor(self) -> str | None:
        """Where to go on."""
        ...

    @property
    def more(self) -> bool:
        """Whether others may be meant."""
        ...


class SeedPage(Protocol):
    """A page of seeds."""

    @property
    def items(self) -> list[Seed]:
        """Its seeds."""
        ...

    @property
    def cursor(self) -> str | None:
        """Where to go on."""
        ...

    @property
    def more(self) -> bool:
        """Whether there is more now."""
        ...


class SeedOperations(Protocol):
    """What can be done with seeds, each for the tenant of the call's API key."""

    def offer_seeds(
        self, tenant: str, biz: str, offers: Sequence[Offer | InvalidRequestError]
    ) -> list[Offered | InvalidRequestError]:
        """Offer URLs; one answer each, in order."""
        ...

    def list_seeds(
        self, tenant: str, biz: str, meant: SeedsMeant, *, cursor: str | None, limit: int
    ) -> SeedPage:
        """A page of seeds."""
        ...

    def seed_totals(self, tenant: str, biz: str) -> list[SeedTotals]:
        """How many there are by segment and state."""
        ...

    def release_seed(self, tenant: str, biz: str, seed: str) -> Seed:
        """Make one ready again; the seed as it stands then."""
        ...

    def release_seeds(self, tenant: str, biz: str, seeds: Sequence[str]) -> SeedChanges:
        """Make these ready again."""
        ...

    def release_those(
        self, tenant: str, biz: str, meant: SeedsMeant, *, cursor: str | None, limit: int
    ) -> SeedChanges:
        """Make up to ``limit`` that are meant ready again."""
        ...

    def forget_seed(self, tenant: str, biz: str, seed: str) -> None:
        """Remove one."""
        ...

    def forget_seeds(self, tenant: str, biz: str, seeds: Sequence[str]) -> SeedChanges:
        """Remove these."""
        ...

    def forget_those(
        self, tenant: str, biz: str, meant: SeedsMeant, *, cursor: str | None, limit: int
    ) -> SeedChanges:
        """Remove up to ``limit`` that are meant."""
        ...
