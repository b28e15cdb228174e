"""Tests of Redis alone: keys and TTLs, memory, scripts, entries that other clients pushed."""

import logging
import re
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

import pytest

from infra.local.redis_server import ENV_URL, RedisServer
from tests.contract.store_cases import a_biz
from tests.fakes.quotas import MemoryQuotaCeilings
from tests.kit.ceilings import PermitAsk, RedisCeilings
from tests.kit.config import IntakeLimits, ProxyPool, RedisRevisions, announced_revisions
from tests.kit.fetching import Fault, ProxyExchange, RedisSessions
from tests.kit.fleet import (
    RedisFailureDetector,
    RedisScalingTargets,
    RedisTicks,
    RedisWorkers,
    ScalingTarget,
    Throughput,
    TickPart,
)
from tests.kit.frontier import FOREVER, RedisSeedFilter
from tests.kit.ids import RedisWorkerNumbers
from tests.kit.jobs import RedisCancellations
from tests.kit.kernel import PRODUCT, QueueKey, to_ms
from tests.kit.patience import patient
from tests.kit.politeness import (
    HostReport,
    OwnAnswers,
    RedisHosts,
    RedisRobotsCache,
    RobotsCopy,
)
from tests.kit.queue import (
    RedisOpenQueues,
    RedisQueue,
    RedisQueueRebuild,
    ceiling_keys,
    cookies_key,
    filter_keys,
    fleet_keys,
    host_key,
    host_list,
    quota_keys,
    redis_keys,
    robots_key,
    room_keys,
    strain_keys,
    troubled_key,
)
from tests.kit.queue import keys as dictionary
from tests.kit.quotas import QuotaLedgers, RedisQuotaLedgers
from tests.kit.records import RedisCoverages, RedisDataQueue
from tests.kit.redis import RedisConnection
from tests.kit.requests import Coverage, Entry
from tests.kit.scrapy import beat
from tests.kit.submission import RedisIntake
from tests.kit.worlds.quotas import hold_a_share

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TERM = timedelta(seconds=60)
SCRIPTS = [
    path
    for path in sorted(Path(str(files(PRODUCT))).rglob("*.lua"))
    if not path.name.endswith("prelude.lua")
]


def failing_proxies() -> ProxyExchange:
    """The report of a worker that has found the only proxy of a pool dead."""
    exchange = ProxyExchange()
    exchange.listed("eu", {"k": "http://10.0.0.1:3128"})
    exchange.choose("eu", ["k"], 0)
    pool = ProxyPool(secret="s", max_failures=1)
    exchange.failed("eu", pool, "k", "a.example", exchange.clock(), Fault.UNREACHABLE)
    return exchange


def fill(connection: RedisConnection, queue_key: QueueKey, fleet: str) -> None:
    """Leave something under every key."""
    queue = RedisQueue(connection)
    RedisQueueRebuild(connection).clear(queue_key, "n")
    queue.enqueue(queue_key, [Entry(n, queue_key.biz, n) for n in range(6)], NOW)
    leased = queue.lease(queue_key, "a", 4, NOW, NOW + TERM)
    host = f"{queue_key.tenant}.example"
    queue.defer(queue_key, "a", [(host, NOW, leased[3:])])
    report = HostReport(
        host=host,
        origin=f"https://{host}",
        tenant=queue_key.tenant,
        running=1,
        overloads=1,
        own=OwnAnswers(overloads=1),
    )
    RedisHosts(connection).report([report], "a")
    RedisRobotsCache(connection).save(
        f"https://{host}", RobotsCopy(status=404), 60, queue_key.tenant
    )
    RedisSessions(connection).save(queue_key, "june", b"cookies")
    ceilings, ask = RedisCeilings(connection), PermitAsk(held=0, wanted=1, in_flight=4)
    ceilings.permits(queue_key.tenant, "a", PermitAsk(held=0, wanted=1, per_second=1.0))
    ceilings.trials(queue_key.tenant, "t", ask)
    ceilings.rate(queue_key.tenant, 1, 0.1, 1)
    RedisSeedFilter(connection).add(queue_key, a_biz(), FOREVER, [b"k" * 16])
    queue.delay(queue_key, "a", [(leased[0], NOW)])
    queue.finish(queue_key, "a", leased[1:2], 1, NOW)
    queue.add_phases(queue_key, {"fetch": 1.0})
    RedisIntake(connection).admit(queue_key, 1, IntakeLimits(per_second=0.1), 1.0, NOW)
    items = RedisDataQueue(connection)
    beat(connection, redis_keys(queue_key).item_beats, "journal", 0)
    items.put(queue_key, [b"{}", b"{}"])
    items.lease(queue_key, "a", 1, NOW, NOW + TERM)
    RedisCoverages(connection).add(queue_key, "detail", "v1", Coverage(pages=1))
    workers = RedisWorkers(connection, fleet=fleet)
    for _ in range(2):
        workers.beat("a", NOW, proxies=failing_proxies())
    workers.reserve_wake(NOW, 2)
    workers.beat("b", NOW)
    workers.reserve_wake(NOW, 3)
    targets = RedisScalingTargets(connection, fleet=fleet)
    standing = targets.read("fleet")
    targets.settle("fleet", standing, ScalingTarget(needed=1, kept=1, at_ms=standing.now_ms))
    assert targets.report_throughput(
        "fleet", "a", Throughput(per_second=1.0), NOW, {queue_key.path: Throughput(per_second=1.0)}
    ).leaves
    targets.idle([queue_key.path], [])
    RedisTicks(connection, fleet=fleet).note(1.0, {TickPart.SEEDS: 1})
    RedisTicks(connection, fleet=fleet).report_fault(TickPart.STARTS, "an-event")
    RedisCancellations(connection, fleet=fleet).announce(
        [(queue_key.tenant, queue_key.biz, "june")]
    )
    RedisFailureDetector(connection, fleet=fleet).acquire_lock("bury", "a", TERM, TERM)
    RedisWorkerNumbers(connection, fleet=fleet).lease("a", 1, 1)
    RedisOpenQueues(connection, fleet=fleet).announce([queue_key])
    RedisOpenQueues(connection, of="open_items", fleet=fleet).announce([queue_key])
    with pytest.MonkeyPatch.context() as patch:
        # A turn is over in a second, which a slow machine takes to look for all that was left.
        patch.setattr(announced_revisions, "TURN_SECONDS", 60.0)
        RedisRevisions(connection, fleet=fleet).look("20260301T120000.000Z-ab")
    quotas = QuotaLedgers(RedisQuotaLedgers(connection), MemoryQuotaCeilings())
    hold_a_share(quotas, queue_key, NOW, most=1, wanted=1, spent=1)


def every_key(queue_key: QueueKey, fleet: str) -> dict[str, str]:
    """The keys that :func:`fill` leaves something under, as the dictionary names them."""
    host = f"{queue_key.tenant}.example"
    seeds, bits = filter_keys(queue_key, FOREVER.name, 1)
    shares, share_ends, ledgers, used_up = quota_keys(queue_key.tenant, "biz:docs:requests:all")
    return {
        **redis_keys(queue_key)._asdict(),
        **fleet_keys(fleet)._asdict(),
        "at_host": host_list(queue_key, host),
        "host": host_key(host),
        "strain": strain_keys(host, queue_key.tenant)[0],
        "own_strain": strain_keys(host, queue_key.tenant)[1],
        "troubled": troubled_key(queue_key.tenant),
        "robots": robots_key(f"https://{host}"),
        "cookies": cookies_key(queue_key, "june"),
        **dict(
            zip(("robots_put", "robots_sizes"), room_keys(queue_key.tenant, "robots"), strict=True)
        ),
        **dict(
            zip(
                ("cookies_put", "cookies_sizes"),
                room_keys(queue_key.tenant, "cookies"),
                strict=True,
            )
        ),
        **ceiling_keys(queue_key.tenant)._asdict(),
        "seeds": seeds,
        "bits": bits,
        "shares": shares,
        "share_ends": share_ends,
        "ledgers": ledgers,
        "used_up": used_up,
    }


def test_every_key_is_in_the_dictionary_and_under_its_hash_tag(redis_connection, queue_key):
    fleet = f"fleet-{queue_key.tenant}"
    fill(redis_connection, queue_key, fleet)

    found = {key.decode() for key in redis_connection.client.scan_iter(f"cf:*{queue_key.tenant}*")}

    assert found == set(every_key(queue_key, fleet).values())
    tags = {re.fullmatch(r"cf:(\{.*?\}):.*", key)[1] for key in found}
    host = f"{queue_key.tenant}.example"
    shared = {f"{{host:{host}}}", f"{{https://{host}}}"}
    shared |= {f"{{{of}:{queue_key.tenant}}}" for of in ("hosts", "room", "ceilings", "quota")}
    assert tags == {f"{{{queue_key.tenant}:docs}}", f"{{{fleet}}}"} | shared


def test_only_statistics_and_the_rate_have_a_ttl(redis_connection, queue_key):
    fleet = f"fleet-{queue_key.tenant}"
    fill(redis_connection, queue_key, fleet)

    lives = {
        name: redis_connection.client.ttl(key) for name, key in every_key(queue_key, fleet).items()
    }

    mortal = {name for name, ttl in lives.items() if ttl > 0}
    rows = re.findall(r"^``cf:\{.*?\}:([a-z_]+).*? yes ", dictionary.__doc__, re.MULTILINE)
    assert mortal == set(rows)
    assert mortal.isdisjoint({"queue", "leases", "delayed", "at_host", "parked", "parked_due"})
    assert {lives[name] for name in lives.keys() - mortal} == {-1}


def test_the_types_are_those_of_the_dictionary(redis_connection, queue_key):
    fleet = f"fleet-{queue_key.tenant}"
    fill(redis_connection, queue_key, fleet)
    rows = re.findall(
        r"^``cf:\{.*?\}:([a-z_]+).*?``\s+([A-Z]+)\s", dictionary.__doc__, re.MULTILINE
    )
    keys = every_key(queue_key, fleet)

    for name, kind in rows:
        assert redis_connection.client.type(keys[name]).decode().upper() == kind
    assert sorted(name for name, _ in rows) == sorted(keys)


def test_old_counts_are_swept(redis_connection, queue_key):
    queue = RedisQueue(redis_connection)
    for second in range(0, 600, 3):
        queue.enqueue(queue_key, [Entry(1, "docs", 1)], NOW + timedelta(seconds=second))

    assert redis_connection.client.hlen(redis_keys(queue_key).submitted) <= 31


def test_a_queued_request_costs_at_most_80_bytes(monkeypatch):
    monkeypatch.delenv(ENV_URL, raising=False)
    with RedisServer() as server, RedisConnection(patient(server.url)) as connection:
        queue, queue_key = RedisQueue(connection), QueueKey("acme", "documentation", "main")
        queue.enqueue(queue_key, [Entry(1, queue_key.biz, 1)], NOW)
        before = connection.client.info("memory")["used_memory"]
        for batch in range(100):
            first = 7_000_000_000_000_000_000 + batch * 1000
            entries = [Entry(first + n, queue_key.biz, to_ms(NOW) + n) for n in range(1000)]
            queue.enqueue(queue_key, entries, NOW)
        after = connection.client.info("memory")["used_memory"]

    assert (after - before) / 100_000 <= 80


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_opens_with_the_dictionary_of_its_keys_and_arguments(script: Path):
    text = script.read_text()
    header = "\n".join(line for line in text.splitlines() if line.startswith("--"))

    assert header.startswith(f"-- {script.name.removesuffix('.lua')}: ")
    assert "-- reply " in header
    used = set(re.findall(r"(?:KEYS|ARGV)\[\d+\]", text.replace(header, "")))
    assert used <= set(re.findall(r"(?:KEYS|ARGV)\[\d+\]", header))
    assert all(
        re.search(
            rf"^-- {re.escape(key)} +\w+ +(LIST|ZSET|HASH|SET|STRING)  ", header, re.MULTILINE
        )
        for key in used
        if key.startswith("KEYS")
    )
    assert not re.search(r"redis\.call\('(?!MEMORY')\w+', *['\"]", text), (
        "a key that is not in KEYS"
    )
    assert "cjson" not in text


def test_entries_that_others_pushed_are_served_or_dropped(redis_connection, queue_key, caplog):
    queue = RedisQueue(redis_connection)
    redis_connection.client.lpush(
        redis_keys(queue_key).queue,
        b'{"id": 7, "biz": "docs", "ts": 1}',
        b'\n  {"ts":2,\r\n "biz":"docs","id":"' + b"ab" * 12 + b'"}\n',
        b"",
        b"junk",
        b"[1]",
        b"{\xff}",
        b'{"id":1}',
        b'{"id":7.5,"biz":"docs","ts":1}',
    )
    with caplog.at_level(logging.WARNING):
        leased = queue.lease(queue_key, "a", 100, NOW, NOW + TERM)

    assert leased == [Entry(7, "docs", 1), Entry("ab" * 12, "docs", 2)]
    assert queue.depth(queue_key).leased == 2
    again = queue.lease(queue_key, "b", 100, NOW + TERM, NOW + TERM * 2)
    assert sorted(again, key=lambda entry: entry.ts) == leased
    assert queue.finish(queue_key, "b", leased, 2, NOW) == 2
    assert len(caplog.records) == 3


def test_depth_does_not_stumble_over_what_is_no_entry(redis_connection, queue_key):
    redis_connection.client.lpush(redis_keys(queue_key).queue, "junk")

    assert RedisQueue(redis_connection).depth(queue_key).oldest_ts is None


@pytest.mark.parametrize(
    "numbers", [range(0), range(-1, 5), range(1020, 1025), range(0, 10, 2)], ids=str
)
def test_worker_numbers_outside_ten_bits_are_refused(redis_connection, numbers):
    with pytest.raises(ValueError, match=r"0\.\.1023"):
        RedisWorkerNumbers(redis_connection, numbers=numbers)


def test_ranges_may_change_between_versions(redis_connection, tenant):
    older = RedisWorkerNumbers(redis_connection, numbers=range(4), fleet=tenant)
    newer = RedisWorkerNumbers(redis_connection, numbers=range(2, 6), fleet=tenant)

    leased = [older.lease("h", 1000, 500).number for _ in range(3)]
    leased += [newer.lease("h", 1000, 500).number for _ in range(3)]

    assert sorted(leased) == list(range(6))
