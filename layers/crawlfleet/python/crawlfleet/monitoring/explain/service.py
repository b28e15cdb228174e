"""Explain why a request is where it is (SPEC.md H6): its timeline, its queue's journal, its state.

Each transition wrote who, when and why. The lines of the request and those of its queue's journal
become one chain; its present state comes with the facts that decide what happens next. Redis away
takes some of these facts with it, never the explanation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from crawlfleet.config.documents.biz import Biz, DetectorLimits, Tree
from crawlfleet.config.lookup import biz_of, queue_key_of
from crawlfleet.fleet import failure_detector as liveness
from crawlfleet.fleet.models import Health, WorkerHealth
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.fleet.status import seen_from
from crawlfleet.kernel.errors import NotFoundError, StoreUnavailableError
from crawlfleet.kernel.ids import FINAL_STATES, State, parse_id
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import to_ms
from crawlfleet.requests.models import Event, Tracked
from crawlfleet.requests.mongo.ledger import MongoJournal
from crawlfleet.requests.mongo.store import MongoRequestStore
from crawlfleet.requests.queue.redis.queue import RedisQueue

#: What facts are made of.
Fact = str | int | float | bool | None


class StepKind(StrEnum):
    """The subject of a step: the request itself, its whole queue, a seed or a visit of its URL."""

    REQUEST = "request"
    QUEUE_KEY = "lane"
    SEED = "seed"
    VISIT = "visit"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A decision. ``state`` is what the request became by it; None where it stayed as it was."""

    at: datetime
    kind: StepKind
    by: str
    why: str
    state: int | None = None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The present state of a request: a sentence for people, its facts for programs."""

    sentence: str
    facts: dict[str, Fact]


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


#: Changes of state that the stores keep of a request, beside its submission.
KEPT_EVENTS: Final = 50
#: Lines of the queue's journal that are told with one request.
JOURNAL_LINES: Final = 100
_TICK: Final = timedelta(milliseconds=1)
#: For how long the queue counts what comes by the second.
_COUNTED_SECONDS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainingPorts:
    """The stores that explanations are read from."""

    store: MongoRequestStore
    queue: RedisQueue
    journal: MongoJournal
    detector: RedisFailureDetector


@dataclass(frozen=True, slots=True)
class _Case:
    """A request and the parts to ask about it."""

    ports: ExplainingPorts
    queue_key: QueueKey
    biz: Biz
    detector: DetectorLimits
    tracked: Tracked
    now: datetime

    def last(self, *states: int) -> Event | None:
        """Return the latest event of the timeline that led to one of the states."""
        found = (event for event in reversed(self.tracked.timeline) if event.state in states)
        return next(found, None)

    def ago(self, moment: datetime) -> float:
        """Return the seconds since a moment."""
        return max(0.0, (self.now - moment).total_seconds())


def explain(
    ports: ExplainingPorts, tree: Tree, tenant: str, biz_name: str, text: str, now: datetime
) -> Explanation:
    """Return the chain of decisions about one request, and its present state.

    Raises:
        NotFoundError: this tenant's biz has none of that id.
    """
    queue_key, biz = biz_of(tree, tenant, biz_name)
    request_id = parse_id(text)
    tracked = ports.store.get(queue_key, biz, request_id)
    if tracked is None:
        raise NotFoundError(f"there is no request {request_id}")
    case = _Case(ports, queue_key, biz, tree.stage.detector, tracked, now)
    queue_steps = list(_of_the_queue(case))
    missing = [_events_missing(tracked)]
    if len(queue_steps) > JOURNAL_LINES:
        del queue_steps[JOURNAL_LINES:]
        missing.append(f"only the first {JOURNAL_LINES} lines of the biz's journal are shown")
    return Explanation(
        tracked=tracked,
        steps=tuple(sorted((*_own(case), *queue_steps), key=lambda step: step.at)),
        standing=_standing(case),
        missing="; ".join(filter(None, missing)) or None,
    )


# ---- the chain -----------------------------------------------------------------------------------


def _own(case: _Case) -> Iterator[Step]:
    submission, *later = case.tracked.timeline
    yield Step(
        at=submission.at,
        kind=StepKind.REQUEST,
        by=submission.by,
        why=f"{submission.why} by {_submitter(case)}",
        state=submission.state,
    )
    for event in later:
        yield Step(
            at=event.at, kind=StepKind.REQUEST, by=event.by, why=event.why, state=event.state
        )


def _submitter(case: _Case) -> str:
    request = case.tracked.request
    job = "" if request.job is None else f", job {request.job}"
    return f"tenant {request.tenant}{job}"


def _of_the_queue(case: _Case) -> Iterator[Step]:
    """Yield what happened to the whole queue during the request's life."""
    born = min(event.at for event in case.tracked.timeline)
    ended = case.last(*FINAL_STATES) if case.tracked.state in FINAL_STATES else None
    until = (case.now if ended is None else ended.at) + _TICK
    for line in case.ports.journal.lines(case.queue_key, born, until, JOURNAL_LINES + 1):
        concerned = f" ({line.count:,} requests of this biz)" if line.count else ""
        yield Step(
            at=line.at,
            kind=StepKind.QUEUE_KEY,
            by=line.by,
            why=f"{line.kind}: {line.why}{concerned}",
        )


def _events_missing(tracked: Tracked) -> str | None:
    if len(tracked.timeline) - 1 < KEPT_EVENTS:
        return None
    reported = sum(event.state == State.LEASED for event in tracked.timeline)
    attempts = ""
    if tracked.attempts > reported:
        attempts = (
            f"; of {tracked.attempts} attempts the first {tracked.attempts - reported} are gone"
        )
    return f"only the last {KEPT_EVENTS} changes are kept, there may have been more{attempts}"


# ---- where it stands -----------------------------------------------------------------------------


def _standing(case: _Case) -> Standing:
    report = _REPORT.get(case.tracked.state)
    if report is None:
        own = {flag: name for name, flag in case.biz.states.items()}
        state = own.get(case.tracked.state, str(case.tracked.state))
        return Standing(
            sentence=f"It is {state}, a state of this biz's own: no worker takes it.",
            facts={"flag": case.tracked.state},
        )
    return report(case)


def _pending(case: _Case) -> Standing:
    since = (case.last(State.PENDING) or case.tracked.timeline[0]).at
    waited = case.ago(since)
    facts: dict[str, Fact] = {"waited_seconds": round(waited, 3)}
    sentence = f"It has been waiting to be worked on for {_span(waited)}"
    try:
        place, found = _place(case)
    except StoreUnavailableError as error:
        warn("the queue could not be asked", error)
        place, found = "the queue does not answer: it is queued again when it does", {}
    sentence, facts = f"{sentence}; {place}", facts | found
    if found:
        sentence += _who_lives(case, facts)
    return Standing(sentence=f"{sentence}.", facts=facts)


def _who_lives(case: _Case, facts: dict[str, Fact], when: str = "within a minute") -> str:
    """Say whether a worker is alive for it; nothing while Redis cannot be asked."""
    workers, pool = _workers(case), case.tracked.request.pool
    if pool is not None:
        facts["pool"] = pool
    if workers is None:
        return "" if pool is None else f"; workers of pool {pool} alone may do it"
    alive = sum(
        worker.health is Health.ALIVE and pool in {None, worker.worker_status.pool}
        for worker in workers
    )
    facts["workers_alive"] = alive
    if pool is not None:
        lives = f"{alive} of them live" if alive != 1 else "1 of them lives"
        starts = "" if alive else f": the scheduler starts one {when}, if there is such a pool"
        return f"; workers of pool {pool} alone may do it, and {lives}{starts}"
    if not alive:
        return f"; no worker lives: the scheduler starts one {when}"
    return "; 1 worker lives" if alive == 1 else f"; {alive} workers live"


def _place(case: _Case) -> tuple[str, dict[str, Fact]]:
    """Estimate how many are before it: those in the queue less what came after it.

    What came is known by the second, for the last minute; of older ones that is the most there are.
    """
    depth = case.ports.queue.depth(queue_key_of(case.queue_key, case.tracked.request.pool))
    own = to_ms(case.tracked.request.queued_at)
    bounds = (depth.heads.get(case.tracked.request.priority), depth.deferred_ts)
    oldest = min((bound for bound in bounds if bound is not None), default=None)
    if oldest is None or own < oldest:
        words = "it is next"
        if depth.heads.keys() - {case.tracked.request.priority}:
            words += " of its priority"
        words += ", or not queued: then recovery queues it within a minute"
        return words, {"queued": depth.queued, "before": 0}
    came, _ = case.ports.queue.per_second(case.queue_key, case.now)
    second, into = divmod(own, 1_000)
    after = sum(count for one, count in came.items() if one > second)
    after += round(came.get(second, 0) * (1 - into / 1_000))
    before = max(0, depth.queued - 1 - after)
    about = "roughly" if case.ago(case.tracked.request.queued_at) < _COUNTED_SECONDS else "at most"
    words = f"{about} {before:,} of {depth.queued:,} in the queue are before it"
    return words, {"queued": depth.queued, "before": before}


def _leased(case: _Case) -> Standing:
    claimed = case.last(State.LEASED)
    worker, until = case.tracked.worker or "?", case.tracked.due_at
    facts: dict[str, Fact] = {"worker": worker, "attempt": case.tracked.attempts}
    sentence = f"Worker {worker} works on it"
    if claimed is not None:
        facts["since"] = _at(claimed.at)
        sentence += f" since {_at(claimed.at)} ({_span(case.ago(claimed.at))})"
    if until is not None:
        facts["lease_until"] = _at(until)
        ended = until <= case.now
        sentence += f"; its lease {'ended' if ended else 'ends'} at {_at(until)}"
        sentence += ", so the next worker takes it" if ended else " unless it is renewed"
    workers = _workers(case)
    if workers is not None:
        known = next((one for one in workers if one.worker == worker), None)
        facts["worker_health"] = None if known is None else known.health.value
        if known is None:
            sentence += "; that worker is not known (any more): recovery takes its work back"
        else:
            facts["worker_phi"] = round(known.phi, 2)
            facts["worker_silent_seconds"] = round(known.beat_ms / 1000, 3)
            sentence += f"; that worker is {known.health.value} (phi {known.phi:.1f})"
            if known.health is Health.UNWATCHED:
                sentence += (
                    f": its last beat was {_span(known.beat_ms / 1000)} ago, and nobody has "
                    "watched since; if it stays silent the minute's tick takes its work back"
                )
            if known.health is Health.DEAD:
                sentence += ": its work goes back to the queue with the next check"
    return Standing(sentence=f"{sentence}.", facts=facts)


def _waiting(case: _Case) -> Standing:
    tracked = case.tracked
    facts = {**_failure(tracked), "max_attempts": case.biz.retry.max_attempts}
    sentence = f"Attempt {tracked.attempts} of {case.biz.retry.max_attempts} failed"
    if tracked.due_at is None:
        return Standing(sentence=f"{sentence}: {tracked.error}.", facts=facts)
    facts["due_at"] = _at(tracked.due_at)
    lives = _who_lives(case, facts, "within a minute of that")
    left = (tracked.due_at - case.now).total_seconds()
    when = f"in {_span(left)}" if left > 0 else "now: the next free worker takes it"
    return Standing(
        sentence=f"{sentence}: {tracked.error}; the next is due at {_at(tracked.due_at)}, "
        f"{when}{lives}.",
        facts=facts,
    )


def _done(case: _Case) -> Standing:
    tracked, ended = case.tracked, case.last(State.DONE)
    facts: dict[str, Fact] = {
        "records": tracked.records,
        "attempts": tracked.attempts,
        "worker": tracked.worker,
    }
    records = "1 record" if tracked.records == 1 else f"{tracked.records:,} records"
    sentence = f"It was read in attempt {tracked.attempts} and gave {records}"
    if ended is not None:
        facts["at"] = _at(ended.at)
        took = (ended.at - tracked.request.queued_at).total_seconds()
        facts["took_seconds"] = round(max(0.0, took), 3)
        sentence += f", at {_at(ended.at)}, {_span(took)} after it was queued"
    return Standing(sentence=f"{sentence}.", facts=facts)


def _dead(case: _Case) -> Standing:
    tracked, ended = case.tracked, case.last(State.DEAD)
    facts = _failure(tracked)
    attempts = "1 attempt" if tracked.attempts == 1 else f"{tracked.attempts} attempts"
    sentence = f"It was given up on after {attempts}"
    if ended is not None:
        facts["at"] = _at(ended.at)
        sentence += f", at {_at(ended.at)}"
    sentence += f": {tracked.error or tracked.reason or 'no reason was noted'}"
    if tracked.answer is not None and tracked.answer.status:
        sentence += f"; the site's last answer was {tracked.answer.status}"
    do = f"crawlfleet dead replay {case.queue_key.biz} {tracked.request.id}"
    return Standing(
        sentence=f"{sentence}. When its cause is mended, have it worked on again: {do}",
        facts=facts,
    )


def _cancelled(case: _Case) -> Standing:
    ended = case.last(State.CANCELLED)
    if ended is None:
        return Standing(sentence="It was cancelled.", facts={})
    return Standing(
        sentence=f"It was cancelled by {ended.by} at {_at(ended.at)}.",
        facts={"by": ended.by, "at": _at(ended.at)},
    )


def _expired(case: _Case) -> Standing:
    ended = case.last(State.EXPIRED)
    facts: dict[str, Fact] = {"ttl_seconds": case.biz.ttl_seconds}
    if ended is not None:
        facts["at"] = _at(ended.at)
    life = _span(case.biz.ttl_seconds)
    return Standing(
        sentence=f"It was not worked on within {life}, the time that this biz gives a request, "
        "and is counted as expired; submit it again if it is still wanted.",
        facts=facts,
    )


_REPORT: Final[dict[int, Callable[[_Case], Standing]]] = {
    State.PENDING: _pending,
    State.LEASED: _leased,
    State.WAITING: _waiting,
    State.DONE: _done,
    State.DEAD: _dead,
    State.CANCELLED: _cancelled,
    State.EXPIRED: _expired,
}


# ---- words ---------------------------------------------------------------------------------------


def _workers(case: _Case) -> list[WorkerHealth] | None:
    """Return the workers as this tenant may see them; None while Redis cannot be asked."""
    try:
        heartbeats = case.ports.detector.heartbeats()
    except StoreUnavailableError as error:
        warn("the live workers could not be read", error)
        return None
    return [
        seen_from(case.queue_key, liveness.status(beats, case.detector)) for beats in heartbeats
    ]


def _failure(tracked: Tracked) -> dict[str, Fact]:
    answer = tracked.answer
    return {
        "reason": tracked.reason,
        "error": tracked.error,
        "attempts": tracked.attempts,
        "status": None if answer is None else answer.status,
        "answered_url": None if answer is None else answer.url,
    }


def _at(moment: datetime) -> str:
    """Write a moment to the second; the chain has it to the millisecond.

    >>> _at(datetime.fromisoformat("2026-01-01T00:00:00.123Z"))
    '2026-01-01T00:00:00Z'
    """
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _span(seconds: float) -> str:
    """Write a length of time in the two largest units that it has.

    >>> [_span(each) for each in (0.25, 59, 61, 7200, 90_000)]
    ['0.2 s', '59 s', '1 min 1 s', '2 h', '1 d 1 h']
    """
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    parts, left = [], int(seconds)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts[:2])
