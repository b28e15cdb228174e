"""The platform: health, workers, hosts, the whole fleet, incidents, visited pages."""

from typing import Any

import msgspec

from crawlfleet.sdk.calls import Calls, Pages, parameters, path_of
from crawlfleet.wire.explain import Visit, VisitTotals
from crawlfleet.wire.fleet import (
    Fleet,
    Health,
    HostsAnswer,
    HostState,
    Incident,
    IncidentsPage,
    WorkersAnswer,
    WorkerState,
)


class VisitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The visit of one page."""

    visit: Visit


class VisitTotalsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of all pages."""

    totals: VisitTotals


class FleetCalls(Calls):
    """The calls about the platform."""

    def health(self) -> dict[str, Any]:
        """What the API says of itself and its parts."""
        return self._get("/health", dict[str, Any])

    def deep_health(self) -> Health:
        """The same, and what is running: version, stage, configuration, workers.

        Raises:
            UnavailableError: a part is away without which nothing can be submitted.
        """
        return self._get("/health", Health, parameters(deep=1))

    def fleet(self) -> Fleet:
        """Return the whole fleet: workers, bizs, hosts, parts.

        Raises:
            NotOperatorError: the key's tenant is no operator.
        """
        return self._get("/v1/fleet", Fleet)

    def workers(self, biz: str) -> list[WorkerState]:
        """The fleet's workers, and what each holds of this biz; the dead and suspected first."""
        return list(self._get(path_of(biz, "workers"), WorkersAnswer).workers)

    def hosts(self, biz: str) -> list[HostState]:
        """Hosts that the biz is at or waits for, the worst first, then the busiest."""
        return list(self._get(path_of(biz, "hosts"), HostsAnswer).hosts)

    def visit(self, biz: str, url: str) -> Visit:
        """What is known of a page since it was last read, by any URL of it.

        Raises:
            NotFoundError: it was not read yet, or the biz remembers no pages.
        """
        return self._get(path_of(biz, "visits"), VisitAnswer, parameters(url=url)).visit

    def visits(self, biz: str) -> VisitTotals:
        """What is known of all pages of a biz together, saved downloads among it."""
        return self._get(path_of(biz, "visits"), VisitTotalsAnswer).totals

    def incidents(
        self, *, ended: bool = False, cursor: str | None = None, page_size: int = 100
    ) -> Pages[Incident]:
        """Read what is wrong with the tenant's bizs, the newest first, all pages.

        An operator's key reads everybody's and the platform's own. With ``ended`` also what is
        over, for three months; ``cursor`` continues an earlier iterator.
        """
        params = parameters(state="all" if ended else "open", limit=page_size)
        return self._pages("/v1/incidents", IncidentsPage, params, cursor)
