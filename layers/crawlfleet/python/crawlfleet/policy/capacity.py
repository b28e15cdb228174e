"""Capacity that is stated becomes workers that are kept available (SPEC.md C1).

What a biz states comes to a number of workers, or a part of one: parts add up, so that a hundred
bizs of a few pages an hour share one worker. A tenant is kept no more than the stage's
``capacity.workers_per_tenant``, whatever it states. Where all of it together is more than the pool
may have, each tenant gets the same share of it at most, and what one does not need is the others'
(max-min fairness): whoever states more than the rest takes nothing of theirs by it.

Workers serve everybody. What is kept for one tenant is a number of workers that are there, not
workers that refuse others' work; who gets how much of them is the queue's fairness.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from crawlfleet.model.biz import Stage, Tree
from crawlfleet.model.needs import Needs
from crawlfleet.policy.scaling import guessed_pace

_HOUR_SECONDS: Final = 3600.0
#: Sums of parts are not exact: 3 workers must not become 4.
_EXACT: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What is kept available in a pool.

    Attributes:
        asked: By tenant, the workers that its needs come to, before any bound.
        given: By tenant, what of them is kept.
    """

    asked: Mapping[str, float] = field(default_factory=dict)
    given: Mapping[str, float] = field(default_factory=dict)

    @property
    def floor(self) -> int:
        """Workers that are kept, whatever there is to do."""
        return _whole(sum(self.given.values()))

    @property
    def stated(self) -> int:
        """Workers that there would have to be for everything that is stated."""
        return _whole(sum(self.asked.values()))

    @property
    def short(self) -> tuple[str, ...]:
        """Tenants that are kept less than they state, the shortest first."""
        missing = {name: self.asked[name] - self.given.get(name, 0.0) for name in self.asked}
        found = [name for name, workers in missing.items() if workers > _EXACT]
        return tuple(sorted(found, key=lambda name: (-missing[name], name)))


def stated_by(tree: Tree) -> Iterator[tuple[str, Needs]]:
    """Who states needs: ``tenant/biz``, or the tenant alone for all of its bizs together."""
    for tenant, document in sorted(tree.tenants.items()):
        if document.needs is not None:
            yield tenant, document.needs
    for tenant, bizs in sorted(tree.bizs.items()):
        for name, biz in sorted(bizs.items()):
            if biz.needs is not None:
                yield f"{tenant}/{name}", biz.needs


def active(tree: Tree, at_work: Collection[str]) -> set[str]:
    """Those of them that have work; a tenant has where any of its bizs has."""
    tenants = {path.partition("/")[0] for path in at_work}
    return {name for name, _ in stated_by(tree) if name in (at_work if "/" in name else tenants)}


def capacity(
    tree: Tree,
    pool: str,
    most: int,
    *,
    paces: Mapping[str, float],
    pace: float | None = None,
    idle_seconds: Mapping[str, float] | None = None,
) -> Capacity:
    """What is to be kept available in a pool.

    Args:
        tree: Who states what.
        pool: Of which pool.
        most: Workers that it may have at most.
        paces: Requests a second that a worker has shown to do, by ``tenant/biz``.
        pace: The same of any; a guess where None has shown it.
        idle_seconds: For how long who states needs had nothing to do; those without count as busy.
    """
    idle_seconds = idle_seconds or {}
    own: defaultdict[str, float] = defaultdict(float)
    whole: dict[str, float] = {}
    any_pace = pace or guessed_pace(tree.stage.fleet)
    for name, needs in stated_by(tree):
        released = (
            needs.idle_seconds is not None and idle_seconds.get(name, 0.0) > needs.idle_seconds
        )
        if needs.pool != pool or released:
            continue
        tenant, _, biz = name.partition("/")
        if biz:
            own[tenant] += _workers(needs, paces.get(name) or any_pace)
        else:
            mine = [paces[path] for path in paces if path.startswith(f"{tenant}/")]
            whole[tenant] = _workers(needs, sum(mine) / len(mine) if mine else any_pace)
    asked = {
        tenant: max(own.get(tenant, 0.0), whole.get(tenant, 0.0))
        for tenant in sorted(own.keys() | whole.keys())
    }
    return Capacity(asked=asked, given=shares(asked, most, tree.stage))


def shares(asked: Mapping[str, float], most: float, stage: Stage) -> dict[str, float]:
    """What each tenant is given of ``most`` workers: what it asks, or a fair share.

    >>> stage = Stage()
    >>> shares({"a": 1.0, "b": 8.0, "c": 99.0}, 9.0, stage)
    {'a': 1.0, 'b': 4.0, 'c': 4.0}
    >>> shares({"a": 1.0, "c": 99.0}, 50.0, stage)
    {'a': 1.0, 'c': 10.0}
    """
    cap = float(stage.capacity.workers_per_tenant)
    wanted = {tenant: min(workers, cap) for tenant, workers in asked.items()}
    left, open_ones = max(0.0, float(most)), sorted(wanted, key=lambda name: (wanted[name], name))
    given: dict[str, float] = {}
    while open_ones:
        tenant = open_ones.pop(0)
        given[tenant] = min(wanted[tenant], left / (len(open_ones) + 1))
        left -= given[tenant]
    return {tenant: given[tenant] for tenant in asked}


def _workers(needs: Needs, pace: float) -> float:
    """How many workers it comes to."""
    if needs.workers is not None:
        return float(needs.workers)
    return (needs.requests_per_hour or 0) / _HOUR_SECONDS / pace


def _whole(workers: float) -> int:
    return math.ceil(workers - _EXACT)
