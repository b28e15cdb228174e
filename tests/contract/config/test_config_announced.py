"""The revision that environments announce to each other in Redis: what it spares and may do."""

import boto3
import pytest

from tests.config_documents import biz, texts
from tests.contract.ssm_cases import Clock, CountedSsm, push
from tests.kit.config import (
    LOOK_SECONDS,
    MAX_PAUSE_SECONDS,
    OWN_LOOK_SECONDS,
    POLL_SECONDS,
    RedisRevisions,
    SsmConfig,
)
from tests.kit.kernel import StoreUnavailableError
from tests.kit.queue import fleet_keys
from tests.kit.redis import RedisConnection


@pytest.fixture
def ssm(aws):
    return CountedSsm(boto3.client("ssm"))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def revisions(redis_connection, tenant):
    return RedisRevisions(redis_connection, fleet=tenant)


@pytest.fixture
def keys(tenant):
    return fleet_keys(tenant)


def environment(ssm, clock, revisions):
    return SsmConfig(ssm, "test", clock=clock, revisions=lambda: revisions, jitter=lambda: 0.5)


def test_of_many_environments_one_asks_ssm_in_a_turn(ssm, clock, revisions):
    push(ssm, texts())
    each = [environment(ssm, clock, revisions) for _ in range(20)]
    for config in each:
        config.current()
    ssm.calls.clear()

    clock.now += LOOK_SECONDS
    for config in each:
        config.current()

    assert ssm.calls == {"get_parameters": 1}


def test_what_one_has_found_the_others_read_at_their_next_look(ssm, clock, revisions):
    push(ssm, texts())
    each = [environment(ssm, clock, revisions) for _ in range(5)]
    for config in each:
        config.current()
    push(ssm, texts(bizs__default__shop=biz()))
    ssm.calls.clear()

    clock.now += LOOK_SECONDS
    found = [config.current() for config in each]

    assert all("shop" in tree.bizs["default"] for tree in found)
    assert ssm.calls == {"get_parameters": 6}


def test_one_alone_asks_ssm_at_each_look_that_finds_the_turn_free(
    ssm, clock, revisions, redis_connection, keys
):
    push(ssm, texts())
    config = environment(ssm, clock, revisions)
    config.current()
    for number in range(3):
        push(ssm, texts(bizs__default__shop=biz(queue=f"q{number}")))
        clock.now += LOOK_SECONDS
        redis_connection.client.delete(keys.revision_turn)  # its second is over
        assert config.current().bizs["default"]["shop"].queue == f"q{number}"


def test_a_redis_that_is_away_leaves_everybody_to_ask_ssm(ssm, clock):
    nobody = RedisRevisions(RedisConnection("redis://127.0.0.1:1/0", connect_seconds=0.2))
    push(ssm, texts())
    config = environment(ssm, clock, nobody)
    config.current()

    push(ssm, texts(bizs__default__shop=biz()))
    clock.now += LOOK_SECONDS
    assert "shop" in config.current().bizs["default"]
    assert config.failing is None

    push(ssm, texts(bizs__default__shop=biz(queue="new")))
    clock.now += POLL_SECONDS
    assert config.current().bizs["default"]["shop"].queue == "new"


def test_a_redis_that_answers_nonsense_is_one_that_is_away(
    ssm, clock, revisions, redis_connection, keys
):
    push(ssm, texts())
    config = environment(ssm, clock, revisions)
    config.current()
    redis_connection.client.lpush(keys.revision, "no string")

    with pytest.raises(StoreUnavailableError):
        revisions.look()
    push(ssm, texts(bizs__default__shop=biz()))
    clock.now += LOOK_SECONDS

    assert "shop" in config.current().bizs["default"]


def test_a_revision_that_ssm_has_not_changes_nothing_and_is_read_for_less_and_less(
    ssm, clock, revisions
):
    push(ssm, texts(bizs__default__shop=biz()))
    config = environment(ssm, clock, revisions)
    good = config.current()
    revisions.look()  # somebody else has the turn
    ssm.calls.clear()

    for _ in range(40):
        revisions.look("29991231T000000.000Z-" + "f" * 32)
        clock.now += 1
        assert config.current() is good

    assert "has no such revision" in config.failing
    assert ssm.calls.total() <= 40 / (MAX_PAUSE_SECONDS / 2) + 8


def test_an_older_revision_than_the_one_in_force_is_read_by_nobody(ssm, clock, revisions):
    first = push(ssm, texts())
    config = environment(ssm, clock, revisions)
    push(ssm, texts(bizs__default__shop=biz()))
    good = config.current()
    revisions.look(first.revision)
    ssm.calls.clear()

    clock.now += LOOK_SECONDS
    assert config.current() is good

    assert ssm.calls == {}
    assert config.failing is None


def test_who_withholds_announcements_delays_a_push_by_an_own_look(
    ssm, clock, revisions, redis_connection, keys
):
    first = push(ssm, texts())
    config = environment(ssm, clock, revisions)
    config.current()
    push(ssm, texts(bizs__default__shop=biz()))
    redis_connection.client.set(keys.revision, first.revision)
    redis_connection.client.set(keys.revision_turn, "for ever")

    clock.now += OWN_LOOK_SECONDS - 1
    assert config.current().bizs == {}
    clock.now += 1 + LOOK_SECONDS

    assert "shop" in config.current().bizs["default"]


def test_a_restored_older_revision_is_taken_from_ssm_itself(
    ssm, clock, revisions, redis_connection, keys
):
    push(ssm, texts())
    config = environment(ssm, clock, revisions)
    config.current()
    ssm.client.put_parameter(
        Name="/crawlfleet/test/revision",
        Value="20200101T000000.000Z-" + "0" * 32,
        Type="String",
        Overwrite=True,
    )
    redis_connection.client.delete(keys.revision_turn)

    clock.now += LOOK_SECONDS

    assert config.current().revision.startswith("2020")
