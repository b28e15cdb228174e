"""Detect what is wrong with capacity, hosts, the scheduler and unplaced jobs (SPEC.md A11, B, C1).

**Hosts.** A host that refuses everything is left alone for ever longer, so that hardly anything is
asked of it: its few answers are no sign that it is well. Where there are too few to judge by, the
refusals in a row decide; of one that is left alone, or not trusted again yet, recovery is never
taken for sure. A host that fails is asked for less and less, too, as what failed waits for its next
try: a few answers that are as bad say neither that it fails nor that it is well. A host that is
asked for nothing any more yields nothing.

**The scheduler.** A silent scheduler cannot report that, and a tick goes on where a part of it
fails: so both are found here, in one finding at most.

**Jobs.** They were given up, as no worker suits them; or they wait for longer than the stage has
patience: no worker has looked at them, or those that suit them are busy.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.documents.stage import Thresholds
from crawlfleet.fleet.autoscaler import stated_by
from crawlfleet.fleet.models import PoolSample, Ticked, WorkersSample
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.redaction import one_line, plain
from crawlfleet.kernel.time import span
from crawlfleet.monitoring.incidents.kinds import Kind
from crawlfleet.monitoring.incidents.models import Finding, Place, key_of
from crawlfleet.monitoring.models import HostSample, UnplacedJob

#: Of those that state needs, so many are named.
_NAMED: Final = 5


def capacity_findings(workers: WorkersSample, tree: Tree) -> Iterator[Finding]:
    """Find pools with fewer workers than is stated, and needs of pools that are not there."""
    for pool in workers.pools:
        short = short_of(pool)
        if short:
            yield Finding(
                kind=Kind.CAPACITY_SHORT,
                place=_place(pool.name),
                value=short,
                threshold=0,
                said=f"{_said(pool)}; it is stated by {_stated_by(tree, pool.name)}",
            )
    there = {MAIN_POOL, *(pool.name for pool in workers.pools)}
    for name in sorted({needs.pool for _, needs in stated_by(tree)} - there):
        yield Finding(
            kind=Kind.CAPACITY_SHORT,
            place=_place(name),
            value=1,
            threshold=0,
            said=f"capacity of the pool {name} is stated, and no such pool is deployed;"
            f" it is stated by {_stated_by(tree, name)}",
        )


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


#: What sampling calls them.
HOST: Final = "host"
#: Overloaded answers in a row that are enough, however few there were. By default a host is left
#: alone for half a minute after that.
IN_A_ROW: Final = 5

#: What is found of hosts.
KINDS: Final = frozenset({Kind.HOST_THROTTLED, Kind.HOST_FAILING, Kind.HOST_SLOW})


def host_findings(host: HostSample, thresholds: Thresholds) -> Iterator[Finding]:
    """Find what is wrong with a host."""
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
    alone = host.backing_off_until
    refused = f"{share:.0%} of {host.asked:,} answers in {host.window_seconds:.0f} s were 429, 503"
    yield Finding(
        kind=Kind.HOST_THROTTLED,
        place=host_place(host.host),
        met_by=host.met_by,
        value=share,
        threshold=thresholds.throttled_share,
        said=(
            f"{refused} or no connection"
            if host.asked
            else f"its last {host.strain:,} answers were 429, 503 or no connection"
        )
        + (f"; it is left alone until {alone:%H:%M:%S} UTC" if alone else "")
        + _waiting(host),
    )


def _failing(host: HostSample, thresholds: Thresholds) -> Iterator[Finding]:
    share, limit = host.failed / host.asked if host.asked else 0.0, thresholds.failing_share
    if share > limit:
        yield Finding(
            kind=Kind.HOST_FAILING,
            place=host_place(host.host),
            met_by=host.met_by,
            value=share,
            threshold=limit,
            said=f"{share:.0%} of {host.asked:,} answers in {host.window_seconds:.0f} s were errors"
            f" of the server (5xx but 503), more than {limit:.0%}{_waiting(host)}",
        )


def _slow(host: HostSample, thresholds: Thresholds) -> Iterator[Finding]:
    took, limit = host.latency_seconds, thresholds.host_latency_seconds
    if took is not None and limit is not None and took > limit:
        yield Finding(
            kind=Kind.HOST_SLOW,
            place=host_place(host.host),
            met_by=host.met_by,
            value=took,
            threshold=limit,
            said=f"{host.answered:,} answers in {host.window_seconds:.0f} s took {took:.1f} s on"
            f" average, longer than {limit:.1f} s{_waiting(host)}",
        )


def _waiting(host: HostSample) -> str:
    return f"; {host.deferred:,} requests wait for it" if host.deferred else ""


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
    return Place(part=HOST, name=one_line(host, 260))


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


SCHEDULER: Final = Place(part="scheduler")
#: Parts in one sentence. There are no more, unless a newer version has noted them.
_NAMED_BIZS: Final = 8
_WORD: Final = 32


def tick_findings(ticked: Ticked, thresholds: Thresholds) -> Iterator[Finding]:
    """Find what is wrong with the scheduler, by its latest tick."""
    ago, longest = ticked.seconds_ago, thresholds.tick_silent_seconds
    faults, most = sum(ticked.faults.values()), thresholds.tick_faults
    if ago is None:
        if ticked.awaited_seconds > longest:
            said = (
                f"no tick of it is known, and one is asked for since {span(ticked.awaited_seconds)}"
            )
            yield _finding(ticked.awaited_seconds, longest, said)
    elif ago > longest:
        said = f"the last tick ended {span(ago)} ago, longer than {span(longest)}"
        yield _finding(ago, longest, said)
    elif faults > most:
        yield _finding(faults, most, f"of the last tick failed: {faults_in_words(ticked.faults)}")


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


def _finding(value: float, threshold: float, said: str) -> Finding:
    return Finding(
        kind=Kind.SCHEDULER_FAULTS, place=SCHEDULER, value=value, threshold=threshold, said=said
    )


#: Of a biz's jobs so many are named, and characters of why.
_NAMED_JOBS: Final = 3
_QUOTED: Final = 400


def unplaced_findings(jobs: Sequence[UnplacedJob]) -> Iterator[Finding]:
    """Find one for each biz, which names its jobs, what they wanted, and what was on offer."""
    of_biz = sorted(jobs, key=lambda job: (job.tenant, job.biz))
    for (tenant, biz), each in groupby(of_biz, key=lambda job: (job.tenant, job.biz)):
        found = list(each)
        words = [_job_said(job) for job in found[:_NAMED_JOBS]]
        more = [f"and {len(found) - _NAMED_JOBS:,} more"] if len(found) > _NAMED_JOBS else []
        yield Finding(
            kind=Kind.JOB_UNPLACED,
            place=Place(tenant=tenant, biz=biz),
            value=len(found),
            threshold=0,
            said="; ".join([*words, *more]),
        )


def _job_said(job: UnplacedJob) -> str:
    waits = "" if job.since is None else f" waits since {job.since:%Y-%m-%d %H:%M} UTC"
    return f"{one_line(job.job, 160)}{waits}: {plain(job.why, _QUOTED)}"


def unknown_of_unplaced(tree: Tree) -> Iterator[str]:
    """Yield keys of what is unknown where jobs could not be read."""
    for queue_key in tree.queues():
        yield key_of(Kind.JOB_UNPLACED, Place(tenant=queue_key.tenant, biz=queue_key.biz))
