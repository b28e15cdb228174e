"""The stores' inventories of a tenant: what is counted is deleted, and nothing of another one."""

import re
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.contract.redis_growth import FILLED, Redis
from tests.kit.bidding import JobListing, RedisBoard
from tests.kit.kernel import QueueKey
from tests.kit.queue import fleet_keys
from tests.kit.queue import keys as dictionary
from tests.kit.tenancy import MongoInventory, RedisInventory, mongo_inventory, owner_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PRODUCT = Path(__file__).parents[3] / "layers/crawlfleet/python/crawlfleet"
#: Families that no tenant owns: those of hosts and sites, which all tenants visit.
SHARED = {"host", "strain", "robots"}


def always() -> float:
    return 60.0


def keys_of(redis_connection, tenant: str) -> dict[bytes, bytes]:
    client = redis_connection.client
    return {key: client.dump(key) for key in client.scan_iter(f"cf:*{tenant}*")}


@pytest.mark.parametrize("fill", FILLED, ids=lambda fill: fill.__name__)
def test_whatever_a_tenant_makes_grow_in_redis_is_counted_and_goes(
    redis_connection, queue_key, fill
):
    tenant, other = queue_key.tenant, QueueKey(f"x{queue_key.tenant}", "docs", "main")
    inventory = RedisInventory(redis_connection, fleet=tenant)
    assert fill(Redis(redis_connection, queue_key))
    assert fill(Redis(redis_connection, other))
    theirs = inventory.count(other.tenant)

    counted = inventory.count(tenant)
    inventory.clear(tenant, always)

    own = {owner.family for owner in map(owner_of, _names(redis_connection, other.tenant)) if owner}
    assert set(counted) & own == own
    assert inventory.count(tenant) == {}
    assert inventory.count(other.tenant) == theirs
    assert not [key for key in _names(redis_connection, tenant) if _is_own(key, tenant)]


def _names(redis_connection, tenant: str) -> list[str]:
    return [key.decode() for key in keys_of(redis_connection, tenant)]


def _is_own(key: str, tenant: str) -> bool:
    owner = owner_of(key)
    return owner is not None and owner.tenant == tenant


def test_every_family_of_keys_is_a_tenants_or_shared_by_all():
    rows = re.findall(r"^``(cf:\{(?!fleet).*?\}:[a-z_]+\S*)``", dictionary.__doc__, re.MULTILINE)
    told = {}
    for row in rows:
        key = row.replace("<tenant>", "acme").replace("{tenant:biz}", "{acme:docs}")
        key = re.sub(r"\[.*\]|<n>", "", key).replace("<", "").replace(">", "")
        found = owner_of(key)
        told[row] = found and found.tenant

    assert len(rows) > 30
    nobody = {row.partition("}:")[2] for row, tenant in told.items() if tenant is None}
    assert nobody == SHARED
    assert set(told.values()) == {None, "acme"}


@pytest.mark.parametrize(
    "key",
    [
        "cf:{hosts:acme}:queue:main",
        "cf:{quota:acme}:leases:main",
        "cf:{host:acme}:items",
        "cf:{scrapy:acme}:queue:main",
        "cf:{room:acme}:cookies:june",
    ],
)
def test_a_tenant_that_is_called_as_a_tag_owns_its_bizs_keys_alone(key):
    found = owner_of(key)

    assert found is not None
    assert found.tenant == key.partition("{")[2].partition(":")[0]


def test_places_in_keys_that_all_tenants_share_go_and_others_stay(any_redis, tenant):
    fleet, other, client = tenant, f"x{tenant}", any_redis.client
    keys, board = fleet_keys(fleet), RedisBoard(any_redis, fleet=fleet)
    for one in (tenant, other):
        client.hset(keys.paces, f"{tenant} {one}/docs", "1 1")  # a pool of that name
        client.hset(keys.needs, f"{one}/docs", 1)
        client.zadd(keys.cancelled, {f"{one}/docs/june": 1})
        client.zadd(keys.open, {f"{one}/docs/main": 1})
        client.zadd(keys.open_items, {f"{one}/docs/main": 1})
        client.hset(
            f"cf:{{host:{one}.example}}:host", mapping={"*": "0", one: "1", f"w {one}": "1"}
        )
        for name in ("june", "july"):
            listing = JobListing(tenant=one, biz="docs", job=name, document=b"{}")
            board.add(listing, NOW, timedelta(minutes=1))
    inventory = RedisInventory(any_redis, fleet=fleet)
    theirs = inventory.count(other)

    counted = inventory.count(tenant)
    inventory.clear(tenant, always)

    assert counted == theirs
    assert counted["board_index"] == counted["host"] == 2
    assert inventory.count(tenant) == {}
    assert inventory.count(other) == theirs
    assert board.head("main", 10)[0].key[0] == other
    client.unlink(*client.scan_iter(f"cf:{{{fleet}}}*"))


def test_what_is_cut_off_goes_on_where_it_stopped(redis_connection, queue_key):
    client, stem = redis_connection.client, f"cf:{{{queue_key.tenant}:docs}}:cookies:"
    for n in range(2_500):
        client.set(f"{stem}{n}", 1)
    inventory = RedisInventory(redis_connection, fleet=queue_key.tenant)
    left = iter([1.0, 0.0])

    inventory.clear(queue_key.tenant, lambda: next(left))
    half_way = inventory.count(queue_key.tenant)["cookies"]
    inventory.clear(queue_key.tenant, always)

    assert half_way == 1_500
    assert inventory.count(queue_key.tenant) == {}


@pytest.fixture
def documents(mongo_connection, tenant):
    """Documents of two tenants wherever MongoDB has some of a tenant."""
    for one in (tenant, f"{tenant}-2", f"x{tenant}"):
        for collection in mongo_inventory.BY_ID:
            # Another test may have made the index by which no two of them are the same.
            unlike = {"tenant": one, "biz": "docs", "name": uuid.uuid4().hex, "version": 1}
            mongo_connection.control(collection).insert_one({"_id": f"{one}/docs/june"} | unlike)
        for collection, field in mongo_inventory.BY_FIELD.items():
            first, _, second = field.partition(".")
            document = {first: {second: one} if second else one}
            # Another test may have made the index by which no two subscriptions have the same one.
            document["number"] = uuid.uuid4().int >> 70
            mongo_connection.control(collection).insert_one(document)
        for name in ("docs.main_000", "docs.main_000_records", "gone.old_001", "docs.main_seeds"):
            kept = mongo_connection.collection("home", one, "main", name)
            kept.insert_many([{"n": n} for n in range(3)])
    yield
    for one in (tenant, f"{tenant}-2", f"x{tenant}"):
        client = mongo_connection.client("home")
        client.drop_database(mongo_connection.database("home", one, "main").name)


def test_documents_of_a_tenant_are_counted_and_go_and_others_stay(
    mongo_connection, documents, tenant
):
    inventory = MongoInventory(mongo_connection, ["home"])
    others = [f"{tenant}-2", f"x{tenant}"]

    counted = inventory.count(tenant)
    inventory.clear(tenant, always)

    assert (counted["requests"], counted["records"], counted["seeds"]) == (6, 3, 3)
    assert counted["collections"] == 4
    assert (counted["jobs"], counted["incidents past"], counted["journal"]) == (1, 1, 1)
    assert inventory.count(tenant) == {}
    assert [inventory.count(one) for one in others] == [counted, counted]


def test_readers_of_subscriptions_are_told_that_some_went(mongo_connection, documents, tenant):
    numbers = mongo_connection.control("subscription_numbers")
    numbers.insert_one({"_id": "all", "number": 7, "forgotten": 2})

    MongoInventory(mongo_connection, ["home"]).clear(tenant, always)

    assert numbers.find_one() == {"_id": "all", "number": 8, "forgotten": 8}


def test_documents_are_deleted_in_batches_and_what_is_cut_off_goes_on(
    mongo_connection, tenant, monkeypatch
):
    monkeypatch.setattr(mongo_inventory, "BATCH", 10)
    ids = [{"_id": f"{tenant}/docs/{n}"} for n in range(35)]
    mongo_connection.control("submission_keys").insert_many(ids)
    inventory = MongoInventory(mongo_connection, ["home"])
    # One look a collection before it, and two in it.
    left = iter([1.0] * (2 * mongo_inventory.BY_ID.index("submission_keys") + 3) + [0.0] * 99)

    inventory.clear(tenant, lambda: next(left))
    half_way = inventory.count(tenant)["submission keys"]
    inventory.clear(tenant, always)

    assert half_way == 15
    assert inventory.count(tenant) == {}


def test_every_collection_of_the_control_database_is_in_the_inventory_or_of_the_fleet():
    named = set()
    for file in PRODUCT.rglob("*.py"):
        text = file.read_text()
        named |= set(re.findall(r"(?:\.control|self\._at)\(\s*\"(\w+)\"", text))
        named |= set(re.findall(r"^[A-Z]+: Final = \"(stream_\w+)\"", text, re.MULTILINE))

    known = {*mongo_inventory.BY_ID, *mongo_inventory.BY_FIELD, *mongo_inventory.OF_THE_FLEET}
    assert named == known
