"""The platform: health, workers, hosts, the whole fleet, incidents, visited pages."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.sdk.calls import Calls, Pages, parameters, path_of
from crawlfleet.sdk.transport import IF_NONE_MATCH
from crawlfleet.wire.costs import CostsAnswer
from crawlfleet.wire.explain import Visit, VisitTotals
from crawlfleet.wire.fleet import (
    Fleet,
    Health,
    HostsAnswer,
    HostState,
    Incident,
    IncidentsPage,
    ProxiesAnswer,
    ProxyPoolHealth,
    SharesAnswer,
    TenantShare,
    WorkersAnswer,
    WorkerState,
)
from crawlfleet.wire.overview import Overview
from crawlfleet.wire.quotas import QuotasAnswer, QuotaState
from crawlfleet.wire.slots import SlotsAnswer


class VisitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The visit of one page."""

    visit: Visit


class VisitTotalsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of all pages."""

    totals: VisitTotals


class FleetCalls(Calls):
    """The calls about the platform."""

    #: The last overview, and its tag.
    _overview: tuple[str, Overview] | None = None

    def health(self) -> dict[str, Any]:
        """Read the health of the API and its parts."""
        return self._get("/health", dict[str, Any])

    def deep_health(self) -> Health:
        """Read the health and what is running: version, stage, configuration, workers.

        Raises:
            UnavailableError: a part is away without which nothing can be submitted.
        """
        return self._get("/v1/health", Health)

    def fleet(self) -> Fleet:
        """Return the whole fleet: workers, bizs, hosts, parts.

        Raises:
            NotOperatorError: the key's tenant is no operator.
        """
        return self._get("/v1/fleet", Fleet)

    def overview(self) -> Overview:
        """Read rates, backlog, workers, incidents, the day's cost and what is late, in one call.

        An operator's key reads those of the fleet, any other those of its tenant's bizs. Where
        nothing has changed since this client read it last, the API sends nothing anew.
        """
        known = self._overview
        headers = None if known is None else {IF_NONE_MATCH: known[0]}
        answer = self._transport.call("GET", "/v1/overview", headers=headers)
        if known is not None and answer.status == 304:
            return known[1]
        found = self._read(answer, Overview)
        self._overview = (answer.etag, found) if answer.etag else None
        return found

    def shares(self) -> list[TenantShare]:
        """List what tenants have of workers and stores: all of them for operators' keys.

        Those with most in flight come first; any other key reads its own tenant's.
        """
        return list(self._get("/v1/shares", SharesAnswer).tenants)

    def workers(self, biz: str) -> list[WorkerState]:
        """List the fleet's workers with their leased requests of the biz; the dead come first."""
        return list(self._get(path_of(biz, "workers"), WorkersAnswer).workers)

    def hosts(self, biz: str) -> list[HostState]:
        """List hosts that the biz fetches from or waits for, the worst first, then the busiest."""
        return list(self._get(path_of(biz, "hosts"), HostsAnswer).hosts)

    def proxies(self, biz: str) -> list[ProxyPoolHealth]:
        """List the pools of proxies by which the biz's downloads leave; none leave directly."""
        return list(self._get(path_of(biz, "proxies"), ProxiesAnswer).pools)

    def quotas(
        self, *, biz: str | None = None, user: str | None = None, job: str | None = None
    ) -> list[QuotaState]:
        """List quotas and how much is used: the tenant's, its users', its bizs'.

        With a ``biz``, and a ``user`` or a ``job`` of it, those that such work is under.

        Raises:
            NotFoundError: the biz has no such job.
        """
        if biz is None and job is not None:
            raise InvalidRequestError.of("job", "is of a biz, and none is named")
        place = "/v1/quotas" if biz is None else path_of(biz, "quotas")
        params = parameters(user=user, job=job)
        return list(self._get(place, QuotasAnswer, params).quotas)

    def costs(self, biz: str | None = None, *, period: str | None = None) -> CostsAnswer:
        """Read what work costs, of all bizs or of one, in a month or a day of UTC.

        A ``period`` is written as 2026-11 or 2026-11-23; without one it is this month.
        """
        place = "/v1/costs" if biz is None else path_of(biz, "costs")
        return self._get(place, CostsAnswer, parameters(period=period))

    def reserve_slots(
        self, biz: str, process: str, asks: Sequence[Mapping[str, Any]]
    ) -> SlotsAnswer:
        """Reserve host slots for a process that downloads by itself.

        Each of ``asks`` has a ``host``, the ``count`` of slots wanted, how many downloads are
        ``running`` there, and the ``crawl_delay_seconds`` of its robots.txt. Repeated as its answer
        was lost, it wastes slots, which is polite.
        """
        document = {"process": process, "hosts": list(asks)}
        return self._post(path_of(biz, "slots"), document, SlotsAnswer, [])

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

    def acknowledge_incident(self, incident: str, *, why: str = "") -> Incident:
        """Acknowledge an open incident: people and phones are not reminded of it any more.

        They are told of its end, and anew if it comes back.

        Raises:
            NotFoundError: there is no such incident that the key's tenant may read.
            ConflictError: it is over.
        """
        return self._handle(incident, "acknowledge", {"why": why})

    def silence_incident(self, incident: str, *, seconds: int, why: str = "") -> Incident:
        """Silence what is wrong for 60 seconds to 30 days: people and phones are not told of it.

        What is still wrong then is told at once.

        Raises:
            InvalidRequestError: the time is too short or too long.
            NotFoundError: there is no such incident that the key's tenant may read.
            ConflictError: it is over.
        """
        return self._handle(incident, "silence", {"seconds": seconds, "why": why})

    def unsilence_incident(self, incident: str) -> Incident:
        """Take back the acknowledgement and the silence of an open incident.

        Raises:
            NotFoundError: there is no such incident that the key's tenant may read.
            ConflictError: it is over.
        """
        return self._handle(incident, "unsilence", {})

    def _handle(self, incident: str, verb: str, document: Mapping[str, Any]) -> Incident:
        return self._post(path_of("incidents", incident, verb), document, Incident, [])
