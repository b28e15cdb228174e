"""The spans of traced requests in a worker: queue, attempt, hops, reading, settling (SPEC.md H12).

Of most requests nothing is traced: that costs them one look at a field each.
"""

import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

from crawlfleet.crawling.fetching.models import HopGuard
from crawlfleet.kernel.page import Page
from crawlfleet.kernel.tracing import Span, Tracer
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.outcomes import Done, Outcome
from crawlfleet.requests.submission.service import submission_part


class AttemptTrace:
    """The times of one attempt of a traced request, as they are noted."""

    def __init__(self, leased: LeasedRequest, trace: str, now: Callable[[], float]) -> None:
        self._request, self._trace, self._now = leased.claim.request, trace, now
        self._attempt = leased.claim.attempt
        self._worker = leased.claim.token
        self._begun = now()
        self._hops: list[tuple[str, float]] = []
        self._fetched: tuple[float, int] | None = None
        self._ended: float | None = None

    def guarding(self, hop_guard: HopGuard) -> HopGuard:
        """Return the hop guard that also notes when each hop is sent."""

        async def noting(url: str) -> None:
            await hop_guard(url)
            self._hops.append((url, self._now()))

        return noting

    def fetched(self, page: Page) -> None:
        """Note that the page is there."""
        self._fetched = self._now(), page.status

    def ended(self) -> None:
        """Note that the attempt has ended, and waits for being settled."""
        self._ended = self._now()

    def spans(self, outcome: Outcome) -> list[Span]:
        """Return the spans of the attempt, now that its outcome is stored."""
        request, settled = self._request, self._now()
        ended = self._ended or settled
        arrived, status = self._fetched or (ended, 0)
        submission = submission_part(request.id)
        part = f"{request.id} attempt {self._attempt}"
        done = isinstance(outcome, Done)
        facts: dict[str, str | int | float] = {
            "request": str(request.id),
            "biz": f"{request.tenant}/{request.biz}",
            "lease": self._worker,
            "records": outcome.stored + len(outcome.records) if isinstance(outcome, Done) else 0,
        }
        error = None if isinstance(outcome, Done) else outcome.error

        def span(
            name: str,
            begun: float,
            end: float,
            parent: str,
            about: dict[str, str | int | float] | None = None,
        ) -> Span:
            return Span(
                trace=self._trace,
                part=f"{part} {name}",
                parent=parent,
                name=name,
                begun=begun,
                ended=end,
                facts=about or {},
            )

        found = [
            span("queue", request.queued_at.timestamp(), self._begun, submission),
            Span(
                trace=self._trace,
                part=part,
                parent=submission,
                name="attempt",
                begun=self._begun,
                ended=settled,
                facts=facts,
                error=error,
            ),
        ]
        ends = [at for _, at in self._hops[1:]] + [arrived]
        for number, ((url, begun), end) in enumerate(zip(self._hops, ends, strict=False)):
            about: dict[str, str | int | float] = {"url": url}
            if number == len(self._hops) - 1:
                about["status"] = status
            found.append(span(f"hop {number}", begun, end, part, about))
        if done or self._fetched is not None:
            found.append(span("read", arrived, ended, part))
        found.append(span("settle", ended, settled, part))
        return found


class Traces:
    """The traced requests in flight of one worker; ``now`` is the wall clock, in seconds."""

    def __init__(self, tracer: Tracer, now: Callable[[], float] = time.time) -> None:
        self._tracer, self._now = tracer, now
        # What is deferred, cancelled or lost ends without being settled, and goes by itself.
        self._open = WeakKeyDictionary[LeasedRequest, AttemptTrace]()

    def begin(self, leased: LeasedRequest) -> AttemptTrace | None:
        """Begin an attempt; None where the request is not traced, or nobody receives spans."""
        trace = leased.claim.request.trace
        if trace is None or not self._tracer.sends:
            return None
        found = self._open[leased] = AttemptTrace(leased, trace, self._now)
        return found

    def take(self, leased: LeasedRequest, outcome: Outcome | None) -> list[Span]:
        """End an attempt, and return its spans; none without an outcome of it."""
        found = self._open.pop(leased, None) if self._open else None
        return [] if found is None or outcome is None else found.spans(outcome)

    def send(self, spans: list[Span]) -> None:
        """Send spans."""
        self._tracer.send(spans)
