"""Tests that a failed insertion leaves no requests behind, except those of known ids."""

import pytest

from tests.contract.store_cases import Fleet, a_biz, a_generation, a_request, snowflakes
from tests.kit.kernel import StoreUnavailableError
from tests.kit.mongo import (
    MongoInsertion,
    MongoRequestStore,
    ShardInsertion,
    Shards,
    UnstorableError,
)
from tests.kit.mongo_nodes import nodes_at
from tests.kit.requests import State


class UnconfirmedLeases(ShardInsertion):
    """An insertion that succeeds and whose answer is lost."""

    def insert(self, requests):
        super().insert(requests)
        raise StoreUnavailableError("mongodb", "the answer is lost")


@pytest.mark.parametrize("number", [1, 12, 400])
def test_of_kept_ids_nothing_is_taken_back_and_who_comes_again_finds_them(
    mongo_uri: str, tenant: str, number: int
) -> None:
    with nodes_at(mongo_uri) as nodes:
        fleet = Fleet(MongoRequestStore(nodes), tenant)
        known, other = (
            [a_request(fleet.queue_key, i) for i in snowflakes(number, worker=w)] for w in (1, 2)
        )
        kept = frozenset(request.id for request in known)
        losing = MongoInsertion(Shards(nodes), UnconfirmedLeases)
        failed = losing.insert(fleet.queue_key, fleet.biz, [*known, *other], kept)

        left = {t.request.id for t in fleet.find()}
        again = fleet.store.insert(fleet.queue_key, fleet.biz, known, kept)

    assert set(failed.refused) == {request.id for request in [*known, *other]}
    assert left == kept
    assert again.existing == kept
    assert again.refused == {}


def test_what_two_insert_at_once_under_known_ids_is_there_when_either_has_its_answer(
    mongo_uri: str, tenant: str
) -> None:
    """The second finds what the first has written; then the first fails."""
    answers = []

    class Met(UnconfirmedLeases):
        def insert(self, requests):
            try:
                super().insert(requests)
            finally:
                answers.append(fleet.store.insert(fleet.queue_key, fleet.biz, requests, kept))

    with nodes_at(mongo_uri) as nodes:
        one = a_generation(nodes=("east",), databases=("one",), shards=1)
        fleet = Fleet(MongoRequestStore(nodes), tenant, a_biz(generations=(one,)))
        requests = [a_request(fleet.queue_key, i) for i in snowflakes(40)]
        kept = frozenset(request.id for request in requests)
        MongoInsertion(Shards(nodes), Met).insert(fleet.queue_key, fleet.biz, requests, kept)

        assert {i for answer in answers for i in answer.existing} == kept
        assert {t.request.id for t in fleet.find(state=State.PENDING)} == kept


def test_what_is_stored_one_by_one_stands_where_the_node_goes_away_in_between(
    mongo_uri: str, tenant: str
) -> None:
    """Refused, though stored, they would be submitted again and stored twice."""
    calls = []

    class GoingAway(ShardInsertion):
        def insert(self, requests):
            calls.append(requests)
            if len(requests) > 1:
                raise UnstorableError("one of them cannot be held")
            if len(calls) > 4:
                raise StoreUnavailableError("mongodb", "away")
            return super().insert(requests)

    with nodes_at(mongo_uri) as nodes:
        one = a_generation(nodes=("east",), databases=("one",), shards=1)
        fleet = Fleet(MongoRequestStore(nodes), tenant, a_biz(generations=(one,)))
        requests = [a_request(fleet.queue_key, i) for i in snowflakes(6)]
        failed = MongoInsertion(Shards(nodes), GoingAway).insert(
            fleet.queue_key, fleet.biz, requests
        )

        left = {t.request.id for t in fleet.find()}

    assert set(failed.refused) == {request.id for request in requests} - left
    assert len(left) == 3
