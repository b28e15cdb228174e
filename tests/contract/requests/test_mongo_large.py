"""Outcomes that are too much for one transaction: each is stored all the same."""

from tests.contract.store_cases import Fleet, a_biz, a_generation, done_with
from tests.kit.mongo import MongoRequestStore
from tests.kit.mongo_nodes import nodes_at
from tests.kit.requests import State

ONE_SHARD = a_generation(nodes=("east",), databases=("one",), shards=1)
#: As much as a page may give. Four such pages are more than a small server takes at once.
ROWS = [{"text": "x" * 480} for _ in range(9_000)]


def test_outcomes_that_are_too_large_together_are_settled_apart(mongo_uri, tenant):
    with nodes_at(mongo_uri) as nodes:
        fleet = Fleet(MongoRequestStore(nodes), tenant, a_biz(generations=(ONE_SHARD,)))
        claims = fleet.claim(fleet.submit(5))

        lost = fleet.settle([done_with(claim, *ROWS) for claim in claims])

        assert lost == set()
        assert fleet.totals() == ({State.DONE: 5}, 5 * len(ROWS))
