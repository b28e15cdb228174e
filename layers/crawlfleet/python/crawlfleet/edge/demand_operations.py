"""What the API asks of whoever wires it about demands and runs."""

from typing import Protocol

from crawlfleet.model.run import RunRecord
from crawlfleet.model.usage import JobDemand


class DemandOperations(Protocol):
    """Reading what runs took, for the tenant of the call's API key."""

    def list_demands(
        self, tenant: str, biz: str, *, after: str | None, limit: int
    ) -> list[JobDemand]:
        """What a biz's spiders are known to take, by name, beginning after a name."""
        ...

    def get_demand(self, tenant: str, biz: str, spider: str) -> JobDemand:
        """What one spider is known to take."""
        ...

    def get_run(self, tenant: str, biz: str, name: str) -> RunRecord:
        """What the run of a job took."""
        ...
