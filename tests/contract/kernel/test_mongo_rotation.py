"""A MongoDB user is rotated while stores are in use: whoever is refused reads the secret again."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from time import monotonic
from typing import Any
from uuid import uuid4

import boto3
import pymongo
import pytest
from moto import mock_aws
from pymongo.errors import OperationFailure

from infra.local.parts import free_port
from tests.contract.restricted_mongo import ADMIN, asking_mongod
from tests.contract.rotation_cases import RIGHTS, Secret, in_use, outcomes, settle, settled, work
from tests.kit.apps import Parts
from tests.kit.kernel import (
    ConfigError,
    CrawlfleetError,
    Need,
    Problem,
    Settings,
    StoreUnavailableError,
    names,
)
from tests.kit.mongo import (
    LONGEST_SECONDS,
    REFUSALS,
    RENEWAL_SECONDS,
    MongoNodes,
    Pace,
    Waits,
    border,
)
from tests.steady import SteadyClock
from tests.waiting import eventually


@pytest.fixture(scope="module")
def asking() -> Iterator[str]:
    with asking_mongod() as address:
        yield address


@pytest.fixture(scope="module")
def administrator(asking: str) -> Iterator[Any]:
    with pymongo.MongoClient(asking.format(user=ADMIN)) as client:
        yield client.admin


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Yield the port of a server that accepts connections and sends nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.fixture
def user(administrator: Any) -> str:
    name = f"user-{uuid4().hex[:8]}"
    administrator.command("createUser", name, pwd="old", roles=RIGHTS)
    return name


def test_a_user_who_is_dropped_for_another_is_followed_from_open_connections(
    asking: str, administrator: Any, user: str
) -> None:
    secret = Secret(asking, user, "old")
    with in_use(secret) as nodes:
        administrator.command("createUser", f"{user}-next", pwd="new", roles=RIGHTS)
        secret.put(f"{user}-next", "new")
        administrator.command("dropUser", user)

        assert outcomes(nodes) == ["refused", "done"]
        assert outcomes(nodes, 3) == ["done"] * 3

    assert secret.reads == 2


@pytest.mark.long
def test_a_changed_password_is_read_again_when_a_new_connection_is_refused(
    asking: str, administrator: Any, user: str
) -> None:
    secret = Secret(asking, user, "old")
    with in_use(secret) as nodes, ThreadPoolExecutor(6) as executor:
        administrator.command("updateUser", user, pwd="new")
        secret.put(user, "new")

        # At the same time, so that more connections are needed than stand.
        for _ in range(3):
            list(executor.map(lambda _: outcomes(nodes, 2), range(6)))

        assert outcomes(nodes, 3) == ["done"] * 3
        assert 1 <= secret.reads <= 2


def test_a_user_who_is_made_anew_with_the_same_password_is_connected_anew(
    asking: str, administrator: Any, user: str
) -> None:
    secret = Secret(asking, user, "old")
    with in_use(secret) as nodes:
        administrator.command("dropUser", user)
        administrator.command("createUser", user, pwd="old", roles=RIGHTS)

        assert outcomes(nodes) == ["refused", "done"]


@pytest.mark.long
def test_a_secret_that_stays_wrong_is_refused_quickly_and_read_rarely(
    asking: str, administrator: Any, user: str
) -> None:
    secret = Secret(asking, user, "old")
    with in_use(secret) as nodes:
        administrator.command("updateUser", user, pwd="new")
        administrator.command("dropUser", user)
        began = monotonic()

        assert outcomes(nodes, 40) == ["refused"] * 40

        took = monotonic() - began
        assert took < 60  # and not three seconds each, looking for a server: that were 120
        rereads = 1 + took // RENEWAL_SECONDS
        assert 2 <= secret.reads <= 1 + rereads

        administrator.command("createUser", user, pwd="new", roles=RIGHTS)
        secret.put(user, "new")
        eventually(
            lambda: outcomes(nodes, 1) == ["done"], 3 * LONGEST_SECONDS, "it was not read again"
        )
        assert secret.reads <= 3 + rereads


@pytest.mark.long
def test_many_threads_that_are_refused_at_once_read_it_once(
    asking: str, administrator: Any, user: str
) -> None:
    secret = Secret(asking, user, "old")
    with in_use(secret) as nodes, ThreadPoolExecutor(12) as executor:
        administrator.command("dropUser", user)
        began = monotonic()

        found = [
            one for some in executor.map(lambda _: outcomes(nodes, 5), range(12)) for one in some
        ]

    assert set(found) == {"refused"}
    assert 2 <= secret.reads <= 2 + (monotonic() - began) // RENEWAL_SECONDS


@pytest.mark.parametrize(
    "failure",
    [
        StoreUnavailableError("secretsmanager", "away"),
        ConfigError((Problem("secret", "there is no such secret"),)),
    ],
)
def test_while_the_secret_cannot_be_read_the_node_says_why_it_refuses(
    asking: str, administrator: Any, user: str, failure: CrawlfleetError
) -> None:
    secret = Secret(asking, user, "old")
    with in_use(secret) as nodes:
        secret.failure = failure
        administrator.command("dropUser", user)

        for _ in range(3):
            with pytest.raises(StoreUnavailableError, match="mongodb: OperationFailure"):
                work(nodes)

        assert secret.reads == 2


def test_a_secret_that_is_no_address_any_more_leaves_the_client_as_it_is(
    asking: str, administrator: Any, user: str
) -> None:
    secret = Secret(asking, user, "old")
    with in_use(secret) as nodes:
        secret.uri = "mongodb://:nonsense:"
        administrator.command("dropUser", user)

        assert outcomes(nodes, 4) == ["refused"] * 4
        assert secret.reads == 2


def test_a_right_that_is_missing_reads_no_secret(
    asking: str, administrator: Any, user: str
) -> None:
    secret = Secret(asking, user, "old")
    with in_use(secret) as nodes:
        administrator.command("revokeRolesFromUser", user, roles=RIGHTS)
        before = nodes.client("home")

        assert outcomes(nodes, 5) == ["refused"] * 5

        assert secret.reads == 1
        assert nodes.client("home") is before


def test_a_node_that_refuses_nobody_is_left_alone_when_another_one_does(
    asking: str, administrator: Any, user: str, mongo_uri: str
) -> None:
    secret = Secret(asking, user, "old")
    reads: list[str] = []

    def uri_of(node: str) -> str:
        reads.append(node)
        return secret.read(node) if node == "home" else mongo_uri

    nodes = MongoNodes(uri_of, lambda: "home")
    try:
        work(nodes)
        other = nodes.collection("other", "t", "d", "c")
        other.find_one()
        standing = nodes.client("other")
        administrator.command("dropUser", user)

        assert outcomes(nodes, 3) == ["refused"] * 3
        nodes.collection("other", "t", "d", "c").find_one()

        assert nodes.client("other") is standing
        assert reads == ["home", "other", "home"]
    finally:
        nodes.close()


def test_who_reads_the_secret_in_time_moves_without_being_refused(
    asking: str, administrator: Any, user: str
) -> None:
    secret = Secret(asking, user, "old")
    begun, go_on = Event(), Event()
    waits = Waits(read_again=0.2)
    with in_use(secret, waits) as nodes, ThreadPoolExecutor(1) as executor:
        before = nodes.client("home")
        slow = executor.submit(settle, before, user, begun, go_on)
        assert begun.wait(60)
        administrator.command("createUser", f"{user}-next", pwd="new", roles=RIGHTS)
        secret.put(f"{user}-next", "new")

        eventually(lambda: nodes.client("home") is not before, what="it stays with the old user")
        go_on.set()
        slow.result(60)
        administrator.command("dropUser", user)

        assert outcomes(nodes, 5) == ["done"] * 5
        assert settled(nodes.client("home"), user) == [1, 1]


def test_a_secret_that_stays_the_same_keeps_the_client_and_one_that_cannot_be_read_too(
    asking: str, user: str
) -> None:
    secret = Secret(asking, user, "old")
    with in_use(secret, Waits(read_again=0.01)) as nodes:
        before = nodes.client("home")
        for failure in (None, StoreUnavailableError("secrets", "away")):
            secret.failure = failure
            wanted = secret.reads + 1
            while secret.reads < wanted:
                assert outcomes(nodes, 1) == ["done"]
            assert nodes.client("home") is before


def test_a_node_that_has_moved_is_followed_once_its_old_address_is_dead(
    asking: str, user: str
) -> None:
    secret = Secret(asking, user, "old")
    there, secret.uri = secret.uri, f"mongodb://127.0.0.1:{free_port()}/?directConnection=true"
    waits = Waits(read_again_away=0.1, selection=0.5)
    nodes = MongoNodes(secret.read, lambda: "home", waits=waits)
    try:
        assert outcomes(nodes, 1) == ["refused"]
        secret.uri = there
        eventually(lambda: outcomes(nodes, 1) == ["done"], what="the old address is kept")
    finally:
        nodes.close()


@pytest.mark.long
def test_a_transaction_whose_password_changes_is_done_or_undone_and_locks_nothing_for_long(
    asking: str, administrator: Any, user: str
) -> None:
    secret = Secret(asking, user, "old")
    begun, go_on = Event(), Event()
    with in_use(secret) as nodes, ThreadPoolExecutor(1) as executor:
        before = nodes.client("home")
        slow = executor.submit(settle, before, user, begun, go_on)
        assert begun.wait(60)
        administrator.command("updateUser", user, pwd="new")
        secret.put(user, "new")
        # What is open goes on; it is the next connection that is refused.
        with ThreadPoolExecutor(8) as others:
            for _ in range(20):
                list(others.map(lambda _: outcomes(nodes, 1), range(8)))
                if nodes.client("home") is not before:
                    break
        assert nodes.client("home") is not before
        go_on.set()

        # It is refused in its middle, or not: nothing of it is left half done, or locked for long.
        added = 1 if slow.exception(60) is None else 0

        def is_free() -> bool:
            try:
                settle(nodes.client("home"), user)
            except StoreUnavailableError:
                return False
            return True

        # The server's own limit is a minute, and it looks every half of one.
        eventually(is_free, 120, "what the transaction has touched is locked")
        assert settled(nodes.client("home"), user) == [1 + added] * 2


def test_users_of_a_node_that_says_nothing_do_not_wait_in_a_line(silent_port: int) -> None:
    uri = f"mongodb://u:p@127.0.0.1:{silent_port}/?directConnection=true"
    nodes = MongoNodes(lambda _: uri, lambda: "home")

    clock = SteadyClock()

    def waited(began: float) -> float:
        nodes.client("home")
        return clock() - began

    try:
        nodes.client("home")
        REFUSALS.note(OperationFailure("of another node", 13))
        with clock, ThreadPoolExecutor(8) as executor:
            found = list(executor.map(waited, [clock()] * 8))
            # One asks, for two seconds; in a line the last would wait for sixteen.
            assert sorted(found)[6] < 1.9
            assert max(found) < 8

            REFUSALS.note(OperationFailure("of another node", 13))
            assert waited(clock()) < 1.9
    finally:
        nodes.close()


@pytest.mark.long
def test_what_is_under_way_with_the_old_client_is_let_end(
    asking: str, administrator: Any, user: str
) -> None:
    secret = Secret(asking, user, "old")
    with in_use(secret) as nodes, ThreadPoolExecutor(1) as executor:
        before = nodes.client("home")
        things = before["cf_rotation"][user]
        things.insert_one({"n": 1})
        slow = executor.submit(lambda: list(things.find({"$where": "sleep(10000); return true"})))
        eventually(
            lambda: administrator.command("currentOp", {"command.find": user})["inprog"],
            what="the slow look did not begin",
        )
        administrator.command("createUser", f"{user}-next", pwd="new", roles=RIGHTS)
        secret.put(f"{user}-next", "new")
        administrator.command("dropUser", user)

        assert outcomes(nodes) == ["refused", "done"]

        assert nodes.client("home") is not before
        kept = nodes.collection("home", "t", "d", "c")
        assert kept.database.client is nodes.client("home")
        assert not slow.done()
        assert [one["n"] for one in slow.result(60)] == [1]


def test_a_function_reads_its_secret_again_from_the_secret_store(
    asking: str, administrator: Any, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.setenv(name, "eu-central-1")
    monkeypatch.setenv(names.ENV_STAGE, "test")
    monkeypatch.setenv(names.ENV_NODE_SECRET, names.node_secret("test", "{node}"))
    with mock_aws():
        store, secret = boto3.client("secretsmanager"), names.node_secret("test", "main")
        store.create_secret(Name=secret, SecretString=asking.format(user=f"{user}:old@"))
        parts = Parts(Settings.from_environment(needs=(Need.NODES,)), "router")
        try:
            parts.nodes.collection("main", "t", "d", "c").find_one()
            administrator.command("createUser", f"{user}-next", pwd="new", roles=RIGHTS)
            store.put_secret_value(
                SecretId=secret, SecretString=asking.format(user=f"{user}-next:new@")
            )
            administrator.command("dropUser", user)
            with pytest.raises(StoreUnavailableError), border():
                parts.nodes.collection("main", "t", "d", "c").find_one()

            parts.nodes.collection("main", "t", "d", "c").find_one()
        finally:
            parts.nodes.close()


def test_pauses_grow_while_the_same_secret_is_refused():
    pace, now = Pace(), 100.0
    waits = []
    for _ in range(6):
        assert pace.is_due(now)
        pace.read(now, changed=False)
        waits.append(next(s for s in range(1, 200) if pace.is_due(now + s)))
        now += waits[-1]

    assert waits == [RENEWAL_SECONDS, 10, 20, 40, LONGEST_SECONDS, LONGEST_SECONDS]
    pace.read(now, changed=True)
    assert not pace.is_due(now + RENEWAL_SECONDS - 1)
    assert pace.is_due(now + RENEWAL_SECONDS)
