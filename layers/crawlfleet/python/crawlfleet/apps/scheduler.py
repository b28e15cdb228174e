"""The scheduler: due schedules, reaping, recovery, scaling, each on its own."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from crawlfleet.apps.context import Parts
from crawlfleet.apps.events import Alarm, EventStarts, alarms_in, is_start
from crawlfleet.apps.health import health_of, is_health_check
from crawlfleet.apps.rounds import (
    open_auction,
    open_cancellation,
    open_job_rounds,
    open_quotas,
    open_reaper,
    open_recovery,
    open_run_usage,
    open_seed_dispatcher,
)
from crawlfleet.apps.submissions import open_submissions
from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.versions.mongo import MongoVersions
from crawlfleet.config.versions.seen import SeenVersions
from crawlfleet.crawling.frontier.worker import tend_seeds
from crawlfleet.crawling.politeness.redis import RedisHosts
from crawlfleet.crawling.records.redis import RedisDataQueue
from crawlfleet.crawling.recrawl.mongo import MongoVisits
from crawlfleet.crawling.recrawl.service import Recrawl
from crawlfleet.fleet.forecast import Forecast
from crawlfleet.fleet.models import TickPart
from crawlfleet.fleet.quotas.demand import QuotaDemand
from crawlfleet.fleet.recovery.orphans import (
    OrphanedQueues,
    RemovedPools,
)
from crawlfleet.fleet.recovery.reaper import Reaper
from crawlfleet.fleet.recovery.service import Recovered, Recovery
from crawlfleet.fleet.redis.scheduler import RedisBizs, RedisTicks
from crawlfleet.fleet.scaling import Scaled, ScaledPool, Scaling
from crawlfleet.fleet.ticks import Faults, TickReports
from crawlfleet.jobs.bidding.redis import RedisBoard
from crawlfleet.jobs.cancellation import ROUND_SECONDS
from crawlfleet.jobs.costs.mongo import MongoCosts, MongoHistories
from crawlfleet.jobs.mongo.store import MongoJobs
from crawlfleet.jobs.schedules.dispatcher import ScheduleRunner
from crawlfleet.jobs.schedules.mongo import MongoSchedules
from crawlfleet.jobs.service import JobStarter
from crawlfleet.jobs.spiders.mongo import MongoSpiders
from crawlfleet.kernel import names
from crawlfleet.kernel.errors import NoConfigurationError
from crawlfleet.kernel.metrics import SparingMetrics
from crawlfleet.kernel.queue_key import MAIN_POOL
from crawlfleet.kernel.redis.clock import ServerClock
from crawlfleet.kernel.settings import Need, Settings
from crawlfleet.monitoring.emf import EmfMetrics
from crawlfleet.requests.queue.redis.stats import RedisOverview, RedisQueueSampler

if TYPE_CHECKING:
    from crawlfleet.apps.stream_starts import StreamStarts

#: Scaling takes so long at most, where parts are slow to answer.
SCALING_SECONDS: Final = 25.0
#: Jobs are given to workers for so long in a tick.
AWARD_SECONDS: Final = 5.0
#: Events that wait are started for so long in a tick.
STARTS_SECONDS: Final = 10.0
#: Tasks are made for so long in a tick, and while as much is left for the rest of it: workers go
#: on with them.
JOBS_SECONDS: Final = 15.0
JOBS_MARGIN_SECONDS: Final = 45.0
#: A tick waits for schedules that come due before the next one, half a minute after it began. That
#: costs the time of one function while there is such a schedule, and nothing where there is none.
IN_TIME_SECONDS: Final = 30.0
#: What of a tick makes work for workers, or makes them fewer.
_CHANGES: Final = [
    "fires",
    "tasks",
    "recrawled",
    "seeded",
    "buried",
    "requeued",
    "orphans",
    "corrected",
    "given_over",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verbs:
    """The verbs of a tick, which tests replace."""

    run_due: Callable[..., int] = ScheduleRunner.run_due
    resubmit_due: Callable[..., int] = Recrawl.resubmit_due
    tend_seeds: Callable[..., int] = tend_seeds
    announce_bizs: Callable[..., int] = OrphanedQueues.announce
    reap_until_sure: Callable[..., Sequence[str]] = Reaper.reap_until_sure
    recover: Callable[..., Recovered] = Recovery.recover
    scale_all: Callable[..., Mapping[str, Scaled]] = Scaling.scale_all


class Scheduler:
    """Does a tick's work."""

    def __init__(
        self,
        parts: Parts,
        verbs: Verbs = Verbs(),
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._parts = parts
        self._verbs = verbs
        self._sleep = sleep
        # Warnings of a tick count as faults of the part that is under way.
        self._faults = Faults()
        metrics = SparingMetrics(EmfMetrics(parts.settings.stage))
        self._reports = TickReports(ticks=RedisTicks(parts.redis), metrics=metrics)
        self._submission = open_submissions(parts)
        self._firing = ScheduleRunner(
            schedules=MongoSchedules(parts.nodes),
            starter=JobStarter(
                jobs=MongoJobs(parts.nodes),
                spiders=MongoSpiders(parts.nodes),
                rules=self._submission.rules,
                board=RedisBoard(parts.redis),
                histories=MongoHistories(parts.nodes),
            ),
        )
        self._recrawl = Recrawl(submission=self._submission, visits=MongoVisits(parts.nodes))
        self._seeding = open_seed_dispatcher(parts, self._submission)
        self._data = RedisDataQueue(parts.redis)
        self._recovery = open_recovery(parts)
        self._reassignment = RemovedPools(recovery=self._recovery, say=parts.log.warning)
        self._cancelling = open_cancellation(parts)
        self._hosts = RedisHosts(parts.redis)
        self._usage = open_run_usage(parts)
        self._costs = MongoCosts(parts.nodes)
        self._seen = SeenVersions(parts.config, MongoVersions(parts.nodes))
        self._orphaned = OrphanedQueues(
            bizs=RedisBizs(parts.redis),
            data=self._data,
            queue=parts.queue,
            metrics=metrics,
            say=parts.log.warning,
        )
        self._advancing = open_job_rounds(
            parts, self._submission, self._seeding.seeds, self._recovery.detector
        )
        self._awarding = open_auction(parts, self._recovery.detector)
        self._scaling = Scaling(
            forecast=Forecast(
                sampler=RedisQueueSampler(parts.redis),
                overview=RedisOverview(parts.redis),
                data=self._data,
                hosts=self._hosts,
                store=parts.store,
                jobs=self._advancing.jobs,
                quotas=QuotaDemand(
                    *(open_quotas(parts), self._advancing.jobs.quota_terms),
                    gb={pool.name: pool.memory_mb / 1024 for pool in parts.settings.every_pool},
                ),
            ),
            targets=parts.targets,
            workers=parts.workers,
            waker=parts.waker,
            limit=parts.limit,
            pools={
                pool.name: ScaledPool(
                    workers=parts.workers_of(pool.name),
                    waker=parts.waker_of(pool.function),
                    limit=parts.limit_of(pool.function, pool.ceiling),
                )
                for pool in parts.settings.pools
            },
        )
        self._starts = EventStarts(parts, self._submission.rules, self._reports)
        self._stream_starts = _stream_starts(parts)
        # Leases are judged by the clock that workers go by.
        self._clock = ServerClock(parts.redis)

    def answer(
        self, event: Mapping[str, Any], name: str, time_left: Callable[[], float]
    ) -> Mapping[str, object]:
        """Do what an event asks for: scale, where it brings alarms; the whole tick otherwise.

        An event of a rule of somebody's own starts a job. A stage that is deployed and has no
        configuration yet has nothing to do, which is no failure: each tick would leave a dead
        letter.

        ``name`` is who this is, for locks and journals; ``time_left`` is in seconds.
        """
        if is_health_check(event):
            return health_of(names.SCHEDULER, self._parts, TickPart)
        alarms = alarms_in(event)
        if alarms is None and is_start(event):
            return self._starts.start(event)
        try:
            return self.tick(name, time_left) if alarms is None else self.scale(alarms)
        except NoConfigurationError as error:
            self._parts.log.info("nothing to do", extra={"reason": str(error)})
            return {"nothing_to_do": str(error)}

    def scale(self, alarms: Sequence[Alarm]) -> dict[str, int]:
        """Have as many workers as there should be, at once."""
        self._clock.sync()
        done = {"alarms": len(alarms), **_reported(self._scale())}
        said = {"said": [msgspec.to_builtins(alarm) for alarm in alarms]}
        self._parts.log.info("scaled", extra={**done, **said})
        return done

    def _scale(self) -> Mapping[str, Scaled]:
        tree = self._parts.config.current()
        if unknown := sorted(tree.stage.pools.keys() - self._scaling.pools.keys()):
            self._parts.log.warning("pools that are not deployed", extra={"pools": unknown})
        return self._verbs.scale_all(self._scaling, tree, self._clock)

    def tick(self, name: str, time_left: Callable[[], float]) -> dict[str, int]:
        """Do all of it, and report it; a part that fails does not keep the others from running.

        Workers come first: what is slow here must not keep a fleet from them until the time is up.
        They come last once more where the others have made work for them.
        """
        began, faults = time.monotonic(), self._faults
        faults.begin()
        try:
            tree = self._parts.config.current()
        except NoConfigurationError:
            self._report(began)
            raise
        done: dict[str, int] = {}
        self._clock.sync()
        self._scale_and_count(done)
        self._start_readers(tree, done)
        with faults.within(TickPart.STARTS, "events that wait could not be started"):
            done["starts"] = self._starts.start_waiting(
                _bounded(STARTS_SECONDS, time_left, JOBS_MARGIN_SECONDS)
            )
        ran_at = self._parts.now()
        with faults.within(TickPart.SCHEDULES, "schedules could not be run"):
            done["fires"] = self._verbs.run_due(self._firing, tree, ran_at, time_left)
        with faults.within(TickPart.CANCELLING, "jobs could not be cancelled"):
            done["cancelled"] = self._cancel(tree, name, time_left)
        with faults.within(TickPart.JOBS, "jobs that wait could not be given to workers"):
            # Before tasks are made: those of what waits for nobody any more are among them.
            self._award(tree, name, time_left, done)
        with faults.within(TickPart.JOBS, "jobs could not go on"):
            self._advance(tree, name, time_left, done)
        with faults.within(TickPart.PAGES, "due pages could not be submitted"):
            done["recrawled"] = self._verbs.resubmit_due(
                self._recrawl, tree, self._parts.now(), time_left
            )
        with faults.within(TickPart.SEEDS, "seeds could not be dispatched"):
            done["seeded"] = self._verbs.tend_seeds(
                self._seeding, tree, self._parts.now(), time_left
            )
        self._announce(tree, done)
        self._clock.sync()
        with faults.within(TickPart.WATCH, "dead workers could not be reaped"):
            reaper = open_reaper(self._recovery, self._hosts)
            dead = self._verbs.reap_until_sure(reaper, tree, name, self._clock, time.sleep)
            done["buried"] = len(dead)
        with faults.within(TickPart.RECOVERY, "nothing could be recovered"):
            recovered = self._verbs.recover(self._recovery, tree, name, self._clock(), time_left)
            done |= {"requeued": recovered.requeued, "expired": recovered.expired}
            done |= {"orphans": recovered.orphans, "corrected": recovered.corrected}
        with faults.within(TickPart.RECOVERY, "what pools that are gone have left is still theirs"):
            done["given_over"] = self._reassignment.reassign(tree, name, self._clock(), time_left)
        with faults.within(TickPart.RECOVERY, "what runs have taken could not be learnt"):
            done["learnt"] = self._learn(time_left)
        if any(done.get(what) for what in _CHANGES) and time_left() > SCALING_SECONDS:
            self._scale_and_count(done)
        done["faults"] = faults.counts.total()
        self._report(began)
        with faults.within(TickPart.SCHEDULES, "schedules could not be run in time"):
            until = began + IN_TIME_SECONDS
            self._run_in_time(tree, name, ran_at, until, time_left, done)
        self._parts.log.info("ticked", extra=done)
        return done

    def _announce(self, tree: Tree, done: dict[str, int]) -> None:
        """Announce the bizs, and keep the configuration's version where nobody has."""
        with self._faults.within(TickPart.BIZS, "the bizs could not be announced"):
            done["strays"] = self._verbs.announce_bizs(self._orphaned, tree, self._parts.now())
        with self._faults.within(TickPart.BIZS, "the configuration's version could not be kept"):
            self._seen.keep(self._parts.now())

    def _start_readers(self, tree: Tree, done: dict[str, int]) -> None:
        """Start readers of streams that are missing, where the stage has streams."""
        if self._stream_starts is None:
            return
        with self._faults.within(TickPart.STREAMS, "readers of streams could not be started"):
            done["readers"] = self._stream_starts.start(tree, self._clock())

    def _learn(self, time_left: Callable[[], float]) -> int:
        """Learn from runs that have ended; sum up the accounts of workers that are over."""
        learnt = self._usage.learn_due(self._parts.now(), time_left)
        self._costs.sum_up(self._parts.now(), time_left)
        return learnt

    def _run_in_time(
        self,
        tree: Tree,
        name: str,
        since: datetime,
        until: float,
        time_left: Callable[[], float],
        done: dict[str, int],
    ) -> None:
        """Run schedules that come due before the next tick, make their tasks, start workers."""

        def left() -> float:
            return min(until - time.monotonic(), time_left() - JOBS_MARGIN_SECONDS)

        def run(at: datetime) -> int:
            fires = self._verbs.run_due(self._firing, tree, at, time_left)
            if fires:
                self._advance(tree, name, time_left, done)
                self._scale_and_count(done)
            return fires

        found = self._firing.run_in_time(run, since, self._parts.now, left, sleep=self._sleep)
        if found:
            done["fires"] = done.get("fires", 0) + found

    def _advance(
        self, tree: Tree, name: str, time_left: Callable[[], float], done: dict[str, int]
    ) -> None:
        left = _bounded(JOBS_SECONDS, time_left, JOBS_MARGIN_SECONDS)
        advanced = self._advancing.advance(tree, name, self._parts.now, left)
        done["tasks"] = done.get("tasks", 0) + advanced.tasks
        done["jobs_ended"] = done.get("jobs_ended", 0) + advanced.ended

    def _cancel(self, tree: Tree, name: str, time_left: Callable[[], float]) -> int:
        left = _bounded(ROUND_SECONDS, time_left)
        detector = self._recovery.detector
        return self._cancelling.run_round(detector, tree, name, self._parts.now(), left)

    def _award(
        self, tree: Tree, name: str, time_left: Callable[[], float], done: dict[str, int]
    ) -> None:
        left = _bounded(AWARD_SECONDS, time_left, JOBS_MARGIN_SECONDS)
        if tree.stage.bidding is not None or self._awarding.jobs.placing(1):
            awarded = self._awarding.run_round(tree, name, self._clock, left)
            done |= {"awarded": awarded.awarded, "unplaced": awarded.unplaced}

    def _scale_and_count(self, done: dict[str, int]) -> None:
        """Have as many workers as there should be; ``done`` counts what came of it."""
        with self._faults.within(TickPart.SCALING, "consumers could not be started"):
            before = dict(done)
            done |= _reported(self._scale())
            for key in [key for key in done if key.startswith("started")]:
                done[key] += before.get(key, 0)

    def _report(self, began: float) -> None:
        self._reports.report(self._faults.counts, time.monotonic() - began, self._parts.now())


def _stream_starts(parts: Parts) -> "StreamStarts | None":
    """Open what starts readers; a stage without streams imports nothing of them."""
    if not parts.settings.streams_function:
        return None
    from crawlfleet.apps.stream_starts import StreamStarts

    return StreamStarts(parts)


def _bounded(
    seconds: float, time_left: Callable[[], float], margin: float = 0.0
) -> Callable[[], float]:
    """Return what tells the time left of a part that may take so many ``seconds``."""
    until = time.monotonic() + seconds
    return lambda: min(until - time.monotonic(), time_left() - margin)


def _reported(found: Mapping[str, Scaled]) -> dict[str, int]:
    """Count what scaling did, for the answer and the log; of further pools as ``wanted@large``."""
    reported: dict[str, int] = {}
    for pool, scaled in found.items():
        at = "" if pool == MAIN_POOL else f"@{pool}"
        reported |= {f"wanted{at}": scaled.target.needed, f"kept{at}": scaled.target.kept}
        reported[f"live{at}"] = scaled.live
        if scaled.limit is not None:
            reported[f"limit{at}"] = scaled.limit
        reported[f"started{at}"] = scaled.started
    return reported


@lru_cache(maxsize=1)
def scheduler(open_parts: Callable[..., Parts] = Parts) -> Scheduler:
    """Open the scheduler of this environment."""
    needs = (Need.REDIS, Need.NODES, Need.CONSUMER, Need.ID_ISSUER, Need.CEILING)
    return Scheduler(open_parts(Settings.from_environment(needs=needs), "scheduler"))
