"""Seeds and visits that a node has, and may lose again with its next election.

What is there already is answered as such, a majority or not; whoever believed it would tell the
filter of a seed that is gone a moment later, and the page would be nobody's.
"""

from collections.abc import Iterator

import pytest

from infra.local.mongo_server import MongoServer
from tests.contract.seed_cases import Bed, seeds_of
from tests.contract.store_cases import a_generation
from tests.contract.test_ledgers_busy import no_majority
from tests.contract.test_visits import BIZ, HOUR, a_visit
from tests.kit.frontier import MongoSeeds
from tests.kit.kernel import Lane, StoreUnavailableError
from tests.kit.mongo_nodes import nodes_at
from tests.kit.recrawl import MongoVisits

ONE = a_generation(nodes=("east",), databases=("one",), shards=1)


@pytest.fixture(scope="module")
def own_uri() -> Iterator[str]:
    """A server that can be told to say that it has no majority."""
    with MongoServer(parameters={"enableTestCommands": 1}, cache_gb=0.25, volatile=True) as server:
        yield server.uri


def test_a_seed_is_neither_new_nor_known_without_a_majority(own_uri: str, lane: Lane) -> None:
    with nodes_at(own_uri) as nodes:
        bed = Bed(MongoSeeds(nodes), lane, generations=(ONE,))
        old, new = seeds_of(1, 2)
        assert bed.insert(old) == set()

        with no_majority(own_uri, "insert"):
            for seeds in ([old], [new], [old, new]):
                with pytest.raises(StoreUnavailableError):
                    bed.insert(*seeds)

        assert bed.insert(old, new) == {old.key, new.key}


def test_a_visit_is_not_kept_without_a_majority(own_uri: str, lane: Lane) -> None:
    with nodes_at(own_uri) as nodes:
        visits = MongoVisits(nodes)
        later = a_visit(1)
        visits.saw(lane, BIZ, [later])

        with no_majority(own_uri, "update"):
            for visit in (a_visit(2), a_visit(1, visited_at=later.visited_at - HOUR)):
                with pytest.raises(StoreUnavailableError):
                    visits.saw(lane, BIZ, [visit])

        assert visits.known(lane, BIZ, [later.key]) == {later.key: later}
