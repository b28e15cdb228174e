"""Park requests whose job's or user's limit is used up, by the limit's account (SPEC.md D9).

They wait in a list of the account, as others wait in a list of their host: before they have a slot
there, and however many they are they cost one look, a minute after the last one or when the period
ends. Limits of a whole biz or tenant need none of this: nothing is leased under them. What a limit
ends, of whomever it is, ends without a slot, too.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.quota import AtLimit
from crawlfleet.crawling.politeness.client import Waiting
from crawlfleet.fleet.quotas.models import (
    NO_TERMS,
    Limit,
    Scope,
    Standing,
    Terms,
    account_at,
    described,
    for_biz,
    limit_of,
    limits_of,
)
from crawlfleet.fleet.quotas.service import QuotaLedgers
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import QueueKey
from crawlfleet.kernel.time import Clock, SteadyTime
from crawlfleet.requests.leased import LeasedRequest
from crawlfleet.requests.outcomes import OVER_QUOTA, Dead

#: An account is looked at again after this: its limit may be raised.
LOOK_AGAIN: Final = timedelta(minutes=1)
#: What was read of an account is good for so long.
OVER_SECONDS: Final = 5.0
#: Accounts that are remembered.
MOST_ACCOUNTS: Final = 5_000
_OWN: Final = (Scope.USER, Scope.JOB)


def until_of(standing: Standing, now: datetime) -> datetime:
    """Return when an account that is used up is looked at again: the end of its period, or soon.

    >>> from datetime import UTC
    >>> from crawlfleet.config.documents.quota import Quota, QuotaPeriod, QuotaUnit
    >>> from crawlfleet.fleet.quotas.models import Account, window_of
    >>> quota = Quota(unit=QuotaUnit.REQUESTS, most=1, per=QuotaPeriod.DAY)
    >>> limit = Limit(Account("acme", Scope.USER, "ann", quota.unit, quota.per), quota, "quotas[0]")
    >>> late = datetime(2026, 3, 1, 23, 59, 30, tzinfo=UTC)
    >>> until_of(Standing(limit=limit, window=window_of(quota.per, late)), late).isoformat()
    '2026-03-02T00:00:00+00:00'
    """
    again, ends_at = now + LOOK_AGAIN, standing.window.ends_at
    return again if ends_at is None else min(again, max(now + timedelta(seconds=1), ends_at))


class Parking:
    """The parked requests of one worker's queues. Its methods block.

    ``holds`` tells whether the worker has a share of a limit left: then it is not used up.
    ``terms`` are what is known of jobs, and what they say now. ``for_biz`` says what a request
    needs of an account at this worker.
    """

    def __init__(
        self,
        ledgers: QuotaLedgers,
        tree: Callable[[], Tree],
        terms: tuple[Terms, Terms],
        holds: Callable[[Limit], bool],
        clock: Clock,
        steady: SteadyTime,
        for_biz: Callable[..., Standing] = for_biz,
    ) -> None:
        self._for_biz = for_biz
        self._ledgers, self._tree, self._holds = ledgers, tree, holds
        self._terms, self._fresh = terms
        self._clock, self._now = clock, steady.now
        self._known: dict[Limit, tuple[float, Standing]] = {}

    def over(self, biz: Biz, leased: Sequence[LeasedRequest]) -> list[Waiting]:
        """Find what of leased requests of a biz waits for a limit that is used up, by the limit.

        What such a limit ends gets its outcome. Where that cannot be read nothing waits, and
        nothing ends: whoever begins it asks again.
        """
        found = self._over(biz, leased, self._terms)
        if any(standing.limit.account.scope is Scope.JOB for standing, _ in found):
            # A job's own may have been raised since it was looked up.
            found = self._over(biz, leased, self._fresh)
        waiting = []
        for standing, part in found:
            if standing.limit.quota.at_limit is AtLimit.WAIT:
                waiting.append(parked(standing, part, self._clock()))
                continue
            for one in part:
                one.ended = ended(standing)
        return waiting

    def _over(
        self, biz: Biz, leased: Sequence[LeasedRequest], terms: Terms
    ) -> list[tuple[Standing, list[LeasedRequest]]]:
        by_owner: dict[tuple[str | None, str | None], list[LeasedRequest]] = {}
        for one in leased:
            request = one.claim.request
            by_owner.setdefault((request.user, request.job), []).append(one)
        by_limits: dict[tuple[Limit, ...], list[LeasedRequest]] = {}
        for part in by_owner.values():
            if limits := self._limits_of(part[0], terms):
                by_limits.setdefault(limits, []).extend(part)
        if not by_limits:
            return []
        standings = self._standings({limit for limits in by_limits for limit in limits})
        stage = self._tree().stage
        found: dict[Limit, list[LeasedRequest]] = {}
        for limits, part in by_limits.items():
            for limit in limits:
                if limit in standings and self._for_biz(standings[limit], stage, biz).is_used_up:
                    found.setdefault(limit, []).extend(part)
                    break
        return [(standings[limit], part) for limit, part in found.items()]

    def again_at(
        self, queue_key: QueueKey, biz: Biz, sites: Sequence[str]
    ) -> dict[str, datetime | None]:
        """Return when lists of accounts are looked at again; None where work goes on.

        It goes on where there is no such limit any more, too.
        """
        now, found = self._clock(), dict.fromkeys(sites)
        try:
            limits = {
                site: limit
                for site in sites
                if (account := account_at(queue_key.tenant, site)) is not None
                and (limit := limit_of(self._tree(), account, self._fresh)) is not None
            }
            standings = self._ledgers.standings(list(limits.values()), now)
        except StoreUnavailableError as error:
            warn("how much of a quota is used could not be asked", error)
            return dict.fromkeys(sites, now + LOOK_AGAIN)
        for (site, limit), standing in zip(limits.items(), standings, strict=True):
            self._remember(limit, standing)
            own = self._for_biz(standing, self._tree().stage, biz)
            found[site] = until_of(own, now) if own.is_used_up else None
        return found

    def _remember(self, limit: Limit, standing: Standing) -> None:
        while len(self._known) >= MOST_ACCOUNTS:
            del self._known[next(iter(self._known))]
        self._known[limit] = self._now(), standing

    def _limits_of(self, one: LeasedRequest, look_up: Terms) -> tuple[Limit, ...]:
        """Return the limits that end a request, and those of its job and user at which it waits."""
        tenant, biz, request = one.queue_key.tenant, one.queue_key.biz, one.claim.request
        terms = None if request.job is None else look_up(tenant, biz, request.job)
        limits = limits_of(self._tree(), tenant, biz, request.user, request.job, terms or NO_TERMS)
        return tuple(
            limit
            for limit in limits
            if limit.account.scope in _OWN or limit.quota.at_limit is AtLimit.END
        )

    def _standings(self, limits: set[Limit]) -> dict[Limit, Standing]:
        now, clock = self._now(), self._clock()
        found: dict[Limit, Standing] = {}
        unknown = []
        for limit in limits:
            looked_at, known = self._known.get(limit, (0.0, None))
            ends_at = None if known is None else known.window.ends_at
            is_over = ends_at is not None and ends_at <= clock
            if known is not None and now - looked_at < OVER_SECONDS and not is_over:
                found[limit] = known
            elif not self._holds(limit):
                unknown.append(limit)
        try:
            read = self._ledgers.standings(unknown, clock)
        except StoreUnavailableError as error:
            warn("how much of quotas is used could not be asked", error)
            return found
        for limit, standing in zip(unknown, read, strict=True):
            self._remember(limit, standing)
            found[limit] = standing
        return found


def ended(standing: Standing) -> Dead:
    """End a request at a limit that is used up."""
    return Dead(described(standing)[:500], OVER_QUOTA)


def parked(standing: Standing, leased: Sequence[LeasedRequest], now: datetime) -> Waiting:
    """Have requests wait for a limit that is used up, in the list of its account."""
    place, said = standing.limit.account.place, f"deferred: {described(standing)}"[:500]
    return Waiting(place, leased, until_of(standing, now), "quota", said)
