"""Explain why a request is where it is (SPEC.md H6): its timeline, its queue's journal, its state.

Each transition wrote who, when and why. The lines of the request and those of its queue's journal
become one chain; its present state (monitoring.explain.standing) comes with the facts that decide
what happens next. Redis away takes some of these facts with it, never the explanation.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import biz_of
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.kernel.errors import NotFoundError
from crawlfleet.kernel.ids import State, is_final, parse_id
from crawlfleet.monitoring.explain.limits import QuotaExplainer
from crawlfleet.monitoring.explain.standing import Case, Standing, standing_of
from crawlfleet.monitoring.shares import TenantShares
from crawlfleet.requests.models import Tracked
from crawlfleet.requests.mongo.ledger import MongoJournal
from crawlfleet.requests.mongo.store import MongoRequestStore
from crawlfleet.requests.queue.redis.queue import RedisQueue

#: Changes of state that the stores keep of a request, beside its submission.
KEPT_EVENTS: Final = 50
#: Lines of the queue's journal that are shown with one request.
JOURNAL_LINES: Final = 100
_TICK: Final = timedelta(milliseconds=1)


class StepKind(StrEnum):
    """The subject of a step: the request itself, its whole queue, a seed or a visit of its URL."""

    REQUEST = "request"
    QUEUE_KEY = "lane"
    SEED = "seed"
    VISIT = "visit"


class Step(msgspec.Struct, frozen=True):
    """A decision. ``state`` is what the request became by it; None where it stayed as it was.

    ``peers`` are the addresses that an attempt asked, one for each hop.
    """

    at: datetime
    kind: StepKind
    by: str
    why: str
    state: int | None = None
    peers: tuple[str, ...] = ()


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a request in the order of time; ``missing`` names what is not kept."""

    tracked: Tracked
    steps: tuple[Step, ...]
    standing: Standing
    missing: str | None = None


class UrlExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The steps of a URL: of its seeds, their last request and its page. ``keys`` are in hex."""

    url: str
    keys: tuple[str, ...]
    steps: tuple[Step, ...]
    standing: Standing
    missing: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestExplainer:
    """Explain requests by what the stores keep of them."""

    store: MongoRequestStore
    queue: RedisQueue
    journal: MongoJournal
    detector: RedisFailureDetector
    shares: TenantShares
    quotas: QuotaExplainer

    def explain(
        self, tree: Tree, tenant: str, biz_name: str, text: str, now: datetime
    ) -> Explanation:
        """Return the chain of decisions about one request, and its present state.

        Raises:
            NotFoundError: this tenant's biz has none of that id.
        """
        queue_key, biz = biz_of(tree, tenant, biz_name)
        request_id = parse_id(text)
        tracked = self.store.get(queue_key, biz, request_id)
        if tracked is None:
            raise NotFoundError(f"there is no request {request_id}")
        is_pending = tracked.state == State.PENDING
        over = self.quotas.used_up(tree, tracked.request, now) if is_pending else ()
        case = Case(
            *(self.queue, self.detector, self.shares, queue_key, biz, tree, tracked, now, over)
        )
        queue_steps = list(_of_the_queue(case, self.journal))
        missing = [_events_missing(tracked)]
        if len(queue_steps) > JOURNAL_LINES:
            del queue_steps[JOURNAL_LINES:]
            missing.append(f"only the first {JOURNAL_LINES} lines of the biz's journal are shown")
        return Explanation(
            tracked=tracked,
            steps=tuple(sorted((*_own(case), *queue_steps), key=lambda step: step.at)),
            standing=standing_of(case),
            missing="; ".join(filter(None, missing)) or None,
        )


def _own(case: Case) -> Iterator[Step]:
    submission, *later = case.tracked.timeline
    why = f"{submission.why} by {_submitter(case)}"
    yield Step(submission.at, StepKind.REQUEST, submission.by, why, submission.state)
    for event in later:
        yield Step(event.at, StepKind.REQUEST, event.by, event.why, event.state, event.peers)


def _submitter(case: Case) -> str:
    request = case.tracked.request
    job = "" if request.job is None else f", job {request.job}"
    return f"tenant {request.tenant}{job}"


def _of_the_queue(case: Case, journal: MongoJournal) -> Iterator[Step]:
    """Yield what happened to the whole queue during the request's life."""
    born = min(event.at for event in case.tracked.timeline)
    ended = case.last(case.tracked.state) if is_final(case.tracked.state) else None
    until = (case.now if ended is None else ended.at) + _TICK
    for line in journal.lines(case.queue_key, born, until, JOURNAL_LINES + 1):
        concerned = f" ({line.count:,} requests of this biz)" if line.count else ""
        yield Step(line.at, StepKind.QUEUE_KEY, line.by, f"{line.kind}: {line.why}{concerned}")


def _events_missing(tracked: Tracked) -> str | None:
    if len(tracked.timeline) - 1 < KEPT_EVENTS:
        return None
    kept = sum(event.state == State.LEASED for event in tracked.timeline)
    gone = tracked.attempts - kept
    attempts = f"; of {tracked.attempts} attempts the first {gone} are gone" if gone > 0 else ""
    return f"only the last {KEPT_EVENTS} changes are kept, there may have been more{attempts}"
