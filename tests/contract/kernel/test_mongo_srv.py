"""Nodes whose address is ``mongodb+srv://``, and a name server that fails, is slow, or lies."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pymongo
import pytest

from infra.local.mongo_server import MongoServer
from tests.contract.rotation_cases import outcomes, work
from tests.contract.store_cases import Fleet, a_request, snowflakes
from tests.kit.kernel import StoreError, StoreUnavailableError
from tests.kit.mongo import MongoNodes, MongoRequestStore, Waits
from tests.kit.mongo_nodes import nodes_at
from tests.kit.name_server import CLUSTER, MEMBER, Mood, NameServer, name_server, srv_uri
from tests.waiting import eventually, in_time

#: Of what the product waits for it does not matter here how long.
SOON = Waits(selection=1.0, connect=0.3, away=0.1, read_again_away=0.1)
#: The hosts are asked for, and then the options beside them.
ASKED = [f"_mongodb._tcp.{CLUSTER}", CLUSTER]


def port_of(uri: str) -> int:
    return int(pymongo.uri_parser.parse_uri(uri)["nodelist"][0][1])


@pytest.fixture
def resolver(mongo_uri: str) -> Iterator[NameServer]:
    with name_server() as server:
        server.ports = [port_of(mongo_uri)]
        yield server


@pytest.fixture
def nodes(resolver: NameServer) -> Iterator[MongoNodes]:
    nodes = MongoNodes(lambda _: srv_uri(), lambda: "home", waits=SOON)
    yield nodes
    nodes.close()


def is_done(nodes: MongoNodes) -> bool:
    return outcomes(nodes, 1) == ["done"]


def test_a_node_is_reached_by_the_hosts_and_options_that_the_name_server_knows(
    resolver: NameServer, nodes: MongoNodes
) -> None:
    work(nodes)

    assert resolver.asked == ASKED
    assert nodes.client("home").options.replica_set_name == "crawlfleet"


@pytest.mark.parametrize("mood", [mood for mood in Mood if mood is not Mood.WELL])
def test_a_name_that_is_not_resolved_is_worth_another_try_which_succeeds_when_it_is(
    resolver: NameServer, nodes: MongoNodes, mood: Mood
) -> None:
    resolver.mood = mood

    with in_time(2 * SOON.connect), pytest.raises(StoreUnavailableError, match="mongodb") as e:
        work(nodes)

    assert e.value.retryable
    resolver.mood = Mood.WELL
    eventually(lambda: is_done(nodes), what="the name is not asked for again")


def test_a_node_whose_name_is_not_resolved_is_away_and_not_asked_for_by_every_call(
    resolver: NameServer,
) -> None:
    resolver.mood = Mood.SILENT
    nodes = MongoNodes(lambda _: srv_uri(), lambda: "home", waits=Waits(connect=0.3, away=600.0))
    try:
        with in_time(0.3), ThreadPoolExecutor(8) as executor:
            found = list(executor.map(lambda _: outcomes(nodes, 20), range(8)))

        assert {one for some in found for one in some} == {"refused"}
        assert resolver.asked == ASKED[:1]
    finally:
        nodes.close()


def test_health_of_a_node_whose_name_is_not_resolved_is_an_error_of_ours(
    resolver: NameServer, nodes: MongoNodes
) -> None:
    resolver.mood = Mood.FAILING

    with pytest.raises(StoreUnavailableError, match="SERVFAIL"):
        nodes.client("home")


def test_a_name_that_is_not_resolved_refuses_its_own_requests_only(
    resolver: NameServer, mongo_uri: str, tenant: str
) -> None:
    resolver.mood = Mood.FAILING
    with nodes_at(lambda node: srv_uri() if node == "west" else mongo_uri) as nodes:
        fleet = Fleet(MongoRequestStore(nodes), tenant)
        requests = [a_request(fleet.queue_key, i) for i in snowflakes(40)]

        inserted = fleet.insert(requests)

        refused = inserted.refused
        assert 5 < len(refused) < 35
        assert all(isinstance(error, StoreUnavailableError) for error in refused.values())
        stored = {r.id for r in requests} - set(refused)
        assert {c.request.id for c in fleet.claim(requests)} == stored


def test_a_slow_name_server_is_waited_for_as_long_as_a_connection(
    resolver: NameServer,
) -> None:
    resolver.mood = Mood.SLOW
    nodes = MongoNodes(lambda _: srv_uri(), lambda: "home", waits=Waits(selection=30.0, connect=30))
    try:
        assert is_done(nodes)
    finally:
        nodes.close()


def test_a_cluster_that_answers_is_kept_whatever_the_name_server_says_meanwhile(
    resolver: NameServer, nodes: MongoNodes
) -> None:
    work(nodes)
    standing = nodes.client("home")
    for mood in (Mood.FAILING, Mood.SILENT, Mood.LYING, Mood.EMPTY):
        resolver.mood = mood
        assert outcomes(nodes, 5) == ["done"] * 5

    assert nodes.client("home") is standing
    assert resolver.asked == ASKED


def test_a_cluster_that_has_moved_is_followed_once_its_old_hosts_are_dead(
    resolver: NameServer, mongo_uri: str
) -> None:
    nodes = MongoNodes(lambda _: srv_uri(), lambda: "home", waits=SOON)
    try:
        with MongoServer(cache_gb=0.25, own=True, volatile=True) as old:
            resolver.ports = [port_of(old.uri)]
            work(nodes)
        assert outcomes(nodes, 1) == ["refused"]
        # Until it knows better the old hosts are tried.
        resolver.mood = Mood.FAILING
        assert outcomes(nodes, 3) == ["refused"] * 3

        resolver.mood, resolver.ports = Mood.WELL, [port_of(mongo_uri)]

        eventually(lambda: is_done(nodes), what="the old hosts are kept")
    finally:
        nodes.close()


def test_a_name_that_was_wrong_in_the_secret_is_read_again(
    resolver: NameServer, mongo_uri: str
) -> None:
    uris = {"home": srv_uri().replace(CLUSTER, "clutser.crawlfleet.test")}
    resolver.mood = Mood.UNKNOWN
    nodes = MongoNodes(uris.__getitem__, lambda: "home", waits=SOON)
    try:
        assert outcomes(nodes, 1) == ["refused"]
        uris["home"] = mongo_uri

        eventually(lambda: is_done(nodes), what="the secret is not read again")
    finally:
        nodes.close()


@pytest.mark.parametrize("host", [f"{CLUSTER}:27017", f"{CLUSTER},{MEMBER}"])
def test_an_address_that_is_none_is_not_tried_again(resolver: NameServer, host: str) -> None:
    nodes = MongoNodes(lambda _: f"mongodb+srv://{host}/", lambda: "home")
    try:
        with pytest.raises(StoreError, match="not usable") as caught:
            work(nodes)

        assert not caught.value.retryable
        assert resolver.asked == []
    finally:
        nodes.close()
