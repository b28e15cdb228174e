"""The ledger in MongoDB while others write, and when nodes go away: 0 in every single look."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Thread

import pymongo
import pytest

from infra.local.mongo_server import MongoServer
from tests.contract.requests.test_mongo_faults import again, step_down
from tests.contract.store_cases import (
    MINUTE,
    NOW,
    Fleet,
    a_biz,
    a_generation,
    a_request,
    done_with,
    snowflakes,
)
from tests.kit.kernel import StoreUnavailableError
from tests.kit.mongo import MongoRequestStore
from tests.kit.mongo_nodes import nodes_at
from tests.kit.requests import Dead, Ledger, Retry, State
from tests.waiting import eventually

#: Rounds of each of the workers: some are large, some a single request.
ROUNDS = 6
#: How many requests each submits, and how many of them for the job ``red``.
SIZES = [1 if number % 3 == 0 else 120 for number in range(ROUNDS)]


def work(fleet: Fleet, worker: int) -> None:
    """Insert, insert again, claim, end in every way, let go."""
    for number in range(ROUNDS):
        ids = snowflakes(SIZES[number], worker=worker * ROUNDS + number)
        job = "red" if number % 2 else None
        requests = [a_request(fleet.queue_key, i, job=job) for i in ids]
        fleet.insert(requests)
        fleet.insert(requests[:20])
        claims = fleet.claim(requests[: len(requests) // 2 + 1], f"{worker}.{number}")
        ends = (
            lambda c: done_with(c, {"n": 1}),
            lambda c: (c, Dead("gone")),
            lambda c: (c, Retry(NOW + MINUTE, "slow")),
        )
        outcomes = [ends[n % 3](c) for n, c in enumerate(claims[:-2])]
        fleet.settle(outcomes)
        fleet.release(claims[-2:])
        fleet.cancel(requests[-1])
        if number % 4 == 3:
            fleet.expire(NOW)


def test_every_look_balances_while_many_write(mongo_uri: str, tenant: str) -> None:
    with nodes_at(mongo_uri) as nodes, nodes_at(mongo_uri) as watching:
        fleet = Fleet(MongoRequestStore(nodes), tenant)
        watch = Fleet(MongoRequestStore(watching), tenant)
        looks: list[Ledger] = []
        with ThreadPoolExecutor(4) as executor:
            workers = [executor.submit(work, fleet, worker) for worker in range(4)]
            while not all(worker.done() for worker in workers):
                looks += [watch.audit(), watch.audit(job="red")]
            for worker in workers:
                worker.result()

        whole = watch.audit()
        assert len({look.submitted for look in looks}) > 5  # it looked while they wrote
        assert whole.submitted == 4 * sum(SIZES)
        assert watch.totals()[0][State.PENDING] == whole.pending
        assert watch.audit(job="red").submitted == 4 * sum(SIZES[1::2])


@pytest.fixture(scope="module")
def own_uri() -> Iterator[str]:
    """A replica set whose primary may step down without disturbing other tests."""
    with MongoServer(parameters={"enableTestCommands": 1}, cache_gb=0.25, volatile=True) as server:
        yield server.uri


def test_a_primary_that_steps_down_in_mid_insert_costs_the_ledger_nothing(
    own_uri: str, tenant: str
) -> None:
    one = a_generation(nodes=("east",), databases=("one",), shards=2)
    with nodes_at(own_uri) as nodes:
        fleet = Fleet(MongoRequestStore(nodes), tenant, a_biz(generations=(one,)))
        fleet.submit(1)
        stop = Event()
        accepted: set[int] = set()
        rounds = [0]

        def submit() -> None:
            while not stop.is_set():
                rounds[0] += 1
                ids = snowflakes(1 if rounds[0] % 2 else 200, worker=rounds[0] % 1000 + 8)
                refused = fleet.insert(
                    [a_request(fleet.queue_key, i, job=None) for i in ids]
                ).refused
                accepted.update(i for i in ids if i not in refused)

        submitter = Thread(target=submit)
        submitter.start()
        try:
            for _ in range(3):
                enough = rounds[0] + 10
                eventually(lambda n=enough: rounds[0] >= n, what="it submits")
                step_down(own_uri)
                found = again(fleet.audit)
                assert isinstance(found, Ledger)
        finally:
            stop.set()
            submitter.join()

        whole = again(fleet.audit)
        assert isinstance(whole, Ledger)
        assert whole.submitted == whole.pending >= len(accepted)
        stored = {t.request.id for t in fleet.find(limit=1_000_000)}
        assert accepted <= stored
        assert whole.submitted == len(stored)


@contextmanager
def no_majority(uri: str, *commands: str) -> Iterator[None]:
    """The server does these commands and then says that it does not know whether they last."""
    with pymongo.MongoClient(uri) as client:
        fault = {"code": 64, "errmsg": "waiting for replication timed out"}
        what = {"failCommands": [*commands], "writeConcernError": fault}
        client.admin.command("configureFailPoint", "failCommand", mode="alwaysOn", data=what)
        try:
            yield
        finally:
            client.admin.command("configureFailPoint", "failCommand", mode="off")


def test_what_is_refused_for_want_of_an_answer_leaves_the_ledger_too(
    own_uri: str, tenant: str
) -> None:
    one = a_generation(nodes=("east",), databases=("one",), shards=1)
    with nodes_at(own_uri) as nodes:
        fleet = Fleet(MongoRequestStore(nodes), tenant, a_biz(generations=(one,)))
        fleet.submit(40)
        ids = snowflakes(42, worker=9)
        with no_majority(own_uri, "insert", "commitTransaction"):
            batch = fleet.insert([a_request(fleet.queue_key, i, job="red") for i in ids[:41]])
            single = fleet.insert([a_request(fleet.queue_key, ids[41])])

        assert {*batch.refused, *single.refused} == set(ids)
        errors = [*batch.refused.values(), *single.refused.values()]
        assert all(isinstance(error, StoreUnavailableError) for error in errors)
        assert fleet.audit() == Ledger(submitted=40, pending=40)
        assert fleet.audit(job="red") == Ledger()
        assert len(fleet.find()) == 40


def test_an_audit_counts_what_is_pending_without_reading_it(mongo_uri: str, tenant: str) -> None:
    """Millions may be: of them the server counts keys of an index, and looks at none."""
    biz = a_biz(generations=(a_generation(nodes=("east",), databases=("one",), shards=1),))
    asked: list[dict] = []

    class Listener(pymongo.monitoring.CommandListener):
        def started(self, event):
            if event.command_name == "aggregate":
                asked.append(dict(event.command))

        def succeeded(self, event):
            pass

        def failed(self, event):
            pass

    with nodes_at(mongo_uri, Listener()) as nodes:
        fleet = Fleet(MongoRequestStore(nodes), tenant, biz)
        fleet.insert([a_request(fleet.queue_key, i, job="red") for i in snowflakes(30)])
        for job in (None, "red"):
            asked.clear()

            assert fleet.audit(job=job).pending == 30

            [pending] = [one for one in asked if one["pipeline"][0]["$match"].get("flag") == 0]
            plain = {k: pending[k] for k in ("aggregate", "pipeline", "hint", "cursor")}
            plan = nodes.client("east")[pending["$db"]].command("explain", plain)
            assert "COUNT_SCAN" in str(plan)
