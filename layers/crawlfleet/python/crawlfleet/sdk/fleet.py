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
        """Read the health of the API and its parts."""
        return self._get("/health", dict[str, Any])

    def deep_health(self) -> Health:
        """Read the health and what is running: version, stage, configuration, workers.

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
        """List the fleet's workers with their leased requests of the biz; the dead come first."""
        return list(self._get(path_of(biz, "workers"), WorkersAnswer).workers)

    def hosts(self, biz: str) -> list[HostState]:
        """List hosts that the biz fetches from or waits for, the worst first, then the busiest."""
        return list(self._get(path_of(biz, "hosts"), HostsAnswer).hosts)

    def visit(self, biz: str, url: str) -> Visit:
        """Read the last visit of a page, by any URL of it.

        Raises:
            NotFoundError: it was not read yet, or the biz remembers no pages.
        """
        return self._get(path_of(biz, "visits"), VisitAnswer, parameters(url=url)).visit

    def visits(self, biz: str) -> VisitTotals:
        """Read the totals of all pages of a biz, saved downloads among them."""
        return self._get(path_of(biz, "visits"), VisitTotalsAnswer).totals

    def incidents(
        self, *, ended: bool = False, cursor: str | None = None, page_size: int = 100
    ) -> Pages[Incident]:
        """Read the incidents of the tenant's bizs, the newest first, all pages.

        An operator's key reads everybody's and the platform's own. With ``ended`` also what is
        over, for three months; ``cursor`` continues an earlier iterator.
        """
        params = parameters(state="all" if ended else "open", limit=page_size)
        return self._pages("/v1/incidents", IncidentsPage, params, cursor)
