"""A Redis cluster of one's own on free loopback ports, for tests."""

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Final, Self

import redis
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from infra.local.parts import LOOPBACK, START_SECONDS, PartError, port_is_free
from infra.local.redis_server import RedisServer

#: Nodes talk to each other at their port and this: both are to be free, and below the ports that
#: the kernel gives to whoever connects.
_BUS: Final = 10_000
_PORTS: Final = range(12_000, 22_000)
_TRIES: Final = 200
_LOOK_SECONDS: Final = 0.05


class RedisCluster:
    """Start masters, each with its part of the slots, and replicas of the first of them; stop them.

    A node that is away takes only its own slots with it, as on ElastiCache.

    Attributes:
        url: The address of the cluster, by its first node.
        servers: The nodes, masters first.
    """

    def __init__(
        self,
        masters: int = 3,
        replicas: int = 0,
        *,
        node_timeout_ms: int = 5_000,
        options_of: Callable[[int], Sequence[str]] = lambda _port: (),
    ) -> None:
        """Choose how many; a node is away when the others have had no answer for the time-out.

        ``options_of`` are further options of the node at that port.
        """
        self._masters, self._replicas = masters, replicas
        self._node_timeout_ms = node_timeout_ms
        self._options_of = options_of
        self._stack = ExitStack()
        self.url = ""
        self.servers: list[RedisServer] = []

    def start(self) -> Self:
        """Start the nodes, and return when all of them know that all is well."""
        with ExitStack() as stack:
            self.servers = [
                stack.enter_context(self._a_server()) for _ in range(self._masters + self._replicas)
            ]
            self.url = self.servers[0].url.replace("redis://", "redis+cluster://", 1)
            self._join()
            self._stack = stack.pop_all()
        return self

    def stop(self) -> None:
        """Stop the nodes; nothing is kept."""
        self._stack.close()

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    def server_of(self, key: str) -> RedisServer:
        """The node that was given the key's slot when the cluster was started."""
        slot = key_slot(key.encode())
        return next(server for at, server in enumerate(self.servers) if slot in self._slots_of(at))

    def is_well(self) -> bool:
        """Return whether every node knows all others as alive, and every slot is served."""
        return all(self._is_content(server) for server in self.servers)

    def _a_server(self) -> RedisServer:
        port = _free_port()
        options = (
            *("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"),
            *("--cluster-node-timeout", str(self._node_timeout_ms)),
            *self._options_of(port),
        )
        return RedisServer(port=port, own=True, options=options)

    def _slots_of(self, at: int) -> range:
        if at >= self._masters:
            return range(0)
        each = REDIS_CLUSTER_HASH_SLOTS / self._masters
        return range(round(at * each), round((at + 1) * each))

    def _join(self) -> None:
        for at, server in enumerate(self.servers):
            with _client(server) as client:
                client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", at + 1)
                if self._slots_of(at):
                    client.execute_command("CLUSTER", "ADDSLOTS", *self._slots_of(at))
                if at:
                    client.execute_command("CLUSTER", "MEET", LOOPBACK, _port(self.servers[0]))
        self._wait(lambda server: _knows(server, len(self.servers)))
        with _client(self.servers[0]) as client:
            first: Any = client.execute_command("CLUSTER", "MYID")
        for server in self.servers[self._masters :]:
            with _client(server) as client:
                client.execute_command("CLUSTER", "REPLICATE", first)
        self._wait(self._is_content)

    def _is_content(self, server: RedisServer) -> bool:
        try:
            with _client(server) as client:
                reported = _reported(client)
                if reported["cluster_state"] != "ok" or reported["cluster_slots_ok"] != "16384":
                    return False
                if int(reported["cluster_known_nodes"]) != len(self.servers):
                    return False
                replication: Any = client.info("replication")
                return bool(replication.get("master_link_status", "up") == "up")
        except redis.RedisError:
            return False

    def _wait(self, holds: Any) -> None:
        until = time.monotonic() + START_SECONDS
        while not all(holds(server) for server in self.servers):
            if time.monotonic() > until:
                message = f"the Redis cluster was not whole within {START_SECONDS:.0f} s"
                raise PartError(message)
            time.sleep(_LOOK_SECONDS)


def _client(server: RedisServer) -> redis.Redis:
    return redis.Redis.from_url(server.url, socket_timeout=5)


def _port(server: RedisServer) -> int:
    return int(server.url.rpartition(":")[2].partition("/")[0])


def _reported(client: redis.Redis) -> dict[str, str]:
    ask: Any = client.execute_command
    answer = ask("CLUSTER", "INFO")
    if isinstance(answer, dict):
        return {str(name): str(value) for name, value in answer.items()}
    return dict(line.split(":", 1) for line in answer.decode().split())


def _knows(server: RedisServer, count: int) -> bool:
    with _client(server) as client:
        return int(_reported(client)["cluster_known_nodes"]) == count


def _free_port() -> int:
    for port in random.sample(_PORTS, _TRIES):
        if port_is_free(port) and port_is_free(port + _BUS):
            return port
    message = "no free ports for a Redis cluster"
    raise PartError(message)
