"""RedisHosts over either implementation, by a clock that tests set."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.fakes.politeness import MemoryHosts
from tests.kit.config import HostLimits
from tests.kit.politeness import HostAsk, HostGrant, HostReport, HostState, RedisHosts
from tests.kit.redis import RedisConnection

BEGINNING = datetime(2026, 3, 1, 12, tzinfo=UTC)
#: Seconds that two clocks may be apart by rounding.
EXACT = 1e-6


@dataclass
class Time:
    """Seconds since the beginning."""

    seconds: float = 0.0

    def __call__(self) -> datetime:
        return BEGINNING + timedelta(seconds=self.seconds)


@dataclass
class Street:
    """One host that workers of tenants ask for slots; ``slots`` lists all that were granted."""

    hosts: RedisHosts
    time: Time
    host: str
    limits: HostLimits = field(default_factory=HostLimits)
    slots: list[tuple[float, str, str]] = field(default_factory=list)

    def ask(
        self,
        worker: str = "w1",
        tenant: str = "acme",
        count: int = 1,
        running: int = 0,
        per_second: float | None = None,
        concurrency: int | None = None,
        share: int = 1,
        origin: str | None = None,
    ) -> HostGrant:
        ask = HostAsk(
            host=self.host,
            origin=f"https://{self.host}" if origin is None else origin,
            tenant=tenant,
            count=count,
            running=running,
            interval_seconds=1 / (per_second or self.limits.per_second),
            concurrency=concurrency or self.limits.concurrency,
            share=share,
        )
        (grant,) = self.hosts.reserve([ask], worker)
        at = self.time.seconds + grant.wait_seconds
        self.slots += [
            (at + n * grant.interval_seconds, tenant, worker) for n in range(grant.count)
        ]
        return grant

    def report(self, worker: str = "w1", tenant: str = "acme", running: int = 0, **seen) -> None:
        usual = {"limits": self.limits, "origin": f"https://{self.host}"}
        reported = HostReport(host=self.host, tenant=tenant, running=running, **(usual | seen))
        self.hosts.report([reported], worker)

    @property
    def state(self) -> HostState:
        return self.seen_by()

    def seen_by(self, tenant: str = "") -> HostState:
        """Get the state; with what a ``tenant`` alone goes by."""
        (state,) = self.hosts.states([self.host], {self.host: tenant} if tenant else {})
        return state

    def moments(self, tenant: str | None = None) -> list[float]:
        """Get the times of the slots, of all tenants or of one."""
        return sorted(at for at, of, _ in self.slots if tenant in {None, of})

    def wait(self, seconds: float) -> None:
        self.time.seconds = round(self.time.seconds + seconds, 3)  # clocks are read to the ms


def in_memory(host: str, time: Time) -> Street:
    return Street(MemoryHosts(clock=time), time, host)


def on_redis(connection: RedisConnection, host: str, time: Callable[[], datetime]) -> Street:
    return Street(RedisHosts(connection, clock=time), time, host)
