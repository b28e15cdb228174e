"""Incidents: what is or was wrong, as the API tells it."""

from datetime import datetime

import msgspec

from crawlfleet.sdk.calls import Calls, parameters
from crawlfleet.sdk.pages import Pages


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is or was wrong.

    ``tenant`` and ``biz`` are None where it is the platform's own, ``part`` and ``name`` where it
    is a biz's. ``said`` tells how bad it is in a sentence; ``value``, ``worst`` and ``threshold``
    are its numbers. ``told`` is what people heard last, ``owed`` what they still have to hear, and
    ``do`` what to do next.
    """

    id: str
    kind: str
    severity: str
    state: str
    since: datetime
    found_at: datetime
    tenant: str | None = None
    biz: str | None = None
    part: str | None = None
    name: str | None = None
    title: str = ""
    said: str = ""
    value: float = 0.0
    worst: float = 0.0
    threshold: float = 0.0
    opened_at: datetime | None = None
    over_at: datetime | None = None
    returns: int = 0
    told: str | None = None
    told_at: datetime | None = None
    owed: str | None = None
    do: str = ""

    @property
    def place(self) -> str:
        """Where it is, in words.

        >>> now = datetime.fromisoformat("2026-01-01T00:00:00Z")
        >>> facts = {"id": "1", "kind": "backlog", "severity": "warning", "state": "open"}
        >>> Incident(**facts, since=now, found_at=now, tenant="acme", biz="docs").place
        'biz acme/docs'
        """
        if self.tenant is not None:
            return f"biz {self.tenant}/{self.biz}"
        named = self.name is not None and self.name != self.part
        return f"{self.part} {self.name}" if named else f"{self.part}"


class IncidentsPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of incidents."""

    incidents: tuple[Incident, ...] = ()
    cursor: str | None = None
    more: bool = False


class IncidentCalls(Calls):
    """Reading incidents."""

    def incidents(
        self, *, ended: bool = False, cursor: str | None = None, page_size: int = 100
    ) -> Pages[Incident]:
        """What is wrong with the tenant's bizs, the newest first, all pages.

        An operator's key reads everybody's and the platform's own. With ``ended`` also what is
        over, for three months; ``cursor`` continues an earlier iterator.
        """
        params = parameters(state="all" if ended else "open", limit=page_size)

        def read(at: str | None) -> tuple[tuple[Incident, ...], str | None, bool]:
            page = self._get("/v1/incidents", IncidentsPage, {**params, **parameters(cursor=at)})
            return page.incidents, page.cursor, page.more

        return Pages(read, cursor, clock=self._clock)
