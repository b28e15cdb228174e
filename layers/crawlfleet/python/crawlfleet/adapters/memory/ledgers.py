"""The twin of MongoDB's ledgers, over what a request store in memory keeps."""
# ruff: noqa: ARG002  a look at what is there needs no clock

from collections import Counter
from datetime import datetime, timedelta
from typing import Final

from msgspec.structs import replace

from crawlfleet.adapters.memory.kept import KeptLane, KeptState
from crawlfleet.model.biz import Biz
from crawlfleet.model.lane import Lane
from crawlfleet.model.ledger import Correction, Ledger
from crawlfleet.model.request import FINAL_STATES, State

_TERMS: Final = ("submitted", "done", "dead", "cancelled", "expired")
#: The first flag of a biz's own states.
_OWN: Final = 100


class MemoryLedgers:
    """ports.Ledgers in memory."""

    def __init__(self, state: KeptState) -> None:
        self._state = state

    def totals(self, lane: Lane, biz: Biz, now: datetime, job: str | None = None) -> Ledger:
        """See ports.Ledgers.totals."""
        found = self.audit(lane, biz, now, job)
        rest = found.open - found.leased - found.waiting - found.others
        return replace(found, pending=max(0, rest))

    def audit(
        self,
        lane: Lane,
        biz: Biz,
        now: datetime,
        job: str | None = None,
        *,
        within_seconds: float | None = None,
    ) -> Ledger:
        """See ports.Ledgers.audit: what is in memory is counted at once."""
        with self._state.lock:
            return _ledger(self._state.of(lane), biz, job)

    def reconcile(self, lane: Lane, biz: Biz, now: datetime) -> list[Correction]:
        """See ports.Ledgers.reconcile."""
        grace = timedelta(seconds=biz.expiry_grace_seconds)
        with self._state.lock:
            kept = self._state.of(lane)
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
        return [Correction(lane=lane, term=term, count=count, why=why)]


def _missing(gap: int) -> tuple[str, int]:
    """What is to be booked: what has gone as expired; what was there before the ledger as new."""
    return ("expired", gap) if gap >= 0 else ("submitted", -gap)


def _ledger(kept: KeptLane, biz: Biz, job: str | None) -> Ledger:
    flags = Counter(
        int(one.state)
        for one in kept.requests.values()
        if one.state not in FINAL_STATES and (job is None or one.request.job == job)
    )
    terms = kept.counters.get(job, Counter[str]())
    own = {flag: flags[flag] for flag in sorted({*flags, *biz.states.values()}) if flag >= _OWN}
    return Ledger(
        **{term: terms[term] for term in _TERMS},
        pending=flags[State.PENDING],
        leased=flags[State.LEASED],
        waiting=flags[State.WAITING],
        others=sum(own.values()),
        own=own,
    )


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
