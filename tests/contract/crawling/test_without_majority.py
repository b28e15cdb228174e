"""Requests, seeds and visits that a node has, and may lose again with its next election.

A seed that is there already is answered as such, a majority or not; whoever believed it would tell
the filter of a seed that is gone a moment later, and the page would be nobody's.
"""

from collections.abc import Iterator

import pytest
from pymongo.monitoring import CommandListener

from infra.local.mongo_server import MongoServer
from tests.contract.requests.test_ledgers_busy import no_majority
from tests.contract.seed_cases import Bed, seeds_of
from tests.contract.store_cases import (
    NOW,
    Fleet,
    a_biz,
    a_generation,
    a_request,
    done_with,
    snowflakes,
)
from tests.contract.visit_cases import BIZ, HOUR, a_visit
from tests.kit.frontier import MongoSeeds
from tests.kit.kernel import QueueKey, StoreUnavailableError
from tests.kit.mongo import MongoRequestStore
from tests.kit.mongo_nodes import nodes_at
from tests.kit.recrawl import MongoVisits

ONE = a_generation(nodes=("east",), databases=("one",), shards=1)


@pytest.fixture(scope="module")
def own_uri() -> Iterator[str]:
    """A server that can be told to say that it has no majority."""
    with MongoServer(parameters={"enableTestCommands": 1}, cache_gb=0.25, volatile=True) as server:
        yield server.uri


def test_a_seed_is_neither_new_nor_known_without_a_majority(
    own_uri: str, queue_key: QueueKey
) -> None:
    with nodes_at(own_uri) as nodes:
        bed = Bed(MongoSeeds(nodes), queue_key, generations=(ONE,))
        old, new = seeds_of(1, 2)
        assert bed.insert(old) == set()

        with no_majority(own_uri, "insert"):
            for seeds in ([old], [new], [old, new]):
                with pytest.raises(StoreUnavailableError):
                    bed.insert(*seeds)

        assert bed.insert(old, new) == {old.key, new.key}


def test_a_visit_is_not_kept_without_a_majority(own_uri: str, queue_key: QueueKey) -> None:
    with nodes_at(own_uri) as nodes:
        visits = MongoVisits(nodes)
        later = a_visit(1)
        visits.saw(queue_key, BIZ, [later])

        with no_majority(own_uri, "update"):
            for visit in (a_visit(2), a_visit(1, visited_at=later.visited_at - HOUR)):
                with pytest.raises(StoreUnavailableError):
                    visits.saw(queue_key, BIZ, [visit])

        assert visits.known(queue_key, BIZ, [later.key]) == {later.key: later}


class Acknowledged(CommandListener):
    """Record the write concern of each kind of write; of a transaction, that of its commit."""

    def __init__(self) -> None:
        self.by: dict[str, set[object]] = {}

    def started(self, event) -> None:
        writes = {"insert", "update", "delete", "findAndModify", "commitTransaction"}
        if event.command_name == "commitTransaction" or (
            event.command_name in writes and event.command.get("autocommit", True)
        ):
            concern = event.command.get("writeConcern", {})
            self.by.setdefault(event.command_name, set()).add(concern.get("w"))

    def succeeded(self, event) -> None:
        """Ignore the event; ``started`` has recorded the command."""

    def failed(self, event) -> None:
        """Ignore the event; ``started`` has recorded the command."""


def test_what_becomes_of_requests_is_acknowledged_by_a_majority(
    mongo_uri: str, tenant: str
) -> None:
    acknowledged = Acknowledged()
    with nodes_at(mongo_uri, acknowledged) as nodes:
        fleet = Fleet(MongoRequestStore(nodes), tenant, a_biz(generations=(ONE,)))
        requests = fleet.submit(40)
        fleet.insert([a_request(fleet.queue_key, i) for i in snowflakes(2, worker=8)])
        claims = fleet.claim(requests)
        fleet.release(claims[:1])
        fleet.settle([done_with(claim, {"n": 1}) for claim in claims[1:]])

    assert acknowledged.by == {
        kind: {"majority"} for kind in ("insert", "update", "commitTransaction")
    }


@pytest.mark.parametrize("number", [1, 3, 40])
def test_of_requests_that_come_again_without_a_majority_those_stay_that_were_there(
    own_uri: str, tenant: str, number: int
) -> None:
    with nodes_at(own_uri) as nodes:
        fleet = Fleet(MongoRequestStore(nodes), tenant, a_biz(generations=(ONE,)))
        stood = fleet.submit(number)
        new = [a_request(fleet.queue_key, i) for i in snowflakes(number, worker=8)]

        with no_majority(own_uri, "insert"):
            failed = fleet.insert([*stood, *new])

        assert set(failed.refused) == {request.id for request in [*stood, *new]}
        assert {t.request.id for t in fleet.find()} == {request.id for request in stood}
        assert fleet.audit(NOW).pending == number
