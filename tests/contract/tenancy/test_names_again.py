"""A tenant of a removed one's name: what a process knew of the collections does not mislead it."""

from tests.contract.store_cases import NOW, a_biz
from tests.kit.config import Field, Rule
from tests.kit.kernel import SURE_SECONDS, Recent
from tests.kit.mongo import BY_STATE, MongoRules, Shards
from tests.kit.requests import live_shards

RULE = Rule(fields={"title": Field(css="h1")})


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_collections_that_went_have_their_indexes_again(mongo_connection, queue_key):
    clock, biz, shards = Clock(), a_biz(), Shards(mongo_connection)
    shards._sure = Recent(clock=clock)
    [shard, *_] = live_shards(biz, NOW)
    kept = shards.requests(queue_key, biz, shard, made_sure=True)
    kept.drop()

    clock.now += SURE_SECONDS
    again = shards.requests(queue_key, biz, shard, made_sure=True)

    assert BY_STATE in again.index_information()
    again.drop()


def test_a_version_of_a_rule_that_went_is_kept_again(mongo_connection, queue_key):
    clock, rules = Clock(), MongoRules(mongo_connection)
    rules._kept = Recent(clock=clock)
    rules.keep_version(queue_key, "page", RULE)
    mongo_connection.control("rules").delete_many({})

    clock.now += SURE_SECONDS
    rules.keep_version(queue_key, "page", RULE)

    assert MongoRules(mongo_connection).get_version(queue_key, "page", RULE.version) == RULE
