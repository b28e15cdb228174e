"""Redis, its scripts, and the border where the driver's errors become ours.

A call waits for at most a second to connect and two for the answer. What may be repeated without a
second effect is repeated when the connection breaks, because a failover breaks it; a time-out is
not repeated, because the caller has waited already and the server has enough to do.

Redis is one server, or a cluster of which each node has some of the keys: what differs between the
two is in ``server.py`` and ``cluster.py``.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Final, Self, TypeVar, cast

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import MovedError, RedisClusterException
from redis.retry import Retry

from crawlfleet.kernel.errors import StoreUnavailableError
from crawlfleet.kernel.redis import server
from crawlfleet.kernel.redis.server import Address, Argument, Call, Password, Script, Server

#: What :class:`StoreUnavailableError` calls this part.
PART: Final = "redis"

CONNECT_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 2.0
#: How soon a password that the server refuses is asked for again.
RENEWAL_SECONDS: Final = 5.0
#: Repetitions of a repeatable call, and the longest pause before each.
REPETITIONS: Final = 2
#: Queues in one round trip: some ms of the server's time, however many there are.
QUEUES: Final = 200
LONGEST_PAUSE_SECONDS: Final = 0.2

T = TypeVar("T")


class RedisConnection:
    """Pools of connections to one Redis; threads share it, and a forked child gets its own.

    ``url`` is ``redis://`` or ``rediss://``; of a cluster ``redis+cluster://`` or
    ``rediss+cluster://`` and one of its nodes, or a name that leads to any. ``renew`` asks the
    secret store for the password again when the server refuses it; what it raises is the caller's
    to see. A connection that was idle for ``idle_seconds`` is tried before a call that must not be
    repeated.

    Raises:
        ConfigError: the address is none.
    """

    def __init__(
        self,
        url: str,
        *,
        password: str | None = None,
        renew: Callable[[], str] | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
        queues_at_once: int = QUEUES,
        idle_seconds: float = server.IDLE_SECONDS,
    ) -> None:
        self._idle_seconds, self._queues_at_once = idle_seconds, queues_at_once
        self._password = Password(password) if password else None
        self._renew, self._renewed_at = renew, float("-inf")
        self._retry = Retry(
            ExponentialWithJitterBackoff(cap=LONGEST_PAUSE_SECONDS, base=0.02),
            REPETITIONS,
            supported_errors=(redis.ConnectionError,),
        )
        self._address = Address(url, self._password, connect_seconds, answer_seconds)
        if self._address.is_cluster:
            # Whoever has one server need not have read how several are asked.
            from crawlfleet.kernel.redis.cluster import Cluster

            self._place: Server | Cluster = Cluster(self._address)
        else:
            self._place = Server(self._address)

    def is_partly_there(self) -> bool:
        """Tell whether other parts of it answer where a call has found nobody."""
        return self._place.is_partly_there()

    @cached_property
    def client(self) -> redis.Redis:
        """Return the driver's own client, for what no method here does; nothing is translated.

        That of a cluster finds the nodes of keys by itself; what has no key it asks of one or of
        all, by its own lights: for that :meth:`nodes` is there.
        """
        if isinstance(self._place, Server):
            return self._place.client
        return cast("redis.Redis", self._address.open_cluster())

    def once(self, script: Script, keys: Sequence[str], *arguments: Argument) -> object:
        """Run a script that is not repeated when the answer is lost."""
        with self.translated():
            self._revive(keys[0])
            return self._place.run(script, keys, arguments)

    def again(self, script: Script, keys: Sequence[str], *arguments: Argument) -> object:
        """Run a script that may be repeated without a second effect."""
        with self.translated():
            return self._repeated(lambda: self._place.run(script, keys, arguments))

    def as_far_as_may_be(self, script: Script, each: Sequence[Call]) -> list[object]:
        """Run a repeatable script on several sets of keys and arguments, in one round trip.

        In the place of what a cluster's nodes that are away were to answer is a
        :class:`StoreUnavailableError`.

        Raises:
            StoreUnavailableError: nothing was answered.
        """
        with self.translated():
            answers = self._place.run_each(script, each, self._repeated)
            away = [answer for answer in answers if isinstance(answer, Exception)]
            if away and len(away) == len(answers):
                raise away[0]
        return [_unavailable(one) if isinstance(one, Exception) else one for one in answers]

    def queue_by_queue(self, script: Script, each: Sequence[Call]) -> list[object]:
        """Run the same over however many queues, some in a round trip.

        Raises:
            StoreUnavailableError: nothing was answered, or the only server is away.
        """
        answers: list[object] = []
        for first in range(0, len(each), self._queues_at_once):
            part = each[first : first + self._queues_at_once]
            try:
                answers += self.as_far_as_may_be(script, part)
            except StoreUnavailableError as error:
                if len(part) == len(each) or not self.is_partly_there():
                    raise
                answers += [error] * len(part)
        away = [answer for answer in answers if isinstance(answer, StoreUnavailableError)]
        if away and len(away) == len(answers):
            raise away[0]
        return answers

    def together(self, *commands: tuple[Argument, ...]) -> list[object]:
        """Run repeatable commands one after the other, in one round trip.

        No transaction: a full Redis refuses to put even what reads into one. On a cluster their
        keys are in one slot; without keys they are the fleet's node's.
        """
        with self.translated():
            return self._repeated(partial(self._place.together, commands))

    def nodes(self) -> list[tuple[str, redis.Redis]]:
        """Return the driver's client of every server that has keys, by its address.

        For what is asked of each: calls are to be in :meth:`translated`.
        """
        with self.translated():
            return self._repeated(self._place.nodes)

    def places(self) -> list[tuple[str, int]]:
        """Return host and port of each server that is known; nothing is asked."""
        return self._place.places()

    def ping(self) -> None:
        """Check that every server that has keys answers.

        Raises:
            StoreUnavailableError: one does not, or there are keys that none has.
        """
        with self.translated():
            for _, client in self.nodes():
                self._repeated(client.ping)

    def are_apart(self, one: str, other: str) -> bool:
        """Tell whether no script can have both keys, for they are in two slots of a cluster."""
        return self._place.are_apart(one, other)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn whatever the driver raises into :class:`StoreUnavailableError`.

        Down, slow, loading, busy, read-only after a failover, out of memory, or answering nonsense:
        to a flow these are one thing, a part that cannot be used now. The driver's own parser lets
        ``ValueError`` and its kin escape when what answers is no Redis.
        """
        try:
            yield
        except (redis.RedisError, RedisClusterException, OSError) as cause:
            self._place.start_anew()
            self._consider(cause)
            if isinstance(cause, MovedError):  # of one server; a cluster's calls follow
                raise StoreUnavailableError(PART, server.IS_A_CLUSTER) from cause
            raise _unavailable(cause) from cause
        except (ValueError, TypeError, LookupError, RecursionError) as cause:
            self._place.start_anew()
            raise StoreUnavailableError(PART, "the answer is not what Redis answers") from cause

    def close(self) -> None:
        """Close idle connections; a later call opens new ones."""
        self._place.close()
        driver = self.__dict__.pop("client", None)
        if driver is not None:
            driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _repeated(self, call: Callable[[], T]) -> T:
        return self._retry.call_with_retry(call, self._consider)

    def _consider(self, cause: Exception) -> None:
        """Ask for the password anew if the server refuses the one in use, but not all the time."""
        refused = isinstance(cause, redis.AuthenticationError)
        if not refused or self._password is None or self._renew is None:
            return
        if time.monotonic() - self._renewed_at > RENEWAL_SECONDS:
            self._password.value = self._renew()
            self._renewed_at = time.monotonic()

    def _revive(self, key: str) -> None:
        """Replace a connection that died of idleness, before a call that must not be repeated."""
        if abs(time.time() - self._place.last_used(key)) > self._idle_seconds:
            self._repeated(lambda: self._place.ping(key))


def _unavailable(cause: Exception) -> StoreUnavailableError:
    if isinstance(cause, StoreUnavailableError):
        return cause
    return StoreUnavailableError(PART, f"{type(cause).__name__}: {cause}")


def whole(answer: object) -> int:
    """Return the answer of a script that counts.

    Raises:
        StoreUnavailableError: it is no number, so what answered is no Redis of ours.
    """
    if isinstance(answer, int):
        return answer
    raise nonsense()


def text(answer: object) -> bytes:
    """Return the answer of a script that returns text; raises as :func:`whole` does."""
    if isinstance(answer, bytes):
        return answer
    raise nonsense()


def several(answer: object, count: int | None = None) -> list[object]:
    """Return the ``count`` values that a script returns; raises as :func:`whole` does."""
    if isinstance(answer, list) and count in {None, len(answer)}:
        return answer
    raise nonsense()


def nonsense() -> StoreUnavailableError:
    """Make the error of an answer that is no Redis's, or none's that runs our scripts."""
    return StoreUnavailableError(PART, "the answer has another shape than the script's")
