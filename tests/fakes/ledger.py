"""In-memory fakes count ledgers from the fake request store and keep the journal."""

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from tests.fakes.request_state import KeptQueue, KeptState
from tests.kit.config import Biz
from tests.kit.kernel import QueueKey, from_ms, to_ms
from tests.kit.requests import Correction, Coverage, JournalLine, Ledger, State, is_final

_TERMS: Final = ("submitted", "done", "dead", "cancelled", "expired")
#: The first flag of a biz's own states, and of those in which a request has ended.
_OWN: Final = 100
_OWN_FINAL: Final = 1_000


class MemoryLedgers:
    """In-memory ``MongoLedgers``."""

    def __init__(self, state: KeptState) -> None:
        self._state = state

    def totals(
        self, queue_key: QueueKey, biz: Biz, now: datetime, job: str | None = None
    ) -> Ledger:
        found = self.audit(queue_key, biz, now, job)
        return replace(found, pending=max(0, found.difference + found.pending))

    def audit(
        self,
        queue_key: QueueKey,
        biz: Biz,
        now: datetime,
        job: str | None = None,
        *,
        within_seconds: float | None = None,
    ) -> Ledger:
        """Audit at once what is in memory."""
        with self._state.lock:
            return _ledger(self._state.of(queue_key), biz, job)

    def counters(self, queue_key: QueueKey, biz: Biz, jobs: Iterable[str]) -> dict[str, Ledger]:
        with self._state.lock:
            kept = self._state.of(queue_key)
            found = {job: _ledger(kept, biz, job) for job in jobs}
        return {
            job: replace(
                one,
                pending=one.open,
                leased=0,
                waiting=0,
                own={flag: one.own[flag] if flag >= _OWN_FINAL else 0 for flag in one.own},
            )
            for job, one in found.items()
        }

    def coverage(self, queue_key: QueueKey, biz: Biz, job: str) -> dict[str, Coverage]:
        with self._state.lock:
            covered = self._state.of(queue_key).covered
            return {rule: found for (name, rule), found in covered.items() if name == job}

    def reconcile(self, queue_key: QueueKey, biz: Biz, now: datetime) -> list[Correction]:
        grace = timedelta(seconds=biz.expiry_grace_seconds)
        with self._state.lock:
            kept = self._state.of(queue_key)
            last, kept.swept = kept.swept, max(now, kept.swept or now)
            if last is not None and now - last <= grace:
                return []
            gap = _ledger(kept, biz, None).difference
            jobs = {kept.request.job for kept in kept.requests.values()} | set(kept.counters)
            gaps = {job: _ledger(kept, biz, job).difference for job in sorted(j for j in jobs if j)}
            if last is not None:
                gap = max(0, gap)
                gaps = {job: number for job, number in gaps.items() if number > 0}
            for job, number in [(None, gap), *gaps.items()]:
                term, count = _missing(number)
                kept.counters[job][term] += count
        if not gap and not any(gaps.values()):
            return []
        since = "until" if last is None else f"from {_time(last)} to"
        why = (
            f"the ledger begins at {_time(now)}: {-gap} of what is submitted was not counted"
            if gap < 0
            else f"{since} {_time(now)} no recovery looked; in that time {gap} were removed that "
            "were past their time and had not been processed"
        )
        term, count = _missing(gap)
        return [Correction(queue_key=queue_key, term=term, count=count, why=why)]


def _missing(gap: int) -> tuple[str, int]:
    """Book a gap: what has gone as expired, what was there before the ledger as new."""
    return ("expired", gap) if gap >= 0 else ("submitted", -gap)


def _ledger(kept: KeptQueue, biz: Biz, job: str | None) -> Ledger:
    flags = Counter(
        int(one.state)
        for one in kept.requests.values()
        if not is_final(one.state) and (job is None or one.request.job == job)
    )
    terms = kept.counters.get(job, Counter[str]())
    own = {flag: count for flag, count in flags.items() if _OWN <= flag < _OWN_FINAL}
    own |= {int(term[4:]): count for term, count in terms.items() if term.startswith("own.")}
    return Ledger(
        **{term: terms[term] for term in _TERMS},
        pending=flags[State.PENDING],
        leased=flags[State.LEASED],
        waiting=flags[State.WAITING],
        own={flag: own.get(flag, 0) for flag in sorted({*own, *biz.states.values()})},
    )


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


_LIFE: Final = timedelta(days=30)
_LONGEST_WHY: Final = 500
_LONGEST_NAME: Final = 128


class MemoryJournal:
    """In-memory ``MongoJournal`` that drops old lines when a line is noted, by that line's time."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], list[JournalLine]] = defaultdict(list)
        self._lock = threading.Lock()

    def note(self, queue_key: QueueKey, line: JournalLine) -> None:
        kept = JournalLine(
            at=from_ms(to_ms(line.at)),
            by=_clean(line.by, _LONGEST_NAME),
            kind=_clean(line.kind, _LONGEST_NAME),
            why=_clean(line.why, _LONGEST_WHY),
            count=line.count,
        )
        with self._lock:
            lines = self._lines[queue_key.tenant, queue_key.biz]
            oldest = kept.at - _LIFE
            lines[:] = [*(other for other in lines if other.at > oldest), kept]
            lines.sort(key=lambda other: other.at)

    def lines(
        self, queue_key: QueueKey, since: datetime, until: datetime, limit: int
    ) -> list[JournalLine]:
        with self._lock:
            lines = self._lines[queue_key.tenant, queue_key.biz]
            return [line for line in lines if since <= line.at < until][:limit]


def _clean(text: str, length: int) -> str:
    return text[:length].encode("utf-8", "replace").decode("utf-8")
