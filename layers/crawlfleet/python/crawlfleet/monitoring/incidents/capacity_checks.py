"""Detect faults of capacity, hosts, the scheduler, unplaced jobs, schedules and proxies.

**Capacity** that tenants state they need may not be there (SPEC.md C1, B13).

**Hosts** (SPEC.md A11). A host that refuses everything is left alone for ever longer, so that
hardly anything is asked of it: its few answers are no sign that it is well. Where there are too few
to judge by, the refusals in a row decide; of one that is left alone, or not trusted again yet,
recovery is never taken for sure. A host that fails is asked for less and less, too, as what failed
waits for its next try: a few answers that are as bad say neither that it fails nor that it is well.
A host that is asked for nothing any more yields nothing.

**The scheduler** (SPEC.md B1, B13). A silent scheduler cannot report that, and a tick goes on where
a part of it fails: so both are found here, in one finding at most.

**Jobs** (SPEC.md B6). They were given up, as no worker suits them; or they wait for longer than the
stage has patience: no worker has looked at them, or those that suit them are busy.

**Schedules** (SPEC.md B1). Their last fire started no job, and that is not as their policies have
it. Of those of a biz that there is no more nothing is said: nobody can mend or delete them.

**Quotas** (SPEC.md D9). One of a tenant, a user or a biz is used up: what is under it waits
or ends. There is one finding for each biz, and one for a tenant and its users.

**Proxies** (SPEC.md C9). A pool all of which the workers leave out brings nothing any more.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.documents.stage import Thresholds
from crawlfleet.crawling.fetching.proxy_health import ProxyPoolState
from crawlfleet.fleet.autoscaler import stated_by
from crawlfleet.fleet.models import PoolSample, Ticked, WorkersSample
from crawlfleet.fleet.quotas.models import biz_under, every_limit
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.redaction import one_line, plain
from crawlfleet.kernel.time import span
from crawlfleet.monitoring.incidents.kinds import Kind
from crawlfleet.monitoring.incidents.models import Finding, Place, key_of
from crawlfleet.monitoring.models import FailedFire, HostSample, UnplacedJob, UsedUpQuota

#: Of those that state needs, so many are named.
_NAMED: Final = 5
#: Overloaded answers in a row that are enough, however few there were. By default a host is left
#: alone for half a minute after that.
IN_A_ROW: Final = 5
#: What is found of hosts.
KINDS: Final = frozenset({Kind.HOST_THROTTLED, Kind.HOST_FAILING, Kind.HOST_SLOW})
SCHEDULER: Final = Place(part="scheduler")
#: Parts in one sentence. There are no more, unless a newer version has noted them.
_NAMED_BIZS: Final = 8
_WORD: Final = 32
#: Of a biz's jobs so many are named, and characters of why.
_NAMED_JOBS: Final = 3
_QUOTED: Final = 400
#: Failed fires in a sample. Where there are as many there may be more.
MOST_FIRES: Final = 200


def capacity_findings(workers: WorkersSample, tree: Tree) -> Iterator[Finding]:
    """Find pools with fewer workers than is stated, and needs of pools that are not there."""
    for pool in workers.pools:
        if short := short_of(pool):
            said = f"{_said(pool)}; it is stated by {_stated_by(tree, pool.name)}"
            yield Finding(Kind.CAPACITY_SHORT, _place(pool.name), short, 0, said)
    there = {MAIN_POOL, *(pool.name for pool in workers.pools)}
    for name in sorted({needs.pool for _, needs in stated_by(tree)} - there):
        said = f"capacity of the pool {name} is stated, and no such pool is deployed;"
        said += f" it is stated by {_stated_by(tree, name)}"
        yield Finding(Kind.CAPACITY_SHORT, _place(name), 1, 0, said)


def short_of(pool: PoolSample) -> int:
    """Count the workers that are missing of those that stated needs come to.

    >>> short_of(PoolSample(name="large", alive=3, kept=4, stated=6))
    3
    """
    return max(0, pool.stated - min(pool.kept, pool.alive))


def unknown_of_capacity(tree: Tree) -> Iterator[str]:
    """Yield keys of what is unknown where the workers could not be counted."""
    stated = {needs.pool for _, needs in stated_by(tree)}
    for name in sorted({MAIN_POOL, *tree.stage.pools, *stated}):
        yield key_of(Kind.CAPACITY_SHORT, _place(name))


def _said(pool: PoolSample) -> str:
    if pool.alive >= pool.kept:
        return (
            f"stated needs come to {pool.stated:,} workers and {pool.kept:,} are kept: that is what"
            " the pool's max_consumers, its reserved concurrency and capacity.workers_per_tenant"
            " leave room for"
        )
    more = f"; stated needs come to {pool.stated:,}" if pool.stated > pool.kept else ""
    return f"{pool.kept:,} workers are to be kept available and {pool.alive:,} are alive{more}"


def _stated_by(tree: Tree, pool: str) -> str:
    names = [name for name, needs in stated_by(tree) if needs.pool == pool]
    more = len(names) - _NAMED
    said = ", ".join(names[:_NAMED]) or "no tenant any more"
    return f"{said} and {more:,} more" if more > 0 else said


def _place(pool: str) -> Place:
    return Place(part="workers", name=pool)


def host_findings(host: HostSample, thresholds: Thresholds) -> Iterator[Finding]:
    """Find what is wrong with a host: refusals, errors, slow answers."""
    yield from _throttled(host, thresholds)
    if host.asked >= thresholds.host_answers:
        yield from _failing(host, thresholds)
    if host.answered >= thresholds.host_answers:
        yield from _slow(host, thresholds)


def _throttled(host: HostSample, thresholds: Thresholds) -> Iterator[Finding]:
    share = _share(host)
    enough = host.asked >= thresholds.throttled_answers
    if share <= thresholds.throttled_share or not (enough or _refuses(host)):
        return
    said = f"its last {host.strain:,} answers were 429, 503 or no connection"
    if host.asked:
        said = f"{share:.0%} of {_answers(host, host.asked)} were 429, 503 or no connection"
    if host.backing_off_until:
        said += f"; it is left alone until {host.backing_off_until:%H:%M:%S} UTC"
    yield _of_host(Kind.HOST_THROTTLED, host, share, thresholds.throttled_share, said)


def _of_host(kind: Kind, host: HostSample, value: float, threshold: float, said: str) -> Finding:
    """Make a finding about a host, with what waits for it."""
    said += f"; {host.deferred:,} requests wait for it" if host.deferred else ""
    return Finding(kind, host_place(host.host), value, threshold, said, host.met_by)


def _answers(host: HostSample, count: int) -> str:
    return f"{count:,} answers in {host.window_seconds:.0f} s"


def _failing(host: HostSample, thresholds: Thresholds) -> Iterator[Finding]:
    share, limit = host.failed / host.asked if host.asked else 0.0, thresholds.failing_share
    if share > limit:
        said = f"{share:.0%} of {_answers(host, host.asked)} were errors of the server"
        said += f" (5xx but 503), more than {limit:.0%}"
        yield _of_host(Kind.HOST_FAILING, host, share, limit, said)


def _slow(host: HostSample, thresholds: Thresholds) -> Iterator[Finding]:
    took, limit = host.latency_seconds, thresholds.host_latency_seconds
    if took is not None and limit is not None and took > limit:
        said = f"{_answers(host, host.answered)} took {took:.1f} s on average"
        said += f", longer than {limit:.1f} s"
        yield _of_host(Kind.HOST_SLOW, host, took, limit, said)


def unknown_of_host(host: HostSample, thresholds: Thresholds) -> Iterator[str]:
    """Yield keys of findings that may be there although nothing was found."""
    place = host_place(host.host)
    if _is_held_back(host) and not any(_throttled(host, thresholds)):
        yield key_of(Kind.HOST_THROTTLED, place)
    if host.asked < thresholds.host_answers and any(_failing(host, thresholds)):
        yield key_of(Kind.HOST_FAILING, place)
    if host.answered < thresholds.host_answers and any(_slow(host, thresholds)):
        yield key_of(Kind.HOST_SLOW, place)


def host_place(host: str) -> Place:
    """Return the place of a host."""
    return Place(part="host", name=one_line(host, 260))


def _is_held_back(host: HostSample) -> bool:
    return host.throttled or host.backing_off_until is not None or host.strain > 0


def _refuses(host: HostSample) -> bool:
    """Return whether it has refused often enough in a row, and something is asked of it."""
    wanted = host.asked or host.deferred or host.backing_off_until is not None
    return host.strain >= IN_A_ROW and bool(wanted)


def _share(host: HostSample) -> float:
    """Return the share of answers that ask for less; 1 where it is held back and not asked."""
    if not host.asked:
        return float(_is_held_back(host))
    return host.strained / host.asked


def tick_findings(ticked: Ticked, thresholds: Thresholds) -> Iterator[Finding]:
    """Find what is wrong with the scheduler, by its latest tick."""
    kind, ago, longest = Kind.SCHEDULER_FAULTS, ticked.seconds_ago, thresholds.tick_silent_seconds
    faults, most = sum(ticked.faults.values()), thresholds.tick_faults
    if ago is None:
        if ticked.awaited_seconds > longest:
            asked = span(ticked.awaited_seconds)
            said = f"no tick of it is known, and one is asked for since {asked}"
            yield Finding(kind, SCHEDULER, ticked.awaited_seconds, longest, said)
    elif ago > longest:
        said = f"the last tick ended {span(ago)} ago, longer than {span(longest)}"
        yield Finding(kind, SCHEDULER, ago, longest, said)
    elif faults > most:
        said = f"of the last tick failed: {faults_in_words(ticked.faults)}"
        yield Finding(kind, SCHEDULER, faults, most, said)


def may_come(ticked: Ticked, thresholds: Thresholds) -> bool:
    """Return whether no tick is known, and it is too early to make anything of that.

    A fleet that was deployed just now has not ticked yet, and a Redis that was emptied knows none.

    >>> strict = Thresholds(tick_silent_seconds=180)
    >>> may_come(Ticked(awaited_seconds=180), strict), may_come(Ticked(awaited_seconds=181), strict)
    (True, False)
    >>> may_come(Ticked(seconds_ago=0), strict)
    False
    """
    return ticked.seconds_ago is None and ticked.awaited_seconds <= thresholds.tick_silent_seconds


def faults_in_words(faults: Mapping[str, int]) -> str:
    """Write which parts have failed, and how often.

    >>> faults_in_words({"schedules": 3, "scaling": 1})
    'schedules (3), scaling (1)'
    """
    named = [
        f"{plain(part, _WORD)} ({count:,})" for part, count in list(faults.items())[:_NAMED_BIZS]
    ]
    more = len(faults) - _NAMED_BIZS
    return ", ".join(named) + (f" and {more:,} more" if more > 0 else "")


def unplaced_findings(jobs: Sequence[UnplacedJob]) -> Iterator[Finding]:
    """Find one for each biz, which names its jobs, what they wanted, and what was on offer."""
    of_biz = sorted(jobs, key=lambda job: (job.tenant, job.biz))
    for (tenant, biz), each in groupby(of_biz, key=lambda job: (job.tenant, job.biz)):
        found = list(each)
        words = [_job_said(job) for job in found[:_NAMED_JOBS]]
        more = [f"and {len(found) - _NAMED_JOBS:,} more"] if len(found) > _NAMED_JOBS else []
        place, said = Place(tenant=tenant, biz=biz), "; ".join([*words, *more])
        yield Finding(Kind.JOB_UNPLACED, place, len(found), 0, said)


def _job_said(job: UnplacedJob) -> str:
    waits = "" if job.since is None else f" waits since {job.since:%Y-%m-%d %H:%M} UTC"
    return f"{one_line(job.job, 160)}{waits}: {plain(job.why, _QUOTED)}"


def fire_findings(fires: Sequence[FailedFire]) -> Iterator[Finding]:
    """Find one for each biz, which names its schedules, their fires, and why these have failed.

    Of a biz that was removed, too: nothing else says that its schedules are still there.
    """
    of_biz = sorted(fires, key=lambda fire: (fire.tenant, fire.biz, fire.schedule))
    for (tenant, biz), each in groupby(of_biz, key=lambda fire: (fire.tenant, fire.biz)):
        found = list(each)
        words = [_fire_said(fire) for fire in found[:_NAMED_JOBS]]
        more = [f"and {len(found) - _NAMED_JOBS:,} more"] if len(found) > _NAMED_JOBS else []
        place, said = Place(tenant=tenant, biz=biz), "; ".join([*words, *more])
        yield Finding(Kind.SCHEDULE_FAILED, place, len(found), 0, said)


def _fire_said(fire: FailedFire) -> str:
    at = f"{fire.fire_at:%Y-%m-%d %H:%M} UTC"
    return f"{one_line(fire.schedule, 160)}, the fire of {at}: {plain(fire.why, _QUOTED)}"


def all_fires_read(fires: Sequence[FailedFire] | None) -> bool:
    """Tell whether schedules could be read, and all that have failed."""
    return fires is not None and len(fires) < MOST_FIRES


def quota_findings(quotas: Sequence[UsedUpQuota]) -> Iterator[Finding]:
    """Find one for each tenant and biz, which names its quotas that are used up."""
    for place, each in groupby(sorted(quotas, key=_place_of_quota), key=_place_of_quota):
        found = list(each)
        words = [one.said for one in found[:_NAMED]]
        more = [f"and {len(found) - _NAMED:,} more"] if len(found) > _NAMED else []
        yield Finding(Kind.QUOTA_USED_UP, place, len(found), 0, "; ".join([*words, *more]))


def unknown_of_quotas(tree: Tree) -> Iterator[str]:
    """Yield keys of what is unknown where quotas could not be read."""
    for limit in every_limit(tree):
        place = Place(tenant=limit.account.tenant, biz=biz_under(limit))
        yield key_of(Kind.QUOTA_USED_UP, place)
    for tenant, document in tree.tenants.items():
        if document.user_quotas:
            yield key_of(Kind.QUOTA_USED_UP, Place(tenant=tenant))
    # Jobs have some, too.
    for queue_key in tree.queues():
        yield key_of(Kind.QUOTA_USED_UP, Place(tenant=queue_key.tenant, biz=queue_key.biz))


def _place_of_quota(quota: UsedUpQuota) -> Place:
    return Place(tenant=quota.tenant, biz=quota.biz)


def proxy_findings(pools: Sequence[ProxyPoolState]) -> Iterator[Finding]:
    """Find pools of proxies all of which are left out."""
    for pool in pools:
        if pool.size and pool.away >= pool.size:
            met = Counter(one.fault for one in pool.proxies if one.is_away and one.fault)
            faults = ", ".join(f"{fault} ({count:,})" for fault, count in met.most_common())
            said = f"all {pool.size:,} proxies are left out" + (f": {faults}" if faults else "")
            yield Finding(Kind.PROXIES_AWAY, _pool_of_proxies(pool.name), pool.away, 0, said)


def unknown_of_proxies(pools: Sequence[ProxyPoolState] | None, tree: Tree) -> Iterator[str]:
    """Yield keys of pools of which nobody can say anything: no worker has used them of late."""
    known = {pool.name for pool in pools or () if pool.size is not None}
    for name in sorted(tree.stage.proxies.keys() - known):
        yield key_of(Kind.PROXIES_AWAY, _pool_of_proxies(name))


def _pool_of_proxies(name: str) -> Place:
    return Place(part="proxies", name=name)


def unknown_of_unplaced(tree: Tree) -> Iterator[str]:
    """Yield keys of what is unknown where jobs could not be read."""
    for queue_key in tree.queues():
        yield key_of(Kind.JOB_UNPLACED, Place(tenant=queue_key.tenant, biz=queue_key.biz))
