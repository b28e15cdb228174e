"""What people see of the fleet (SPEC.md B13, C6, C10): operators all of it, tenants their own.

A look for people audits no ledger, which the monitor does every minute and ``crawlfleet ledger
BIZ`` at any time: it is to be quick, and cheap enough to be asked for again.

Who works: the fleet's workers as one tenant may see them (SPEC.md C6, D1).

Workers serve every tenant. How each is doing is everybody's to know; what it holds is shown of the
one biz only.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

import msgspec

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import biz_of, must_operate, operates
from crawlfleet.crawling.politeness.redis import RedisHosts
from crawlfleet.fleet import failure_detector as liveness
from crawlfleet.fleet.models import Health, WorkerHealth, WorkerHeartbeats
from crawlfleet.fleet.redis.registry import RedisFailureDetector
from crawlfleet.fleet.status import seen_from
from crawlfleet.monitoring import gathering as hosts
from crawlfleet.monitoring.models import HostSample, Sample
from crawlfleet.monitoring.sampler import Bounds, SamplingPorts, sample
from crawlfleet.requests.queue.redis.stats import RedisOverview

#: API Gateway waits for 29 seconds; a look that hosts come after has this long.
BOUNDS: Final = Bounds(look_seconds=10.0)


#: Workers by the tenants for whom they are at hosts, each with these hosts alone.
AtWork: TypeAlias = Mapping[str, Sequence[WorkerHeartbeats]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPorts:
    """What looking at hosts needs of the world.

    ``at_work`` may be some seconds old: it is made of what every worker says of itself, of all
    tenants, and any tenant may ask as often as it is admitted.
    """

    at_work: Callable[[], AtWork]
    overview: RedisOverview
    hosts: RedisHosts


def oversee(
    ports: SamplingPorts,
    tree: Tree,
    tenant: str,
    now: datetime,
    config_refused: str | None = None,
) -> Sample:
    """The whole fleet, for an operator.

    Raises:
        NotOperatorError: the tenant is none.
    """
    must_operate(tree, tenant)
    return sample(ports, tree, now, config_refused=config_refused, audits=False, bounds=BOUNDS)


def hosts_of(ports: HostPorts, tree: Tree, tenant: str, biz_name: str) -> list[HostSample]:
    """Hosts that requests of this biz wait for or that this tenant is at, the worst first.

    How a site does is everybody's to know; how much others ask of it is not, so counts are left
    out, and what waits is this biz's.
    """
    queue_key, _ = biz_of(tree, tenant, biz_name)
    [deferred] = ports.overview.waiting_hosts([queue_key], hosts.WAITING_EACH)
    troubled = ports.hosts.troubled([tenant], hosts.TROUBLED_EACH)
    names, waiting = hosts.candidates(ports.at_work().get(tenant, ()), deferred, troubled)
    states = ports.hosts.states(names) if names else []
    found = hosts.shown([hosts.host_sample(state, waiting[state.host]) for state in states])
    return [
        msgspec.structs.replace(one, answered=0, failed=0, strained=0, running=0) for one in found
    ]


def at_work(heartbeats: Iterable[WorkerHeartbeats]) -> AtWork:
    """What workers say of the hosts that they are at, by tenant."""
    found: defaultdict[str, list[WorkerHeartbeats]] = defaultdict(list)
    for beats in heartbeats:
        places: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        for place in beats.worker_status.hosts:
            places[place[1]].append(place)
        for tenant, own in places.items():
            worker_status = msgspec.structs.replace(beats.worker_status, hosts=tuple(own))
            found[tenant].append(msgspec.structs.replace(beats, worker_status=worker_status))
    return dict(found)


#: The dead first: they are what one looks for.
_ORDER = {Health.DEAD: 0, Health.SUSPECTED: 1, Health.UNWATCHED: 2, Health.ALIVE: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class RosterPorts:
    """What the roster needs of the world."""

    detector: RedisFailureDetector


def workers(ports: RosterPorts, tree: Tree, tenant: str, biz_name: str) -> list[WorkerHealth]:
    """Known workers, each with what it holds of this biz; a biz that none serves has none held."""
    queue_key, _ = biz_of(tree, tenant, biz_name)
    limits, counts = tree.stage.detector, operates(tree, tenant)
    found = [
        seen_from(queue_key, liveness.status(beats, limits), counts=counts)
        for beats in ports.detector.heartbeats()
    ]
    return sorted(found, key=lambda status: (_ORDER[status.health], status.worker))
