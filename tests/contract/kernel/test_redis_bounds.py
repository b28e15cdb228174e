"""A tenant can make nothing grow in Redis beyond a bound, and no other tenant pays for it."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.contract.redis_growth import FILLED, Redis
from tests.kit.config import IntakeLimits
from tests.kit.fetching import RedisSessions
from tests.kit.kernel import QueueKey
from tests.kit.politeness import RedisRobotsCache, RobotsCopy
from tests.kit.queue import RedisQueue
from tests.kit.queue import keys as dictionary
from tests.kit.records import RedisDataQueue
from tests.kit.redis import RedisConnection
from tests.kit.requests import Entry
from tests.kit.submission import RedisIntake

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PAGE = Path(__file__).parents[3] / "docs/how-it-works/security.md"


@pytest.mark.parametrize("fill", FILLED, ids=lambda fill: fill.__name__)
def test_what_a_tenant_makes_grow_stays_within_its_bound_and_others_keep_theirs(
    redis_connection, queue_key, fill
):
    other = Redis(redis_connection, QueueKey(f"x{queue_key.tenant}", "docs", "main"))
    assert (
        RedisIntake(redis_connection).admit(other.queue_key, 1, IntakeLimits(), 1.0, NOW).admitted
    )
    RedisQueue(redis_connection).enqueue(other.queue_key, [Entry(1, "docs", 1)], NOW)
    RedisSessions(redis_connection).save(other.queue_key, "june", b"theirs")
    site = f"https://{other.tenant}.test"
    RedisRobotsCache(redis_connection).save(site, RobotsCopy(status=404), 60, other.tenant)
    RedisDataQueue(redis_connection).put(other.queue_key, [b"{}"])
    before = {key: redis_connection.client.dump(key) for key in _keys_of(redis_connection, other)}
    assert len(before) >= 8

    assert fill(Redis(redis_connection, queue_key))

    after = {key: redis_connection.client.dump(key) for key in _keys_of(redis_connection, other)}
    assert after == before


def _keys_of(connection: RedisConnection, at: Redis) -> list[bytes]:
    return sorted(connection.client.scan_iter(f"cf:*{at.tenant}*"))


def test_the_page_on_security_names_each_family_that_a_tenant_makes_grow_and_how_it_is_bounded():
    rows = re.findall(r"^``cf:\{(?!fleet).*?\}:([a-z_]+)", dictionary.__doc__, re.MULTILINE)
    page = PAGE.read_text().partition("## What a tenant can make grow in Redis")[2]
    table = page.partition("\n## ")[0].splitlines()
    named = {
        name for line in table if line.startswith("| `") for name in _names(line.split("|")[1])
    }

    # Of a Scrapy process: whoever has a Redis user writes what it likes under the tenant's keys.
    filled = set().union(*FILLED.values()) | {"item_beats"}
    assert filled == set(rows)
    assert named == set(rows)


def _names(cell: str) -> list[str]:
    return re.findall(r"`([a-z_]+)", cell)
