"""An observed fleet over either implementation, and its server's time passing without waiting."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tests.fakes.fleet import MemoryFailureDetector, MemoryWorkers
from tests.kit.fleet import RedisFailureDetector, RedisWorkers
from tests.kit.queue import fleet_keys
from tests.kit.redis import RedisConnection


@dataclass
class Station:
    """Workers, their failure detector, and ``wait`` that moves the server's clock."""

    workers: RedisWorkers
    detector: RedisFailureDetector
    wait: Callable[[float], None]


def in_memory() -> Station:
    ahead = timedelta()

    def wait(seconds: float) -> None:
        nonlocal ahead
        ahead += timedelta(seconds=seconds)

    workers = MemoryWorkers(clock=lambda: datetime.now(UTC) + ahead)
    return Station(workers, MemoryFailureDetector(workers), wait)


def on_redis(connection: RedisConnection, fleet: str) -> Station:
    """Return workers on Redis; ``wait`` makes all stamps older, as no test sets Redis' clock."""
    keys, client = fleet_keys(fleet), connection.client

    def wait(seconds: float) -> None:
        ms = round(seconds * 1000)
        for worker in client.zrange(keys.pulses, 0, -1):
            client.zincrby(keys.pulses, -ms, worker)
        for field in client.hkeys(keys.watch):
            client.hincrby(keys.watch, field, -ms)
        for name, turn in client.hgetall(keys.turns).items():
            started, ends, holder = turn.decode().split(" ", 2)
            older = f"{int(started) - ms} {max(0, int(ends) - ms)} {holder}"
            client.hset(keys.turns, name, older)

    return Station(
        RedisWorkers(connection, fleet=fleet), RedisFailureDetector(connection, fleet=fleet), wait
    )
