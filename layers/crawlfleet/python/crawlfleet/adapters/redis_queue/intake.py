"""Back-pressure on Redis: whether a lane takes more now."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from crawlfleet.adapters.redis_queue.connection import (
    RedisConnection,
    Script,
    several,
    text,
    whole,
)
from crawlfleet.adapters.redis_queue.keys import lane_keys, level_keys
from crawlfleet.model.biz import IntakeLimits
from crawlfleet.model.lane import Lane
from crawlfleet.model.times import to_ms
from crawlfleet.model.totals import Pressure

_ADMIT: Final = Script("admit", "levels_prelude")


class RedisIntake:
    """An :class:`~crawlfleet.ports.Intake`: backlog, rate and memory are one look, one script.

    Args:
        connection: The stage's Redis.
        clock: Stands for the server's own, which is what counts where none is given.
    """

    def __init__(
        self, connection: RedisConnection, *, clock: Callable[[], datetime] | None = None
    ) -> None:
        self._redis = connection
        self._clock = clock

    def admit(
        self,
        lane: Lane,
        count: int,
        limits: IntakeLimits,
        memory_ratio: float,
        now: datetime,  # noqa: ARG002  a caller that is an hour ahead would keep all others out
        beside: Sequence[Lane] = (),
    ) -> Pressure:
        """Ask for ``count`` more, and count them towards the rate if there is room.

        A batch larger than the burst, or than the backlog may be, is taken when nothing else is
        there. The answer does not reserve a place in the backlog: batches that are admitted at the
        same moment may together pass it.
        """
        keys = lane_keys(lane)
        answer = self._redis.once(
            _ADMIT,
            (keys.intake, *(key for one in (lane, *beside) for key in _backlog_keys(one))),
            *(count, limits.max_backlog),
            "" if limits.per_second is None else limits.per_second,
            *(limits.burst, memory_ratio),
            "" if self._clock is None else to_ms(self._clock()) * 1_000,
        )
        backlog, backlog_full, memory_full, wait = several(answer, 4)
        with self._redis.translated():
            return Pressure(
                backlog=whole(backlog),
                backlog_full=whole(backlog_full) == 1,
                memory_full=whole(memory_full) == 1,
                wait_seconds=int(text(wait)) / 1_000_000,
            )


def _backlog_keys(lane: Lane) -> tuple[str, ...]:
    """What holds the entries of a lane."""
    keys = lane_keys(lane)
    return keys.leases, keys.delayed, keys.parked, *level_keys(lane)
