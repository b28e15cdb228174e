"""What the API asks of whoever wires it about incidents."""

from typing import Protocol

from crawlfleet.model.incident import Incident


class IncidentPage(Protocol):
    """A page of incidents."""

    @property
    def items(self) -> list[Incident]:
        """Its incidents."""
        ...

    @property
    def cursor(self) -> str | None:
        """Where to go on."""
        ...

    @property
    def more(self) -> bool:
        """Whether there is more now."""
        ...


class IncidentOperations(Protocol):
    """Reading incidents, for the tenant of the call's API key."""

    def list_incidents(
        self, tenant: str, *, open_only: bool, cursor: str | None, limit: int
    ) -> IncidentPage:
        """A page of incidents that the tenant may read, the newest first."""
        ...
