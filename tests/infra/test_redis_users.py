"""Redis users of Scrapy processes: the user group of ElastiCache, for stages that name tenants."""

import dataclasses
import json
from collections.abc import Callable

import pytest

from infra.redis_users import rules_of_tenant
from infra.stages import AWS_LARGE, AWS_SMALL, ElastiCache, Engine, Stage, StageError
from tests.infra.assembly import Assembly

Compose = Callable[[Stage], Assembly]
GROUP = "AWS::ElastiCache::ReplicationGroup"


def with_tenants(*tenants: str, **changes: object) -> Stage:
    assert isinstance(AWS_LARGE.redis, ElastiCache)
    redis = dataclasses.replace(AWS_LARGE.redis, scrapy_tenants=tenants, **changes)
    return dataclasses.replace(AWS_LARGE, redis=redis)


@pytest.mark.parametrize("engine", Engine)
def test_each_tenant_has_a_user_that_sees_its_keys_alone(composed: Compose, engine: Engine):
    made = composed(with_tenants("acme", "bolt", engine=engine))

    [group] = made.resources("state", GROUP).values()
    users = made.resources("state", "AWS::ElastiCache::User")
    of = {one["Properties"]["UserName"]: one["Properties"] for one in users.values()}
    assert "AuthToken" not in group["Properties"]
    [user_group] = made.resources("state", "AWS::ElastiCache::UserGroup").items()
    assert group["Properties"]["UserGroupIds"] == [{"Ref": user_group[0]}]
    assert {one["Ref"] for one in user_group[1]["Properties"]["UserIds"]} == set(users)
    assert set(of) == {"default", "scrapy-acme", "scrapy-bolt"}
    assert of["scrapy-acme"]["AccessString"] == f"on {rules_of_tenant('acme')}"
    assert "bolt" not in of["scrapy-acme"]["AccessString"]
    assert {one["Engine"] for one in of.values()} == {engine.value}


def test_functions_connect_as_before_with_the_token(composed: Compose):
    made = composed(with_tenants("acme"))

    users = made.resources("state", "AWS::ElastiCache::User").values()
    passwords = {
        one["Properties"]["UserName"]: json.dumps(one["Properties"]["Passwords"]) for one in users
    }
    assert "RedisToken" in passwords["default"]
    assert "RedisToken" not in passwords["scrapy-acme"]
    assert "{{resolve:secretsmanager:" in passwords["scrapy-acme"]
    names = {
        one["Properties"]["Name"]
        for one in made.resources("state", "AWS::SecretsManager::Secret").values()
    }
    assert "crawlfleet/aws-large/redis-scrapy-acme" in names


def test_a_stage_that_names_no_tenant_keeps_the_token_alone(composed: Compose):
    made = composed(AWS_SMALL if isinstance(AWS_SMALL.redis, ElastiCache) else AWS_LARGE)

    [group] = made.resources("state", GROUP).values()
    assert "UserGroupIds" not in group["Properties"]
    assert not made.resources("state", "AWS::ElastiCache::User")


@pytest.mark.parametrize("tenants", [("cf",), ("Acme",), ("acme", "acme"), ("a*",)])
def test_a_tenant_that_can_have_no_user_of_its_own_is_refused(tenants: tuple[str, ...]):
    with pytest.raises(StageError, match=r"redis\.scrapy_tenants"):
        with_tenants(*tenants)
