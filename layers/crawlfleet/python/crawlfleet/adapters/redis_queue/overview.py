"""Many lanes at a glance, on Redis: one script a lane, some hundreds of lanes a round trip."""

from collections.abc import Sequence
from typing import Final

from crawlfleet.adapters.redis_queue.connection import (
    RedisConnection,
    Script,
    nonsense,
    several,
    text,
    whole,
)
from crawlfleet.adapters.redis_queue.keys import lane_keys
from crawlfleet.errors import StoreUnavailableError
from crawlfleet.model.lane import Lane
from crawlfleet.model.politeness import Parked
from crawlfleet.policy import parking

_COUNTS: Final = Script("counts")
_WAITING_HOSTS: Final = Script("waiting_hosts")


class RedisOverview:
    """A :class:`~crawlfleet.ports.Overview`."""

    def __init__(self, connection: RedisConnection) -> None:
        self._redis = connection

    def counts(self, lanes: Sequence[Lane]) -> list[tuple[dict[int, int], dict[int, int]] | None]:
        """See ports.Overview.counts."""
        keys = [(of.submitted, of.processed) for of in map(lane_keys, lanes)]
        answers = self._for_each(_COUNTS, keys)
        with self._redis.translated():
            return [None if _is_away(answer) else _counts(answer) for answer in answers]

    def waiting_hosts(self, lanes: Sequence[Lane], limit: int) -> list[list[Parked]]:
        """See ports.Overview.waiting_hosts."""
        if limit < 1:
            return [[] for _ in lanes]
        keys = [(of.parked, of.parked_due) for of in map(lane_keys, lanes)]
        answers = self._for_each(_WAITING_HOSTS, keys, limit)
        with self._redis.translated():
            return [[] if _is_away(answer) else _parked(several(answer)) for answer in answers]

    def _for_each(
        self, script: Script, keys: Sequence[Sequence[str]], *arguments: int
    ) -> list[object]:
        return self._redis.lane_by_lane(script, [(each, arguments) for each in keys])


def _is_away(answer: object) -> bool:
    return isinstance(answer, StoreUnavailableError)


def _counts(answer: object) -> tuple[dict[int, int], dict[int, int]]:
    submitted, processed = several(answer, 2)
    return _by_second(submitted), _by_second(processed)


def _by_second(answer: object) -> dict[int, int]:
    flat = several(answer)
    return {
        int(text(at)): int(text(count)) for at, count in zip(flat[::2], flat[1::2], strict=True)
    }


def _parked(answer: list[object]) -> list[Parked]:
    if not answer:
        raise nonsense()
    count, *flat = answer
    several(flat, 3 * whole(count))
    return parking.together(
        (text(place).decode(), whole(count), int(float(text(at))))
        for place, count, at in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
    )
