"""The overview of the fleet for people who watch it: one glance for all of them (SPEC.md C10).

A glance reads queues, workers, schedules and jobs that are late, open incidents and the money of
the day; no ledger, no host and no part is asked. All viewers share one that is some seconds old, so
that each of them costs next to nothing. An operator sees all of it. Any other tenant sees its own
bizs, incidents, lateness and money, and of workers, which serve everybody, how they are and not
what they do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec
from msgspec.structs import replace

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.lookup import operates
from crawlfleet.fleet.models import FleetSample, PoolSample, QueueSample, WorkersSample
from crawlfleet.fleet.status import fleet_of
from crawlfleet.jobs.costs.mongo import MongoCosts
from crawlfleet.jobs.models import RunFigures
from crawlfleet.jobs.usage import together
from crawlfleet.kernel.errors import CrawlfleetError
from crawlfleet.kernel.log import warn
from crawlfleet.monitoring.gathering import Bounds
from crawlfleet.monitoring.incidents.handling import Handlings
from crawlfleet.monitoring.incidents.lifecycle import MOST
from crawlfleet.monitoring.incidents.models import Incident
from crawlfleet.monitoring.incidents.mongo import MongoIncidentBook
from crawlfleet.monitoring.models import Sample, Unread
from crawlfleet.monitoring.sampler import Sampler

#: A glance is quick, or names what it could not read.
BOUNDS: Final = Bounds(sample_seconds=5.0)


class LateKind(StrEnum):
    """The kind of a thing that is late."""

    BIZ = "biz"
    SCHEDULE = "schedule"
    JOB = "job"


class LateThing(msgspec.Struct, frozen=True, kw_only=True):
    """A thing that is late: a biz's backlog, a schedule's fire, a job that waits for a worker."""

    kind: LateKind
    tenant: str
    biz: str
    name: str = ""
    since: datetime | None = None
    why: str = ""


class Glance(msgspec.Struct, frozen=True, kw_only=True):
    """A glance at everything, for all viewers; None is what could not be read.

    ``incidents`` are the open ones, the newest first, ``handlings`` say by key how people handle
    them. ``money`` is what the work of tenants has
    taken since the day of UTC began.
    """

    sample: Sample
    incidents: tuple[Incident, ...] | None = None
    handlings: Handlings = {}
    money: Mapping[str, RunFigures] | None = None


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """A glance as one tenant may see it; ``of_fleet`` where it is an operator."""

    at: datetime
    of_fleet: bool
    revision: str = ""
    config_refused: str | None = None
    workers: WorkersSample | None = None
    totals: FleetSample = FleetSample()
    queues: tuple[QueueSample, ...] = ()
    late: tuple[LateThing, ...] | None = ()
    incidents: tuple[Incident, ...] | None = ()
    handlings: Handlings = {}
    money: RunFigures | None = None
    unread: tuple[Unread, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Glancing:
    """Glances at the fleet."""

    sampler: Sampler
    incidents: MongoIncidentBook
    costs: MongoCosts

    def glance(self, tree: Tree, now: datetime, config_refused: str | None = None) -> Glance:
        """Glance at everything; what does not answer is named, and the rest is read."""
        sample = self.sampler.glance(tree, now, config_refused=config_refused, bounds=BOUNDS)
        unread: list[Unread] = []
        incidents: tuple[Incident, ...] | None = None
        handlings: Handlings = {}
        money: Mapping[str, RunFigures] | None = None
        try:
            incidents = tuple(self.incidents.find(None, open_only=True, before=None, limit=MOST))
            handlings = self.incidents.handlings([one.key for one in incidents])
        except CrawlfleetError as error:
            unread.append(_unread("incidents", error))
        try:
            money = self.costs.of_day(sorted(tree.bizs), now.astimezone(UTC).date())
        except CrawlfleetError as error:
            unread.append(_unread("money", error))
        sample = replace(sample, unread=(*sample.unread, *unread))
        return Glance(sample=sample, incidents=incidents, handlings=handlings, money=money)


def overview_of(glance: Glance, tree: Tree, tenant: str) -> Overview:
    """Return what a tenant may see of a glance."""
    sample, incidents, money = glance.sample, glance.incidents, glance.money
    everything = operates(tree, tenant)
    queues = tuple(one for one in sample.queues if everything or one.queue_key.tenant == tenant)
    late = _late(sample, queues)
    if late is not None and not everything:
        late = tuple(one for one in late if one.tenant == tenant)
    if incidents is not None and not everything:
        incidents = tuple(one for one in incidents if one.place.tenant == tenant)
    spent = None if money is None else together(money.values())
    if money is not None and not everything:
        spent = money.get(tenant, RunFigures())
    workers = sample.workers
    return Overview(
        at=sample.at,
        of_fleet=everything,
        revision=sample.revision,
        config_refused=sample.config_refused if everything else None,
        workers=workers if everything or workers is None else _without_work(workers),
        totals=fleet_of(queues),
        queues=queues,
        late=late,
        incidents=incidents,
        handlings=glance.handlings,
        money=spent,
        # Reasons may name addresses, and what is away may be of others: a tenant reads the subject.
        unread=sample.unread if everything else _subjects(sample.unread),
    )


def _without_work(workers: WorkersSample) -> WorkersSample:
    """Leave how workers are: what they have done and hold is of all tenants."""
    pools = tuple(
        PoolSample(
            name=pool.name,
            memory_mb=pool.memory_mb,
            region=pool.region,
            network=pool.network,
            alive=pool.alive,
            suspected=pool.suspected,
            dead=pool.dead,
            unwatched=pool.unwatched,
            present=pool.present,
        )
        for pool in workers.pools
    )
    return replace(workers, wanted=None, allowed=None, pools=pools)


def _subjects(unread: Sequence[Unread]) -> tuple[Unread, ...]:
    return tuple(Unread(what=one.what, why="") for one in unread)


def _late(sample: Sample, queues: Sequence[QueueSample]) -> tuple[LateThing, ...] | None:
    """List late bizs, schedules and jobs by age; None where not all of these were read."""
    if sample.failed_fires is None or sample.unplaced is None:
        return None
    found = [
        LateThing(
            kind=LateKind.BIZ,
            tenant=one.queue_key.tenant,
            biz=one.queue_key.biz,
            why=f"its oldest request has waited for {one.oldest_seconds:.0f} s",
        )
        for one in queues
        if one.late
    ]
    found += [
        LateThing(
            kind=LateKind.SCHEDULE,
            tenant=fire.tenant,
            biz=fire.biz,
            name=fire.schedule,
            since=fire.fire_at,
            why=fire.why,
        )
        for fire in sample.failed_fires
    ]
    found += [
        LateThing(
            kind=LateKind.JOB,
            tenant=job.tenant,
            biz=job.biz,
            name=job.job,
            since=job.since,
            why=job.why,
        )
        for job in sample.unplaced
    ]
    order = list(LateKind)
    return tuple(sorted(found, key=lambda one: (order.index(one.kind), *_by_age(one))))


def _by_age(one: LateThing) -> tuple[float, str, str, str]:
    since = 0.0 if one.since is None else one.since.timestamp()
    return since, one.tenant, one.biz, one.name


def _unread(what: str, error: CrawlfleetError) -> Unread:
    warn(f"the overview could not read {what}", error)
    return Unread(what=what, why=str(error))
