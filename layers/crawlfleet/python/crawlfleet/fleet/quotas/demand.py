"""Reckon which demand on workers quotas let through (SPEC.md D9, H4): others would be idle."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.documents.quota import AtLimit, QuotaUnit
from crawlfleet.config.lookup import biz_of
from crawlfleet.fleet.models import QueueDemand
from crawlfleet.fleet.quotas.models import (
    Limit,
    Standing,
    Terms,
    account_at,
    for_biz,
    limit_of,
    limits_of,
)
from crawlfleet.fleet.quotas.money import DEFAULT_GB
from crawlfleet.fleet.quotas.service import QuotaLedgers
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.log import warn
from crawlfleet.kernel.queue_key import MAIN_POOL, QueueKey
from crawlfleet.requests.queue.stats import QueueWork

#: The room under a limit that does not count requests.
UNBOUNDED: Final = 2**62


@dataclass(frozen=True, slots=True)
class QuotaDemand:
    """Reads how much work quotas let begin. It blocks.

    ``gb`` is the memory of a worker of each pool: a larger one may cost more.
    """

    ledgers: QuotaLedgers
    terms: Terms
    gb: Mapping[str, float] = field(default_factory=dict)

    def rooms(self, tree: Tree, queues: Sequence[QueueKey], now: datetime) -> dict[str, int]:
        """Read how many requests quotas still let begin, by ``tenant/biz``; others have no end.

        Where that cannot be read nothing is held back by it: workers ask for themselves.
        """
        limits = {path: own for path, own in _limits(tree, queues).items() if own}
        if not limits:
            return {}
        every = list(dict.fromkeys(limit for own in limits.values() for limit in own))
        try:
            standings = dict(zip(every, self.ledgers.standings(every, now), strict=True))
        except StoreUnavailableError as error:
            warn("how much of quotas is left is not known", error)
            return {}
        return {
            path: max(
                min(room_of(self._for_biz(standings[limit], tree, key)) for limit in own)
                for key in queues
                if key.path == path
            )
            for path, own in limits.items()
        }

    def _for_biz(self, standing: Standing, tree: Tree, key: QueueKey) -> Standing:
        """Say what a request of a queue needs of an account at a worker of its pool."""
        biz, pool = biz_of(tree, key.tenant, key.biz)[1], key.pool or MAIN_POOL
        return for_biz(standing, tree.stage, biz, pool=pool, gb=self.gb.get(pool, DEFAULT_GB))

    def without_parked(
        self, tree: Tree, queues: Sequence[QueueKey], works: list[QueueWork], now: datetime
    ) -> list[QueueWork]:
        """Leave out what waits for a job's or a user's quota; what may go on again is work of now.

        Where that cannot be read it is left out, and so are lists that were not named, until it is
        their time: workers look for themselves.
        """
        if not any(work.parked_entries for work in works):
            return works
        try:
            limits = {
                (key.tenant, place): limit
                for key, work in zip(queues, works, strict=True)
                for place, _ in work.parked
                if (account := account_at(key.tenant, place)) is not None
                and (limit := limit_of(tree, account, self.terms)) is not None
            }
            read = list(dict.fromkeys(limits.values()))
            standings = dict(zip(read, self.ledgers.standings(read, now), strict=True))
        except StoreUnavailableError as error:
            warn("how much of quotas is left is not known", error)
            return [without(work, [place for place, _ in work.parked]) for work in works]
        found = []
        for key, work in zip(queues, works, strict=True):
            closed = [
                place
                for place, _ in work.parked
                if (limit := limits.get((key.tenant, place))) is not None
                and self._for_biz(standings[limit], tree, key).is_used_up
            ]
            found.append(without(work, closed))
        return found


def _limits(tree: Tree, queues: Sequence[QueueKey]) -> dict[str, list[Limit]]:
    """List the limits of each biz at which its requests wait: at others workers end them."""
    return {
        one.path: [
            limit
            for limit in limits_of(tree, one.tenant, one.biz)
            if limit.quota.at_limit is AtLimit.WAIT
        ]
        for one in queues
    }


def room_of(standing: Standing) -> int:
    """Return how many requests a limit lets begin, those that workers hold shares for included."""
    if standing.is_used_up:
        return 0
    if standing.limit.quota.unit is not QuotaUnit.REQUESTS:
        return UNBOUNDED
    return standing.limit.quota.amount - standing.used - standing.in_doubt


def without(work: QueueWork, closed: Collection[str]) -> QueueWork:
    """Leave out what waits for accounts, but for lists that are not closed: these are looked at.

    >>> named = ("quota://limit/a", 4), ("quota://limit/b", 5)
    >>> work = QueueWork(deferred=29, parked=named, parked_entries=19)
    >>> left = without(work, ["quota://limit/a"])
    >>> left.backlog, left.hosts_due
    (15, 1)
    """
    lifted = [count for place, count in work.parked if place not in closed]
    left = work.deferred - work.parked_entries + sum(lifted)
    return replace(work, deferred=max(0, left), hosts_due=work.hosts_due + len(lifted))


def within(room: int | None, demand: QueueDemand) -> QueueDemand:
    """Bound a demand by what quotas let begin: more workers would be idle.

    >>> within(5, QueueDemand(backlog=9)).backlog, within(None, QueueDemand(backlog=9)).backlog
    (5, 9)
    """
    if room is None or room >= demand.backlog:
        return demand
    return replace(demand, backlog=room)
