"""What the API asks of whoever wires it: one method a call.

What the API asks of whoever wires it about incidents.

What the API asks of whoever wires it about rules that are tried.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from crawlfleet.api.operations_jobs import (
    DemandOperations,
    JobOperations,
    ScheduleOperations,
    SeedOperations,
    SpiderOperations,
)
from crawlfleet.api.responses import Page
from crawlfleet.crawling.trials.remote import TrialWanted, Tried
from crawlfleet.fleet.models import WorkerStatus
from crawlfleet.kernel.errors import InvalidRequestError
from crawlfleet.monitoring.explain.models import Explanation, UrlExplanation
from crawlfleet.monitoring.incidents.models import Incident
from crawlfleet.monitoring.models import HostSample, Sample, Vitals
from crawlfleet.requests.dead_letters.models import LetterFilter
from crawlfleet.requests.ledger import Ledger
from crawlfleet.requests.models import RuleCoverage, Tracked, Visit, VisitTotals
from crawlfleet.requests.queue.stats import Stats
from crawlfleet.requests.submission.models import Receipt, Submission


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


class TrialOperations(Protocol):
    """Trying rules, for the tenant of the call's API key."""

    def try_rule(self, tenant: str, biz: str, wanted: TrialWanted) -> Tried:
        """What a rule yields of a page; nothing is stored."""
        ...


class Changes(Protocol):
    """What a change of many dead letters did."""

    @property
    def count(self) -> int:
        """How many were changed."""
        ...

    @property
    def skipped(self) -> int:
        """How many were meant and left alone."""
        ...

    @property
    def cursor(self) -> str | None:
        """Where to go on."""
        ...

    @property
    def more(self) -> bool:
        """Whether others may be meant."""
        ...


class Operations(
    DemandOperations,
    IncidentOperations,
    SeedOperations,
    SpiderOperations,
    ScheduleOperations,
    TrialOperations,
    JobOperations,
    Protocol,
):
    """What the API can have done, each for the tenant of the call's API key."""

    def tenant(self, api_key_id: str | None) -> str:
        """The tenant of an API key, by the key's id."""
        ...

    def submit(
        self,
        tenant: str,
        biz: str,
        submissions: list[Submission | InvalidRequestError],
        *,
        single: bool,
        key: str | None,
    ) -> list[Receipt]:
        """Submit entries, once for all calls under one ``key``; one receipt each, in order."""
        ...

    def look_up(self, tenant: str, biz: str, request_id: str) -> Tracked:
        """One request."""
        ...

    def cancel(self, tenant: str, biz: str, request_id: str) -> Tracked:
        """Cancel a request that nobody works on."""
        ...

    def explain(self, tenant: str, biz: str, request_id: str) -> Explanation:
        """Why a request is where it is."""
        ...

    def explain_url(self, tenant: str, biz: str, url: str, rule: str | None) -> UrlExplanation:
        """Why a URL was or was not crawled."""
        ...

    def list_requests(
        self,
        tenant: str,
        biz: str,
        *,
        state: str | None,
        since: datetime | None,
        cursor: str | None,
        limit: int,
    ) -> Page:
        """A page of requests."""
        ...

    def list_records(
        self, tenant: str, biz: str, *, request: str | None, cursor: str | None, limit: int
    ) -> Page:
        """A page of records."""
        ...

    def list_letters(
        self, tenant: str, biz: str, letters: LetterFilter, *, cursor: str | None, limit: int
    ) -> Page:
        """A page of dead letters."""
        ...

    def get_letter(self, tenant: str, biz: str, request_id: str) -> Tracked:
        """One dead letter."""
        ...

    def replay_letter(
        self, tenant: str, biz: str, request_id: str, *, current_rule: bool
    ) -> Tracked:
        """Have a dead letter worked on again; the request as it stands then."""
        ...

    def purge_letter(self, tenant: str, biz: str, request_id: str) -> None:
        """Remove a dead letter."""
        ...

    def replay_letters(
        self,
        tenant: str,
        biz: str,
        letters: LetterFilter,
        *,
        current_rule: bool,
        cursor: str | None,
        limit: int,
    ) -> Changes:
        """Have up to ``limit`` dead letters worked on again."""
        ...

    def purge_letters(
        self, tenant: str, biz: str, letters: LetterFilter, *, cursor: str | None, limit: int
    ) -> Changes:
        """Remove up to ``limit`` dead letters."""
        ...

    def stats(self, tenant: str, biz: str) -> Stats:
        """Totals, depth and rates."""
        ...

    def ledger(self, tenant: str, biz: str, job: str | None) -> Ledger:
        """Where everything that was ever submitted is."""
        ...

    def workers(self, tenant: str, biz: str) -> list[WorkerStatus]:
        """The fleet's workers, each with what it holds of this biz."""
        ...

    def visit(self, tenant: str, biz: str, url: str) -> Visit:
        """What is known of a page since it was last read."""
        ...

    def visit_totals(self, tenant: str, biz: str) -> VisitTotals:
        """What is known of all pages together."""
        ...

    def coverage(self, tenant: str, biz: str) -> list[RuleCoverage]:
        """How well each version of the biz's rules finds what it looks for."""
        ...

    def label(self, tenant: str, biz: str) -> Callable[[int], str]:
        """How this biz calls its states."""
        ...

    def hosts(self, tenant: str, biz: str) -> list[HostSample]:
        """Hosts that a biz is at or waits for, the worst first."""
        ...

    def fleet(self, tenant: str) -> Sample:
        """One look at the whole fleet, for an operator."""
        ...

    def vitals(self) -> Vitals:
        """How the platform is and what it runs, for anybody; it may be some seconds old."""
        ...

    def health(self) -> dict[str, str]:
        """The parts that the router needs, each ``ok`` or what is wrong with it."""
        ...
