"""One node of a Redis cluster: several calls on one connection, sent before any is read."""

import time
from collections.abc import Sequence
from typing import Any, Final, cast

import redis

from crawlfleet.kernel.redis.server import Argument

#: A node that was silent is left out for so long where others are asked with it: they would wait.
SILENT_SECONDS: Final = 5.0


class Node:
    """A node and the connections to it.

    Attributes:
        client: The driver's.
        used_at: When it was last heard of, by the wall clock.
    """

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self.used_at = time.time()
        self._silent_until = float("-inf")

    @property
    def place(self) -> tuple[str, int]:
        """Host and port."""
        where = self.client.connection_pool.connection_kwargs
        return str(where.get("host", "localhost")), int(where.get("port", 6379))

    @property
    def is_silent(self) -> bool:
        """Whether it left somebody waiting a moment ago."""
        return time.monotonic() < self._silent_until

    def ask(self, *commands: Sequence[Argument]) -> list[object]:
        """Answers to commands that are sent together; what is refused has its error there.

        Raises:
            redis.ConnectionError: the node is not there, or left before it had answered.
            redis.TimeoutError: it is silent.
        """
        return self.send(*commands).answers()

    def one(self, *command: Argument) -> object:
        """The answer to a command, or the error that it is refused with."""
        (answer,) = self.ask(command)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def send(self, *commands: Sequence[Argument]) -> "Sent":
        """Send commands, whose answers are to be read; raises as :meth:`ask` does."""
        try:
            return Sent(self, commands)
        except (redis.RedisError, OSError) as error:
            self.fail(error)
            raise

    def fail(self, error: Exception) -> None:
        """It could not be asked: idle connections are no better, and others need not wait too."""
        if isinstance(error, redis.TimeoutError | TimeoutError):
            self._silent_until = time.monotonic() + SILENT_SECONDS
        self.client.connection_pool.disconnect(inuse_connections=False)

    def heard(self) -> None:
        """It has answered."""
        self.used_at = time.time()
        self._silent_until = float("-inf")


class Sent:
    """Commands on their way. Either the answers are read, or it is dropped."""

    def __init__(self, node: Node, commands: Sequence[Sequence[Argument]]) -> None:
        self._node = node
        self._count = len(commands)
        self._pool: Any = node.client.connection_pool
        self._connection = cast("Any", self._pool.get_connection())
        try:
            connection = self._connection
            connection.send_packed_command(connection.pack_commands(commands))
        except BaseException:
            self.drop()
            raise

    def answers(self) -> list[object]:
        """One a command; raises as :meth:`Node.ask` does."""
        found: list[object] = []
        try:
            for _ in range(self._count):
                try:
                    found.append(self._read())
                except redis.ResponseError as refused:
                    found.append(refused)
        except BaseException as error:
            self.drop()
            if isinstance(error, redis.RedisError | OSError):
                self._node.fail(error)
            raise
        self._release()
        self._node.heard()
        return found

    def drop(self) -> None:
        """Nobody reads the answers: the next one to have the connection must not either."""
        if self._connection is not None:
            self._connection.disconnect()
            self._release()

    def _read(self) -> object:
        """An answer as it came: what the driver makes of some commands' is left to who asks."""
        parse = cast("Any", self._node.client.parse_response)
        return cast("object", parse(self._connection, "_"))

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        self._pool.release(connection)
