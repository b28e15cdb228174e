"""Detect what is wrong in a sample by the config centre's thresholds (SPEC.md A11, B13, H4).

Pure: a sample, the one before it and the configuration in; findings out, and the keys of what is
unknown because it could not be read. What is beyond a threshold is wrong, what is at it is not.

Hosts are found by who asks for them, and the nodes of a Redis cluster by asking the cluster. What a
sample lacks may be well or not have been met, so :func:`unseen` needs the known incidents.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.config.documents.stage import Thresholds, own_or
from crawlfleet.config.lookup import is_suspended, shares_work
from crawlfleet.crawling.records.falls import (
    MOSTLY,
    empties,
    falls,
    is_busy,
    mostly_empty,
    newest_of,
)
from crawlfleet.fleet.autoscaler import latest_first, latest_seconds, seconds_left
from crawlfleet.fleet.models import QueueSample, WorkersSample
from crawlfleet.kernel.queue_key import MAIN_POOL, QueueKey
from crawlfleet.kernel.redaction import one_line, plain
from crawlfleet.kernel.time import span, to_ms
from crawlfleet.monitoring.incidents import capacity_checks as capacity
from crawlfleet.monitoring.incidents import store_checks as stores
from crawlfleet.monitoring.incidents import stream_checks as streams
from crawlfleet.monitoring.incidents.kinds import Kind
from crawlfleet.monitoring.incidents.models import (
    Evaluation,
    Finding,
    Incident,
    Life,
    Place,
    key_of,
)
from crawlfleet.monitoring.models import BizCoverage, Sample
from crawlfleet.requests.models import Coverage
from crawlfleet.requests.queue.stats import NodeHealth

#: Two samples that lie closer or further apart than this say nothing of what rises between them.
_CLOSEST: Final = timedelta(seconds=20)
_FURTHEST: Final = timedelta(minutes=15)
#: Characters of what others have written, in a sentence.
_QUOTED: Final = 300
_NAMED: Final = 5

#: Characters of the name of a field, which a page may have given.
_LONGEST_FIELD: Final = 64

#: Names in ``Sample.unread`` under which hosts could not be read.
_HOSTS_UNREAD: Final = frozenset({"hosts", "everything"})

WORKERS: Final = Place(part="workers")
CONFIG: Final = Place(part="config")
MONITOR: Final = Place(part="monitor")


def evaluate(sample: Sample, before: Sample | None, tree: Tree) -> Evaluation:
    """Find what is wrong in ``sample``; ``before`` is the sample before it, for what rises."""
    findings: list[Finding] = []
    unknown: set[str] = set()
    thresholds = tree.stage.thresholds
    earlier = comparable(sample.at, before)
    parts_before = {(p.part, p.name): p for p in earlier.parts} if earlier else {}
    for part in sample.parts:
        was = parts_before.get((part.part, part.name))
        findings += stores.part_findings(part, was, thresholds)
        unknown.update(stores.unknown_of_part(part, was))
    queues_before = {queue.queue_key: queue for queue in earlier.queues} if earlier else {}
    minutes = (sample.at - earlier.at) / timedelta(minutes=1) if earlier else 0.0
    for queue in sample.queues:
        biz = tree.bizs.get(queue.queue_key.tenant, {}).get(queue.queue_key.biz)
        if biz is None or is_suspended(tree, queue.queue_key.tenant):
            continue
        second = to_ms(sample.at) // 1000
        findings += _queue_findings(queue, biz, thresholds, second, sample.workers)
        findings += _rises(queue, queues_before.get(queue.queue_key), minutes, biz, thresholds)
        unknown.update(_unknown_of_queue(queue, queues_before.get(queue.queue_key)))
    judged: set[Place] = set()
    read: set[Place] = set()
    for covered in sample.coverage:
        biz = tree.bizs.get(covered.queue_key.tenant, {}).get(covered.queue_key.biz)
        if biz is None:
            continue
        if any(is_busy(covered.hours, one, thresholds.coverage_records) for one in biz.readers):
            judged.add(_place(covered.queue_key))
            findings += _coverage_findings(covered, biz, thresholds)
        if newest := newest_of(covered.hours, biz.rules):
            read.add(_place(covered.queue_key))
            findings += _empty_findings(covered.queue_key, biz, newest)
    findings += _worker_findings(sample, tree, thresholds)
    if sample.ticked is not None:
        findings += capacity.tick_findings(sample.ticked, thresholds)
    for host in sample.hosts:
        findings += capacity.host_findings(host, thresholds)
        unknown.update(capacity.unknown_of_host(host, thresholds))
    findings += capacity.unplaced_findings(sample.unplaced or ())
    findings += capacity.fire_findings(sample.failed_fires or ())
    findings += capacity.quota_findings(sample.used_up or ())
    findings += capacity.proxy_findings(sample.proxies or ())
    if sample.streams is not None:
        findings += streams.stream_findings(sample.streams, sample.at)
    findings += _fleet_findings(sample)
    unknown.update(_unknown_of_fleet(sample, tree))
    unknown.update(_unknown_of_absent(sample, tree))
    # Hosts have no names but those that Redis gives them.
    blind = any(not part.up and part.part == stores.REDIS for part in sample.parts) or any(
        each.what in _HOSTS_UNREAD for each in sample.unread
    )
    unseen = set(capacity.KINDS) if blind else set()
    if not capacity.all_fires_read(sample.failed_fires):
        # Which bizs have schedules is not known by the documents: theirs may have been removed.
        unseen.add(Kind.SCHEDULE_FAILED)
    if sample.streams is None:
        unseen |= streams.KINDS
    return Evaluation(
        findings=tuple(findings),
        unknown=frozenset(unknown),
        unseen=frozenset(unseen),
        covered=frozenset(judged),
        read=frozenset(read),
    )


def found_kinds(evaluation: Evaluation, incidents: Iterable[Incident]) -> dict[Kind, bool]:
    """Map every kind to whether it was found anywhere, or may not be over.

    A listener to figures alone must not take an evaluation that saw nothing for a recovery.
    """
    found = {finding.kind for finding in evaluation.findings}
    found |= {
        each.kind
        for each in incidents
        if each.life is Life.OPEN
        and (each.key in evaluation.unknown or each.kind in evaluation.unseen)
    }
    return {kind: kind in found for kind in Kind}


def comparable(at: datetime, before: Sample | None) -> Sample | None:
    """Return the sample before, where the two say what rises between them."""
    if before is None or not _CLOSEST <= at - before.at <= _FURTHEST:
        return None
    return before


def _place(queue_key: QueueKey) -> Place:
    return Place(tenant=queue_key.tenant, biz=queue_key.biz)


def _queue_findings(
    sample: QueueSample,
    biz: Biz,
    thresholds: Thresholds,
    second: int,
    workers: WorkersSample | None,
) -> Iterator[Finding]:
    place, own = _place(sample.queue_key), biz.thresholds
    if sample.depth is not None:
        depth = sample.depth
        backlog = depth.queued + depth.leased + depth.delayed
        deepest = own_or(own.backlog, thresholds.backlog)
        if backlog > deepest:
            said = f"{backlog:,} requests are queued, leased or delayed, more than {deepest:,}"
            yield Finding(Kind.BACKLOG, place, backlog, deepest, said)
        longest = own_or(own.oldest_waiting_seconds, thresholds.oldest_waiting_seconds)
        if sample.oldest_seconds > longest:
            said = f"the oldest of {depth.queued:,} has waited {span(sample.oldest_seconds)},"
            said += f" longer than {span(longest)}"
            yield Finding(Kind.OLDEST_WAITING, place, sample.oldest_seconds, longest, said)
        yield from _late(sample, biz.planned_seconds, second, workers)
    lost, most = abs(sample.difference or 0), thresholds.ledger_difference
    if sample.difference is not None and lost > most:
        what = "are in no state" if sample.difference > 0 else "were never submitted"
        yield Finding(Kind.LEDGER_DIFFERENCE, place, lost, most, f"{lost:,} requests {what}")


def _coverage_findings(covered: BizCoverage, biz: Biz, thresholds: Thresholds) -> Iterator[Finding]:
    """Find fields of busy rules that have a value less often than they had."""
    share = own_or(biz.thresholds.coverage_fall, thresholds.coverage_fall)
    fields = {
        **{name: rule.fields.keys() for name, rule in biz.rules.items()},
        **dict.fromkeys(biz.spiders),
    }
    fallen = falls(covered.hours, fields, share, thresholds.coverage_records)
    if not fallen:
        return
    said = "; ".join(
        f"{one_line(one.field, _LONGEST_FIELD)} of {one.rule} has a value in {one.now:.0%} of"
        f" {one.records:,} records, {one.before:.0%} before"
        for one in fallen[:_NAMED]
    )
    more = f"; and {len(fallen) - _NAMED:,} more" if len(fallen) > _NAMED else ""
    yield Finding(Kind.COVERAGE, _place(covered.queue_key), fallen[0].share, share, said + more)


def _empty_findings(
    queue_key: QueueKey, biz: Biz, newest: Mapping[str, Coverage]
) -> Iterator[Finding]:
    """Find rules that next to no record has half of the fields of: their selectors do not fit."""
    said, worst = [], 0.0
    for name, coverage in sorted(newest.items()):
        wanted = biz.rules[name].selected
        if not mostly_empty(coverage, wanted):
            continue
        empty = empties(coverage, wanted)
        worst = max(worst, len(empty) / len(wanted))
        fields = ", ".join(one_line(field, _LONGEST_FIELD) for field in empty[:_NAMED])
        more = f" and {len(empty) - _NAMED:,} more" if len(empty) > _NAMED else ""
        said.append(f"{fields}{more} of {name} in next to none of {coverage.records:,} records")
    if said:
        more = f"; and {len(said) - _NAMED:,} more rules" if len(said) > _NAMED else ""
        words = "; ".join(said[:_NAMED]) + more
        yield Finding(Kind.EMPTY_FIELDS, _place(queue_key), worst, MOSTLY, words)


def _late(
    sample: QueueSample, planned: float | None, second: int, workers: WorkersSample | None
) -> Iterator[Finding]:
    """Find a backlog that will outlast the plan at the present rate, or already has."""
    depth, rate = sample.depth, sample.processed
    if planned is None or depth is None or not depth.queued:
        return
    forecast, oldest = sample.finish_seconds, sample.oldest_seconds
    submitted = latest_first(sample.submitted_seconds, second)
    left = seconds_left(planned, oldest, depth.queued, submitted)
    worst = latest_seconds(planned, left, oldest, forecast)
    if worst <= planned:
        return
    per_second = 0.0 if rate is None else rate.per_60s
    said = f"{depth.queued:,} requests wait, the oldest for {span(sample.oldest_seconds)}, and "
    said += (
        "nothing is processed"
        if forecast is None
        else f"at {per_second:,.1f} a second they take {span(forecast)}"
    )
    said += f"; planned are {span(planned)}{_bounded(workers)}"
    yield Finding(Kind.WILL_BE_LATE, _place(sample.queue_key), worst, planned, said)


def _bounded(sample: WorkersSample | None) -> str:
    """Say that more of the usual workers are wanted than may run, where so."""
    workers = None if sample is None else sample.of(MAIN_POOL)
    if workers is None or workers.allowed is None or workers.allowed >= (workers.wanted or 0):
        return ""
    return (
        f". {workers.wanted:,} workers are wanted and {workers.allowed:,} may run at once, as the"
        " account gives them no more concurrency: ask AWS for more concurrent executions, or"
        " reserve less for other functions"
    )


def _rises(
    sample: QueueSample,
    before: QueueSample | None,
    minutes: float,
    biz: Biz,
    thresholds: Thresholds,
) -> Iterator[Finding]:
    """Find what has risen since the sample before."""
    if before is None or before.ledger is None or sample.ledger is None or minutes <= 0:
        return
    own, now, was = biz.thresholds, sample.ledger, before.ledger
    dead = own_or(own.dead_per_minute, thresholds.dead_per_minute)
    expired = own_or(own.expired_per_minute, thresholds.expired_per_minute)
    late = "run out of time before anybody works on them"
    for kind, more, limit, what in (
        (Kind.DEAD_LETTERS, now.dead - was.dead, dead, "are given up on"),
        (Kind.EXPIRED, now.expired - was.expired, expired, late),
    ):
        if (rate := more / minutes) > limit:
            said = f"{rate:,.0f} requests a minute {what}, more than {limit:,}"
            yield Finding(kind, _place(sample.queue_key), rate, limit, said)


def _unknown_of_queue(sample: QueueSample, before: QueueSample | None) -> Iterator[str]:
    place = _place(sample.queue_key)
    if sample.depth is None:
        for kind in (Kind.BACKLOG, Kind.OLDEST_WAITING, Kind.WILL_BE_LATE):
            yield key_of(kind, place)
    if sample.difference is None:
        yield key_of(Kind.LEDGER_DIFFERENCE, place)
    if sample.ledger is None or before is None or before.ledger is None:
        yield key_of(Kind.DEAD_LETTERS, place)
        yield key_of(Kind.EXPIRED, place)


def _worker_findings(sample: Sample, tree: Tree, thresholds: Thresholds) -> Iterator[Finding]:
    workers = sample.workers
    if workers is None:
        return
    if workers.dead > thresholds.dead_workers:
        said = f"{workers.dead:,} workers are dead, {workers.alive:,} alive"
        yield Finding(Kind.WORKERS_DEAD, WORKERS, workers.dead, thresholds.dead_workers, said)
    usual = workers.of(MAIN_POOL)
    if not _has_workers(workers, tree) and sample.fleet.ready:
        said = f"{sample.fleet.ready:,} requests are ready and no worker is alive"
        said += f" ({usual.present:,} started, {usual.wanted or 0:,} wanted)"
        yield Finding(Kind.NO_WORKERS, WORKERS, sample.fleet.ready, 0, said)
    yield from capacity.capacity_findings(workers, tree)


def _has_workers(workers: WorkersSample, tree: Tree) -> bool:
    """Return whether a worker is alive that takes what is bound for no pool."""
    if not workers.pools:
        return workers.alive > 0
    return any(pool.alive and shares_work(tree.stage, pool.name) for pool in workers.pools)


def _fleet_findings(sample: Sample) -> Iterator[Finding]:
    if sample.config_refused is not None:
        said = plain(sample.config_refused, _QUOTED)
        yield Finding(Kind.CONFIG_REFUSED, CONFIG, 1, 0, said)
    items, requests = sample.stray_items or 0, sample.stray_requests or 0
    if items + requests > 0:
        said = f"{items:,} items and {requests:,} requests wait for bizs that there are not"
        yield Finding(Kind.ORPHANED_QUEUES, WORKERS, items + requests, 0, said)
    # What stands behind a part that is down cannot be read: that is reported once, by the part.
    if sample.unread and all(part.up for part in sample.parts):
        named = "; ".join(
            f"{one_line(each.what, 160)}: {plain(each.why, 120)}" for each in sample.unread[:_NAMED]
        )
        more = len(sample.unread) - _NAMED
        said = f"{named}; and {more:,} more" if more > 0 else named
        yield Finding(Kind.MONITOR_BLIND, MONITOR, len(sample.unread), 0, said)


def _unknown_of_fleet(sample: Sample, tree: Tree) -> Iterator[str]:
    if sample.workers is None:
        yield key_of(Kind.WORKERS_DEAD, WORKERS)
        yield key_of(Kind.NO_WORKERS, WORKERS)
        yield from capacity.unknown_of_capacity(tree)
    elif not (
        _has_workers(sample.workers, tree) or sample.fleet.ready or _all_loads_read(sample, tree)
    ):
        # What waits in a queue that could not be read still waits without workers.
        yield key_of(Kind.NO_WORKERS, WORKERS)
    if sample.unplaced is None:
        yield from capacity.unknown_of_unplaced(tree)
    if sample.used_up is None:
        yield from capacity.unknown_of_quotas(tree)
    yield from capacity.unknown_of_proxies(sample.proxies, tree)
    if sample.stray_items is None or sample.stray_requests is None:
        yield key_of(Kind.ORPHANED_QUEUES, WORKERS)
    if sample.ticked is None or capacity.may_come(sample.ticked, tree.stage.thresholds):
        yield key_of(Kind.SCHEDULER_FAULTS, capacity.SCHEDULER)
    if not all(part.up for part in sample.parts):
        yield key_of(Kind.MONITOR_BLIND, MONITOR)


def _all_loads_read(sample: Sample, tree: Tree) -> bool:
    loads = {queue.queue_key: queue.load for queue in sample.queues}
    return all(loads.get(queue_key) is not None for queue_key in tree.queues())


def _unknown_of_absent(sample: Sample, tree: Tree) -> Iterator[str]:
    """Find keys of what the configuration has and the sample has not: too little was readable.

    A biz without a valid document counts too: after a restart nobody knows how it was before.
    """
    sampled = {queue.queue_key for queue in sample.queues}
    refused = (QueueKey(tenant, biz, "") for tenant, biz in tree.refused)
    for queue_key in (*tree.queues(), *refused):
        if queue_key not in sampled:
            yield from _unknown_of_queue(QueueSample(queue_key=queue_key), None)
    found = {part.name for part in sample.parts if part.part == stores.MONGODB}
    for node in tree.stage.nodes:
        if node not in found:
            part = NodeHealth(part=stores.MONGODB, name=node, up=False)
            yield from stores.unknown_of_part(part, None)
            yield key_of(Kind.PART_DOWN, Place(part=stores.MONGODB, name=node))


def unseen(known: Iterable[Incident], sample: Sample, evaluation: Evaluation) -> frozenset[str]:
    """Find the keys of known incidents that the sample could not see, so that none ends."""
    hosts = {capacity.host_place(host.host) for host in sample.hosts}
    redis = [part for part in sample.parts if part.part == stores.REDIS]
    nodes = {stores.part_place(part) for part in redis}
    # While one does not answer, the others may be missing only because nobody could name them.
    all_named = bool(redis) and all(part.up for part in redis)
    found = {finding.key for finding in evaluation.findings}
    # Who reads nothing, or too little to tell, has not mended what fell.
    there = {_place(queue.queue_key) for queue in sample.queues}
    uncovered, unread = there - evaluation.covered, there - evaluation.read
    return frozenset(
        each.key
        for each in known
        if each.life is not Life.OVER
        and each.key not in found
        and (
            (each.kind in capacity.KINDS and each.place not in hosts)
            or (each.kind is Kind.COVERAGE and each.place in uncovered)
            or (each.kind is Kind.EMPTY_FIELDS and each.place in unread)
            or (each.place.part == stores.REDIS and each.place not in nodes and not all_named)
        )
    )


def hosts_to_watch(known: Iterable[Incident]) -> list[str]:
    """List hosts with incidents that may end, for the next sample to ask for by name."""
    hosts = (each for each in known if each.kind in capacity.KINDS)
    return sorted({each.place.name for each in hosts if each.life is not Life.OVER})
