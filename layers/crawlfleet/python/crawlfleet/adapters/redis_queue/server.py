"""One Redis server, and how calls are put to it."""

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, cast

import redis

from crawlfleet.adapters.redis_queue.address import Address
from crawlfleet.adapters.redis_queue.script import Script

Argument: TypeAlias = str | bytes | int | float
#: A script's keys and arguments.
Call: TypeAlias = tuple[Sequence[str], Sequence[Argument]]
#: What makes a call again that failed, for as often and as soon as is right.
Repeated: TypeAlias = Callable[[Callable[[], list[object]]], list[object]]

IS_A_CLUSTER: Final = (
    "this Redis is a node of a cluster: its address begins with redis+cluster:// or "
    "rediss+cluster://"
)


class Server:
    """A Redis that has every key.

    Attributes:
        client: The driver's.
        used_at: When it was last heard of. By the wall clock: the monotonic one may stand still
            while a Lambda is frozen.
    """

    def __init__(self, address: Address) -> None:
        self.client = address.open()
        self.used_at = time.time()

    def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> object:
        """Run a script, which the server may not know yet."""
        execute = cast("Callable[..., object]", self.client.execute_command)
        try:
            answer = execute("EVALSHA", script.digest, len(keys), *keys, *arguments)
        except redis.exceptions.NoScriptError:
            # EVAL runs it and keeps it for the next EVALSHA.
            answer = execute("EVAL", script.source, len(keys), *keys, *arguments)
        self.used_at = time.time()
        return answer

    def run_each(self, script: Script, each: Sequence[Call], repeated: Repeated) -> list[object]:
        """Run a repeatable script on several sets of keys and arguments, in one round trip."""

        def run() -> list[object]:
            pipe = self.client.pipeline(transaction=False)
            put = cast("Callable[..., object]", pipe.execute_command)
            for keys, arguments in each:
                put("EVALSHA", script.digest, len(keys), *keys, *arguments)
            return cast("list[object]", pipe.execute())

        def load_and_run() -> list[object]:
            try:
                return run()
            except redis.exceptions.NoScriptError:
                self.client.script_load(script.source.decode())
                return run()

        answers = repeated(load_and_run)
        self.used_at = time.time()
        return answers

    def together(self, commands: Sequence[Sequence[Argument]]) -> list[object]:
        """Run commands one after the other, in one round trip."""
        pipe = self.client.pipeline(transaction=False)
        put = cast("Callable[..., object]", pipe.execute_command)
        for command in commands:
            put(*command)
        answers = cast("list[object]", pipe.execute())
        self.used_at = time.time()
        return answers

    def last_used(self, _key: str) -> float:
        """When the server that has the key was heard of."""
        return self.used_at

    def ping(self, _key: str) -> None:
        """Try the connection to the server that has the key."""
        self.client.ping()

    def nodes(self) -> list[tuple[str, redis.Redis]]:
        """Each server that has keys, by its address: this one."""
        where = self.client.connection_pool.connection_kwargs
        return [(f"{where.get('host', where.get('path'))}:{where.get('port', 0)}", self.client)]

    def are_apart(self, _one: str, _other: str) -> bool:
        """Whether no script can have both keys."""
        return False

    def is_partly_there(self) -> bool:
        """Whether some of its keys are there when others are not."""
        return False

    def start_anew(self) -> None:
        """Close idle connections: after a failover they lead to a server that only reads."""
        self.client.connection_pool.disconnect(inuse_connections=False)

    def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        self.client.close()
