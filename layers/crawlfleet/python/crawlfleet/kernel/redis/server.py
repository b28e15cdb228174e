"""The Redis server: its address, its Lua scripts, calls to it, and the keys of the fleet."""

import time
from collections.abc import Callable, Sequence
from functools import cache
from hashlib import sha1
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast
from urllib.parse import unquote, urlsplit

import redis
from redis import CredentialProvider
from redis.backoff import NoBackoff
from redis.retry import Retry

from crawlfleet.kernel.errors import ConfigError, Problem
from crawlfleet.kernel.queue_key import MAIN_POOL

if TYPE_CHECKING:
    from redis.cluster import RedisCluster


#: A connection idle for longer is tried with a PING before it carries a call: a thawed Lambda's
#: connections are often gone without its kernel knowing.
IDLE_SECONDS: Final = 15

_SCHEMES: Final = frozenset({"redis", "rediss", "unix"})
#: What the scheme of a cluster's address ends with; without it the address is the driver's.
_CLUSTER: Final = "+cluster"
_DATABASES_OF_A_CLUSTER: Final = frozenset({"", "/", "/0"})


class Password(CredentialProvider):
    """The password that new connections use, and whose it is where the address says so."""

    def __init__(self, value: str, user: str = "") -> None:
        self.value, self.user = value, user

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """Return what the driver sends."""
        return (self.user, self.value) if self.user else (self.value,)


class Address:
    """An address as it is configured; ``is_cluster`` tells whether one node of several is there.

    Raises:
        ConfigError: it is none.
    """

    def __init__(
        self, url: str, password: Password | None, connect_seconds: float, answer_seconds: float
    ) -> None:
        self._password = password
        self._seconds = connect_seconds, answer_seconds
        try:
            scheme = urlsplit(url).scheme
            self.is_cluster = scheme in {"redis" + _CLUSTER, "rediss" + _CLUSTER}
            if self.is_cluster:
                url = url.replace(_CLUSTER, "", 1)
                if urlsplit(url).path not in _DATABASES_OF_A_CLUSTER:
                    raise ValueError  # noqa: TRY301  one answer for every kind of bad address
            elif scheme not in _SCHEMES:
                raise ValueError  # noqa: TRY301
            if password is not None:
                # The driver takes a user from the address or from us, not one half from each.
                url, password.user = _without_user(url)
            self._url = url
            self.open().close()
        except ValueError:
            # Not chained: the driver's message may quote the address, and with it a password.
            problem = Problem(
                "redis_url",
                "is no redis:// or rediss:// address, nor a cluster's rediss+cluster://HOST:PORT",
            )
            raise ConfigError([problem]) from None

    def open(self, host: str | None = None, port: int = 0) -> redis.Redis:
        """Make a client of the server, or of another one of the cluster; nothing connects yet."""
        url = self._url if host is None else _at(self._url, host, port)
        client = redis.Redis.from_url(url, **self._options(), retry=Retry(NoBackoff(), 0))
        client.set_response_callback("HGETALL", _pairs)
        return client

    def open_cluster(self) -> "RedisCluster":
        """Make the driver's own client of a cluster; it connects at once."""
        from redis.cluster import RedisCluster

        return RedisCluster.from_url(self._url, **self._options())

    def _options(self) -> dict[str, Any]:
        connect_seconds, answer_seconds = self._seconds
        return {
            "credential_provider": self._password,
            "protocol": 2,
            "decode_responses": False,
            "socket_connect_timeout": connect_seconds,
            "socket_timeout": answer_seconds,
            "socket_keepalive": True,
            "health_check_interval": IDLE_SECONDS,
        }


def place_of(client: redis.Redis) -> tuple[str, int]:
    """Return host and port of a server."""
    where = client.connection_pool.connection_kwargs
    return str(where.get("host", "localhost")), int(where.get("port", 6379))


def _pairs(answer: object) -> dict[object, object]:
    """Read a HASH; the driver would make one of anything."""
    if not isinstance(answer, list) or len(answer) % 2:
        raise redis.exceptions.InvalidResponse("the answer is no HASH")
    return dict(zip(answer[::2], answer[1::2], strict=True))


def _without_user(url: str) -> tuple[str, str]:
    """Return the address without its user, and the user.

    >>> _without_user("rediss://shop@redis.example:6379/0")
    ('rediss://redis.example:6379/0', 'shop')
    """
    parts = urlsplit(url)
    _, _, place = parts.netloc.rpartition("@")
    return parts._replace(netloc=place).geturl(), unquote(parts.username or "")


def _at(url: str, host: str, port: int) -> str:
    """Return the address of another node: user, password and options are the same.

    >>> _at("rediss://shop@redis.example:6379/0?ssl_check_hostname=no", "::1", 7000)
    'rediss://shop@[::1]:7000/0?ssl_check_hostname=no'
    """
    parts = urlsplit(url)
    before, at, _ = parts.netloc.rpartition("@")
    place = f"[{host}]" if ":" in host else host
    return parts._replace(netloc=f"{before}{at}{place}:{port}").geturl()


class Script:
    """A Lua script by its room and name, with the prelude before it, and with more.

    ``requests/queue/lease`` is the file ``lease.lua`` in ``requests/queue/lua/``.
    """

    __slots__ = ("digest", "name", "source")

    def __init__(self, name: str, *preludes: str) -> None:
        self.name = name.rpartition("/")[2]
        self.source = b"".join(map(_read, ("kernel/redis/prelude", *preludes, name)))
        self.digest = sha1(self.source, usedforsecurity=False).hexdigest()


@cache
def _read(name: str) -> bytes:
    room, _, script = name.rpartition("/")
    return files("crawlfleet").joinpath(room, "lua", f"{script}.lua").read_bytes()


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

    It was last heard of at ``used_at``, by the wall clock: the monotonic one may stand still while
    a Lambda is frozen.
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
        calls = [("EVALSHA", script.digest, len(keys), *keys, *args) for keys, args in each]

        def run() -> list[object]:
            try:
                return self.together(calls)
            except redis.exceptions.NoScriptError:
                self.client.script_load(script.source.decode())
                return self.together(calls)

        return repeated(run)

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
        """Return when the server that has the key was heard of."""
        return self.used_at

    def ping(self, _key: str) -> None:
        """Try the connection to the server that has the key."""
        self.client.ping()

    def nodes(self) -> list[tuple[str, redis.Redis]]:
        """Return each server that has keys, by its address: this one."""
        where = self.client.connection_pool.connection_kwargs
        return [(f"{where.get('host', where.get('path'))}:{where.get('port', 0)}", self.client)]

    def are_apart(self, _one: str, _other: str) -> bool:
        """Tell whether no script can have both keys."""
        return False

    def places(self) -> list[tuple[str, int]]:
        """Return its host and port; nothing of one that is asked over a socket of the machine."""
        is_inside = "path" in self.client.connection_pool.connection_kwargs
        return [] if is_inside else [place_of(self.client)]

    def is_partly_there(self) -> bool:
        """Tell whether some of its keys are there when others are not."""
        return False

    def start_anew(self) -> None:
        """Close idle connections: after a failover they lead to a server that only reads."""
        self.client.connection_pool.disconnect(inuse_connections=False)

    def close(self) -> None:
        """Close all connections; a later call opens new ones."""
        self.client.close()


class FleetKeys(NamedTuple):
    """The keys that all queues of a stage share, each named as it ends."""

    workers: str
    wakes: str
    pulses: str
    intervals: str
    cards: str
    watch: str
    turns: str
    numbers: str
    fences: str
    marks: str
    fence_count: str
    staff: str
    paces: str
    leaving: str
    needs: str
    tick: str
    between_ticks: str
    cancelled: str
    revision: str
    revision_turn: str
    open: str
    open_items: str
    proxies: str
    proxies_seen: str
    proxies_news: str
    proxy_pools: str


def fleet_keys(fleet: str = "fleet", pool: str = MAIN_POOL) -> FleetKeys:
    """Return the stage-wide keys; another name keeps a second fleet apart on one Redis.

    Those by which workers are counted and started are each pool's own.

    >>> fleet_keys().workers
    'cf:{fleet}:workers'
    >>> fleet_keys(pool="large").workers, fleet_keys(pool="large").pulses
    ('cf:{fleet}:workers:large', 'cf:{fleet}:pulses')
    """
    keys = FleetKeys(*(f"cf:{{{fleet}}}:{name}" for name in FleetKeys._fields))
    own = () if pool == MAIN_POOL else ("workers", "wakes", "leaving")
    return keys._replace(**{name: f"{getattr(keys, name)}:{pool}" for name in own})
