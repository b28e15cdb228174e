"""The scheduler: due schedules, the watch, recovery, scaling, each on its own."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import msgspec

from crawlfleet.adapters.emf import EmfMetrics
from crawlfleet.adapters.mongo.demands import MongoDemands
from crawlfleet.adapters.mongo.schedules import MongoSchedules
from crawlfleet.adapters.mongo.visits import MongoVisits
from crawlfleet.adapters.redis_queue.bizs import RedisBizs
from crawlfleet.adapters.redis_queue.clock import ServerClock
from crawlfleet.adapters.redis_queue.data_queue import RedisDataQueue
from crawlfleet.adapters.redis_queue.hosts import RedisHosts
from crawlfleet.adapters.redis_queue.outlook import RedisOutlook
from crawlfleet.adapters.redis_queue.overview import RedisOverview
from crawlfleet.adapters.redis_queue.ticks import RedisTicks
from crawlfleet.edge.alarms import Alarm, alarms_in
from crawlfleet.errors import NoConfigurationError
from crawlfleet.flows.learning import LearningPorts, learn_due
from crawlfleet.flows.outlooking import OutlookPorts
from crawlfleet.flows.recovery import recover
from crawlfleet.flows.recrawling import RecrawlPorts, resubmit_due
from crawlfleet.flows.scaling import Scaled, ScalingPorts, scale
from crawlfleet.flows.scheduling import run_due
from crawlfleet.flows.sowing import tend_seeds
from crawlfleet.flows.strays import StrayPorts, tell_bizs
from crawlfleet.flows.ticking import Faults, TickPorts, tell_tick
from crawlfleet.flows.watching import stand_watch
from crawlfleet.model.tick import TickPart
from crawlfleet.settings import Need, Settings
from crawlfleet.wiring.parts import Parts, now
from crawlfleet.wiring.recoveries import recovery_ports, watch_ports
from crawlfleet.wiring.seeding import seeding_ports
from crawlfleet.wiring.submissions import submission_ports

#: A look at the workers takes so long at most, where parts are slow to answer.
SCALING_SECONDS: Final = 25.0
#: What of a tick makes work for workers, or makes them fewer.
_CHANGES: Final = ["requests", "recrawled", "seeded", "buried", "requeued", "orphans", "corrected"]


class Scheduler:
    """One tick's work."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        # What is warned of in a tick is a fault of it, for whoever looks.
        self._faults = Faults(parts.warn)
        warn = self._faults.warn
        metrics = EmfMetrics(parts.settings.stage)
        self._telling = TickPorts(ticks=RedisTicks(parts.redis), metrics=metrics, warn=parts.warn)
        self._submission = replace(submission_ports(parts), warn=warn)
        self._schedules = MongoSchedules(parts.nodes)
        self._recrawl = RecrawlPorts(submission=self._submission, visits=MongoVisits(parts.nodes))
        self._seeding = replace(seeding_ports(parts, self._submission), warn=warn)
        self._data = RedisDataQueue(parts.redis)
        self._recovery = replace(recovery_ports(parts), warn=warn)
        self._hosts = RedisHosts(parts.redis)
        self._learning = LearningPorts(demands=MongoDemands(parts.nodes), warn=warn)
        self._strays = StrayPorts(
            bizs=RedisBizs(parts.redis),
            data=self._data,
            queue=parts.queue,
            metrics=metrics,
            say=parts.log.warning,
        )
        self._scaling = ScalingPorts(
            ahead=OutlookPorts(
                outlook=RedisOutlook(parts.redis),
                overview=RedisOverview(parts.redis),
                data=self._data,
                hosts=self._hosts,
                store=parts.store,
                warn=warn,
            ),
            staffing=parts.staffing,
            workers=parts.workers,
            waker=parts.waker,
            limit=parts.limit,
            warn=warn,
        )
        # Leases are judged by the clock that workers go by.
        self._clock = ServerClock(parts.redis)

    def answer(
        self, event: Mapping[str, Any], name: str, time_left: Callable[[], float]
    ) -> Mapping[str, int | str]:
        """What an event asks for: an alarm that the workers be looked at, anything else all of it.

        A stage that is deployed and has no configuration yet has nothing to do, which is no
        failure: nobody would have to mend it, and each tick would leave a dead letter.

        ``name`` is who this is, for turns and journals; ``time_left`` is in seconds.
        """
        alarms = alarms_in(event)
        try:
            return self.tick(name, time_left) if alarms is None else self.scale(alarms)
        except NoConfigurationError as error:
            self._parts.log.info("nothing to do", extra={"reason": str(error)})
            return {"nothing_to_do": str(error)}

    def scale(self, alarms: Sequence[Alarm]) -> dict[str, int]:
        """Have as many workers as there should be, at once."""
        self._clock.sync()
        done = {"alarms": len(alarms), **_told(self._scale())}
        said = {"said": [msgspec.to_builtins(alarm) for alarm in alarms]}
        self._parts.log.info("scaled", extra={**done, **said})
        return done

    def _scale(self) -> Scaled:
        return scale(self._scaling, self._parts.config.current(), self._clock)

    def tick(self, name: str, time_left: Callable[[], float]) -> dict[str, int]:
        """Do all of it, and tell of it; a part that fails does not keep the others from running.

        Workers come first: what is slow here must not keep a fleet from them until the time is up.
        They come last once more where the others have made work for them.
        """
        began, faults = time.monotonic(), self._faults
        faults.begin()
        try:
            tree = self._parts.config.current()
        except NoConfigurationError:
            self._tell(began)
            raise
        done: dict[str, int] = {}
        self._clock.sync()
        self._staff(done)
        with faults.within(TickPart.SCHEDULES, "schedules could not be run"):
            fires, requests = run_due(self._submission, self._schedules, tree, now(), time_left)
            done |= {"fires": fires, "requests": requests}
        with faults.within(TickPart.PAGES, "due pages could not be submitted"):
            done["recrawled"] = resubmit_due(self._recrawl, tree, now(), time_left)
        with faults.within(TickPart.SEEDS, "seeds could not be handed out"):
            done["seeded"] = tend_seeds(self._seeding, tree, now(), time_left)
        with faults.within(TickPart.BIZS, "it could not be told which bizs there are"):
            done["strays"] = tell_bizs(self._strays, tree, now())
        self._clock.sync()
        with faults.within(TickPart.WATCH, "the workers could not be watched"):
            watching = watch_ports(self._recovery, self._hosts)
            dead = stand_watch(watching, tree, name, self._clock, time.sleep)
            done["buried"] = len(dead)
        with faults.within(TickPart.RECOVERY, "nothing could be recovered"):
            recovered = recover(self._recovery, tree, name, self._clock(), time_left)
            done |= {"requeued": recovered.requeued, "expired": recovered.expired}
            done |= {"orphans": recovered.orphans, "corrected": recovered.corrected}
        with faults.within(TickPart.RECOVERY, "what runs have taken could not be learnt"):
            done["learnt"] = learn_due(self._learning, now(), time_left)
        if any(done.get(what) for what in _CHANGES) and time_left() > SCALING_SECONDS:
            self._staff(done)
        done["faults"] = faults.counts.total()
        self._tell(began)
        self._parts.log.info("ticked", extra=done)
        return done

    def _staff(self, done: dict[str, int]) -> None:
        """Have as many workers as there should be; ``done`` is told what came of it."""
        with self._faults.within(TickPart.SCALING, "consumers could not be started"):
            before = done.get("started", 0)
            done |= _told(self._scale())
            done["started"] += before

    def _tell(self, began: float) -> None:
        tell_tick(self._telling, self._faults.counts, time.monotonic() - began, now())


def _told(scaled: Scaled) -> dict[str, int]:
    """What came of scaling, for the answer and the log."""
    told = {"wanted": scaled.staff.needed, "kept": scaled.staff.kept, "live": scaled.live}
    if scaled.limit is not None:
        told["limit"] = scaled.limit
    return {**told, "started": scaled.started}


@lru_cache(maxsize=1)
def scheduler() -> Scheduler:
    """The scheduler of this environment."""
    needs = (Need.REDIS, Need.NODES, Need.CONSUMER, Need.ID_ISSUER, Need.CEILING)
    return Scheduler(Parts(Settings.from_environment(needs=needs), "scheduler"))
