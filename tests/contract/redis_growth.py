"""Whatever a tenant can make grow in Redis, and what does it: one table (:data:`FILLED`)."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from tests.contract.store_cases import a_biz
from tests.fakes.quotas import MemoryQuotaCeilings
from tests.kit.ceilings import PermitAsk, RedisCeilings
from tests.kit.config import IntakeLimits
from tests.kit.fetching import RedisSessions
from tests.kit.frontier import FOREVER, RedisSeedFilter
from tests.kit.kernel import BacklogFullError, QueueKey
from tests.kit.politeness import (
    FLEETING_SECONDS,
    TROUBLED,
    HostAsk,
    HostReport,
    OwnAnswers,
    RedisHosts,
    RedisRobotsCache,
    RobotsCopy,
)
from tests.kit.queue import (
    RedisQueue,
    ceiling_keys,
    filter_keys,
    host_key,
    redis_keys,
    robots_key,
    room_keys,
    strain_keys,
    troubled_key,
)
from tests.kit.quotas import QuotaLedgers, QuotaPeriod, RedisQuotaLedgers, ledger_keys, window_of
from tests.kit.records import MOST_OF_HOURS, MOST_VERSIONS, RedisCoverages, RedisDataQueue
from tests.kit.redis import Budget, RedisConnection
from tests.kit.requests import Coverage, Entry
from tests.kit.submission import RedisIntake
from tests.kit.worlds.quotas import a_limit, hold_a_share

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Redis:
    """A Redis, of which one tenant fills something; ``queue_key`` is of its biz."""

    connection: RedisConnection
    queue_key: QueueKey

    @property
    def client(self):
        return self.connection.client

    @property
    def keys(self):
        return redis_keys(self.queue_key)

    @property
    def tenant(self) -> str:
        return self.queue_key.tenant


def submissions(at: Redis) -> bool:
    """Submit beyond the biz's backlog."""
    limits, taken = IntakeLimits(max_backlog=100), 0
    for n in range(30):
        if RedisIntake(at.connection).admit(at.queue_key, 10, limits, 1.0, NOW).admitted:
            entries = [Entry(n * 10 + one, "docs", one) for one in range(10)]
            RedisQueue(at.connection).enqueue(at.queue_key, entries, NOW)
            taken += 10
    return taken == at.client.llen(at.keys.queue) == 100


def seconds(at: Redis) -> bool:
    """Submit in 600 seconds, one after the other."""
    for second in range(600):
        moment = NOW + timedelta(seconds=second)
        RedisQueue(at.connection).enqueue(at.queue_key, [Entry(1, "docs", 1)], moment)
    return at.client.hlen(at.keys.submitted) <= 92


def items(at: Redis) -> bool:
    """Put items until there is no room."""
    queue, refused = RedisDataQueue(at.connection, queue_bytes=10_000), 0
    for _ in range(30):
        try:
            queue.put(at.queue_key, [b'"' + b"x" * 998 + b'"'])
        except BacklogFullError:
            refused += 1
    return refused == 20 and int(at.client.get(at.keys.item_bytes)) == 10_000


def versions(at: Redis) -> bool:
    """Count the records of rules that were changed a thousand times."""
    for n in range(MOST_VERSIONS + 50):
        RedisCoverages(at.connection).add(at.queue_key, "page", f"v{n}", Coverage(pages=1))
    hours = at.client.hlen(at.keys.coverage_hours)
    return at.client.hlen(at.keys.coverage) == MOST_VERSIONS and hours <= MOST_OF_HOURS


def jars(at: Redis) -> bool:
    """Save the cookies of ever more jobs."""
    sessions = RedisSessions(at.connection, most_bytes=100_000)
    for n in range(50):
        sessions.save(at.queue_key, f"j{n}", b"x" * 9_000)
    left = [n for n in range(50) if sessions.load(at.queue_key, f"j{n}")]
    return left == list(range(40, 50))


def robots(at: Redis) -> bool:
    """Keep the robots.txt of ever more sites that the tenant has made up."""
    cache = RedisRobotsCache(at.connection, Budget(100_000, 60))
    sites = [f"https://{n}.{at.tenant}.example" for n in range(100)]
    for site in sites:
        text = random.randbytes(9_000)
        cache.save(site, RobotsCopy(status=200, text=text), 60, at.tenant)
    left = [site for site in sites if at.client.exists(robots_key(site))]
    put, sizes = room_keys(at.tenant, "robots")
    return left == sites[90:] and (at.client.zcard(put), at.client.hlen(sizes)) == (10, 11)


def a_long_robots(at: Redis) -> bool:
    """Keep a robots.txt that is longer than any is kept."""
    site = f"https://{at.tenant}.example"
    long = RobotsCopy(status=200, text=random.randbytes(40_000))
    RedisRobotsCache(at.connection).save(site, long, 60, at.tenant)
    return not at.client.exists(robots_key(site))


def seeds(at: Redis) -> bool:
    """Add twenty times the keys that a segment's filter was laid out for."""
    biz, seeds = a_biz(), RedisSeedFilter(at.connection)
    seeds.add(at.queue_key, biz, FOREVER, [b"%016d" % 0])
    before = seeds.size(at.queue_key, FOREVER.name)
    for n in range(0, 2_000, 200):
        seeds.add(at.queue_key, biz, FOREVER, [b"%016d" % one for one in range(n, n + 200)])
    plan, _ = filter_keys(at.queue_key, FOREVER.name, 1)
    return seeds.size(at.queue_key, FOREVER.name) == before and at.client.ttl(plan) > 0


def hosts(at: Redis) -> bool:
    """Ask for slots at ever more hosts that the tenant has made up: each is soon forgotten."""
    names = [f"{n}.{at.tenant}.example" for n in range(200)]
    asks = [
        HostAsk(host=name, tenant=at.tenant, count=1, running=0, interval_seconds=1, concurrency=1)
        for name in names
    ]
    RedisHosts(at.connection).reserve(asks, "w")
    lives = [at.client.ttl(host_key(name)) for name in names]
    return 0 < min(lives) <= max(lives) <= FLEETING_SECONDS + 5


def trouble(at: Redis) -> bool:
    """Fail at ever more hosts, and at ever more ports of one."""
    hosts, one = RedisHosts(at.connection), f"one.{at.tenant}.example"
    reports = [
        HostReport(
            host=host,
            origin=f"https://{host}:{port}",
            tenant=at.tenant,
            running=0,
            overloads=1,
            own=OwnAnswers(overloads=1),
        )
        for host, port in [(one, n) for n in range(1, 100)]
        + [(f"{n}.{at.tenant}.example", 443) for n in range(TROUBLED + 50)]
    ]
    hosts.report(reports, "w")
    strains = [at.client.hlen(key) for key in strain_keys(one, at.tenant)]
    return max(strains) <= 16 and at.client.zcard(troubled_key(at.tenant)) == TROUBLED


def ceilings(at: Redis) -> bool:
    """Ask for trials, leases and submissions beyond the tenant's ceilings."""
    held, four = RedisCeilings(at.connection), PermitAsk(held=0, wanted=1, in_flight=4)
    for n in range(100):
        held.trials(at.tenant, f"t{n}", four)
        held.permits(at.tenant, f"w{n}", replace(four, per_second=1_000.0))
        held.rate(at.tenant, 1, 1.0, 4)
    keys = ceiling_keys(at.tenant)
    fields = [at.client.hlen(key) for key in (keys.trials, keys.permits)]
    ends = [at.client.zcard(key) for key in (keys.trial_ends, keys.permit_ends)]
    lives = [at.client.pttl(key) for key in keys]
    return (fields, ends) == ([5, 5], [4, 4]) and 0 < min(lives) <= max(lives) <= 130_000


def quotas(at: Redis) -> bool:
    """Use ever more accounts, as those of users that the tenant makes up are."""
    redis = RedisQuotaLedgers(at.connection, most_ledgers=20)
    ledgers = QuotaLedgers(redis, MemoryQuotaCeilings())
    for n in range(50):
        hold_a_share(ledgers, QueueKey(at.tenant, f"u{n}", "main"), NOW)
    window = window_of(QuotaPeriod.ALL, NOW)
    keys = [ledger_keys(a_limit(1, tenant=at.tenant, biz=f"u{n}"), window) for n in range(50)]
    left = [n for n in range(50) if at.client.exists(keys[n][0])]
    ends = [n for n in range(50) if at.client.exists(keys[n][1])]
    if at.client.zcard(keys[0][2]) != 20:
        return False
    lives = [at.client.ttl(key) for n in left for key in keys[n][:3]]
    ledgers = QuotaLedgers(RedisQuotaLedgers(at.connection), MemoryQuotaCeilings())
    for n in range(1_020):
        hold_a_share(ledgers, QueueKey(at.tenant, f"v{n}", "main"), NOW, most=1, wanted=1, spent=1)
    if at.client.zcard(keys[0][3]) != 1_000:
        return False
    is_all = left == ends == list(range(30, 50))
    return is_all and 0 < min(lives) <= max(lives) <= 30 * 86_400


#: By what is done: the families of keys that grow by it, as the dictionary names them.
FILLED: dict[Callable[[Redis], bool], set[str]] = {
    submissions: {
        *("queue", "leases", "delayed", "at_host", "parked", "parked_due", "parked_low"),
        *("ticks", "filled", "intake"),
    },
    seconds: {"submitted", "processed", "phases"},
    items: {"items", "item_queue", "item_leases", "item_tries", "item_bytes"},
    versions: {"coverage", "coverage_hours"},
    jars: {"cookies", "cookies_put", "cookies_sizes"},
    robots: {"robots", "robots_put", "robots_sizes"},
    a_long_robots: {"robots"},
    seeds: {"seeds", "bits"},
    hosts: {"host"},
    trouble: {"strain", "own_strain", "troubled"},
    quotas: {"shares", "share_ends", "ledgers", "used_up"},
    ceilings: {"permits", "permit_ends", "begun", "trials", "trial_ends", "taken"},
}
