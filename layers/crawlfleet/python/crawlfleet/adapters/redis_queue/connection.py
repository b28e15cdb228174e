"""One Redis, its scripts, and the border where the driver's errors become ours.

A call waits for at most a second to connect and two for the answer. What may be repeated without a
second effect is repeated when the connection breaks, because a failover breaks it; a time-out is
not repeated, because the caller has waited already and the server has enough to do.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import Final, Self, TypeAlias, TypeVar, cast
from urllib.parse import unquote, urlsplit

import redis
from redis import CredentialProvider
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.retry import Retry

from crawlfleet.errors import ConfigError, Problem, StoreUnavailableError

#: What :class:`StoreUnavailableError` calls this part.
PART: Final = "redis"

CONNECT_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 2.0
#: A connection idle for longer is tried with a PING before it carries a call: a thawed Lambda's
#: connections are often gone without its kernel knowing.
IDLE_SECONDS: Final = 15
#: How soon a password that the server refuses is asked for again.
RENEWAL_SECONDS: Final = 5.0
#: Repetitions of a repeatable call, and the longest pause before each.
REPETITIONS: Final = 2
LONGEST_PAUSE_SECONDS: Final = 0.2

_SCHEMES: Final = frozenset({"redis", "rediss", "unix"})

T = TypeVar("T")
Argument: TypeAlias = str | bytes | int | float


class Script:
    """A Lua script of ``scripts/`` by its name, with the prelude before it, or with two."""

    __slots__ = ("digest", "name", "source")

    def __init__(self, name: str, second_prelude: str | None = None) -> None:
        self.name = name
        second = b"" if second_prelude is None else _read(second_prelude)
        self.source = _prelude() + second + _read(name)
        self.digest = sha1(self.source, usedforsecurity=False).hexdigest()


class RedisConnection:
    """A pool of connections to one Redis; threads share it, and a forked child gets its own.

    Args:
        url: ``redis://`` or ``rediss://`` address.
        password: From the secret store, where the address carries none.
        renew: Asks the secret store again. Called when the server refuses the password, which
            then has been rotated; what it raises is the caller's to see.
        connect_seconds: How long opening a connection may take.
        answer_seconds: How long the server may be silent.

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
    ) -> None:
        self._password = _Password(password) if password else None
        self._renew = renew
        self._renewed_at = float("-inf")
        self._retry = Retry(
            ExponentialWithJitterBackoff(cap=LONGEST_PAUSE_SECONDS, base=0.02),
            REPETITIONS,
            supported_errors=(redis.ConnectionError,),
        )
        self.client = _client(url, self._password, connect_seconds, answer_seconds)
        self._used_at = time.time()

    def once(self, script: Script, keys: Sequence[str], *arguments: Argument) -> object:
        """Run a script that is not repeated when the answer is lost."""
        with self.translated():
            self._revive()
            return self._run(script, keys, arguments)

    def again(self, script: Script, keys: Sequence[str], *arguments: Argument) -> object:
        """Run a script that may be repeated without a second effect."""
        with self.translated():
            return self._repeated(lambda: self._run(script, keys, arguments))

    def again_for_each(
        self, script: Script, each: Sequence[Sequence[str]], *arguments: Argument
    ) -> list[object]:
        """Run a repeatable script on several sets of keys, in one round trip."""
        return self.again_with_each(script, [(keys, arguments) for keys in each])

    def again_with_each(
        self, script: Script, each: Sequence[tuple[Sequence[str], Sequence[Argument]]]
    ) -> list[object]:
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

        with self.translated():
            return self._repeated(load_and_run)

    def together(self, *commands: tuple[Argument, ...]) -> list[object]:
        """Run repeatable commands in one transaction, so that they see one moment."""

        def run() -> list[object]:
            pipe = self.client.pipeline(transaction=True)
            put = cast("Callable[..., object]", pipe.execute_command)
            for command in commands:
                put(*command)
            return cast("list[object]", pipe.execute())

        with self.translated():
            return self._repeated(run)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Turn whatever the driver raises into :class:`StoreUnavailableError`.

        Down, slow, loading, busy, read-only after a failover, out of memory, or answering nonsense:
        to a flow these are one thing, a part that cannot be used now. The driver's own parser lets
        ``ValueError`` and its kin escape when what answers is no Redis.
        """
        try:
            yield
        except (redis.RedisError, OSError) as cause:
            self._start_anew()
            self._consider(cause)
            raise StoreUnavailableError(PART, f"{type(cause).__name__}: {cause}") from cause
        except (ValueError, TypeError, LookupError, RecursionError) as cause:
            self._start_anew()
            raise StoreUnavailableError(PART, "the answer is not what Redis answers") from cause

    def close(self) -> None:
        """Close idle connections; a later call opens new ones."""
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> object:
        execute = cast("Callable[..., object]", self.client.execute_command)
        try:
            return execute("EVALSHA", script.digest, len(keys), *keys, *arguments)
        except redis.exceptions.NoScriptError:
            # EVAL runs it and keeps it for the next EVALSHA.
            return execute("EVAL", script.source, len(keys), *keys, *arguments)

    def _repeated(self, call: Callable[[], T]) -> T:
        answer = self._retry.call_with_retry(call, self._consider)
        self._used_at = time.time()
        return answer

    def _start_anew(self) -> None:
        """Close idle connections: after a failover they lead to a server that only reads."""
        self.client.connection_pool.disconnect(inuse_connections=False)

    def _consider(self, cause: Exception) -> None:
        """Ask for the password anew if the server refuses the one in use, but not all the time."""
        if self._password is None or self._renew is None:
            return
        if not isinstance(cause, redis.AuthenticationError):
            return
        if time.monotonic() - self._renewed_at > RENEWAL_SECONDS:
            self._password.value = self._renew()
            self._renewed_at = time.monotonic()

    def _revive(self) -> None:
        """Replace a connection that died of idleness, before a call that must not be repeated.

        By the wall clock: the monotonic one may stand still while a Lambda is frozen.
        """
        now = time.time()
        if abs(now - self._used_at) > IDLE_SECONDS:
            self._repeated(self.client.ping)
        self._used_at = now


class _Password(CredentialProvider):
    """The password that new connections use, and whose it is where the address says so."""

    def __init__(self, value: str, user: str = "") -> None:
        self.value = value
        self.user = user

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        return (self.user, self.value) if self.user else (self.value,)


def whole(answer: object) -> int:
    """The answer of a script that counts.

    Raises:
        StoreUnavailableError: it is no number, so what answered is no Redis of ours.
    """
    if isinstance(answer, int):
        return answer
    raise nonsense()


def text(answer: object) -> bytes:
    """The answer of a script that returns text; raises as :func:`whole` does."""
    if isinstance(answer, bytes):
        return answer
    raise nonsense()


def several(answer: object, count: int | None = None) -> list[object]:
    """The answer of a script that returns ``count`` values; raises as :func:`whole` does."""
    if isinstance(answer, list) and count in {None, len(answer)}:
        return answer
    raise nonsense()


def nonsense() -> StoreUnavailableError:
    """What answered is no Redis, or none that runs our scripts."""
    return StoreUnavailableError(PART, "the answer has another shape than the script's")


def _client(
    url: str, password: _Password | None, connect_seconds: float, answer_seconds: float
) -> redis.Redis:
    try:
        if urlsplit(url).scheme not in _SCHEMES:
            raise ValueError  # noqa: TRY301  one answer for every kind of bad address
        if password is not None:
            # The driver takes a user from the address or from us, not one half from each.
            url, password.user = _without_user(url)
        return redis.Redis.from_url(
            url,
            credential_provider=password,
            protocol=2,
            decode_responses=False,
            socket_connect_timeout=connect_seconds,
            socket_timeout=answer_seconds,
            socket_keepalive=True,
            health_check_interval=IDLE_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError:
        # Not chained: the driver's message may quote the address, and with it a password.
        problem = Problem("redis_url", "is no redis:// or rediss:// address")
        raise ConfigError([problem]) from None


def _without_user(url: str) -> tuple[str, str]:
    """The address without its user, and the user.

    >>> _without_user("rediss://shop@redis.example:6379/0")
    ('rediss://redis.example:6379/0', 'shop')
    """
    parts = urlsplit(url)
    _, _, place = parts.netloc.rpartition("@")
    return parts._replace(netloc=place).geturl(), unquote(parts.username or "")


@cache
def _prelude() -> bytes:
    return _read("prelude")


def _read(name: str) -> bytes:
    return files(__package__).joinpath("scripts", f"{name}.lua").read_bytes()
