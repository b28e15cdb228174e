"""Tests that the databases of a chaos run are dropped, whatever state MongoDB is in."""

from typing import Any

import pymongo

from benchmarks.chaos.house import World, tree_of
from benchmarks.chaos.truth import Truth
from infra.local.mongo_server import MongoServer
from tests.kit.config import FleetLimits
from tests.kit.mongo import database_name


def test_databases_of_a_run_are_dropped_though_the_first_answer_is_an_error(tenant: str) -> None:
    with (
        MongoServer(parameters={"enableTestCommands": 1}, cache_gb=0.25, own=True) as server,
        pymongo.MongoClient[dict[str, Any]](server.uri) as client,
    ):
        world = World(redis="unused", mongo=server.uri, tree=tree_of(tenant, FleetLimits()))
        names = {database_name(tenant, database) for database in ("one", "two")}
        for name in names:
            client[name].things.insert_one({})
        client.admin.command(
            "configureFailPoint",
            "failCommand",
            mode={"times": 1},
            data={
                "failCommands": ["dropDatabase"],
                # Not 11602, as in elections: the driver then waits 10 s for news of the set.
                "writeConcernError": {"code": 64, "errmsg": "waiting for replication timed out"},
            },
        )

        with Truth(world) as truth:
            truth.drop()

        assert not names & set(client.list_database_names())
