"""Errors end in logs; what a tenant sends along with a request must not end there with them."""

import traceback

import pymongo
import pytest

from tests.contract.store_cases import Fleet, a_biz, a_generation, a_request, snowflakes
from tests.kit.kernel import StoreError
from tests.kit.mongo import MongoRequestStore
from tests.kit.mongo_nodes import nodes_at
from tests.kit.requests import Body

ONE_SHARD = a_generation(nodes=("east",), databases=("one",), shards=1)


@pytest.mark.parametrize("count", [1, 3])
def test_a_refused_insertion_does_not_quote_what_it_was_given(mongo_uri, tenant, count):
    with nodes_at(mongo_uri) as nodes, pymongo.MongoClient(mongo_uri) as client:
        fleet = Fleet(MongoRequestStore(nodes), tenant, a_biz(generations=(ONE_SHARD,)))
        fleet.submit(1)
        [name] = [n for n in client.list_database_names() if n.startswith(f"cf_{tenant}")]
        for collection in client[name].list_collection_names():
            client[name].command("collMod", collection, validator={"never": {"$exists": True}})
        secret = Body(
            url="https://site.example/",
            rule="detail",
            rule_version="v1",
            headers={"Authorization": "Bearer a-secret"},
        )
        ids = snowflakes(count, worker=9)

        refused = fleet.insert(
            [a_request(fleet.queue_key, an_id, body=secret) for an_id in ids]
        ).refused

    assert set(refused) == set(ids)
    for error in refused.values():
        assert isinstance(error, StoreError)
        assert "a-secret" not in "".join(traceback.format_exception(error))
