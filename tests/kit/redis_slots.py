"""Queue keys by the node that has them, and moving a slot from one node to another."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import redis
from redis.crc import key_slot

from infra.local.parts import LOOPBACK
from infra.local.redis_cluster import RedisCluster
from infra.local.redis_server import RedisServer
from tests.kit.kernel import QueueKey
from tests.kit.queue import redis_keys


def queue_keys_of(
    cluster: RedisCluster, server: RedisServer, tenant: str, number: int = 1
) -> list[QueueKey]:
    """Queue keys of the tenant whose keys are with that node, as the cluster was started."""
    found: list[QueueKey] = []
    for n in count():
        queue_key = QueueKey(tenant, f"biz-{n}", "main")
        if cluster.server_of(redis_keys(queue_key).queue) is server:
            found.append(queue_key)
            if len(found) == number:
                return found
    raise AssertionError


@contextmanager
def client_of(server: RedisServer) -> Iterator[redis.Redis]:
    """A client of one node that follows nothing."""
    with redis.Redis.from_url(server.url, socket_timeout=5) as client:
        yield client


def port_of(server: RedisServer) -> int:
    return int(server.url.rpartition(":")[2].partition("/")[0])


class Move:
    """A slot on its way from one node to another, in the steps that operators' tools take."""

    def __init__(self, slot: int, source: RedisServer, target: RedisServer) -> None:
        self._slot, self._source, self._target = slot, source, target

    def begin(self) -> None:
        """Keys that are not there any more are asked for at the target from now on."""
        with client_of(self._target) as target:
            target.execute_command("CLUSTER", "SETSLOT", self._slot, "IMPORTING", self._id(False))
        with client_of(self._source) as source:
            source.execute_command("CLUSTER", "SETSLOT", self._slot, "MIGRATING", self._id(True))

    def carry(self, *keys: str) -> None:
        """Take these keys over, all there are if none is named."""
        with client_of(self._source) as source:
            found = keys or source.execute_command("CLUSTER", "GETKEYSINSLOT", self._slot, 1_000)
            for key in found:
                source.execute_command("MIGRATE", LOOPBACK, port_of(self._target), key, 0, 5_000)

    def end(self) -> None:
        """The slot is the target's; the others hear of it."""
        for server in (self._target, self._source):
            with client_of(server) as client:
                client.execute_command("CLUSTER", "SETSLOT", self._slot, "NODE", self._id(True))

    def _id(self, of_target: bool) -> bytes:
        with client_of(self._target if of_target else self._source) as client:
            return client.execute_command("CLUSTER", "MYID")


def slot_of(queue_key: QueueKey) -> int:
    return key_slot(redis_keys(queue_key).queue.encode())
