"""In-memory fakes schedule requests to hosts and keep robots.txt files."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Final

from msgspec.structs import replace

from tests.fakes.adaptive_rate import reported
from tests.fakes.host_scheduler import HostEntry, kept_until, reserve, state_of
from tests.kit.kernel import to_ms
from tests.kit.politeness import (
    MAX_BYTES,
    MAX_KEPT_BYTES,
    TROUBLED,
    TROUBLED_SECONDS,
    HostAsk,
    HostGrant,
    HostReport,
    HostState,
    RobotsCopy,
    packed,
)

#: With more hosts than that, those whose time is over are looked for with each new one.
_ROOM: Final = 10_000


def _wall() -> datetime:
    return datetime.now(UTC)


class MemoryHosts:
    """In-memory host slots; thread-safe.

    Args:
        clock: Stands for the server's.
    """

    def __init__(self, *, clock: Callable[[], datetime] = _wall) -> None:
        self._clock = clock
        self._lock = Lock()
        self._hosts: dict[str, tuple[HostEntry, int]] = {}
        self._troubled: dict[str, dict[str, int]] = {}

    def reserve(self, asks: Sequence[HostAsk], worker: str) -> list[HostGrant]:
        """Grant slots for each ask, in order; what is granted is spent, used or not."""
        grants = []
        with self._lock:
            for ask in asks:
                now = self._now()
                host, grant = reserve(self._of(ask.host, now), ask, worker, now)
                self._keep(ask.host, host, now)
                grants.append(grant)
        return grants

    def report(self, reports: Sequence[HostReport], worker: str) -> list[HostReport]:
        """Record answers, overload and requests in flight since the last report."""
        with self._lock:
            for one in reports:
                now = self._now()
                self._keep(one.host, reported(self._of(one.host, now), one, worker, now), now)
                self._note_trouble(one, now)
        return []

    def states(
        self, hosts: Sequence[str], tenants: Mapping[str, str] | None = None
    ) -> list[HostState]:
        """Get the state of hosts; one that nothing is known of has an empty state."""
        with self._lock:
            now, whose = self._now(), tenants or {}
            return [state_of(self._of(host, now), host, now, whose.get(host, "")) for host in hosts]

    def troubled(self, tenants: Sequence[str], limit: int) -> list[list[str]]:
        """Hosts that each tenant has met with overload or failures lately."""
        with self._lock:
            since = self._now() - round(TROUBLED_SECONDS * 1_000_000)
            found: list[list[str]] = []
            for tenant in tenants:
                met = self._troubled.get(tenant, {})
                late = sorted(((at, host) for host, at in met.items() if at >= since), reverse=True)
                found.append([host for _, host in late[: max(0, limit)]])
            return found

    def _note_trouble(self, report: HostReport, now: int) -> None:
        if not (report.overloads or report.own.overloads or report.failed):
            return
        met = self._troubled.setdefault(report.tenant, {})
        met[report.host] = now
        if len(met) > TROUBLED:
            del met[min(met, key=lambda host: (met[host], host))]

    def _of(self, name: str, now: int) -> HostEntry:
        host, until = self._hosts.get(name, (HostEntry(), 0))
        return host if until > now else HostEntry()

    def _keep(self, name: str, host: HostEntry, now: int) -> None:
        if len(self._hosts) >= _ROOM and name not in self._hosts:
            for other in [one for one, (_, until) in self._hosts.items() if until <= now]:
                del self._hosts[other]
        self._hosts[name] = (host, kept_until(host, now))

    def _now(self) -> int:
        return to_ms(self._clock()) * 1_000


_LONGEST_SECONDS: Final = 86_400.0


class MemoryRobotsCache:
    """An in-memory cache of robots.txt files; thread-safe."""

    def __init__(self, *, clock: Callable[[], datetime] = _wall) -> None:
        self._clock = clock
        self._lock = Lock()
        self._copies: dict[str, tuple[RobotsCopy, datetime]] = {}

    def load(self, origin: str) -> RobotsCopy | None:
        """Get the copy of ``https://example.org``, or None where one is to be fetched."""
        with self._lock:
            copy, until = self._copies.get(origin, (None, self._clock()))
            return copy if self._clock() < until else None

    def save(self, origin: str, copy: RobotsCopy, seconds: float, tenant: str) -> None:
        """Keep a copy for ``seconds``, a day at most; not one that is longer than may be."""
        if seconds < 0.001 or len(packed(copy.text)) > MAX_KEPT_BYTES:
            return
        until = self._clock() + timedelta(seconds=min(seconds, _LONGEST_SECONDS))
        with self._lock:
            self._copies.pop(origin, None)
            while len(self._copies) >= _ROOM:  # a cache may forget: the oldest first
                del self._copies[next(iter(self._copies))]
            self._copies[origin] = (replace(copy, text=copy.text[:MAX_BYTES]), until)
