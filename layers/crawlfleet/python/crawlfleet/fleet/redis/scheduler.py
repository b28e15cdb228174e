"""How many workers there are to be, on Redis: the standing decision, and who goes by it.

The latest tick of the scheduler, on Redis: whoever looks after the fleet reads it there.

Which bizs there are, told on Redis by the scheduler to whoever sees nothing else of the fleet.

Scrapy processes cannot read the configuration. Items for a biz that nobody serves would be taken
and wait for ever, so a process asks before its first item, and the scheduler looks after what was
put in for bizs that are gone.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

from crawlfleet.fleet.autoscaler import MOST_THROUGHPUTS, THROUGHPUT_WEIGHT
from crawlfleet.fleet.failure_detector import Presence
from crawlfleet.fleet.models import (
    BETWEEN_SECONDS,
    FLEET_POOL,
    FRESH_MS,
    MOST_BETWEEN,
    ScalingState,
    ScalingTarget,
    Throughput,
    ThroughputReply,
    Ticked,
    TickPart,
)
from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.queue_key import MAIN_POOL, QueueKey
from crawlfleet.kernel.redis.connection import RedisConnection, nonsense, several, text, whole
from crawlfleet.kernel.redis.server import FleetKeys, Script, fleet_keys
from crawlfleet.requests.queue.redis.keys import bizs_key

_TARGET: Final = Script("fleet/redis/staffing")
_MUSTER: Final = Script("fleet/redis/muster")
_IDLE_NEEDS: Final = Script("fleet/redis/idle_needs")
#: No decision has this version.
_READ_ONLY: Final = -1
#: Stands for what is allowed where that is not known.
_UNKNOWN: Final = -1

_NONE: Final[Mapping[str, Throughput]] = MappingProxyType({})


class RedisScalingTargets:
    """A :class:`~crawlfleet.ports.Staffing`.

    Args:
        connection: The stage's Redis.
        fleet: Keeps fleets apart that share a Redis.
    """

    def __init__(self, connection: RedisConnection, *, fleet: str = "fleet") -> None:
        self._redis = connection
        self._fleet = fleet
        self._keys = fleet_keys(fleet)

    def _keys_of(self, pool: str) -> FleetKeys:
        return fleet_keys(self._fleet, MAIN_POOL if pool == FLEET_POOL else pool)

    def read(self, pool: str) -> ScalingState:
        """What stands."""
        return self._ask(pool, _READ_ONLY, "")[1]

    def settle(self, pool: str, read: ScalingState, target: ScalingTarget) -> bool:
        """Make it the decision that stands, unless another was made since ``read``.

        Repeated because the answer was lost, it finds itself, which is another: whoever reads again
        sees that it stands.
        """
        allowed = _UNKNOWN if target.allowed is None else target.allowed
        figures = f"{target.needed} {target.kept} {target.at_ms} {target.quiet_ms} {target.peak}"
        figures = f"{figures} {allowed}"
        if target.floor or target.stated:
            # Left out where nobody states needs: a version that knows of none reads it, too.
            figures = f"{figures} {target.floor} {target.stated}"
        return self._ask(pool, read.version, figures)[0]

    def throughputs(self, pool: str) -> dict[str, float]:
        """What workers have shown of lanes."""
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
        throughput: Throughput | None,
        now: datetime,
        throughputs: Mapping[str, Throughput] = _NONE,
    ) -> ThroughputReply:
        """A worker says what it can do; whether it is to leave."""
        shown = [word for queue_key, one in throughputs.items() for word in (queue_key, _said(one))]
        keys = self._keys_of(pool)
        reported = self._redis.again(
            _MUSTER,
            (keys.staff, keys.leaving, keys.workers, keys.paces),
            *(pool, worker, "" if throughput is None else _said(throughput), THROUGHPUT_WEIGHT),
            *(Presence.at(now).live_after_ms, FRESH_MS, MOST_THROUGHPUTS),
            *shown,
        )
        leaves, others, floor = several(reported, 3)
        return ThroughputReply(leaves=whole(leaves) == 1, others=whole(others), floor=whole(floor))

    def idle(self, stated: Sequence[str], active: Collection[str]) -> dict[str, float]:
        """Seconds since those that state needs were at work."""
        names = [name for name in stated if name in active]
        count = len(names)
        names += [name for name in stated if name not in active]
        found = several(self._redis.again(_IDLE_NEEDS, (self._keys.needs,), count, *names))
        if len(found) != len(names):
            with self._redis.translated():
                raise nonsense()
        return {name: whole(ms) / 1_000 for name, ms in zip(names, found, strict=True)}

    def _ask(self, pool: str, version: int, figures: str) -> tuple[bool, ScalingState]:
        keys = self._keys.staff, self._keys_of(pool).leaving
        answer = several(self._redis.again(_TARGET, keys, pool, version, figures), 5)
        decided, now_ms, standing, throughput, leaving = answer
        with self._redis.translated():
            found = ScalingState(
                now_ms=whole(now_ms),
                throughput=None if throughput is None else float(text(throughput)),
                leaving=whole(leaving),
            )
            if standing is None:
                return whole(decided) == 1, found
            numbers = [int(word) for word in text(standing).split()]
            # A decision that an older version has left says nothing of what is allowed.
            if len(numbers) not in {6, 7, 9}:
                raise nonsense()
            if len(numbers) == 6:
                numbers.append(_UNKNOWN)
            number, needed, kept, at_ms, quiet_ms, peak, allowed, floor, stated = (*numbers, 0, 0)[
                :9
            ]
            target = ScalingTarget(
                needed=needed,
                kept=kept,
                at_ms=at_ms,
                quiet_ms=quiet_ms,
                peak=peak,
                allowed=None if allowed == _UNKNOWN else allowed,
                floor=floor,
                stated=stated,
            )
            return whole(decided) == 1, ScalingState(
                target=target,
                version=number,
                now_ms=found.now_ms,
                throughput=found.throughput,
                leaving=found.leaving,
            )


def _said(shown: Throughput) -> str:
    """What was shown, as muster reads it."""
    return f"{'>' if shown.is_least else ''}{shown.per_second:.6g}"


_TICK: Final = Script("fleet/redis/tick")
_REPORT_FAULT: Final = Script("fleet/redis/tell_fault")


class RedisTicks:
    """A :class:`~crawlfleet.ports.Ticks`.

    Args:
        connection: The stage's Redis.
        fleet: Keeps fleets apart that share a Redis.
        between_seconds: For how long a fault between ticks is told.
        most_between: How many of them are.
    """

    def __init__(
        self,
        connection: RedisConnection,
        *,
        fleet: str = "fleet",
        between_seconds: float = BETWEEN_SECONDS,
        most_between: int = MOST_BETWEEN,
    ) -> None:
        self._redis = connection
        self._life_ms = int(between_seconds * 1000)
        self._most = most_between
        keys = fleet_keys(fleet)
        self._keys = (keys.tick, keys.between_ticks)

    def note(self, took_seconds: float, faults: Mapping[TickPart, int]) -> None:
        """See ports.Ticks.note."""
        reported = [f"{took_seconds:.3f}", *(f"{part} {count}" for part, count in faults.items())]
        several(self._redis.again(_TICK, self._keys, " ".join(reported), self._life_ms), 3)

    def report_fault(self, part: TickPart, what: str) -> None:
        """See ports.Ticks.tell_fault."""
        whole(
            self._redis.again(
                _REPORT_FAULT, self._keys[1:], f"{part} {what}", self._life_ms, self._most
            )
        )

    def last(self) -> Ticked:
        """See ports.Ticks.last."""
        answer = self._redis.again(_TICK, self._keys, "", self._life_ms)
        now_ms, standing, between = several(answer, 3)
        with self._redis.translated():
            at_ms, *words = text(standing).decode().split() or [""]
            ago = max(0, whole(now_ms) - int(at_ms)) / 1000
            if not words:
                return Ticked(awaited_seconds=ago)
            took, *rest = words
            faults = Counter({part: int(n) for part, n in zip(rest[::2], rest[1::2], strict=True)})
            faults.update(text(each).decode().split()[0] for each in several(between))
            return Ticked(
                seconds_ago=ago,
                took_seconds=float(took),
                faults=dict(faults),
            )


_REPORT: Final = Script("fleet/redis/tell_bizs")
_GONE: Final = Script("fleet/redis/gone_bizs")
_ASK: Final = Script("fleet/redis/ask_biz")

#: Bizs that are written down for those who ask while nobody can say; and named in an answer.
_MOST: Final = 1_000
_SHOWN: Final = 20


class RedisBizs:
    """A :class:`~crawlfleet.ports.Bizs`, and the side of those who ask."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def report(self, queues: Mapping[str, Sequence[QueueKey]]) -> list[QueueKey]:
        """See ports.Bizs.tell."""
        return self._gone(_REPORT, queues)[0]

    def gone(self, queues: Mapping[str, Sequence[QueueKey]]) -> list[QueueKey]:
        """See ports.Bizs.gone."""
        gone, away = self._gone(_GONE, queues)
        if away:
            said = f"of {away} of {len(queues)} tenants nobody can say which bizs are gone"
            raise StoreUnavailableError("redis", said)
        return gone

    def _gone(
        self, script: Script, queues: Mapping[str, Sequence[QueueKey]]
    ) -> tuple[list[QueueKey], int]:
        """The lanes that are gone, and of how many tenants nobody can say."""
        tenants = sorted(queues)
        notification_state = [_reporting(tenant, queues[tenant]) for tenant in tenants]
        answers = self._redis.as_far_as_may_be(script, notification_state)
        gone: list[QueueKey] = []
        away = 0
        with self._redis.translated():
            for tenant, answer in zip(tenants, answers, strict=True):
                if isinstance(answer, StoreUnavailableError):
                    away += 1  # its node of a cluster; it is told when that is there again
                    continue
                words = [text(word).decode() for word in several(answer)]
                gone += [
                    QueueKey(tenant, biz, queue)
                    for biz, queue in zip(words[::2], words[1::2], strict=True)
                ]
        return gone, away

    def ask(self, queue_key: QueueKey) -> tuple[bool | None, list[str]]:
        """Whether the tenant has the biz, None if nobody has said; and some of those it has."""
        found = several(
            self._redis.again(
                _ASK,
                (bizs_key(queue_key.tenant),),
                *(queue_key.biz, queue_key.queue, _MOST, _SHOWN),
            )
        )
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
