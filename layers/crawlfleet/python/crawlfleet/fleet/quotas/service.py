"""Grant shares of quotas, under ceilings that outlive Redis, and say how accounts stand."""

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from crawlfleet.config.documents.biz import Tree
from crawlfleet.fleet.quotas.models import (
    Ask,
    Booked,
    Limit,
    Standing,
    TermsOfOpen,
    Window,
    every_limit,
    for_tenant,
    limits_at,
    limits_of_jobs,
    window_of,
)
from crawlfleet.fleet.quotas.mongo import Ceiling, MongoCeilings
from crawlfleet.fleet.quotas.redis import Exchange, RedisQuotaLedgers
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.log import warn

#: A ceiling is raised by this part of the limit beyond what is wanted: what Redis loses is no more.
TRANCHE_PART: Final = 0.005
#: A ledger that does not hear for so long of the ceiling that MongoDB has is replaced: who raised
#: it has died before it could tell, or Redis was set back.
UNHEARD: Final = timedelta(seconds=5)


def ceiling_for(short_of: int, most: int) -> int:
    """Compute how far to raise a ceiling so that a wish can be granted.

    >>> ceiling_for(100, 1_000), ceiling_for(999, 1_000), ceiling_for(1_200, 1_000)
    (105, 1000, 1200)
    """
    return max(short_of, min(most, short_of + math.ceil(most * TRANCHE_PART)))


class Wish(NamedTuple):
    """A wish of a holder to an account, whose ledger it knows by ``nonce``: "" before the first."""

    limit: Limit
    window: Window
    nonce: str
    ask: Ask


class Reply(NamedTuple):
    """An amount booked by the ledger of this nonce; None where it was another one until now."""

    nonce: str
    booked: Booked | None


class _Unheard(NamedTuple):
    ceiling: Ceiling
    since: datetime


@dataclass(frozen=True, slots=True)
class QuotaLedgers:
    """The ledgers of accounts and their ceilings, for one holder or one reader. It blocks."""

    redis: RedisQuotaLedgers
    ceilings: MongoCeilings
    # Ceilings that were raised here, until their ledgers have heard of them.
    _raised: dict[str, Ceiling] = field(default_factory=dict)
    # Ceilings of MongoDB that a ledger was found not to know.
    _unheard: dict[str, _Unheard] = field(default_factory=dict)

    def exchange(self, holder: str, wishes: Sequence[Wish], now: datetime) -> list[Reply]:
        """Tell what was spent and get shares, of accounts of one tenant in one round trip.

        Where a wish is above the ceiling that is raised, for the next exchange; where that cannot
        be, because MongoDB is away, what is below it is granted.

        Raises:
            StoreUnavailableError: Redis does not answer. Whether it has booked what it was told
                does not matter, as the next exchange tells all of it again.
        """
        each = []
        for limit, window, nonce, ask in wishes:
            raised = self._raised.get(limit.account.path(window))
            told = raised.given if raised is not None and raised.nonce == nonce else 0
            each.append(Exchange(limit, window, nonce, ask, told))
        answers = self.redis.exchange(holder, each)
        return [self._reply(one, answer, now) for one, answer in zip(each, answers, strict=True)]

    def _reply(self, one: Exchange, answer: Booked | str, now: datetime) -> Reply:
        if isinstance(answer, str):
            return Reply(answer or self._opened(one, "", now), None)
        path = one.limit.account.path(one.window)
        raised = self._raised.get(path)
        if raised is not None and (raised.nonce != one.nonce or answer.ceiling >= raised.given):
            del self._raised[path]
        if answer.short_of > answer.ceiling:
            try:
                return Reply(self._raise(one, answer, path, now), answer)
            except StoreUnavailableError as error:
                warn("the ceiling of a quota could not be raised", error)
        return Reply(one.nonce, answer)

    def _raise(self, one: Exchange, answer: Booked, path: str, now: datetime) -> str:
        """Raise a ceiling; return the nonce of the ledger to go on with."""
        known = Ceiling(one.nonce, answer.ceiling)
        wanted = ceiling_for(answer.short_of, one.limit.quota.amount)
        if self.ceilings.raise_to(one.limit, one.window, known, wanted, now):
            self._raised[path] = Ceiling(one.nonce, wanted)
            return one.nonce
        (standing,) = self.ceilings.read([(one.limit, one.window)])
        if standing is None or standing.nonce != one.nonce:
            return self._opened(one, one.nonce, now)
        before = self._unheard.get(path)
        if before is None or before.ceiling != standing:
            # Another one has raised it, and is about to tell the ledger.
            self._unheard[path] = _Unheard(standing, now)
            return one.nonce
        if now - before.since < UNHEARD:
            return one.nonce
        del self._unheard[path]
        return self._opened(one, one.nonce, now)

    def _opened(self, one: Exchange, stale: str, now: datetime) -> str:
        fresh = secrets.token_hex(8)
        nonce, used = self.ceilings.open(one.limit, one.window, fresh, stale, now)
        return self.redis.open(one.limit, one.window, nonce, used, stale)

    def used_up(self, tree: Tree, now: datetime, jobs: TermsOfOpen | None = None) -> list[Standing]:
        """Read which quotas of tenants, users, bizs and open ``jobs`` nothing can begin under.

        Of jobs, and of users without quotas of their own, those are known that workers had too
        little left of.
        """
        limits = dict.fromkeys(every_limit(tree))
        for tenant in sorted(tree.tenants.keys() | tree.bizs.keys()):
            document = tree.tenants.get(tenant)
            has_users = document is not None and bool(document.user_quotas)
            paths = self.redis.used_up(tenant) if has_users or jobs is not None else []
            if has_users:
                limits |= dict.fromkeys(limits_at(tree, tenant, paths, now))
            if jobs is not None:
                limits |= dict.fromkeys(limits_of_jobs(tree, tenant, paths, jobs, now))
        found = (for_tenant(one, tree) for one in self.standings(list(limits), now))
        return [standing for standing in found if standing.is_used_up]

    def standings(self, limits: Sequence[Limit], now: datetime) -> list[Standing]:
        """Read how accounts stand in their present periods.

        Of one whose ledger Redis has lost, all that it may have granted counts as used.

        Raises:
            StoreUnavailableError: Redis does not answer, or MongoDB where it is needed.
        """
        if not limits:
            return []
        accounts = [(limit, window_of(limit.quota.per, now)) for limit in limits]
        booked = self.redis.read(accounts)
        lost = [account for account, one in zip(accounts, booked, strict=True) if one is None]
        ceilings = iter(self.ceilings.read(lost) if lost else ())
        found = []
        for (limit, window), one in zip(accounts, booked, strict=True):
            if one is None:
                ceiling = next(ceilings)
                one = Booked(spent=0 if ceiling is None else ceiling.given)  # noqa: PLW2901
            found.append(
                Standing(
                    limit=limit,
                    window=window,
                    used=one.spent,
                    held=one.held,
                    in_doubt=one.in_doubt,
                )
            )
        return found
