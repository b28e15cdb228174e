"""The inventory of what Redis has of a tenant: counted, deleted, and looked for again.

Its own keys are found by walking all keys once (SCAN): :func:`owner_of` tells whose a key is. What
it has within keys that all tenants share are fields and members that begin with its name.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import redis

from crawlfleet.jobs.bidding.redis import RedisBoard, board_keys
from crawlfleet.kernel.redis.connection import RedisConnection
from crawlfleet.kernel.redis.server import fleet_keys
from crawlfleet.kernel.time import TimeLeft
from crawlfleet.requests.queue.redis.keys import RedisKeys

#: Families of keys of a biz beside those that :class:`RedisKeys` names; ``bits`` has a number.
_OF_BIZ: Final = frozenset({*RedisKeys._fields, "at_host", "cookies", "seeds", "bits"})
#: Families of keys of a tenant, by the first word of their tag.
_OF_TENANT: Final = {
    "hosts": frozenset({"troubled"}),
    "quota": frozenset({"shares", "share_ends", "ledgers", "used_up"}),
    "ceilings": frozenset({"permits", "permit_ends", "begun", "taken", "trials", "trial_ends"}),
    "room": frozenset({"robots_put", "robots_sizes", "cookies_put", "cookies_sizes"}),
}
_CRAWLS: Final = "scrapy"
_OWN_STRAIN: Final = "own_strain"
_KEY: Final = re.compile(r"cf:\{([^{}]*)\}:([a-z_]+?)\d*(?::(.*))?\Z", re.DOTALL)
_HOSTS: Final = "cf:{host:*}:host"
#: Keys that a server looks at in one call.
_AT_ONCE: Final = 1_000

#: A client of one server, or of a cluster, of which every key is asked.
_Client: TypeAlias = redis.Redis


class _Board(NamedTuple):
    """Keys of the board that have tenants' jobs; of others a job is gone once it is withdrawn."""

    listed: str
    passes: str
    begun: str
    begun_at: str

    @classmethod
    def of(cls, fleet: str) -> "_Board":
        keys = board_keys(fleet)
        return cls(keys[4], keys[6], keys[14], keys[15])


class Owner(NamedTuple):
    """The tenant that a key is of, and the key's family."""

    tenant: str
    family: str


def owner_of(key: str) -> Owner | None:
    """Tell whose a key is; None of one that no tenant owns alone.

    A tenant may have any name, also that of a tag: what stands behind the tag tells them apart.

    >>> owner_of("cf:{acme:docs}:queue:main"), owner_of("cf:{acme:docs}:bits2:june")
    (Owner(tenant='acme', family='queue'), Owner(tenant='acme', family='bits'))
    >>> owner_of("cf:{hosts:acme}:troubled"), owner_of("cf:{hosts:acme}:queue:main")
    (Owner(tenant='acme', family='troubled'), Owner(tenant='hosts', family='queue'))
    >>> owner_of("cf:{host:example.org}:own_strain:acme")
    Owner(tenant='acme', family='own_strain')
    >>> owner_of("cf:{host:example.org}:host"), owner_of("cf:{fleet}:open")
    (None, None)
    """
    match = _KEY.match(key)
    if match is None:
        return None
    tag, family, rest = match.groups()
    first, colon, second = tag.partition(":")
    if not colon:
        return None
    if first == "host" and family == _OWN_STRAIN:
        return Owner(rest or "", family)
    if family in _OF_TENANT.get(first, ()):
        return Owner(second, family)
    if first == _CRAWLS and ":" in second:
        return Owner(second.partition(":")[0], _CRAWLS)
    if family in _OF_BIZ and ":" not in second and "/" not in second:
        return Owner(first, family)
    return None


class RedisInventory:
    """Count and delete what Redis has of a tenant; ``fleet`` separates fleets that share one."""

    store = "redis"

    def __init__(self, connection: RedisConnection, *, fleet: str = "fleet") -> None:
        self._redis, self._fleet = connection, fleet

    def count(self, tenant: str) -> Counter[str]:
        """Count the tenant's keys by family, and its places in keys that all tenants share."""
        counted: Counter[str] = Counter()
        for client in self._servers():
            counted.update(family for _, family in self._own(client, tenant))
            counted["host"] += sum(len(fields) for _, fields in self._at_hosts(client, tenant))
        for key, members, _ in self._shared(tenant):
            counted[key.rpartition(":")[2]] += len(members)
        return +counted

    def clear(self, tenant: str, time_left: TimeLeft) -> None:
        """Delete what is counted, as far as there is time; a later call goes on."""
        board = RedisBoard(self._redis, fleet=self._fleet)
        for name in self._members(_Board.of(self._fleet).listed, f"{tenant}/*", "ZSET"):
            tenant_, biz, job = name.split("/", 2)
            board.withdraw((tenant_, biz, job))
        for key, members, kind in self._shared(tenant):
            with self._redis.translated():
                for part in _parts(members):
                    if kind == "HASH":
                        self._redis.client.hdel(key, *part)
                    else:
                        self._redis.client.zrem(key, *part)
        for client in self._servers():
            self._clear_server(client, tenant, time_left)

    def _clear_server(self, client: _Client, tenant: str, time_left: TimeLeft) -> None:
        found = [key for key, _ in self._own(client, tenant)]
        for part in _parts(found):
            if time_left() <= 0:
                return
            with self._redis.translated():
                pipe = client.pipeline(transaction=False)
                for key in part:  # one by one: a cluster takes no keys of several slots
                    pipe.unlink(key)
                pipe.execute()
        for key, fields in self._at_hosts(client, tenant):
            with self._redis.translated():
                client.hdel(key, *fields)

    def _servers(self) -> list[_Client]:
        return [client for _, client in self._redis.nodes()]

    def _own(self, client: _Client, tenant: str) -> Iterator[tuple[str, str]]:
        """Walk a server's keys; yield the tenant's, with their families, each once."""
        for key in self._walk(client, f"cf:*{tenant}*"):
            owner = owner_of(key)
            if owner is not None and owner.tenant == tenant:
                yield key, owner.family

    def _at_hosts(self, client: _Client, tenant: str) -> Iterator[tuple[str, list[str]]]:
        """Walk the hosts of all tenants; yield those that still know this one, with its fields."""
        for part in _parts(self._walk(client, _HOSTS)):
            with self._redis.translated():
                pipe = client.pipeline(transaction=False)
                for key in part:
                    pipe.hkeys(key)
                known = pipe.execute()
            for key, fields in zip(part, known, strict=True):
                names = [field.decode(errors="replace") for field in fields]
                own = [name for name in names if name.rpartition(" ")[2] == tenant]
                if own:
                    yield key, own

    def _walk(self, client: _Client, pattern: str) -> list[str]:
        with self._redis.translated():
            found = client.scan_iter(match=pattern, count=_AT_ONCE)
            return sorted({key.decode(errors="replace") for key in found})

    def _shared(self, tenant: str) -> Iterator[tuple[str, list[str], str]]:
        """Yield each key that all tenants share, with the members of this one, and its type."""
        keys, board = fleet_keys(self._fleet), _Board.of(self._fleet)
        of_job = f"{tenant}/*"
        for key, pattern, kind in (
            (keys.paces, f"* {of_job}", "HASH"),
            (keys.needs, of_job, "HASH"),
            (keys.cancelled, of_job, "ZSET"),
            (keys.open, of_job, "ZSET"),
            (keys.open_items, of_job, "ZSET"),
            (board.listed, of_job, "ZSET"),
            (board.begun, of_job, "HASH"),
            (board.begun_at, of_job, "ZSET"),
            (board.passes, tenant, "HASH"),
        ):
            yield key, self._members(key, pattern, kind), kind

    def _members(self, key: str, pattern: str, kind: str) -> list[str]:
        client = self._redis.client
        with self._redis.translated():
            if kind == "HASH":
                found = [name for name, _ in client.hscan_iter(key, match=pattern, count=_AT_ONCE)]
            else:
                found = [name for name, _ in client.zscan_iter(key, match=pattern, count=_AT_ONCE)]
        return sorted({name.decode() for name in found})


def _parts(found: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(found), _AT_ONCE):
        yield found[first : first + _AT_ONCE]
