"""Tests that the databases of a chaos run are dropped, whatever state MongoDB is in."""

from typing import Any

import pymongo

from benchmarks.chaos.house import World, tree_of
from benchmarks.chaos.scrapy_crawl import ScrapyCrawl
from benchmarks.chaos.stored import StoredRequests
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

        with StoredRequests(world) as stored:
            stored.drop()

        assert not names & set(client.list_database_names())


def test_items_of_the_scrapy_crawl_that_are_no_records_are_found():
    crawl = ScrapyCrawl(None, "http://site.test", 3, None)

    assert crawl.missing(lambda: iter(["scrapy 1"])) == ["scrapy 0", "scrapy 2"]
    assert crawl.missing(lambda: iter(["scrapy 0", "scrapy 1", "scrapy 2"])) == []
