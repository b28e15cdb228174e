"""Scaling targets, the latest tick and the bizs, which the scheduler keeps in Redis for others."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from crawlfleet.fleet import models
from crawlfleet.fleet.autoscaler import MOST_THROUGHPUTS, THROUGHPUT_WEIGHT
from crawlfleet.fleet.failure_detector import Presence
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.queue_key import MAIN_POOL, QueueKey
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text, whole
from crawlfleet.kernel.redis.server import FleetKeys, Script, fleet_keys
from crawlfleet.requests.queue.redis.keys import bizs_key

_TARGET: Final = Script("fleet/redis/scaling_target")
_REPORT_THROUGHPUT: Final = Script("fleet/redis/report_throughput")
_IDLE_NEEDS: Final = Script("fleet/redis/idle_needs")
#: No decision has this version.
_READ_ONLY: Final = -1
#: Stands for what is allowed where that is not known.
_UNKNOWN: Final = -1

_NONE: Final[Mapping[str, models.Throughput]] = MappingProxyType({})


class RedisScalingTargets:
    """The standing target of each pool, which several may set, and the workers that follow it.

    ``fleet`` keeps fleets apart that share a Redis.
    """

    def __init__(self, connection: RedisConnection, *, fleet: str = "fleet") -> None:
        self._redis = connection
        self._fleet = fleet
        self._keys = fleet_keys(fleet)

    def _keys_of(self, pool: str) -> FleetKeys:
        return fleet_keys(self._fleet, MAIN_POOL if pool == models.FLEET_POOL else pool)

    def read(self, pool: str) -> models.ScalingState:
        """Read the standing target; version 0 where none was ever set, or Redis has lost it."""
        return self._ask(pool, _READ_ONLY, "")[1]

    def settle(self, pool: str, read: models.ScalingState, target: models.ScalingTarget) -> bool:
        """Set the target unless another was set since ``read``; return False then.

        Repeated as its answer was lost, it finds itself, which is another: the next read shows that
        it stands.
        """
        allowed = _UNKNOWN if target.allowed is None else target.allowed
        figures = f"{target.needed} {target.kept} {target.at_ms} {target.quiet_ms} {target.peak}"
        figures = f"{figures} {allowed}"
        if target.floor or target.stated:
            # Left out where nobody states needs: a version that knows of none reads it, too.
            figures = f"{figures} {target.floor} {target.stated}"
        return self._ask(pool, read.version, figures)[0]

    def throughputs(self, pool: str) -> dict[str, float]:
        """Read what workers do in a second of a queue alone, as learnt, by ``tenant/biz``."""
        (answer,) = several(self._redis.together(("HGETALL", self._keys.paces)), 1)
        with self._redis.translated():
            if not isinstance(answer, dict):
                raise nonsense()
            mine = f"{pool} ".encode()
            return {
                text(name).removeprefix(mine).decode(): float(text(reported).split()[0])
                for name, reported in answer.items()
                if text(name).startswith(mine)
            }

    def report_throughput(
        self,
        pool: str,
        worker: str,
        throughput: models.Throughput | None,
        now: datetime,
        throughputs: Mapping[str, models.Throughput] = _NONE,
    ) -> models.ThroughputReply:
        """Learn a worker's throughput, at all and by ``tenant/biz``; tell whether it is to leave.

        As many are told to leave as are more than the target keeps, but by no target that is out of
        date, and never the last one. A worker that was told once is told so again.
        """
        shown = [word for queue_key, one in throughputs.items() for word in (queue_key, _said(one))]
        keys = self._keys_of(pool)
        reported = self._redis.again(
            _REPORT_THROUGHPUT,
            (keys.staff, keys.leaving, keys.workers, keys.paces),
            *(pool, worker, "" if throughput is None else _said(throughput), THROUGHPUT_WEIGHT),
            *(Presence.at(now).live_after_ms, models.FRESH_MS, MOST_THROUGHPUTS),
            *shown,
        )
        told, others, floor = map(whole, several(reported, 3))
        return models.ThroughputReply(leaves=told == 1, others=others, floor=floor)

    def idle(self, stated: Sequence[str], active: Collection[str]) -> dict[str, float]:
        """Tell the seconds since each with stated needs was active; 0 for those active, or new.

        Those that are not among ``stated`` are forgotten.
        """
        names = [name for name in stated if name in active]
        count = len(names)
        names += [name for name in stated if name not in active]
        found = several(self._redis.again(_IDLE_NEEDS, (self._keys.needs,), count, *names))
        if len(found) != len(names):
            with self._redis.translated():
                raise nonsense()
        return {name: whole(ms) / 1_000 for name, ms in zip(names, found, strict=True)}

    def _ask(self, pool: str, version: int, figures: str) -> tuple[bool, models.ScalingState]:
        keys = self._keys.staff, self._keys_of(pool).leaving
        answer = several(self._redis.again(_TARGET, keys, pool, version, figures), 5)
        decided, now_ms, standing, throughput, leaving = answer
        with self._redis.translated():
            found = models.ScalingState(
                now_ms=whole(now_ms),
                throughput=None if throughput is None else float(text(throughput)),
                leaving=whole(leaving),
            )
            if standing is None:
                return whole(decided) == 1, found
            # A target of an older version has no `allowed`, or no `floor` and `stated`.
            numbers = [int(word) for word in text(standing).split()]
            if len(numbers) not in {6, 7, 9}:
                raise nonsense()
            if len(numbers) == 6:
                numbers.append(_UNKNOWN)
            names = ("needed", "kept", "at_ms", "quiet_ms", "peak", "allowed", "floor", "stated")
            figures_of = dict(zip(names, numbers[1:], strict=False))
            allowed = figures_of.pop("allowed")
            target = models.ScalingTarget(
                **figures_of, allowed=None if allowed == _UNKNOWN else allowed
            )
            return whole(decided) == 1, replace(found, target=target, version=numbers[0])


def _said(shown: models.Throughput) -> str:
    """Write a throughput as report_throughput.lua reads it."""
    return f"{'>' if shown.is_least else ''}{shown.per_second:.6g}"


_TICK: Final = Script("fleet/redis/tick")
_REPORT_FAULT: Final = Script("fleet/redis/report_fault")


def decided(targets: RedisScalingTargets, pool: str = MAIN_POOL) -> models.ScalingTarget | None:
    """Read the target that is in force; None where none is."""
    standing = targets.read(models.target_name(pool))
    return standing.target if models.is_fresh(standing) else None


class RedisTicks:
    """The scheduler's latest tick: who is silent cannot say so, so others read this.

    Faults between ticks are kept for ``between_seconds``, ``most_between`` of them.
    """

    def __init__(
        self,
        connection: RedisConnection,
        *,
        fleet: str = "fleet",
        between_seconds: float = models.BETWEEN_SECONDS,
        most_between: int = models.MOST_BETWEEN,
    ) -> None:
        self._redis = connection
        self._life_ms = int(between_seconds * 1000)
        self._most = most_between
        keys = fleet_keys(fleet)
        self._keys = (keys.tick, keys.between_ticks)

    def note(self, took_seconds: float, faults: Mapping[models.TickPart, int]) -> None:
        """Note that a tick has just ended, and how often each part of it failed."""
        reported = [f"{took_seconds:.3f}", *(f"{part} {count}" for part, count in faults.items())]
        several(self._redis.again(_TICK, self._keys, " ".join(reported), self._life_ms), 3)

    def report_fault(self, part: models.TickPart, what: str) -> None:
        """Note a fault of a part between ticks; ``what`` is a word, once for each fault."""
        fault = f"{part} {what}", self._life_ms, self._most
        whole(self._redis.again(_REPORT_FAULT, self._keys[1:], *fault))

    def last(self) -> models.Ticked:
        """Read the latest tick that ended, by the server's clock, or since when one is awaited."""
        answer = self._redis.again(_TICK, self._keys, "", self._life_ms)
        now_ms, standing, between = several(answer, 3)
        with self._redis.translated():
            at_ms, *words = text(standing).decode().split() or [""]
            ago = max(0, whole(now_ms) - int(at_ms)) / 1000
            if not words:
                return models.Ticked(awaited_seconds=ago)
            took, *rest = words
            faults = Counter({part: int(n) for part, n in zip(rest[::2], rest[1::2], strict=True)})
            faults.update(text(each).decode().split()[0] for each in several(between))
            return models.Ticked(seconds_ago=ago, took_seconds=float(took), faults=dict(faults))


_REPORT: Final = Script("fleet/redis/report_bizs")
_GONE: Final = Script("fleet/redis/gone_bizs")
_ASK: Final = Script("fleet/redis/ask_biz")

#: Bizs that are noted when asked for before they are known; and named in an answer.
_MOST: Final = 1_000
_SHOWN: Final = 20


class RedisBizs:
    """The bizs of each tenant, for processes that put items in and cannot read the configuration.

    Items for a biz that nobody serves would be taken and wait for ever. So a Scrapy process asks
    before its first item, and the scheduler looks after the queues of bizs that were removed.
    """

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def report(self, queues: Mapping[str, Sequence[QueueKey]]) -> list[QueueKey]:
        """Set all queues of these tenants; return removed ones, that were there or asked for."""
        return self._gone(_REPORT, queues)[0]

    def gone(self, queues: Mapping[str, Sequence[QueueKey]]) -> list[QueueKey]:
        """Return what :meth:`report` would, and set nothing.

        Raises:
            StoreUnavailableError: of some tenants nobody can say, which :meth:`report` leaves out.
        """
        gone, away = self._gone(_GONE, queues)
        if away:
            said = f"of {away} of {len(queues)} tenants nobody can say which bizs are gone"
            raise StoreUnavailableError("redis", said)
        return gone

    def _gone(
        self, script: Script, queues: Mapping[str, Sequence[QueueKey]]
    ) -> tuple[list[QueueKey], int]:
        """Find removed queues, and the number of tenants of which nobody can say."""
        tenants = sorted(queues)
        calls = [_reporting(tenant, queues[tenant]) for tenant in tenants]
        answers = self._redis.as_far_as_may_be(script, calls)
        gone: list[QueueKey] = []
        away = 0
        with self._redis.translated():
            for tenant, answer in zip(tenants, answers, strict=True):
                if isinstance(answer, StoreUnavailableError):
                    away += 1  # its node of a cluster; it is reported when that is there again
                    continue
                words = [text(word).decode() for word in several(answer)]
                gone += [
                    QueueKey(tenant, biz, queue)
                    for biz, queue in zip(words[::2], words[1::2], strict=True)
                ]
        return gone, away

    def ask(self, queue_key: QueueKey) -> tuple[bool | None, list[str]]:
        """Ask whether the tenant has the biz, None if unknown; and name some that it has."""
        keys, asked = (bizs_key(queue_key.tenant),), (queue_key.biz, queue_key.queue)
        found = several(self._redis.again(_ASK, keys, *asked, _MOST, _SHOWN))
        if not found:
            raise nonsense()
        with self._redis.translated():
            others = [text(name).decode() for name in found[1:]]
        said = whole(found[0])
        return None if said < 0 else said == 1, others


def _reporting(tenant: str, queues: Iterable[QueueKey]) -> tuple[tuple[str], list[str]]:
    return (bizs_key(tenant),), [
        word for queue_key in queues for word in (queue_key.biz, queue_key.queue)
    ]
