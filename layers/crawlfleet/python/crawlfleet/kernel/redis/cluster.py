"""A Redis in cluster mode: which node has a key, and calls that follow it when it moves.

The driver's own client for clusters makes calls again whose answer was lost, one by one if they
were sent together; it needs the whole cluster to begin with, and learns it anew after each error.
Here a call that must not be repeated is not, whatever happens; calls to many nodes are sent before
any answer is read; and a node that is away is away for its own keys alone.

Masters are asked, never replicas: a replica may not know yet what was written a moment ago.
"""

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias, cast

import redis
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot
from redis.exceptions import AskError, ClusterDownError, MovedError, NoScriptError, TryAgainError

from crawlfleet.kernel.redis import server
from crawlfleet.kernel.redis.server import Address, Argument, Call, Repeated, Script, fleet_keys

#: A node that was silent is left out for so long where others are asked with it: they would wait.
SILENT_SECONDS: Final = 5.0
#: What has no key goes to the node of the fleet's keys: it is the fleet's clock, for one.
_HOME: Final = fleet_keys().workers
#: Who has what is asked no more often, once that is known; nor of further nodes after the second.
_LEARN_SECONDS: Final = 1.0
_LEARN_PATIENCE_SECONDS: Final = 2.0
#: How often a call follows its key; how long it waits while one script's keys are on two nodes.
_STEPS: Final = 8
_TRY_AGAIN_SECONDS: Final = 0.05
#: Rounds in which calls that are sent together find nodes that have been given their keys.
_ROUNDS: Final = 3

#: Commands that go ahead of a call on its connection.
Ahead: TypeAlias = tuple[tuple[str], ...]
#: What comes of reading an answer that no node of a cluster gives.
_NONSENSE: Final = (ValueError, TypeError, LookupError)
#: No answer yet.
_NONE: Final = object()


class Node:
    """A node and the connections to it, heard of last at ``used_at`` by the wall clock."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self.used_at = time.time()
        self._silent_until = float("-inf")

    @property
    def place(self) -> tuple[str, int]:
        """Return host and port."""
        return server.place_of(self.client)

    @property
    def is_silent(self) -> bool:
        """Tell whether it left somebody waiting a moment ago."""
        return time.monotonic() < self._silent_until

    def ask(self, *commands: Sequence[Argument]) -> list[object]:
        """Send commands together and return the answers; what is refused has its error there.

        Raises:
            redis.ConnectionError: the node is not there, or left before it had answered.
            redis.TimeoutError: it is silent.
        """
        return self.send(*commands).answers()

    def one(self, *command: Argument) -> object:
        """Return the answer to a command, or raise the error that it is refused with."""
        return _last(self.ask(command))

    def send(self, *commands: Sequence[Argument]) -> "Sent":
        """Send commands, whose answers are to be read; raises as :meth:`ask` does."""
        try:
            return Sent(self, commands)
        except (redis.RedisError, OSError) as error:
            self.fail(error)
            raise

    def fail(self, error: Exception) -> None:
        """Note that it could not be asked: idle connections are no better, others need not wait."""
        if isinstance(error, redis.TimeoutError | TimeoutError):
            self._silent_until = time.monotonic() + SILENT_SECONDS
        self.client.connection_pool.disconnect(inuse_connections=False)

    def heard(self) -> None:
        """Note that it has answered."""
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
        """Return an answer for each command; raises as :meth:`Node.ask` does."""
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
        """Disconnect without reading: the next one to have the connection must not read these."""
        if self._connection is not None:
            self._connection.disconnect()
            self._release()

    def _read(self) -> object:
        """Read an answer as it came, without what the driver makes of some commands'."""
        parse = cast("Any", self._node.client.parse_response)
        return cast("object", parse(self._connection, "_"))

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        self._pool.release(connection)


class Cluster:
    """The nodes of a cluster; threads share it. It knows nothing before the first call."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._seed = Node(address.open())
        self._nodes: dict[tuple[str, int], Node] = {}
        self._masters: list[Node] = []
        self._slots: list[Node | None] = []
        self._is_stale, self._learn_at = True, float("-inf")

    def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> object:
        """Run a script, which the node may not know yet."""
        rest = (len(keys), *keys, *arguments)

        def put(node: Node, ahead: Ahead) -> object:
            try:
                return _last(node.ask(*ahead, ("EVALSHA", script.digest, *rest)))
            except NoScriptError:
                # EVAL runs it and keeps it for the next EVALSHA.
                return _last(node.ask(*ahead, ("EVAL", script.source, *rest)))

        return self._follow(keys[0], put)

    def run_each(self, script: Script, each: Sequence[Call], repeated: Repeated) -> list[object]:
        """Run a repeatable script on several sets of keys and arguments, all nodes at once.

        What could not be run has its error there in the place of its answer.
        """
        answers: list[object] = [_NONE] * len(each)

        def run() -> list[object]:
            waiting = [
                at
                for at, answer in enumerate(answers)
                if answer is _NONE or isinstance(answer, redis.ConnectionError)
            ]
            for _ in range(_ROUNDS):
                self._round(script, each, waiting, answers)
                waiting = [at for at in waiting if isinstance(answers[at], MovedError)]
                if not waiting:
                    break
            for at in waiting:
                answers[at] = ClusterDownError(f"the key could not be followed: {answers[at]}")
            for answer in answers:
                if isinstance(answer, redis.ConnectionError):
                    raise answer
            return answers

        with suppress(redis.ConnectionError):
            repeated(run)
        return answers

    def together(self, commands: Sequence[Sequence[Argument]]) -> list[object]:
        """Run commands one after the other, in one round trip; their keys are in one slot."""
        if not commands:
            return []
        key = str(commands[0][1]) if len(commands[0]) > 1 else _HOME
        return cast("list[object]", self._follow(key, lambda node, a: _in_turn(node, a, commands)))

    def last_used(self, key: str) -> float:
        """Return when the node that has the key was heard of."""
        return self._node_of(key).used_at

    def ping(self, key: str) -> None:
        """Try the connection to the node that has the key."""
        node = self._node_of(key)
        try:
            node.one("PING")
        except (redis.ConnectionError, redis.TimeoutError):
            self._is_stale = True
            raise

    def nodes(self) -> list[tuple[str, redis.Redis]]:
        """Return each master that has slots, by its address, as the cluster has them now.

        Raises:
            ClusterDownError: some slots are nobody's.
        """
        self._learn_at, self._is_stale = float("-inf"), True
        if None in self._slots_now():
            raise ClusterDownError("some slots have no node")
        return [("{}:{}".format(*node.place), node.client) for node in self._masters]

    def places(self) -> list[tuple[str, int]]:
        """Return host and port of each node that is known, and those that the address has."""
        return [self._seed.place, *list(self._nodes)]

    def are_apart(self, one: str, other: str) -> bool:
        """Tell whether no script can have both keys."""
        return key_slot(one.encode()) != key_slot(other.encode())

    def is_partly_there(self) -> bool:
        """Tell whether some node says who has what."""
        with suppress(redis.RedisError, OSError, *_NONSENSE):
            self._learn()
        return not self._is_stale

    def start_anew(self) -> None:
        """Learn anew who has what: something went wrong."""
        self._is_stale = True

    def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        for node in (self._seed, *list(self._nodes.values())):
            node.client.close()

    def _follow(self, key: str, put: Callable[[Node, Ahead], object]) -> object:
        """Put a call to the node that has the key.

        ``put`` takes what must go ahead of the call on its connection. A node that sends it on,
        or bids it wait, has not run it.
        """
        node = self._node_of(key)
        ahead: Ahead = ()
        refused: Exception | None = None
        for _ in range(_STEPS):
            try:
                return put(node, ahead)
            except AskError as error:  # MovedError is one
                refused = error
                node = self._sent_on(error, node)
                ahead = () if isinstance(error, MovedError) else (("ASKING",),)
            except TryAgainError as error:
                refused = error
                time.sleep(_TRY_AGAIN_SECONDS)
                node, ahead = self._node_of(key), ()
            except (redis.RedisError, OSError):
                self._is_stale = True
                raise
        raise ClusterDownError(f"the key could not be followed: {refused}")

    def _sent_on(self, error: AskError, by: Node) -> Node:
        """Return the node that another one names; what has moved is asked for there from now on."""
        node = self._node_at(error.host or by.place[0], error.port)
        if isinstance(error, MovedError):
            self._slots[error.slot_id] = node
            self._is_stale = True
        return node

    def _round(
        self, script: Script, each: Sequence[Call], waiting: Sequence[int], answers: list[object]
    ) -> None:
        """Ask all nodes for what still waits, and put answers or errors in their places."""
        parts: dict[Node, list[int]] = defaultdict(list)
        for at in waiting:
            try:
                parts[self._node_of(each[at][0][0])].append(at)
            except (redis.RedisError, OSError) as error:
                answers[at] = error
        sent: list[tuple[Node, list[int], Sent]] = []
        try:
            for node, part in parts.items():
                try:
                    if node.is_silent and len(parts) > 1:
                        raise redis.TimeoutError("did not answer a moment ago")
                    sent.append((node, part, node.send(*(_call(script, each[at]) for at in part))))
                except (redis.RedisError, OSError) as error:
                    self._failed(error, part, answers)
            while sent:
                node, part, commands = sent.pop()
                try:
                    found = commands.answers()
                    self._place(script, each, node, part, found, answers)
                except (redis.RedisError, OSError) as error:
                    self._failed(error, part, answers)
        finally:
            for _, _, commands in sent:
                commands.drop()

    def _place(
        self,
        script: Script,
        each: Sequence[Call],
        node: Node,
        part: Sequence[int],
        found: list[object],
        answers: list[object],
    ) -> None:
        """Put a node's answers in their places; teach it the script, and follow what has moved."""
        pairs = zip(part, found, strict=True)
        if unknown := [at for at, one in pairs if isinstance(one, NoScriptError)]:
            load = ("SCRIPT", "LOAD", script.source)
            _, *again = node.ask(load, *(_call(script, each[at]) for at in unknown))
            taught = dict(zip(unknown, again, strict=True))
            found = [taught.get(at, one) for at, one in zip(part, found, strict=True)]
        for at, one in zip(part, found, strict=True):
            answers[at] = one
            if isinstance(one, MovedError):
                self._sent_on(one, node)
            elif isinstance(one, AskError | TryAgainError):
                try:
                    answers[at] = self.run(script, *each[at])
                except (redis.RedisError, OSError) as error:
                    answers[at] = error

    def _failed(self, error: Exception, part: Sequence[int], answers: list[object]) -> None:
        self._is_stale = True
        for at in part:
            answers[at] = error

    def _node_of(self, key: str) -> Node:
        node = self._slots_now()[key_slot(key.encode())]
        if node is None:
            self._is_stale = True
            raise ClusterDownError("no node has the slot of this key")
        return node

    def _slots_now(self) -> list[Node | None]:
        if self._is_stale and (not self._slots or time.monotonic() >= self._learn_at):
            self._learn()
        return self._slots

    def _learn(self) -> None:
        """Ask who has what. Where nobody can say, what is known counts, if anything is."""
        give_up_at = time.monotonic() + _LEARN_PATIENCE_SECONDS
        failure: Exception | None = None
        for node in self._teachers():
            try:
                self._draw(node, node.one("CLUSTER", "SLOTS"))
            except (redis.RedisError, OSError, *_NONSENSE) as error:
                failure = failure or error
                if time.monotonic() > give_up_at:
                    break
            else:
                self._is_stale = False
                break
        self._learn_at = time.monotonic() + _LEARN_SECONDS
        if failure is not None and not self._slots:
            raise failure

    def _teachers(self) -> Iterator[Node]:
        """Yield whom to ask: the known ones, in any order, then the seed; none that is silent."""
        known = list(self._nodes.values())
        random.shuffle(known)
        for node in (*known, self._seed):
            if not self._slots or not node.is_silent:
                yield node

    def _draw(self, reported_by: Node, ranges: object) -> None:
        """Set the map of slots from ``[first, last, [host, port, ...] of the master, ...]``s."""
        slots: list[Node | None] = [None] * REDIS_CLUSTER_HASH_SLOTS
        masters: dict[Node, None] = {}
        listed: set[tuple[str, int]] = set()
        for first, last, *nodes in cast("list[list[int]]", ranges):
            if not 0 <= first <= last < REDIS_CLUSTER_HASH_SLOTS:
                raise ValueError  # no cluster says that
            places = [_place_of(node, reported_by) for node in nodes]
            listed.update(places)
            for place in places:
                self._node_at(*place)
            masters[master := self._node_at(*places[0])] = None
            slots[first : last + 1] = [master] * (last + 1 - first)
        if not masters:
            raise ClusterDownError("no node has any slot")
        for place in set(self._nodes) - listed:
            if gone := self._nodes.pop(place, None):
                gone.client.connection_pool.disconnect(inuse_connections=False)
        self._slots, self._masters = slots, list(masters)

    def _node_at(self, host: str, port: int) -> Node:
        if node := self._nodes.get((host, port)):
            return node
        # Another thread may be doing the same: all have the first one's.
        return self._nodes.setdefault((host, port), Node(self._address.open(host, port)))


def _place_of(reported: object, by: Node) -> tuple[str, int]:
    """Return host and port of a node; one without a host is where the one that said so is."""
    host, port, *_ = cast("list[bytes | int | None]", reported)
    name = host.decode() if isinstance(host, bytes) else ""
    return name if name not in {"", "?"} else by.place[0], int(port or 0)


def _call(script: Script, call: Call) -> tuple[Argument, ...]:
    keys, arguments = call
    return ("EVALSHA", script.digest, len(keys), *keys, *arguments)


def _last(answers: list[object]) -> object:
    """Return the answer to the last command, or raise the error that it was refused with."""
    answer = answers[-1]
    if isinstance(answer, Exception):
        raise answer
    return answer


def _in_turn(node: Node, ahead: Ahead, commands: Sequence[Sequence[Argument]]) -> list[object]:
    """Ask commands one after the other; raises the error of the first that is refused."""
    # What goes ahead counts for one command only.
    answers = node.ask(*(sent for command in commands for sent in (*ahead, command)))
    callbacks: Any = node.client.response_callbacks
    found: list[object] = []
    for command, answer in zip(commands, answers[len(ahead) :: len(ahead) + 1], strict=True):
        if isinstance(answer, Exception):
            raise answer
        read = callbacks.get(str(command[0]))
        found.append(answer if read is None else read(answer))
    return found
