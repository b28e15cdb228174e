"""MongoDB dead, slow, lying, stepping down: an error of ours, in time, and nothing half-done."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Event, Thread
from time import monotonic

import pymongo
import pytest
from pymongo.errors import AutoReconnect

from infra.local.mongo_server import MongoServer
from tests.contract.store_cases import (
    MINUTE,
    NOW,
    Fleet,
    a_biz,
    a_generation,
    a_request,
    done_with,
    entries_of,
    snowflakes,
)
from tests.kit.broken_servers import Proxy, broken_server, closed_port
from tests.kit.ids import MongoCounter
from tests.kit.kernel import StoreError, StoreUnavailableError
from tests.kit.mongo import (
    OPERATION_SECONDS,
    SERVER_SELECTION_SECONDS,
    MongoRequestStore,
    MongoRules,
    Waits,
)
from tests.kit.mongo_nodes import nodes_at
from tests.kit.requests import Claim, State
from tests.kit.schedules import MongoSchedules
from tests.waiting import in_time

#: A node that is away need not be waited for as long as the product does.
SOON = Waits(selection=0.3)


@pytest.fixture(params=["dead", "slow", "lying"])
def broken_uri(request: pytest.FixtureRequest) -> Iterator[str]:
    """A MongoDB that is none."""
    with ExitStack() as stack:
        if request.param == "dead":
            address = stack.enter_context(closed_port())
        else:
            answer = None if request.param == "slow" else b"HTTP/1.1 200 OK\r\n\r\nhello" * 9
            address = stack.enter_context(broken_server(answer))
        yield f"mongodb://{address}/?directConnection=true"


def claims_of(fleet: Fleet) -> list[Claim]:
    requests = [a_request(fleet.queue_key, i) for i in snowflakes(3)]
    return [
        Claim(request=r, entry=e, token="t", attempt=1)
        for r, e in zip(requests, entries_of(requests), strict=True)
    ]


def test_every_insertion_is_refused_in_time(broken_uri: str, tenant: str) -> None:
    with nodes_at(broken_uri) as nodes:
        fleet = Fleet(MongoRequestStore(nodes), tenant)
        requests = [a_request(fleet.queue_key, i) for i in snowflakes(40)]

        with in_time(SERVER_SELECTION_SECONDS):  # two nodes at once, eight shards, one wait
            inserted = fleet.insert(requests)

        assert set(inserted.refused) == {r.id for r in requests}
        assert all(isinstance(e, StoreUnavailableError) for e in inserted.refused.values())


@pytest.mark.parametrize(
    "call",
    [
        lambda f: f.claim([c.request for c in claims_of(f)]),
        lambda f: f.settle([done_with(c, {"n": 1}) for c in claims_of(f)]),
        lambda f: f.get(claims_of(f)[0].request),
        lambda f: f.expire(NOW),
    ],
    ids=["claim", "settle", "get", "expire"],
)
def test_every_other_call_is_an_error_in_time(
    broken_uri: str, tenant: str, call: Callable[[Fleet], object]
) -> None:
    one = a_generation(nodes=("east",))
    with nodes_at(broken_uri, waits=SOON) as nodes:
        fleet = Fleet(MongoRequestStore(nodes), tenant, a_biz(generations=(one,)))

        with in_time(SOON.selection), pytest.raises(StoreUnavailableError):
            call(fleet)


def test_rules_schedules_and_numbers_are_errors_in_time(tenant: str) -> None:
    with closed_port() as address, nodes_at(f"mongodb://{address}/", waits=SOON) as nodes:
        fleet = Fleet(MongoRequestStore(nodes), tenant)
        calls: list[Callable[[], object]] = [
            lambda: MongoRules(nodes).get_version(fleet.queue_key, "detail", "v"),
            lambda: MongoSchedules(nodes).due(NOW, 10),
            lambda: MongoCounter(nodes).reserve(tenant, "shop", 1),
        ]
        for call in calls:
            with in_time(SOON.selection), pytest.raises(StoreUnavailableError):
                call()


@pytest.mark.parametrize("uri", ["http://x", "mongodb://", "mongodb://h:99999/", "mongodb://h:x/"])
def test_an_unusable_uri_is_an_error_that_does_not_show_it(uri: str, tenant: str) -> None:
    with nodes_at(uri) as nodes:
        fleet = Fleet(MongoRequestStore(nodes), tenant)

        with pytest.raises(StoreError) as caught:
            fleet.get(a_request(fleet.queue_key, 1))

        assert not caught.value.retryable
        assert "99999" not in str(caught.value)


def test_a_dead_node_refuses_its_own_requests_only(mongo_uri: str, tenant: str) -> None:
    with (
        closed_port() as address,
        nodes_at(
            lambda node: f"mongodb://{address}/" if node == "west" else mongo_uri, waits=SOON
        ) as nodes,
    ):
        fleet = Fleet(MongoRequestStore(nodes), tenant)
        requests = [a_request(fleet.queue_key, i) for i in snowflakes(60)]

        inserted = fleet.insert(requests)

        stored = [r for r in requests if r.id not in inserted.refused]
        assert 10 < len(stored) < 50
        # What lives is worked on: the other node's entries are for recovery.
        claims = fleet.claim(requests)
        assert {c.request.id for c in claims} == {r.id for r in stored}
        assert fleet.settle([done_with(c, {"n": 1}) for c in claims]) == set()
        assert fleet.expire(NOW + MINUTE) == 0
        assert fleet.unqueued(before=NOW + MINUTE, now=NOW) == []
        with pytest.raises(StoreUnavailableError):
            fleet.find()


def test_a_node_that_is_away_is_waited_for_once_and_not_by_every_call(
    mongo_uri: str, tenant: str
) -> None:
    """Else a worker with work of thirty bizs renews its leases too late, and they are lost."""
    with (
        closed_port() as address,
        nodes_at(lambda node: f"mongodb://{address}/" if node == "west" else mongo_uri) as nodes,
    ):
        fleet = Fleet(MongoRequestStore(nodes), tenant)
        fleet.insert([a_request(fleet.queue_key, i) for i in snowflakes(20)])

        with in_time(2 * SERVER_SELECTION_SECONDS):  # and not thirty times as long
            for _ in range(30):
                assert fleet.unqueued(before=NOW + MINUTE, now=NOW) != []


@pytest.fixture
def proxied(mongo_uri: str, tenant: str) -> Iterator[tuple[Proxy, Fleet]]:
    # What has no time-out of its own would end with that of the socket, soon enough.
    waits = Waits(socket=600.0, glance=1.0)
    host, port = pymongo.uri_parser.parse_uri(mongo_uri)["nodelist"][0]
    proxy = Proxy(host, port)
    one = a_generation(nodes=("east",), databases=("one",), shards=1)
    with nodes_at(f"mongodb://{proxy.address}/?directConnection=true", waits=waits) as nodes:
        yield proxy, Fleet(MongoRequestStore(nodes), tenant, a_biz(generations=(one,)))
    proxy.close()


def test_a_node_that_falls_silent_is_an_error_in_time(proxied: tuple[Proxy, Fleet]) -> None:
    proxy, fleet = proxied
    requests = fleet.submit(5)
    proxy.silent = True

    with in_time(OPERATION_SECONDS), pytest.raises(StoreUnavailableError):
        fleet.claim(requests)

    proxy.silent = False
    assert len(fleet.claim(requests)) == 5


@pytest.mark.parametrize("look", ["totals", "audit", "record_count"])
def test_a_look_at_a_node_that_falls_silent_is_given_up_soon(
    proxied: tuple[Proxy, Fleet], look: str
) -> None:
    proxy, fleet = proxied
    fleet.submit(5)
    looks: dict[str, Callable[[], object]] = {
        "totals": lambda: fleet.ledgers.totals(fleet.queue_key, fleet.biz, NOW),
        "audit": lambda: fleet.ledgers.audit(fleet.queue_key, fleet.biz, NOW, within_seconds=1.0),
        "record_count": lambda: fleet.store.record_count(fleet.queue_key, fleet.biz),
    }
    before = looks[look]()
    proxy.silent = True
    began = time.monotonic()

    with in_time(1.0), pytest.raises(StoreUnavailableError):
        looks[look]()

    assert time.monotonic() - began < OPERATION_SECONDS * 0.9, "it was given an operation's time"
    proxy.silent = False
    assert looks[look]() == before


def test_a_node_that_answers_garbage_is_an_error(proxied: tuple[Proxy, Fleet]) -> None:
    proxy, fleet = proxied
    requests = fleet.submit(5)
    proxy.garble = True

    with pytest.raises(StoreUnavailableError):
        fleet.get(requests[0])

    proxy.garble = False
    assert fleet.get(requests[0]).state == State.PENDING


# ---- the primary steps down ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def own_uri() -> Iterator[str]:
    """A replica set whose primary may step down without disturbing other tests."""
    with MongoServer(cache_gb=0.25, volatile=True) as server:
        yield server.uri


def step_down(uri: str) -> None:
    """Away for a second at least; a set of one then elects itself again."""
    with pymongo.MongoClient(uri) as client:
        try:
            client.admin.command("replSetStepDown", 1, force=True)
        except AutoReconnect:
            return


def again(call: Callable[[], object]) -> object:
    """Retry a call after retryable errors, as a flow does."""
    deadline = monotonic() + 60
    while True:
        try:
            return call()
        except StoreUnavailableError:
            if monotonic() > deadline:
                raise


def test_work_goes_on_over_a_step_down_with_nothing_accepted_lost(
    own_uri: str, tenant: str
) -> None:
    with nodes_at(own_uri) as nodes:
        fleet = Fleet(MongoRequestStore(nodes), tenant)
        stop = Event()
        accepted: list[int] = []
        done: set[int] = set()
        refused: list[int] = []

        def work() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                ids = snowflakes(20, NOW, worker=number % 1000)  # never the same ones again
                requests = [a_request(fleet.queue_key, i) for i in ids]
                inserted = fleet.insert(requests)
                refused.extend(inserted.refused)
                mine = [r for r in requests if r.id not in inserted.refused]
                accepted.extend(r.id for r in mine)
                claims = again(lambda r=mine, n=number: fleet.claim(r, f"t{n}"))
                outcomes = [done_with(c, {"n": 1}) for c in claims]
                again(lambda o=outcomes: fleet.settle(o))
                done.update(c.request.id for c in claims)

        worker = Thread(target=work)
        worker.start()
        try:
            for _ in range(2):
                before = len(done)
                while len(done) < before + 60:
                    assert worker.is_alive()
                step_down(own_uri)
            before = len(done)
            while len(done) < before + 60:
                assert worker.is_alive()
        finally:
            stop.set()
            worker.join()

        # What a claim could not be told of, recovery finds once the lease has ended.
        later = NOW + 2 * MINUTE
        entries = fleet.unqueued(before=later, now=later)
        claims = fleet.store.claim(
            fleet.queue_key, fleet.biz, entries, "w", later, later + MINUTE, "recovered"
        )
        assert fleet.settle([done_with(c, {"n": 1}) for c in claims], later) == set()
        done.update(c.request.id for c in claims)
        states, records = fleet.totals()
        assert states.get(State.DONE, 0) == records == len(done)
        assert set(accepted) == done
        assert sum(states.values()) == len(accepted)
        assert not set(refused) & set(accepted)
