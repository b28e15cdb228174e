"""The stores that settings choose between: Redis made or given, a cluster, MongoDB Atlas."""

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from infra.stages import (
    AWS_LARGE,
    AWS_SMALL,
    Atlas,
    ElastiCache,
    Engine,
    GivenRedis,
    Stage,
)
from tests.infra.assembly import Assembly
from tests.kit.kernel import names

Compose = Callable[[Stage], Assembly]

CACHE = AWS_LARGE.redis
ATLAS = Atlas(org_id="5f0000000000000000000000", region="EU_WEST_1")
GROUP = "AWS::ElastiCache::ReplicationGroup"


def cached(**changes: Any) -> Stage:
    assert isinstance(CACHE, ElastiCache)
    return dataclasses.replace(AWS_LARGE, redis=dataclasses.replace(CACHE, **changes))


def addresses(made: Assembly) -> list[str]:
    """Return the Redis URLs given to the functions, each as the text of its template."""
    return [
        json.dumps(variables[names.ENV_REDIS_URL])
        for function in made.resources("compute", "AWS::Lambda::Function").values()
        if names.ENV_REDIS_URL in (variables := function["Properties"]["Environment"]["Variables"])
    ]


def test_cluster_mode_spreads_the_keys_over_the_stages_number_of_primaries(composed: Compose):
    made = composed(cached(cluster_shards=3, replicas=1))

    [group] = made.resources("state", GROUP).values()
    properties = group["Properties"]
    assert properties["ClusterMode"] == "enabled"
    assert (properties["NumNodeGroups"], properties["ReplicasPerNodeGroup"]) == (3, 1)
    assert "NumCacheClusters" not in properties
    assert properties["AutomaticFailoverEnabled"] is True
    parameters = made.only("state", "AWS::ElastiCache::ParameterGroup")["Properties"]["Properties"]
    assert (parameters["cluster-enabled"], parameters["maxmemory-policy"]) == ("yes", "noeviction")


def test_functions_are_reported_of_a_cluster_by_its_configuration_endpoint(composed: Compose):
    made = composed(cached(cluster_shards=2))

    outputs = json.dumps(made.template("state")["Outputs"])
    assert "ConfigurationEndPoint.Address" in outputs
    assert "PrimaryEndPoint.Address" not in outputs
    assert all("rediss+cluster://" in address for address in addresses(made))


@pytest.mark.parametrize(
    ("engine", "family"), [(Engine.REDIS, "redis7"), (Engine.VALKEY, "valkey8")]
)
@pytest.mark.parametrize("shards", [None, 2])
def test_either_engine_is_encrypted_asks_for_the_token_and_evicts_nothing(
    composed: Compose, engine: Engine, family: str, shards: int | None
):
    made = composed(cached(engine=engine, cluster_shards=shards))

    [group] = made.resources("state", GROUP).values()
    properties = group["Properties"]
    assert properties["Engine"] == engine.value
    assert properties["AtRestEncryptionEnabled"] is properties["TransitEncryptionEnabled"] is True
    assert "RedisToken" in json.dumps(properties["AuthToken"])
    [parameters] = made.resources("state", "AWS::ElastiCache::ParameterGroup").values()
    assert parameters["Properties"]["CacheParameterGroupFamily"] == family
    assert parameters["Properties"]["Properties"]["maxmemory-policy"] == "noeviction"
    # The engine's version belongs to the family: ElastiCache refuses others.
    assert properties["EngineVersion"].split(".")[0] == family[-1]


def test_a_redis_can_begin_with_what_the_snapshot_of_an_earlier_one_holds(composed: Compose):
    begun = composed(cached(snapshot="crawlfleet-last")).resources("state", GROUP)
    empty = composed(cached()).resources("state", GROUP)

    assert begun["Redis"]["Properties"]["SnapshotName"] == "crawlfleet-last"
    assert "SnapshotName" not in empty["Redis"]["Properties"]


def test_a_given_redis_leaves_nothing_of_elasticache(composed: Compose):
    given = GivenRedis(url="rediss://cache.example:6380", has_token=True)
    made = composed(dataclasses.replace(AWS_SMALL, redis=given))

    kinds = {one["Type"] for one in made.template("state")["Resources"].values()}
    assert not {kind for kind in kinds if kind.startswith(("AWS::ElastiCache", "AWS::EC2"))}
    assert set(addresses(made)) == {'"rediss://cache.example:6380"'}


def test_the_token_of_a_given_redis_is_put_in_by_the_operator(composed: Compose):
    given = GivenRedis(url="rediss://cache.example:6380", has_token=True)
    made = composed(dataclasses.replace(AWS_SMALL, redis=given))

    token = made.resources("state", "AWS::SecretsManager::Secret")["RedisToken"]
    assert token["Properties"]["Name"] == "crawlfleet/aws-small/redis"
    assert not {"SecretString", "GenerateSecretString"} & set(token["Properties"])
    reported = [
        json.dumps(function["Properties"]["Environment"]["Variables"].get(names.ENV_REDIS_SECRET))
        for function in made.resources("compute", "AWS::Lambda::Function").values()
    ]
    assert sum("RedisToken" in one for one in reported) == len(reported) - 1, "not for trials"


def test_functions_need_no_network_where_all_stores_are_reachable_without(composed: Compose):
    given = GivenRedis(url="rediss://cache.example:6380", has_token=True)
    made = composed(dataclasses.replace(AWS_SMALL, vpc=None, redis=given))

    functions = made.resources("compute", "AWS::Lambda::Function").values()
    assert functions
    assert not [one for one in functions if "VpcConfig" in one["Properties"]]
    assert "ec2:" not in json.dumps(made.resources("compute", "AWS::IAM::Policy"))


def atlas(made: Assembly, kind: str) -> dict[str, Any]:
    return made.only("state", f"MongoDB::Atlas::{kind}")


def test_a_stage_can_have_a_cluster_of_mongodb_atlas_that_lets_in_its_nat_alone(composed: Compose):
    made = composed(dataclasses.replace(AWS_LARGE, atlas=ATLAS))

    admitted = atlas(made, "ProjectIpAccessList")["Properties"]["AccessList"]
    assert AWS_LARGE.vpc is not None
    assert len(admitted) == AWS_LARGE.vpc.nat_count
    assert all("Fn::ImportValue" in entry["IPAddress"] for entry in admitted)
    assert not [entry for entry in admitted if "CIDRBlock" in entry]
    [specification] = atlas(made, "Cluster")["Properties"]["ReplicationSpecs"]
    [region] = specification["AdvancedRegionConfigs"]
    assert region["RegionName"] == "EU_WEST_1"
    assert region["ElectableSpecs"] == {"InstanceSize": "M10", "NodeCount": 3}


def test_the_atlas_cluster_outlives_its_stack_where_state_is_kept(composed: Compose):
    for stage in (AWS_LARGE, AWS_SMALL):
        made = composed(dataclasses.replace(stage, atlas=ATLAS))

        cluster = atlas(made, "Cluster")
        kept = "RetainExceptOnCreate" if stage.keep_state else "Delete"
        assert cluster["DeletionPolicy"] == kept
        assert cluster["Properties"]["TerminationProtectionEnabled"] is stage.keep_state


def test_addresses_that_the_stage_gives_back_are_let_in_no_more(composed: Compose):
    made = composed(dataclasses.replace(AWS_LARGE, atlas=ATLAS))

    assert atlas(made, "ProjectIpAccessList")["DeletionPolicy"] == "Delete"


def test_the_uri_of_the_atlas_cluster_is_in_the_nodes_secret_and_its_password_in_no_template(
    composed: Compose,
):
    made = composed(dataclasses.replace(AWS_LARGE, atlas=ATLAS))

    secrets = made.resources("state", "AWS::SecretsManager::Secret")
    uri = json.dumps(secrets["NodeSecretMain"]["Properties"]["SecretString"])
    assert "mongodb+srv://" in uri
    assert "{{resolve:secretsmanager:" in uri
    assert '"AtlasCluster", "ConnectionStrings.StandardSrv"' in uri
    user = atlas(made, "DatabaseUser")["Properties"]
    assert "{{resolve:secretsmanager:" in json.dumps(user["Password"])
    assert {role["RoleName"] for role in user["Roles"]} == {
        "readWriteAnyDatabase",
        "clusterMonitor",
    }
    assert user["Scopes"] == [{"Name": "crawlfleet-aws-large", "Type": "CLUSTER"}]


def test_other_nodes_stay_the_operators_when_atlas_makes_one(composed: Compose):
    stage = dataclasses.replace(AWS_LARGE, nodes=("main", "east"), atlas=ATLAS)
    made = composed(stage)

    secrets = made.resources("state", "AWS::SecretsManager::Secret").values()
    [east] = [
        one["Properties"]
        for one in secrets
        if one["Properties"]["Name"] == names.node_secret(stage.name, "east")
    ]
    assert "SecretString" not in east
