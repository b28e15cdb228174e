"""The scheduler: due schedules, the watch, recovery, staffing, each on its own."""

import time
from collections.abc import Callable
from functools import lru_cache

from crawlfleet.adapters.emf import EmfMetrics
from crawlfleet.adapters.mongo.schedules import MongoSchedules
from crawlfleet.adapters.mongo.visits import MongoVisits
from crawlfleet.adapters.redis_queue.bizs import RedisBizs
from crawlfleet.adapters.redis_queue.clock import ServerClock
from crawlfleet.adapters.redis_queue.data_queue import RedisDataQueue
from crawlfleet.adapters.redis_queue.hosts import RedisHosts
from crawlfleet.flows.recovery import recover
from crawlfleet.flows.recrawling import RecrawlPorts, resubmit_due
from crawlfleet.flows.scheduling import run_due
from crawlfleet.flows.sowing import tend_seeds
from crawlfleet.flows.staffing import staff
from crawlfleet.flows.strays import StrayPorts, tell_bizs
from crawlfleet.flows.watching import stand_watch
from crawlfleet.settings import Need, Settings
from crawlfleet.wiring.parts import Parts, now
from crawlfleet.wiring.recoveries import recovery_ports, watch_ports
from crawlfleet.wiring.seeding import seeding_ports
from crawlfleet.wiring.submissions import submission_ports


class Scheduler:
    """One tick's work."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._submission = submission_ports(parts)
        self._schedules = MongoSchedules(parts.nodes)
        self._recrawl = RecrawlPorts(submission=self._submission, visits=MongoVisits(parts.nodes))
        self._seeding = seeding_ports(parts, self._submission)
        self._data = RedisDataQueue(parts.redis)
        self._recovery = recovery_ports(parts)
        self._hosts = RedisHosts(parts.redis)
        self._strays = StrayPorts(
            bizs=RedisBizs(parts.redis),
            data=self._data,
            queue=parts.queue,
            metrics=EmfMetrics(parts.settings.stage),
            say=parts.log.warning,
        )
        # Leases are judged by the clock that workers go by.
        self._clock = ServerClock(parts.redis)

    def tick(self, name: str, time_left: Callable[[], float]) -> dict[str, int]:
        """Do all of it; one that fails does not keep the others from running.

        ``name`` is who this is, for turns and journals; ``time_left`` is in seconds. Consumers come
        last, because the others make work for them.
        """
        parts, tree = self._parts, self._parts.config.current()
        done: dict[str, int] = {}
        try:
            fires, requests = run_due(self._submission, self._schedules, tree, now(), time_left)
            done |= {"fires": fires, "requests": requests}
        except Exception as error:  # noqa: BLE001  recovery and staffing must go on
            parts.warn("schedules could not be run", error)
        try:
            done["recrawled"] = resubmit_due(self._recrawl, tree, now(), time_left)
        except Exception as error:  # noqa: BLE001  recovery and staffing must go on
            parts.warn("due pages could not be submitted", error)
        try:
            done["seeded"] = tend_seeds(self._seeding, tree, now(), time_left)
        except Exception as error:  # noqa: BLE001  recovery and staffing must go on
            parts.warn("seeds could not be handed out", error)
        try:
            done["strays"] = tell_bizs(self._strays, tree, now())
        except Exception as error:  # noqa: BLE001  recovery and staffing must go on
            parts.warn("it could not be told which bizs there are", error)
        self._clock.sync()
        try:
            watching = watch_ports(self._recovery, self._hosts)
            dead = stand_watch(watching, tree, name, self._clock, time.sleep)
            done["buried"] = len(dead)
        except Exception as error:  # noqa: BLE001  recovery and staffing must go on
            parts.warn("the workers could not be watched", error)
        recovered = recover(self._recovery, tree, name, self._clock(), time_left)
        done |= {"requeued": recovered.requeued, "expired": recovered.expired}
        done |= {"orphans": recovered.orphans, "corrected": recovered.corrected}
        try:
            started = staff(parts.queue, self._data, parts.workers, parts.waker, tree, self._clock)
            done["started"] = started
        except Exception as error:  # noqa: BLE001  the next tick starts them
            parts.warn("consumers could not be started", error)
        parts.log.info("ticked", extra=done)
        return done


@lru_cache(maxsize=1)
def scheduler() -> Scheduler:
    """The scheduler of this environment."""
    needs = (Need.REDIS, Need.NODES, Need.CONSUMER, Need.ID_ISSUER)
    return Scheduler(Parts(Settings.from_environment(needs=needs), "scheduler"))
