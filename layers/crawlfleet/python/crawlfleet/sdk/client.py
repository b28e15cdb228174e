"""The client: every call of the API as a method, its answers as typed values."""

import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Self, overload

from crawlfleet import __version__
from crawlfleet.kernel.errors import ConflictError
from crawlfleet.sdk.address import find_address
from crawlfleet.sdk.calls import moment_of, parameters, path_of
from crawlfleet.sdk.dead_letters import DeadLetterCalls
from crawlfleet.sdk.explain import (
    CoverageAnswer,
    Explanation,
    Ledger,
    RuleCoverage,
    UrlExplanation,
    Visit,
    VisitAnswer,
    VisitTotals,
    VisitTotalsAnswer,
    WorkersAnswer,
    WorkerState,
)
from crawlfleet.sdk.fleet import Fleet, Health, HostsAnswer, HostState
from crawlfleet.sdk.incidents import IncidentCalls
from crawlfleet.sdk.jobs import DemandCalls, JobCalls
from crawlfleet.sdk.pages import Pages
from crawlfleet.sdk.requests import Progress, wait_for_biz, wait_for_ids
from crawlfleet.sdk.results import (
    Record,
    RecordsPage,
    RequestsPage,
    RequestStatus,
    Stats,
    Submitted,
)
from crawlfleet.sdk.rules import TrialCalls
from crawlfleet.sdk.schedules import ScheduleCalls
from crawlfleet.sdk.seeds import SeedCalls
from crawlfleet.sdk.spiders import SpiderCalls
from crawlfleet.sdk.submission import Submissions
from crawlfleet.sdk.transport import Clock, Retries, Timeouts, Transport

#: Seconds that :meth:`Client.wait` waits unless told otherwise.
WAIT_SECONDS = 600.0
#: Entries of one page of a list; the API gives up to 1,000, a function answers up to 6 MB.
PAGE_SIZE = 500


class Client(
    Submissions,
    DeadLetterCalls,
    SeedCalls,
    ScheduleCalls,
    SpiderCalls,
    TrialCalls,
    IncidentCalls,
    JobCalls,
    DemandCalls,
):
    """A client of one Crawlfleet API.

    ::

        with Client() as fleet:
            sent = fleet.submit("news", ["https://example.org/1", "https://example.org/2"])
            fleet.wait("news", sent)
            for record in fleet.records("news"):
                print(record.fields)

    Address and key come from the arguments, then ``CRAWLFLEET_API_URL`` and
    ``CRAWLFLEET_API_KEY``, then the ``.crawlfleet/local.json`` of a local cloud in the working
    directory or above it. The key shows in no repr, error or log.

    Every call has time-outs and a bounded number of tries, and is repeated after any passing
    failure (see :mod:`crawlfleet.sdk.transport`); a submission carries a key, so that it is stored
    once. Threads may share a client; use it as a context manager or call :meth:`close`.

    Raises:
        ConfigError: no address or key could be found, or one is unusable.
    """

    def __init__(
        self,
        api_url: str | None = None,
        api_key: str | None = None,
        *,
        timeouts: Timeouts | None = None,
        retries: Retries | None = None,
        clock: Clock = time,
    ) -> None:
        address = find_address(api_url, api_key)
        self.api_url = address.api_url
        transport = Transport(
            address,
            timeouts or Timeouts(),
            retries or Retries(),
            clock=clock,
            user_agent=f"crawlfleet-sdk/{__version__}",
        )
        super().__init__(transport, clock)

    def __repr__(self) -> str:
        return f"Client(api_url={self.api_url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    # ---- tracking ------------------------------------------------------------------------------

    def get(self, biz: str, request_id: str) -> RequestStatus:
        """The request's state, timeline, attempts, error and body.

        Raises:
            NotFoundError: no such request, or it has expired.
        """
        return self._get(path_of(biz, "requests", request_id), RequestStatus)

    def cancel(self, biz: str, request_id: str) -> RequestStatus:
        """Cancel a request that no worker has begun; its last state.

        Raises:
            ConflictError: it is being worked on or in a final state.
            NotFoundError: no such request.
        """
        lost: list[str] = []
        try:
            path = path_of(biz, "requests", request_id)
            return self._read(self._transport.call("DELETE", path, lost=lost), RequestStatus)
        except ConflictError:
            # An earlier try may have cancelled it while its answer was lost.
            if lost and (status := self.get(biz, request_id)).state == "cancelled":
                return status
            raise

    def requests(
        self,
        biz: str,
        *,
        state: str | None = None,
        since: datetime | str | None = None,
        cursor: str | None = None,
        page_size: int = PAGE_SIZE,
    ) -> Pages[RequestStatus]:
        """The requests of a biz in the order they came, all pages.

        ``since`` is an aware datetime or RFC 3339 text; ``cursor`` continues an earlier iterator.
        """
        path = path_of(biz, "requests")
        params = parameters(state=state, since=moment_of(since), limit=page_size)

        def read(at: str | None) -> tuple[tuple[RequestStatus, ...], str | None, bool]:
            page = self._get(path, RequestsPage, {**params, **parameters(cursor=at)})
            return page.requests, page.cursor, page.more

        return Pages(read, cursor, clock=self._clock)

    @overload
    def wait(
        self,
        biz: str,
        ids: None = None,
        timeout: float | None = WAIT_SECONDS,
        *,
        progress: Progress | None = None,
    ) -> Stats: ...

    @overload
    def wait(
        self,
        biz: str,
        ids: str | Iterable[str | Submitted],
        timeout: float | None = WAIT_SECONDS,
        *,
        progress: Progress | None = None,
    ) -> list[RequestStatus]: ...

    def wait(
        self,
        biz: str,
        ids: str | Iterable[str | Submitted] | None = None,
        timeout: float | None = WAIT_SECONDS,
        *,
        progress: Progress | None = None,
    ) -> Stats | list[RequestStatus]:
        """Wait until the given requests, or all of the biz, are done, dead, cancelled or expired.

        ``ids`` may be ids or results of :meth:`submit`, of which the refused are passed over; the
        states come back in their order. Without ids the biz's totals come back. ``timeout`` is in
        seconds, None for no end. Looks come at a growing interval; ``progress`` is called after
        each with how many are finished, and of how many.

        Raises:
            WaitTimeoutError: the time is up; it holds what is still unfinished.
            NotFoundError: one of the ids is unknown, or expired while it was waited for.
        """
        if ids is None:
            return wait_for_biz(self, biz, timeout, self._clock, progress)
        given = [ids] if isinstance(ids, str) else list(ids)
        wanted = [each.id if isinstance(each, Submitted) else each for each in given]
        known = [each for each in wanted if each is not None]
        return wait_for_ids(self, biz, known, timeout, self._clock, progress)

    def stats(self, biz: str) -> Stats:
        """Totals per state, records, queue, rates, and where workers spent their time."""
        return self._get(path_of(biz, "stats"), Stats)

    # ---- why, whether all is there, who works --------------------------------------------------

    def explain(self, biz: str, request_id: str) -> Explanation:
        """Why a request is where it is: every decision in its order, and where it stands now.

        Raises:
            NotFoundError: no such request, or it has expired.
        """
        return self._get(path_of(biz, "requests", request_id, "explain"), Explanation)

    def explain_url(self, biz: str, url: str, *, rule: str | None = None) -> UrlExplanation:
        """Why a URL was or was not crawled: its seeds, their last request, its page.

        ``rule`` looks for what is of that rule or spider alone.
        """
        params = parameters(url=url, rule=rule)
        return self._get(path_of(biz, "explain"), UrlExplanation, params)

    def ledger(self, biz: str, *, job: str | None = None) -> Ledger:
        """Where everything is that was ever submitted to the biz, or under one job of it."""
        return self._get(path_of(biz, "ledger"), Ledger, parameters(job=job))

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

    def coverage(self, biz: str) -> list[RuleCoverage]:
        """In how many records each field has a value, by rule; the version in force first."""
        return list(self._get(path_of(biz, "coverage"), CoverageAnswer).coverage)

    # ---- records -------------------------------------------------------------------------------

    def records(
        self,
        biz: str,
        *,
        request_id: str | None = None,
        cursor: str | None = None,
        follow: bool = False,
        page_size: int = PAGE_SIZE,
    ) -> Pages[Record]:
        """The records of a biz, or of one request, in the order they were stored; each once.

        A record with a key of its own comes again, under the same id, when it was replaced.

        Ends with the last record there is, or with ``follow`` goes on for ever. The iterator's
        ``cursor`` can be kept and given again to read on from there, in another process too; what
        comes twice then has the same ``id``.
        """
        path = path_of(biz, "records")
        params = parameters(request_id=request_id, limit=page_size)

        def read(at: str | None) -> tuple[tuple[Record, ...], str | None, bool]:
            page = self._get(path, RecordsPage, {**params, **parameters(cursor=at)})
            return page.records, page.cursor, page.more

        # One with a key of its own keeps its id when it is replaced, and is another one then.
        def state(record: Record) -> str:
            return record.id if "-" in record.id else f"{record.id} {record.stored_at}"

        return Pages(read, cursor, follow=follow, clock=self._clock, identity=state)

    # ---- the service ---------------------------------------------------------------------------

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
        """One look at the whole fleet: workers, bizs, hosts, parts.

        Raises:
            NotOperatorError: the key's tenant is no operator.
        """
        return self._get("/v1/fleet", Fleet)
