"""Know the addresses of the platform's own stores, of which no page is asked."""

import ipaddress
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import msgspec

from crawlfleet.kernel.urls import is_public

#: How long a look-up that failed is kept: long enough to spare a name server the rest of a batch.
FAILED_SECONDS: Final = 2.0

#: The result of ``socket.getaddrinfo``.
Places: TypeAlias = list[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]]
Lookup: TypeAlias = Callable[[str, int, socket.AddressFamily], Places]


def look_up(host: str, port: int, family: socket.AddressFamily) -> Places:
    """Ask the system for the addresses of a host."""
    flags = socket.AI_ADDRCONFIG
    return list(socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=flags))


#: How long the addresses of stores are taken to be the same.
STORES_SECONDS: Final = 60.0


class StorePlaces(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses of stores: a public one is refused whole.

    Of a store inside, the port is refused at every address that is not public: one that listens on
    all of a machine's has more than we know of.
    """

    whole: frozenset[str] = frozenset()
    ports: frozenset[int] = frozenset()

    def has(self, address: str, port: int) -> bool:
        """Tell whether an address and port are a store's."""
        if port in self.ports and not is_public(address):
            return True
        return bool(self.whole) and _spelled(address) in self.whole


class StoreAddresses:
    """The addresses of the platform's own stores, asked for again and again.

    ``places`` returns host and port of each store as they are known now.
    """

    def __init__(
        self,
        places: Callable[[], Iterable[tuple[str, int]]],
        look_up: Lookup = look_up,
        fresh_seconds: float = STORES_SECONDS,
    ) -> None:
        self._places, self._look_up = places, look_up
        self._fresh_seconds = fresh_seconds
        self._until = float("-inf")
        self._renewing = threading.Lock()
        self._known = StorePlaces()

    @property
    def known(self) -> StorePlaces:
        """Return what is known; it is asked for at once where it is old."""
        if time.monotonic() >= self._until:
            self.renew()
        return self._known

    def has(self, address: str, port: int) -> bool:
        """Tell whether an address and port are a store's; ask for theirs anew aside, when due."""
        if time.monotonic() >= self._until:
            threading.Thread(target=self.renew, name="stores", daemon=True).start()
        return self._known.has(address, port)

    def renew(self) -> None:
        """Look the stores up; what cannot be looked up is as it was, and is tried again soon."""
        if not self._renewing.acquire(blocking=False):
            return
        try:
            self._until = time.monotonic() + self._fresh_seconds
            whole, ports, is_known = set[str](), set[int](), True
            for host, port in self._places():
                try:
                    found = self._look_up(host, port, socket.AF_UNSPEC)
                except (OSError, UnicodeError):
                    is_known = False
                    continue
                addresses = {_spelled(str(place[4][0])) for place in found}
                whole |= set(filter(is_public, addresses))
                if not all(map(is_public, addresses)):
                    ports.add(port)
            if not is_known:
                whole, ports = whole | self._known.whole, ports | self._known.ports
                self._until = time.monotonic() + FAILED_SECONDS
            self._known = StorePlaces(whole=frozenset(whole), ports=frozenset(ports))
        finally:
            self._renewing.release()


def _spelled(address: str) -> str:
    """Return an address as it is spelled once; one of IPv4 within IPv6 as that of IPv4.

    >>> _spelled("::ffff:192.0.2.1"), _spelled("2001:DB8::0:1")
    ('192.0.2.1', '2001:db8::1')
    """
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(getattr(ip, "ipv4_mapped", None) or ip)
