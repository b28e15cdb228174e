"""Tests that unreadable documents in MongoDB stop no work on the readable ones."""

import pymongo
import pytest

from tests.contract.store_cases import NOW, Fleet, a_biz, a_generation, done_with
from tests.kit.dead_letters import DeadLetterFilter, MongoDeadLetters
from tests.kit.mongo import MongoRequestStore
from tests.kit.mongo_nodes import nodes_at
from tests.kit.requests import State

ONE_SHARD = a_generation(nodes=("east",), databases=("one",), shards=1)


@pytest.fixture
def fleet(mongo_uri, tenant):
    with nodes_at(mongo_uri) as nodes:
        yield Fleet(MongoRequestStore(nodes), tenant, a_biz(generations=(ONE_SHARD,)))


@pytest.fixture(params=[b"", b"\xff\x00", b"\x81\xa3url\x01"], ids=["none", "noise", "a number"])
def spoilt(request, fleet, mongo_uri, tenant):
    """Three requests, of which the second one's body cannot be read."""
    requests = fleet.submit(3)
    with pymongo.MongoClient(mongo_uri) as client:
        [name] = [n for n in client.list_database_names() if n.startswith(f"cf_{tenant}")]
        [collection] = [c for c in client[name].list_collection_names() if c.endswith("_000")]
        client[name][collection].update_one(
            {"_id": requests[1].id}, {"$set": {"data": request.param}}
        )
    return requests


def test_a_claim_dead_letters_the_request_whose_body_cannot_be_read(fleet, spoilt):
    claims = fleet.claim(spoilt)

    assert [claim.request.id for claim in claims] == [spoilt[0].id, spoilt[2].id]
    assert fleet.settle([done_with(claim) for claim in claims]) == set()
    assert fleet.totals() == ({State.DONE: 2, State.DEAD: 1}, 0)


def test_a_request_whose_body_cannot_be_read_is_listed_with_its_reason(fleet, spoilt):
    fleet.claim(spoilt)

    [dead] = fleet.find(state=State.DEAD)

    assert dead == fleet.get(spoilt[1])
    assert dead.error == "the stored body cannot be read"
    assert [event.state for event in dead.timeline][-1] == State.DEAD
    assert len(fleet.find()) == 3


def test_a_dead_letter_that_cannot_be_read_is_found_replayed_and_removed(fleet, spoilt):
    dead_letters = MongoDeadLetters(fleet.store.nodes)
    fleet.claim(spoilt)

    [dead_letter] = dead_letters.find(
        fleet.queue_key,
        fleet.biz,
        DeadLetterFilter(reason="Unreadable"),
        after=None,
        limit=9,
        now=NOW,
    ).dead_letters
    ids = [dead_letter.request.id]
    entries = dead_letters.replay(fleet.queue_key, fleet.biz, ids, {"detail": "v2"}, "me", NOW)

    assert [entry.id for entry in entries] == [spoilt[1].id]
    assert fleet.get(spoilt[1]).timeline[-1].why == "replayed"
    assert fleet.claim([spoilt[1]], "again") == []  # nobody can read it this time either
    assert dead_letters.purge(fleet.queue_key, fleet.biz, ids, "me", NOW) == 1
    assert fleet.audit().dead == 1
