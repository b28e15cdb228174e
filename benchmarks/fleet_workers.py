"""Workers of the product, many in a process, whose calls to what all workers share are counted.

``python -m benchmarks.fleet_workers``, with the tree in ``BENCH_TREE`` and the servers in
``BENCH_REDIS`` and ``BENCH_MONGO``. A line is asked, a line is answered::

    more NAME NAME ...   so many workers more
    count SECONDS        what all of them ask in that time
    tick                 what a tick of the scheduler asks

Each has parts of its own, as each environment of a function has: connections, a configuration.
"""

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, cast

import msgspec
import pymongo.monitoring
import redis

from benchmarks.bench import Addresses
from benchmarks.house import BenchParts
from benchmarks.stand_ins import UnboundLimit
from benchmarks.worker import REMAINING_SECONDS
from crawlfleet.apps.consumer import Consumer
from crawlfleet.apps.scheduler import Scheduler
from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.in_force import SsmConfig
from crawlfleet.config.ssm import SsmApi
from crawlfleet.fleet.scaling import ConcurrencyLimit
from crawlfleet.kernel.mongo.connection import MongoNodes
from crawlfleet.kernel.names import CONFIG_REVISION, CONTROL_DATABASE, config_root
from crawlfleet.kernel.redis.connection import RedisConnection
from crawlfleet.kernel.redis.server import Script

#: What a key of the fleet has in it.
_TAG: Final = b"{fleet}"
_STAGE: Final = "bench"


class Asked(msgspec.Struct):
    """The calls of some seconds to what all workers share.

    ``redis`` has those with keys of the fleet, each with its script's name or its command, and as
    it was sent; ``home`` counts those to the control database, by command and collection.
    """

    seconds: float = 0.0
    redis: list[tuple[str, list[bytes]]] = []
    home: dict[str, int] = {}


class Log:
    """All that was asked since it was last emptied."""

    def __init__(self) -> None:
        self.redis: list[bytes] = []
        self.home: list[str] = []

    def taken(self, seconds: float = 0.0) -> Asked:
        """Return what was asked, and forget it."""
        sent, self.redis = self.redis, []
        home, self.home = self.home, []
        names = _script_names()
        calls = [call for one in sent for call in commands_in(one)]
        return Asked(
            seconds=seconds,
            redis=[(_name(call, names), call) for call in calls if _is_of_fleet(call)],
            home=dict(Counter(home)),
        )


def commands_in(sent: bytes) -> Iterator[list[bytes]]:
    r"""Read commands as a client sends them.

    >>> list(commands_in(b"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n"))
    [[b'PING'], [b'GET', b'a\r\n']]
    """
    at = 0

    def number() -> int:
        nonlocal at
        end = sent.index(b"\r\n", at)
        found, at = int(sent[at + 1 : end]), end + 2
        return found

    while at < len(sent):
        words = []
        for _ in range(number()):
            size = number()
            words.append(sent[at : at + size])
            at += size + 2
        yield words


def _is_of_fleet(call: list[bytes]) -> bool:
    scripted = call[0] in (b"EVALSHA", b"EVAL")
    keys = call[3 : 3 + int(call[2])] if scripted else call[1:2]
    return any(_TAG in key for key in keys)


def _name(call: list[bytes], names: dict[bytes, str]) -> str:
    return names.get(call[1], "") if call[0] == b"EVALSHA" else call[0].decode()


def _noting(log: Log) -> type[redis.Connection]:
    class Noting(redis.Connection):
        """A connection that notes what is sent."""

        def send_packed_command(self, command: Any, check_health: bool = True) -> None:
            log.redis.append(command if isinstance(command, bytes) else b"".join(command))
            super().send_packed_command(command, check_health)  # type: ignore[no-untyped-call]

    return Noting


class _Commands(pymongo.monitoring.CommandListener):
    """Notes what the home node is asked."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def started(self, event: pymongo.monitoring.CommandStartedEvent) -> None:
        """Note a command to the control database."""
        if event.database_name == CONTROL_DATABASE:
            self._log.home.append(f"{event.command_name} {event.command.get(event.command_name)}")

    def succeeded(self, event: pymongo.monitoring.CommandSucceededEvent) -> None:
        """Do nothing."""

    def failed(self, event: pymongo.monitoring.CommandFailedEvent) -> None:
        """Do nothing."""


class _Ssm:
    """The calls of SSM that read a tree which stands still."""

    def __init__(self, tree: Tree) -> None:
        documents = {"stage": tree.stage}
        documents |= {f"tenants/{name}": one for name, one in tree.tenants.items()}  # type: ignore[misc]
        for tenant, bizs in tree.bizs.items():
            documents |= {f"bizs/{tenant}/{name}": one for name, one in bizs.items()}  # type: ignore[misc]
        texts = {name: msgspec.json.encode(one).decode() for name, one in documents.items()}
        root = config_root(_STAGE)
        self._values = {f"{root}/{name}": value for name, value in texts.items()}
        self._values[f"{root}/{CONFIG_REVISION}"] = tree.revision

    def get_parameters(self, **arguments: Any) -> dict[str, Any]:
        """GetParameters."""
        return _answer(
            {name: value for name, value in self._values.items() if name in arguments["Names"]}
        )

    def get_parameters_by_path(self, **_: Any) -> dict[str, Any]:
        """GetParametersByPath."""
        return _answer(self._values)


def _answer(values: dict[str, str]) -> dict[str, Any]:
    return {"Parameters": [{"Name": name, "Value": value} for name, value in values.items()]}


class CountedParts(BenchParts):
    """The parts of one function, whose calls are counted; its configuration is read as on AWS."""

    def __init__(self, addresses: Addresses, tree: Tree, service: str, log: Log) -> None:
        super().__init__(addresses, tree, service)
        self._ssm = _Ssm(tree)
        self._log = log

    @cached_property
    def config(self) -> SsmConfig:
        return SsmConfig(cast("SsmApi", self._ssm), _STAGE, revisions=lambda: self._revisions)

    @cached_property
    def redis(self) -> RedisConnection:
        opened = RedisConnection(self.settings.redis_url)
        opened.client.connection_pool.connection_class = _noting(self._log)
        return opened

    @cached_property
    def nodes(self) -> MongoNodes:
        return MongoNodes(
            self.secrets.read,
            lambda: self.config.current().stage.home_node,
            listeners=[_Commands(self._log)],
        )

    @cached_property
    def limit(self) -> ConcurrencyLimit:
        return UnboundLimit(self.config.current().stage.fleet.max_consumers)


def _script_names() -> dict[bytes, str]:
    found = [one for module in list(sys.modules.values()) for one in vars(module).values()]
    return {one.digest.encode(): one.name for one in found if isinstance(one, Script)}


def main() -> None:
    tree = msgspec.json.decode(os.environ["BENCH_TREE"], type=Tree)
    addresses = Addresses(redis=os.environ["BENCH_REDIS"], mongo=os.environ["BENCH_MONGO"])
    log, ticked = Log(), Log()
    scheduler = Scheduler(CountedParts(addresses, tree, "scheduler", ticked))
    for line in sys.stdin:
        verb, *words = line.split()
        asked = Asked()
        if verb == "more":
            for worker in words:
                consumer = Consumer(CountedParts(addresses, tree, "consumer", log))
                work = threading.Thread(
                    target=consumer.work, args=(worker, lambda: REMAINING_SECONDS), daemon=True
                )
                work.start()
        elif verb == "count":
            began = time.monotonic()
            log.taken()
            time.sleep(float(words[0]))
            asked = log.taken(time.monotonic() - began)
        else:
            ticked.taken()
            scheduler.tick("tick", lambda: REMAINING_SECONDS)
            asked = ticked.taken()
        sys.stdout.write(msgspec.json.encode(asked).decode() + "\n")
        sys.stdout.flush()
    # Workers do not end by themselves, and nobody waits for what they hold.
    os._exit(0)


if __name__ == "__main__":
    main()
