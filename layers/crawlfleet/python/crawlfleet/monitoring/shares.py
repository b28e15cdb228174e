"""The shares of tenants as people see them (SPEC.md C7): operators all, a tenant its own."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import ceilings_of, operates, share_of
from crawlfleet.fleet.failure_detector import status
from crawlfleet.fleet.models import Health
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.requests.ceilings.models import CeilingState, redis_state, stored_states
from crawlfleet.requests.ceilings.service import TenantSizesBook
from crawlfleet.requests.queue.redis.queue import RedisQueue


class TenantState(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant's share, and what it has now.

    ``part`` is of what workers can do: by its share among those that have work, and as if it had
    some where it has none. ``ready`` is what a lease would find, ``in_flight`` what is leased.
    """

    tenant: str
    share: int = 1
    part: float = 0.0
    ready: int = 0
    in_flight: int = 0
    ceilings: tuple[CeilingState, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantShares:
    """Shows the shares of tenants; it costs by the bizs that have work."""

    detector: RedisFailureDetector
    queue: RedisQueue
    sizes: TenantSizesBook

    def list(self, tree: Tree, tenant: str, now: datetime) -> list[TenantState]:
        """List tenants, those with most in flight first; to all but operators their own alone.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        shown = sorted(tree.bizs) if operates(tree, tenant) else [tenant]
        found = self._states(tree, shown, now)
        return sorted(found, key=lambda one: (-one.in_flight, -one.ready, one.tenant))

    def of(self, tree: Tree, tenant: str, now: datetime) -> TenantState:
        """Return a tenant's own.

        Raises:
            StoreUnavailableError: Redis does not answer.
        """
        [own] = self._states(tree, [tenant], now)
        return own

    def _states(self, tree: Tree, shown: Sequence[str], now: datetime) -> Sequence[TenantState]:
        ready, in_flight = self.at_work(tree, now)
        working = {one for one in (*ready, *in_flight) if ready[one] or in_flight[one]}
        return [
            TenantState(
                tenant=one,
                share=share_of(tree, one),
                part=part_of(tree, one, working),
                ready=ready[one],
                in_flight=in_flight[one],
                ceilings=tuple(self._ceilings(tree, one, in_flight[one])),
            )
            for one in shown
        ]

    def at_work(self, tree: Tree, now: datetime) -> tuple[Counter[str], Counter[str]]:
        """Count what is ready of each tenant, and what live workers say to have leased."""
        listed = [one for one in self.queue.open.listed() if one.tenant in tree.bizs]
        ready: Counter[str] = Counter()
        for queue_key, load in zip(listed, self.queue.loads(listed, now), strict=True):
            ready[queue_key.tenant] += load.ready
        in_flight: Counter[str] = Counter()
        for beats in self.detector.heartbeats():
            worker = status(beats, tree.stage.detector)
            if worker.health is not Health.DEAD:
                for path, count in worker.worker_status.held.items():
                    in_flight[path.partition("/")[0]] += count
        return ready, in_flight

    def _ceilings(self, tree: Tree, tenant: str, in_flight: int) -> Iterator[CeilingState]:
        ceilings = ceilings_of(tree, tenant)
        sizes = self.sizes.of(tree, tenant, everything=True)
        yield CeilingState(limit="ceilings.in_flight", used=in_flight, allowed=ceilings.in_flight)
        yield CeilingState(limit="ceilings.leases_per_second", allowed=ceilings.leases_per_second)
        rate = ceilings.submissions_per_second
        yield CeilingState(limit="ceilings.submissions_per_second", allowed=rate)
        yield redis_state(ceilings, sizes)
        yield from stored_states(ceilings, sizes)
        yield CeilingState(limit="ceilings.trials", allowed=ceilings.trials)
        yield CeilingState(limit="ceilings.subscriptions", allowed=ceilings.subscriptions)


def part_of(tree: Tree, tenant: str, working: set[str]) -> float:
    """Return a tenant's part among those that have work, by their shares.

    >>> from crawlfleet.config.documents.biz import Stage, Tenant
    >>> tenants = {"a": Tenant(share=3)}
    >>> tree = Tree(revision="", stage=Stage(), tenants=tenants, bizs={})
    >>> part_of(tree, "a", {"b"}), part_of(tree, "b", {"b"})
    (0.75, 1.0)
    """
    return share_of(tree, tenant) / sum(share_of(tree, one) for one in working | {tenant})
