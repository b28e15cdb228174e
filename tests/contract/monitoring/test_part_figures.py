"""Tests of the monitor's figures of parts that refuse queries, are slow or answer nonsense."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pymongo
import pytest
import redis as redis_driver
from hypothesis import given
from hypothesis import strategies as st
from pymongo.database import Database

from infra.local.mongo_server import MongoServer
from infra.local.redis_server import RedisServer
from tests.contract.restricted_mongo import ADMIN, alone_mongod, asking_mongod
from tests.kit.broken_servers import Proxy, broken_server
from tests.kit.kernel import StoreUnavailableError
from tests.kit.kernel import metric_names as names
from tests.kit.mongo import SERVER_SELECTION_SECONDS, MongoNodes, Waits
from tests.kit.monitoring import Figures, PartHealth, mongo_figures, redis_figures
from tests.kit.patience import patient
from tests.kit.queue import NodeHealth
from tests.kit.redis import ANSWER_SECONDS, RedisConnection
from tests.waiting import eventually, in_time

ALL_OF_REDIS = set(names.REDIS) - {names.NODE_UP, names.NODE_HEALTHY}
ALL_OF_A_NODE = {*names.NODE, *names.UNEMITTED} - {names.NODE_UP, names.NODE_HEALTHY}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def look_at(uri: str, **options) -> NodeHealth:
    """A node, as the monitor sees it; there is no Redis."""
    with broken_server(None) as silent:
        nodes = MongoNodes(lambda _: uri, lambda: "main", **options)
        connection = RedisConnection(f"redis://{silent}/0", connect_seconds=0.1, answer_seconds=0.1)
        try:
            return PartHealth(connection, nodes, lambda: ("main",)).checks()["mongodb", "main"]()
        finally:
            nodes.close()
            connection.close()


# ---- MongoDB: rights -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asking() -> Iterator[str]:
    with asking_mongod() as address:
        with pymongo.MongoClient(address.format(user=ADMIN)) as client:
            client.admin.command("createUser", "ours", pwd="secret", roles=["readWriteAnyDatabase"])
            client.admin.command(
                "createUser",
                "watcher",
                pwd="secret",
                roles=["readWriteAnyDatabase", "clusterMonitor"],
            )
            client["cf_acme_db"]["things"].insert_many([{"n": n} for n in range(8)])
        yield address


def test_a_user_who_may_monitor_gets_every_figure(asking):
    seen = look_at(asking.format(user="watcher:secret@"))

    assert (seen.up, seen.error) == (True, None)
    assert set(seen.figures) == ALL_OF_A_NODE
    assert (seen.missing, seen.unread) == ({}, ())


def test_a_user_with_few_rights_gets_the_other_figures_and_is_reported_which_are_missing(asking):
    seen = look_at(asking.format(user="ours:secret@"))

    assert (seen.up, seen.error) == (True, None)
    assert names.LATENCY in seen.figures
    # What slow operations are counted from is nothing that anybody misses.
    assert {*seen.figures, *seen.missing, names.SLOW_EVER} == ALL_OF_A_NODE
    assert names.STORAGE_RATIO in seen.figures
    for name in (names.MEMBERS, names.LAG_SECONDS, names.MEMORY_BYTES):
        reported = "mongodb: our user has not the right to ask: the role clusterMonitor has it"
        assert seen.missing[name] == reported
    assert set(seen.unread) == set(seen.missing)
    # Its own operations, which are the functions', it may always see.
    assert seen.figures[names.SLOW_OPERATIONS] == 0


def test_a_user_whom_the_node_does_not_know_finds_it_down(asking):
    seen = look_at(asking.format(user="stranger:wrong@"))

    assert seen.up is False
    assert "Authentication failed" in (seen.error or "")
    assert "wrong" not in (seen.error or "")


SLOW, QUICK = {"$where": "sleep(200); return false"}, {"n": 1, "$where": "sleep(150); return false"}


def counted_of(asking: str, database: Database, figure: str, find: dict[str, object]) -> float:
    """Return by how much the figure grows while something is looked for."""
    address = asking.format(user="watcher:secret@")
    before = look_at(address).figures[figure]
    list(database["things"].find(find))
    return look_at(address).figures[figure] - before


def test_operations_that_were_slow_are_counted_since_the_server_has_started(asking):
    with pymongo.MongoClient(asking.format(user=ADMIN)) as client:
        counted = partial(counted_of, asking, client["cf_acme_db"], names.SLOW_EVER)

        # On a busy machine something else may be slow meanwhile, but not each time.
        eventually(lambda: counted(SLOW) == 1, what="what takes more than a second counts")
        eventually(lambda: counted(QUICK) == 0, what="what takes less does not")

    assert look_at(asking.format(user="watcher:secret@")).figures[names.SLOW_OPERATIONS] == 0


def test_what_a_profiler_has_seen_lately_counts_as_slow_where_no_latencies_are_counted(
    asking, monkeypatch
):
    monkeypatch.setattr(mongo_figures, "_LATENCIES", ("none of these",))
    with pymongo.MongoClient(asking.format(user=ADMIN)) as client:
        database = client["cf_acme_db"]
        counted = partial(counted_of, asking, database, names.SLOW_OPERATIONS)
        database.command("profile", 1, slowms=100)
        try:
            eventually(lambda: counted(SLOW) == 1, what="what takes more than a second counts")
            eventually(lambda: counted(QUICK) == 0, what="what takes less does not")
        finally:
            database.command("profile", 0)


def test_a_node_alone_has_no_replicas_and_that_is_nothing_unread():
    with alone_mongod() as uri:
        seen = look_at(uri)

    of_replicas = {names.MEMBERS, names.MEMBERS_UNWELL, names.LAG_SECONDS}
    assert set(seen.missing) == of_replicas
    assert set(seen.missing.values()) == {"mongodb: the node is in no replica set"}
    assert seen.unread == ()


# ---- MongoDB: replicas ---------------------------------------------------------------------------


def test_a_lost_member_and_a_lost_primary_are_seen():
    with MongoServer(members=3, cache_gb=0.25, own=True, volatile=True) as server:
        seen = look_at(server.uri)
        assert (seen.figures[names.MEMBERS], seen.figures[names.MEMBERS_UNWELL]) == (3, 0)
        assert seen.figures[names.LAG_SECONDS] < 60

        others = [port for port in server.members if port != server.primary()]
        server.members[others[0]].kill()
        eventually(
            lambda: look_at(server.uri).figures.get(names.MEMBERS_UNWELL) == 1,
            what="the lost member was not noticed",
        )
        server.members[others[1]].kill()

        def has_no_primary() -> bool:
            left = look_at(server.uri)
            return not left.up or names.LAG_SECONDS in left.missing

        eventually(has_no_primary, what="the lost majority was not noticed")


def members(*given: tuple[int, float]) -> dict:
    """A replSetGetStatus of members in such states, so many seconds behind."""
    now = datetime(2026, 3, 1, tzinfo=UTC)
    return {
        "members": [
            {"state": state, "optimeDate": now - timedelta(seconds=behind)}
            for state, behind in given
        ]
    }


@pytest.mark.parametrize(
    ("status", "found"),
    [
        (members((1, 0), (2, 3), (2, 9)), (3, 0, 9.0)),
        (members((1, 0), (2, -1)), (2, 0, 0.0)),
        (members((1, 5)), (1, 0, 0.0)),
        (members((1, 0), (8, 900), (2, 1)), (3, 1, 1.0)),
        (members((1, 0), (7, 900)), (2, 0, 0.0)),
    ],
)
def test_lag_is_that_of_the_worst_secondary(status, found):
    figures = Figures()

    mongo_figures.read_members(figures, status)

    reported = (names.MEMBERS, names.MEMBERS_UNWELL, names.LAG_SECONDS)
    assert tuple(figures.found[name] for name in reported) == found


def test_without_a_primary_there_is_no_lag_but_members():
    figures = Figures()

    mongo_figures.read_members(figures, members((2, 0), (8, 0)))

    assert figures.found == {names.MEMBERS: 2, names.MEMBERS_UNWELL: 1}
    assert figures.missing == {names.LAG_SECONDS: "the replica set has no primary"}


# ---- slow, silent, lying -------------------------------------------------------------------------


def test_a_node_that_falls_silent_is_down_within_its_time(mongo_uri):
    waits = Waits(socket=600.0)  # else it ended by that, soon enough
    host, port = pymongo.uri_parser.parse_uri(mongo_uri)["nodelist"][0]
    proxy = Proxy(host, port)
    uri = f"mongodb://{proxy.address}/?directConnection=true"
    try:
        assert look_at(uri, waits=waits).up
        proxy.silent = True
        with in_time(SERVER_SELECTION_SECONDS):
            seen = look_at(uri, waits=waits)
    finally:
        proxy.close()

    assert seen.up is False


@pytest.mark.parametrize("answer", [None, b"HTTP/1.1 200 OK\r\n\r\nhello"])
def test_what_is_no_redis_is_down_within_its_time(mongo_uri, answer):
    with broken_server(answer) as address, RedisConnection(f"redis://{address}/0") as connection:
        nodes = MongoNodes(lambda _: mongo_uri, lambda: "main")
        with in_time(2 * ANSWER_SECONDS):
            seen = PartHealth(connection, nodes, tuple).checks()["redis", "redis"]()
        nodes.close()

    assert seen.up is False


@given(status=JSON)
def test_whatever_a_node_says_of_its_members_the_rest_is_kept(status):
    figures = Figures()
    asked = (names.MEMBERS, names.MEMBERS_UNWELL, names.LAG_SECONDS)

    figures.ask(asked, lambda: mongo_figures.read_members(figures, status))

    assert set(figures.found) | set(figures.missing) == set(asked)
    assert all(0 <= value < float("inf") for value in figures.found.values())


@given(status=st.dictionaries(st.sampled_from(["mem", "connections", "wiredTiger"]), JSON))
def test_whatever_a_node_says_of_itself_the_rest_is_kept(status):
    figures = Figures()
    asked = (names.MEMORY_BYTES, names.CACHE_RATIO, names.CONNECTIONS, names.CONNECTIONS_RATIO)

    figures.ask(asked, lambda: mongo_figures.read_status(figures, status))

    assert set(asked) <= set(figures.found) | set(figures.missing)


@given(
    info=st.dictionaries(
        st.sampled_from(
            ["used_memory", "maxmemory", "connected_clients", "maxclients", "role", "evicted_keys"]
        ),
        JSON,
    )
)
def test_whatever_a_redis_says_of_itself_the_rest_is_kept(info):
    figures = Figures()

    figures.ask(ALL_OF_REDIS, lambda: redis_figures.read_info(figures, info))

    assert set(figures.found) | set(figures.missing) == ALL_OF_REDIS
    assert all(0 <= value < float("inf") for value in figures.found.values())


# ---- Redis ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_redis() -> Iterator[RedisServer]:
    with RedisServer(own=True) as server:
        yield server


def redis_look(connection: RedisConnection) -> NodeHealth:
    return PartHealth(connection, MongoNodes(str, lambda: "main"), tuple).checks()[
        "redis", "redis"
    ]()


def test_memory_is_reported_against_its_limit_and_evictions_are_counted(own_redis):
    with RedisConnection(patient(own_redis.url)) as connection:
        client = connection.client
        used = client.info("memory")["used_memory"]
        client.config_set("maxmemory", 2 * used)
        client.config_set("maxmemory-policy", "allkeys-lru")
        try:
            assert redis_look(connection).figures[names.MEMORY_RATIO] == pytest.approx(0.5, abs=0.2)
            for number in range(200):
                client.set(f"k{number}", b"x" * 20_000)
            seen = redis_look(connection).figures
        finally:
            client.config_set("maxmemory", 0)
            client.config_set("maxmemory-policy", "noeviction")
            client.flushall()

    assert seen[names.EVICTED_KEYS] > 0
    assert seen[names.MEMORY_RATIO] <= 1.5


def test_a_user_who_may_not_read_the_slow_log_gets_the_rest(own_redis):
    with RedisConnection(patient(own_redis.url)) as administrator:
        rules = ["reset", "on", ">secret", "+ping", "+info", "+time", "+client|setinfo"]
        administrator.client.execute_command("ACL", "SETUSER", "watcher", *rules)
        url = own_redis.url.replace("redis://", "redis://watcher:secret@")
        with RedisConnection(url) as connection:
            seen = redis_look(connection)

    assert seen.up
    assert set(seen.missing) == {names.SLOW_OPERATIONS}
    assert seen.unread == (names.SLOW_OPERATIONS,)
    assert "permissions" in seen.missing[names.SLOW_OPERATIONS]
    assert set(seen.figures) == ALL_OF_REDIS - {names.SLOW_OPERATIONS}


def test_a_command_that_took_long_is_counted_for_a_minute(own_redis):
    with RedisConnection(patient(own_redis.url)) as connection:
        client = connection.client
        client.config_set("slowlog-log-slower-than", 200_000)
        client.slowlog_reset()
        assert redis_look(connection).figures[names.SLOW_OPERATIONS] == 0
        client.execute_command("DEBUG", "SLEEP", "0.3")

        assert redis_look(connection).figures[names.SLOW_OPERATIONS] == 1


def test_a_replica_reports_that_its_primary_is_away(own_redis):
    with RedisServer(own=True) as other, RedisConnection(patient(other.url)) as connection:
        client = connection.client
        assert redis_look(connection).figures[names.LINK_DOWN] == 0
        with broken_server(None) as nobody:
            host, port = nobody.split(":")
            client.replicaof(host, int(port))
            assert redis_look(connection).figures[names.LINK_DOWN] == 1
        client.replicaof("NO", "ONE")


def test_a_primary_counts_its_replicas(own_redis):
    with RedisServer(own=True) as other, RedisConnection(patient(own_redis.url)) as connection:
        where = redis_driver.connection.parse_url(own_redis.url)
        with RedisConnection(patient(other.url)) as replica:
            replica.client.replicaof(where["host"], where["port"])
            eventually(
                lambda: redis_look(connection).figures[names.REPLICAS] == 1,
                what="the replica did not join",
            )


def test_each_node_of_a_cluster_is_a_part(cluster_connection):
    looks = PartHealth(cluster_connection, MongoNodes(str, lambda: "main"), tuple).checks()

    assert len(looks) == 3
    for (part, name), look in looks.items():
        seen = look()
        assert (part, seen.name, seen.up) == ("redis", name, True)
        assert set(seen.figures) == ALL_OF_REDIS


def test_figures_are_asked_for_one_by_one():
    figures = Figures()

    def broken() -> None:
        figures.put("a", 1)
        raise StoreUnavailableError("redis", "no answer")

    figures.ask(("a", "b"), broken)
    figures.put("c", -1)
    figures.put("d", True)
    figures.put("f", None)
    figures.share("e", 1, 0)

    assert figures.found == {"a": 1.0}
    assert figures.missing == {
        "b": "redis: no answer",
        "c": "-1 cannot be",
        "d": "is no number",
        "e": "the server has no limit",
        "f": "the server does not say",
    }
    assert figures.unread == {"b", "c", "d"}
