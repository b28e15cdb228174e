"""Say where a request stands (SPEC.md H6): a sentence a state, and the facts behind it.

A table gives each state its sentence: what was decided, by whom, and what happens next. What stores
that do not answer would have told is left out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.lookup import queue_key_of
from crawlfleet.fleet import failure_detector as liveness
from crawlfleet.fleet.models import Health, WorkerHealth
from crawlfleet.fleet.quotas.models import Standing as QuotaStanding
from crawlfleet.fleet.quotas.models import described
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.fleet.status import seen_from
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.ids import OWN_FINAL, State
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import to_ms
from crawlfleet.monitoring.explain.limits import Fact, facts_of, said_of_share
from crawlfleet.monitoring.shares import TenantShares
from crawlfleet.requests.models import Event, Tracked
from crawlfleet.requests.outcomes import ROBOTS_DENIED, replay_of
from crawlfleet.requests.queue.redis.queue import RedisQueue

#: For how long the queue counts what comes by the second.
_COUNTED_SECONDS: Final = 60


class Standing(msgspec.Struct, frozen=True):
    """The present state of a request: a sentence for people, its facts for programs."""

    sentence: str
    facts: dict[str, Fact]


@dataclass(frozen=True, slots=True)
class Case:
    """A request and the stores to ask about it."""

    queue: RedisQueue
    detector: RedisFailureDetector
    shares: TenantShares
    queue_key: QueueKey
    biz: Biz
    tree: Tree
    tracked: Tracked
    now: datetime
    over: tuple[QuotaStanding, ...] = ()

    def last(self, *states: int) -> Event | None:
        """Return the latest event of the timeline that led to one of the states."""
        found = (event for event in reversed(self.tracked.timeline) if event.state in states)
        return next(found, None)

    def ago(self, moment: datetime) -> float:
        """Return the seconds since a moment."""
        return max(0.0, (self.now - moment).total_seconds())


def standing_of(case: Case) -> Standing:
    """Say where a request stands; states of a biz's own are told by its configuration."""
    standing = _STANDINGS.get(case.tracked.state)
    if standing is None:
        return _in_own_state(case)
    return standing(case)


def _in_own_state(case: Case) -> Standing:
    flag = case.tracked.state
    own = {number: name for name, number in case.biz.states.items()}
    name, changed = own.get(flag, str(flag)), case.last(flag)
    facts: dict[str, Fact] = {"flag": flag, "final": flag >= OWN_FINAL}
    sentence = f"It is {name}, a state of this biz's own"
    if changed is not None:
        facts |= {"by": changed.by, "at": at_second(changed.at)}
        sentence += f", since {at_second(changed.at)} by {changed.by}"
    if flag >= OWN_FINAL:
        sentence += ": it has ended"
    else:
        sentence += ": it is open, and no worker takes it; it expires as others do"
    if afters := case.biz.transitions.get(name, ()):
        facts["may_become"] = ", ".join(afters)
        sentence += f". It may be made {' or '.join(afters)}"
    return Standing(f"{sentence}.", facts)


def _pending(case: Case) -> Standing:
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
    if case.over:
        facts |= facts_of(case.over[0])
        return Standing(f"{sentence}; {'; '.join(map(described, case.over))}.", facts)
    if found:
        sentence += _who_lives(case, facts)
        sentence += said_of_share(case.shares, case.tree, case.queue_key.tenant, case.now, facts)
    return Standing(f"{sentence}.", facts)


def _who_lives(case: Case, facts: dict[str, Fact], when: str = "within a minute") -> str:
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


def _place(case: Case) -> tuple[str, dict[str, Fact]]:
    """Estimate how many are before it: those in the queue less what came after it.

    What came is known by the second, for the last minute; of older ones that is the most there are.
    """
    depth = case.queue.depth(queue_key_of(case.queue_key, case.tracked.request.pool))
    own = to_ms(case.tracked.request.queued_at)
    bounds = (depth.heads.get(case.tracked.request.priority), depth.deferred_ts)
    oldest = min((bound for bound in bounds if bound is not None), default=None)
    if oldest is None or own < oldest:
        words = "it is next"
        if depth.heads.keys() - {case.tracked.request.priority}:
            words += " of its priority"
        words += ", or not queued: then recovery queues it within a minute"
        return words, {"queued": depth.queued, "before": 0}
    came, _ = case.queue.per_second(case.queue_key, case.now)
    second, into = divmod(own, 1_000)
    after = sum(count for one, count in came.items() if one > second)
    after += round(came.get(second, 0) * (1 - into / 1_000))
    before = max(0, depth.queued - 1 - after)
    about = "roughly" if case.ago(case.tracked.request.queued_at) < _COUNTED_SECONDS else "at most"
    words = f"{about} {before:,} of {depth.queued:,} in the queue are before it"
    return words, {"queued": depth.queued, "before": before}


def _leased(case: Case) -> Standing:
    claimed = case.last(State.LEASED)
    worker, until = case.tracked.worker or "?", case.tracked.due_at
    facts: dict[str, Fact] = {"worker": worker, "attempt": case.tracked.attempts}
    sentence = f"Worker {worker} works on it"
    if claimed is not None:
        facts["since"] = at_second(claimed.at)
        sentence += f" since {at_second(claimed.at)} ({_span(case.ago(claimed.at))})"
    if until is not None:
        facts["lease_until"] = at_second(until)
        ended = until <= case.now
        sentence += f"; its lease {'ended' if ended else 'ends'} at {at_second(until)}"
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
                    "watched since; if it stays silent the next tick takes its work back"
                )
            if known.health is Health.DEAD:
                sentence += ": its work goes back to the queue with the next check"
    return Standing(f"{sentence}.", facts)


def _waiting(case: Case) -> Standing:
    tracked = case.tracked
    facts = {**_failure(tracked), "max_attempts": case.biz.retry.max_attempts}
    sentence = f"Attempt {tracked.attempts} of {case.biz.retry.max_attempts} failed"
    if tracked.due_at is None:
        return Standing(f"{sentence}: {tracked.error}.", facts)
    facts["due_at"] = at_second(tracked.due_at)
    lives = _who_lives(case, facts, "within a minute of that")
    left = (tracked.due_at - case.now).total_seconds()
    when = f"in {_span(left)}" if left > 0 else "now: the next free worker takes it"
    sentence += f": {tracked.error}; the next is due at {at_second(tracked.due_at)}, {when}{lives}."
    return Standing(sentence, facts)


def _done(case: Case) -> Standing:
    tracked, ended = case.tracked, case.last(State.DONE)
    facts: dict[str, Fact] = {"records": tracked.records, "attempts": tracked.attempts}
    facts["worker"] = tracked.worker
    records = "1 record" if tracked.records == 1 else f"{tracked.records:,} records"
    sentence = f"It was read in attempt {tracked.attempts} and gave {records}"
    if ended is not None:
        facts["at"] = at_second(ended.at)
        took = (ended.at - tracked.request.queued_at).total_seconds()
        facts["took_seconds"] = round(max(0.0, took), 3)
        sentence += f", at {at_second(ended.at)}, {_span(took)} after it was queued"
    return Standing(f"{sentence}.", facts)


def _dead(case: Case) -> Standing:
    tracked, ended = case.tracked, case.last(State.DEAD)
    facts = _failure(tracked)
    attempts = "1 attempt" if tracked.attempts == 1 else f"{tracked.attempts} attempts"
    sentence = f"It was given up on after {attempts}"
    if ended is not None:
        facts["at"] = at_second(ended.at)
        sentence += f", at {at_second(ended.at)}"
    sentence += f": {tracked.error or tracked.reason or 'no reason was noted'}"
    if tracked.answer is not None and tracked.answer.status:
        sentence += f"; the site's last answer was {tracked.answer.status}"
    if tracked.reason == ROBOTS_DENIED:
        return Standing(f"{sentence}. It would end so again while the site forbids it.", facts)
    do = replay_of(case.queue_key.biz, tracked.request.id, tracked.reason or "")
    again = f"When its cause is mended, have it worked on again: `{do}`."
    return Standing(f"{sentence}. {again}", facts)


def _cancelled(case: Case) -> Standing:
    ended = case.last(State.CANCELLED)
    if ended is None:
        return Standing("It was cancelled.", {})
    facts: dict[str, Fact] = {"by": ended.by, "at": at_second(ended.at)}
    return Standing(f"It was cancelled by {ended.by} at {at_second(ended.at)}.", facts)


def _expired(case: Case) -> Standing:
    ended = case.last(State.EXPIRED)
    facts: dict[str, Fact] = {"ttl_seconds": case.biz.ttl_seconds}
    if ended is not None:
        facts["at"] = at_second(ended.at)
    life = _span(case.biz.ttl_seconds)
    sentence = f"It was not worked on within {life}, the time that this biz gives a request, "
    sentence += "and is counted as expired; submit it again if it is still wanted."
    return Standing(sentence, facts)


_STANDINGS: Final[dict[int, Callable[[Case], Standing]]] = {
    State.PENDING: _pending,
    State.LEASED: _leased,
    State.WAITING: _waiting,
    State.DONE: _done,
    State.DEAD: _dead,
    State.CANCELLED: _cancelled,
    State.EXPIRED: _expired,
}


def _workers(case: Case) -> list[WorkerHealth] | None:
    """Return the workers as this tenant may see them; None while Redis cannot be asked."""
    try:
        heartbeats = case.detector.heartbeats()
    except StoreUnavailableError as error:
        warn("the live workers could not be read", error)
        return None
    return [
        seen_from(case.queue_key, liveness.status(beats, case.tree.stage.detector))
        for beats in heartbeats
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


def at_second(moment: datetime) -> str:
    """Write a moment to the second; the chain has it to the millisecond.

    >>> at_second(datetime.fromisoformat("2026-01-01T00:00:00.123Z"))
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
