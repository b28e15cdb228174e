"""Terms of jobs, as one worker knows them: looked up, remembered, looked up again."""

import math
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from crawlfleet.fleet.quotas.models import JobTerms, Terms
from crawlfleet.kernel.errors import StoreError
from crawlfleet.kernel.time import SteadyTime

#: What a job says of quotas is looked up again after this, if nobody says before that they are
#: others: all of ten thousand workers ask the home node sixteen times a second. Where a limit of it
#: is used up it may have been raised just now.
TERMS_SECONDS: Final = 600.0
FRESH_SECONDS: Final = 5.0
#: A job that is not known is looked up again after this.
UNKNOWN_SECONDS: Final = 30.0
#: Jobs whose terms are remembered.
MOST_JOBS: Final = 5_000

JobName: TypeAlias = tuple[str, str, str]
Threaded: TypeAlias = Callable[..., Awaitable[Any]]


class KnownTerms:
    """The terms of jobs. Threads may share it, but for :meth:`of`, which is the event loop's."""

    def __init__(self, look_up: Terms, threaded: Threaded, steady: SteadyTime) -> None:
        self._look_up, self._threaded, self._steady = look_up, threaded, steady
        self._known: dict[JobName, tuple[float, JobTerms | None]] = {}
        # Since when what is known of a job is not to be relied on.
        self._changed: dict[JobName, float] = {}

    async def of(self, job: JobName, *, fresh: bool = False) -> JobTerms | None:
        """Return what a job says of quotas; ``fresh`` is what it said a moment ago."""
        lasts = FRESH_SECONDS if fresh else math.inf
        looked_at, known = self._known.get(job, (-math.inf, None))
        if self._is_known(job, looked_at, min(lasts, _lasts(known))):
            return known
        found: JobTerms | None = await self._threaded(self.now, *job, lasts=lasts)
        return found

    def _is_known(self, job: JobName, looked_at: float, lasts: float) -> bool:
        is_changed = looked_at <= self._changed.get(job, -math.inf)
        return not is_changed and self._steady.now() - looked_at < lasts

    def note(self, job: JobName) -> None:
        """Note that a job's quotas were replaced: they are looked up before they are used again."""
        now = self._steady.now()
        kept = {one: at for one, at in self._changed.items() if now - at < TERMS_SECONDS}
        self._changed = {**kept, job: now}

    def fresh(self, *job: str) -> JobTerms | None:
        """Look up what a job says of quotas, unless that was done a moment ago. Blocks."""
        return self.now(*job, lasts=FRESH_SECONDS)

    def now(self, *job: str, lasts: float = math.inf) -> JobTerms | None:
        """Return what a job says of quotas; where it cannot be looked up, what it said. Blocks."""
        tenant, biz, name = job
        key, now = (tenant, biz, name), self._steady.now()
        looked_at, known = self._known.get(key, (-math.inf, None))
        if self._is_known(key, looked_at, min(lasts, _lasts(known))):
            return known
        try:
            found = self._look_up(*key)
        except StoreError:
            if known is None:
                raise
            found = known
        terms = {**self._known} if len(self._known) < MOST_JOBS else {}
        self._known = {**terms, key: (now, found)}
        return found


def _lasts(terms: JobTerms | None) -> float:
    """Return for how long what is known of a job stands."""
    return UNKNOWN_SECONDS if terms is None else TERMS_SECONDS
