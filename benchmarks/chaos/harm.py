"""Doing harm: one method for each kind, on the servers and on the fleet of a run."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import redis

from benchmarks.chaos.consumer import ClockStep
from benchmarks.chaos.fleet import Fate, Fleet, Member
from benchmarks.chaos.kinds import Kind
from benchmarks.chaos.steps import Armed, Step
from benchmarks.chaos.ticks import Ticks
from infra.local.mongo_server import MongoServer
from infra.local.parts import PartError
from infra.local.redis_server import RedisServer

_LOOK_SECONDS: Final = 0.05
#: An election, or the return of a member, takes no longer on a busy machine.
_RETURN_SECONDS: Final = 180.0
#: By how far clocks step, in seconds: minutes, beyond every lease.
_STEPS: Final = (120.0, 600.0)
#: How old a snapshot is when Redis is rolled back to it.
_SNAPSHOT_SECONDS: Final = (1.0, 3.0)
#: How long Redis is away.
_AWAY_SECONDS: Final = 2.0
#: How long it takes nothing more.
_FULL_SECONDS: Final = (2.0, 5.0)
_BRIEFLY_SECONDS: Final = (0.3, 1.0)


@dataclass(slots=True, kw_only=True)
class Harm:
    """Does harm to one run.

    ``freezes`` are how long a worker is frozen that is to lose its work.
    """

    redis: RedisServer
    mongo: MongoServer
    fleet: Fleet
    ticks: Ticks
    dice: Random
    freezes: tuple[float, float]
    announce: Callable[[str], None]
    _thaws: list[threading.Timer] = field(default_factory=list)

    def do(self, kind: Kind) -> None:
        """Do it, and return when servers are back; frozen consumers thaw by themselves."""
        acts: dict[Kind, Callable[[], None]] = {
            Kind.KILL: self._kill,
            Kind.FREEZE_BRIEFLY: self._freeze_briefly,
            Kind.FREEZE: self._freeze_for_long,
            Kind.REDIS_EMPTY: self._empty_redis,
            Kind.REDIS_FLUSH: self._flush_redis,
            Kind.REDIS_ROLLBACK: self._roll_redis_back,
            Kind.REDIS_FULL: self._fill_redis,
            Kind.MONGO: self._kill_primary,
            Kind.TWO_TICKS: self.ticks.both,
            Kind.TWIN: self._twin,
            Kind.LATE: self._late,
            Kind.CLOCK_AHEAD: lambda: self._step_clock(1),
            Kind.CLOCK_BEHIND: lambda: self._step_clock(-1),
        }
        if kind.step is not None:
            self._die_at(kind.step)
        else:
            acts[kind]()

    def close(self) -> None:
        """Let nobody thaw later than now."""
        for thaw in self._thaws:
            thaw.cancel()

    # ---- consumers -----------------------------------------------------------------------------

    def _somebody(self) -> Member | None:
        living = self.fleet.living()
        return self.dice.choice(living) if living else None

    def _kill(self) -> None:
        if (victim := self._somebody()) is not None:
            self.fleet.kill(victim)

    def _die_at(self, step: Step) -> None:
        """The next consumer dies there; somebody has to go for it to come."""
        count = self.dice.randint(5, 40) if step is Step.AFTER_FETCH else self.dice.randint(1, 2)
        self.fleet.fates.append(Fate(armed=Armed(step=step, count=count)))
        self._kill()

    def _freeze_briefly(self) -> None:
        self._freeze(self.dice.uniform(*_BRIEFLY_SECONDS), loses=False)

    def _freeze_for_long(self) -> None:
        self._freeze(self.dice.choice(self.freezes), loses=True)

    def _freeze(self, seconds: float, *, loses: bool) -> None:
        victim = self._somebody()
        if victim is None:
            return
        self.fleet.freeze(victim, loses=loses)
        thaw = threading.Timer(seconds, self.fleet.thaw, (victim,))
        thaw.daemon = True
        thaw.start()
        self._thaws.append(thaw)

    def _twin(self) -> None:
        if (somebody := self._somebody()) is not None:
            self.fleet.invoke(Fate(worker=somebody.worker))

    def _late(self) -> None:
        past = self.fleet.past()
        if past:
            self.fleet.invoke(Fate(worker=self.dice.choice(past)))
        else:
            self._twin()

    def _step_clock(self, sign: int) -> None:
        step = ClockStep(
            after_seconds=self.dice.uniform(0.2, 1.0), by_seconds=sign * self.dice.choice(_STEPS)
        )
        self.fleet.fates.append(Fate(clock=step, seconds=40.0))
        self._kill()

    # ---- Redis ---------------------------------------------------------------------------------

    def _flush_redis(self) -> None:
        with redis.Redis.from_url(self.redis.url) as client:
            client.flushall()

    def _empty_redis(self) -> None:
        self.redis.kill()
        self.redis.snapshot.unlink(missing_ok=True)
        time.sleep(self.dice.uniform(0, _AWAY_SECONDS))
        self.redis.restart()

    def _roll_redis_back(self) -> None:
        with redis.Redis.from_url(self.redis.url) as client:
            client.save()
        kept: Path = self.redis.snapshot
        time.sleep(self.dice.uniform(*_SNAPSHOT_SECONDS))
        self.redis.kill()
        time.sleep(self.dice.uniform(0, _AWAY_SECONDS))
        self.redis.restart()
        kept.unlink(missing_ok=True)

    def _fill_redis(self) -> None:
        with redis.Redis.from_url(self.redis.url) as client:
            used = client.info("memory")["used_memory"]
            client.config_set("maxmemory-policy", "noeviction")
            client.config_set("maxmemory", used // 2)
            time.sleep(self.dice.uniform(*_FULL_SECONDS))
            client.config_set("maxmemory", 0)

    # ---- MongoDB -------------------------------------------------------------------------------

    def _kill_primary(self) -> None:
        primary = _until(self.mongo.primary, "MongoDB has no primary")
        self.mongo.members[primary].kill()
        _until(self.mongo.primary, "MongoDB chose no other primary")
        time.sleep(self.dice.uniform(0, _AWAY_SECONDS))
        self.mongo.restart_member(primary)
        self.mongo.wait_until_whole(_RETURN_SECONDS)


def _until(look: Callable[[], int | None], failure: str) -> int:
    end = time.monotonic() + _RETURN_SECONDS
    while (found := look()) is None:
        if time.monotonic() > end:
            raise PartError(failure)
        time.sleep(_LOOK_SECONDS)
    return found
