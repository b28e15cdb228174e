"""How many workers there are to be, on Redis: the standing decision, and who goes by it."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Final

from crawlfleet.adapters.redis_queue.connection import (
    RedisConnection,
    Script,
    nonsense,
    several,
    text,
    whole,
)
from crawlfleet.adapters.redis_queue.keys import FleetKeys, fleet_keys
from crawlfleet.model.pool import MAIN_POOL
from crawlfleet.model.staff import FLEET_POOL, Mustered, Shown, Staff, Staffed
from crawlfleet.policy.presence import Presence
from crawlfleet.policy.scaling import FRESH_MS, MOST_PACES, PACE_WEIGHT

_STAFFING: Final = Script("staffing")
_MUSTER: Final = Script("muster")
_IDLE_NEEDS: Final = Script("idle_needs")
#: No decision has this version.
_READ_ONLY: Final = -1
#: Stands for what is allowed where that is not known.
_UNKNOWN: Final = -1

_NONE: Final[Mapping[str, Shown]] = MappingProxyType({})


class RedisStaffing:
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

    def read(self, pool: str) -> Staffed:
        """What stands."""
        return self._ask(pool, _READ_ONLY, "")[1]

    def settle(self, pool: str, read: Staffed, staff: Staff) -> bool:
        """Make it the decision that stands, unless another was made since ``read``.

        Repeated because the answer was lost, it finds itself, which is another: whoever reads again
        sees that it stands.
        """
        allowed = _UNKNOWN if staff.allowed is None else staff.allowed
        figures = f"{staff.needed} {staff.kept} {staff.at_ms} {staff.quiet_ms} {staff.peak}"
        figures = f"{figures} {allowed}"
        if staff.floor or staff.stated:
            # Left out where nobody states needs: a version that knows of none reads it, too.
            figures = f"{figures} {staff.floor} {staff.stated}"
        return self._ask(pool, read.version, figures)[0]

    def paces(self, pool: str) -> dict[str, float]:
        """What workers have shown of lanes."""
        (answer,) = several(self._redis.together(("HGETALL", self._keys.paces)), 1)
        with self._redis.translated():
            if not isinstance(answer, dict):
                raise nonsense()
            mine = f"{pool} ".encode()
            return {
                text(name).removeprefix(mine).decode(): float(text(told).split()[0])
                for name, told in answer.items()
                if text(name).startswith(mine)
            }

    def muster(
        self,
        pool: str,
        worker: str,
        pace: Shown | None,
        now: datetime,
        paces: Mapping[str, Shown] = _NONE,
    ) -> Mustered:
        """A worker says what it can do; whether it is to leave."""
        shown = [word for lane, one in paces.items() for word in (lane, _said(one))]
        keys = self._keys_of(pool)
        told = self._redis.again(
            _MUSTER,
            (keys.staff, keys.leaving, keys.workers, keys.paces),
            *(pool, worker, "" if pace is None else _said(pace), PACE_WEIGHT),
            *(Presence.at(now).live_after_ms, FRESH_MS, MOST_PACES),
            *shown,
        )
        leaves, others, floor = several(told, 3)
        return Mustered(leaves=whole(leaves) == 1, others=whole(others), floor=whole(floor))

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

    def _ask(self, pool: str, version: int, figures: str) -> tuple[bool, Staffed]:
        keys = self._keys.staff, self._keys_of(pool).leaving
        answer = several(self._redis.again(_STAFFING, keys, pool, version, figures), 5)
        decided, now_ms, standing, pace, leaving = answer
        with self._redis.translated():
            found = Staffed(
                now_ms=whole(now_ms),
                pace=None if pace is None else float(text(pace)),
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
            staff = Staff(
                needed=needed,
                kept=kept,
                at_ms=at_ms,
                quiet_ms=quiet_ms,
                peak=peak,
                allowed=None if allowed == _UNKNOWN else allowed,
                floor=floor,
                stated=stated,
            )
            return whole(decided) == 1, Staffed(
                staff=staff,
                version=number,
                now_ms=found.now_ms,
                pace=found.pace,
                leaving=found.leaving,
            )


def _said(shown: Shown) -> str:
    """What was shown, as muster reads it."""
    return f"{'>' if shown.is_least else ''}{shown.pace:.6g}"
