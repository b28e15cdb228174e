"""The fleet as people see it (SPEC.md B13, C6, C10, D1): operators all of it, tenants their own.

A sample for people audits no ledger, which the monitor does every minute and ``crawlfleet ledger
BIZ`` at any time: it is to be quick, and cheap enough to be asked for again. Workers serve every
tenant: how each is doing is everybody's to know, what it holds is shown of the one biz only.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import biz_of, must_operate, operates, proxies_of
from crawlfleet.crawling.fetching.proxy_health import ProxyPoolState
from crawlfleet.crawling.politeness.redis import RedisHosts
from crawlfleet.fleet import failure_detector as liveness
from crawlfleet.fleet.models import Health, WorkerHealth, WorkerHeartbeats
from crawlfleet.fleet.redis.registry import RedisFailureDetector, RedisProxyPools
from crawlfleet.fleet.status import seen_from
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.monitoring import gathering
from crawlfleet.monitoring.models import HostSample, Sample
from crawlfleet.monitoring.sampler import Sampler
from crawlfleet.requests.queue.redis.stats import RedisOverview

#: API Gateway waits for 29 seconds; hosts come after this.
BOUNDS: Final = gathering.Bounds(sample_seconds=10.0)


#: Workers by tenant, each with the hosts that it is at for that tenant.
AtWork: TypeAlias = Mapping[str, Sequence[WorkerHeartbeats]]
_ORDER = {Health.DEAD: 0, Health.SUSPECTED: 1, Health.UNWATCHED: 2, Health.ALIVE: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsOfBizs:
    """Shows the hosts of a biz.

    ``at_work`` may be some seconds old: it is made of what every worker says of itself, of all
    tenants, and any tenant may ask as often as it is admitted.
    """

    at_work: Callable[[], AtWork]
    overview: RedisOverview
    hosts: RedisHosts

    def list(self, tree: Tree, tenant: str, biz_name: str) -> list[HostSample]:
        """List hosts that requests of this biz wait for or this tenant is at, the worst first.

        How a site does is everybody's to know; how much others ask of it is not, so counts are left
        out, and what waits is this biz's.
        """
        queue_key, _ = biz_of(tree, tenant, biz_name)
        [deferred] = self.overview.waiting_hosts([queue_key], gathering.WAITING_EACH)
        troubled = self.hosts.troubled([tenant], gathering.TROUBLED_EACH)
        names, waiting = gathering.candidates(self.at_work().get(tenant, ()), deferred, troubled)
        states = self.hosts.states(names, dict.fromkeys(names, tenant)) if names else []
        found = gathering.shown(
            [gathering.host_sample(state, waiting[state.host]) for state in states]
        )
        return [replace(one, answered=0, failed=0, strained=0, running=0) for one in found]


def proxies(pools: RedisProxyPools, tree: Tree, tenant: str, biz_name: str) -> list[ProxyPoolState]:
    """List the pools by which a biz's downloads leave, from whatever workers.

    How a proxy does is everybody's to know; how much others ask of it is not, so counts are left
    out.
    """
    _, biz = biz_of(tree, tenant, biz_name)
    names = {proxies_of(tree.stage, biz, pool) for pool in (MAIN_POOL, *tree.further_pools)}
    found = pools.states(sorted(name for name in names if name in tree.stage.proxies))
    if operates(tree, tenant):
        return found
    return [
        replace(pool, proxies=tuple(replace(one, answered=0, failed=0) for one in pool.proxies))
        for pool in found
    ]


def oversee(
    sampler: Sampler, tree: Tree, tenant: str, now: datetime, config_refused: str | None = None
) -> Sample:
    """Sample the whole fleet, for an operator.

    Raises:
        NotOperatorError: the tenant is none.
    """
    must_operate(tree, tenant)
    return sampler.sample(tree, now, config_refused=config_refused, audits=False, bounds=BOUNDS)


def at_work(heartbeats: Iterable[WorkerHeartbeats]) -> AtWork:
    """Group workers by the tenants for whom they are at hosts, each with these hosts alone."""
    found: defaultdict[str, list[WorkerHeartbeats]] = defaultdict(list)
    for beats in heartbeats:
        places: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for place in beats.worker_status.hosts:
            places[place[1]].append(place)
        for tenant, own in places.items():
            worker_status = replace(beats.worker_status, hosts=tuple(own))
            found[tenant].append(replace(beats, worker_status=worker_status))
    return dict(found)


def workers(
    detector: RedisFailureDetector, tree: Tree, tenant: str, biz_name: str
) -> list[WorkerHealth]:
    """List known workers, the dead first, each with what it holds of this biz."""
    queue_key, _ = biz_of(tree, tenant, biz_name)
    limits, counts = tree.stage.detector, operates(tree, tenant)
    found = [
        seen_from(queue_key, liveness.status(beats, limits), counts=counts)
        for beats in detector.heartbeats()
    ]
    return sorted(found, key=lambda status: (_ORDER[status.health], status.worker))
