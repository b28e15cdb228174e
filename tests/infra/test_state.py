"""What outlives a deployment: encrypted, kept, and never renamed."""

import json

from crawlfleet import names
from infra.stages import STAGES
from tests.infra.assembly import STAGE, Assembly

#: A logical id that changes is a store replaced. Change this list only with a plan for the data.
PINNED = {
    "Redis": "AWS::ElastiCache::ReplicationGroup",
    "RedisToken": "AWS::SecretsManager::Secret",
    "NodeSecretMain": "AWS::SecretsManager::Secret",
    "DefaultApiKey": "AWS::ApiGateway::ApiKey",
}


def test_logical_ids_of_stateful_resources_are_pinned(assembly: Assembly):
    stateful = {
        key: value["Type"]
        for key, value in assembly.template("state")["Resources"].items()
        if value["Type"] in PINNED.values()
    }

    assert stateful == PINNED


def test_stateful_resources_outlive_their_stack(assembly: Assembly):
    resources = assembly.template("state")["Resources"]

    for logical_id in PINNED:
        assert resources[logical_id]["DeletionPolicy"] == "Retain"
        assert resources[logical_id]["UpdateReplacePolicy"] == "Retain"


def test_state_and_network_refuse_deletion(assembly: Assembly):
    protected = {
        name: stack["properties"].get("terminationProtection", False)
        for name, stack in assembly.stacks().items()
    }

    assert protected["state"] is True
    assert protected["network"] is True


def test_redis_evicts_nothing(assembly: Assembly):
    parameters = assembly.only("state", "AWS::ElastiCache::ParameterGroup")["Properties"]
    redis = assembly.only("state", "AWS::ElastiCache::ReplicationGroup")["Properties"]

    assert parameters["Properties"]["maxmemory-policy"] == "noeviction"
    (group_id,) = assembly.resources("state", "AWS::ElastiCache::ParameterGroup")
    assert redis["CacheParameterGroupName"] == {"Ref": group_id}


def test_redis_is_encrypted_at_rest_and_on_the_wire_and_asks_for_the_token(assembly: Assembly):
    redis = assembly.only("state", "AWS::ElastiCache::ReplicationGroup")["Properties"]

    assert redis["AtRestEncryptionEnabled"] is True
    assert redis["TransitEncryptionEnabled"] is True
    token = json.dumps(redis["AuthToken"])
    assert "{{resolve:secretsmanager:" in token
    assert '{"Ref": "RedisToken"}' in token


def test_redis_of_prod_fails_over_and_is_saved_daily(assembly: Assembly):
    redis = assembly.only("state", "AWS::ElastiCache::ReplicationGroup")["Properties"]

    assert redis["NumCacheClusters"] == 1 + STAGES[STAGE].redis.replicas == 2
    assert redis["AutomaticFailoverEnabled"] is True
    assert redis["MultiAZEnabled"] is True
    assert redis["SnapshotRetentionLimit"] == STAGES[STAGE].redis.snapshot_days >= 1


def test_redis_lets_in_the_functions_and_nobody_else(assembly: Assembly):
    rule = assembly.only("state", "AWS::EC2::SecurityGroupIngress")["Properties"]
    firewall = assembly.only("state", "AWS::EC2::SecurityGroup")["Properties"]

    assert "SecurityGroupIngress" not in firewall
    assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 6379, 6379)
    functions = {
        json.dumps(function["VpcConfig"]["SecurityGroupIds"])
        for function in assembly.functions().values()
    }
    assert functions == {json.dumps([rule["SourceSecurityGroupId"]])}


def test_every_node_of_the_stage_has_an_empty_secret_of_its_name(assembly: Assembly):
    secrets = assembly.resources("state", "AWS::SecretsManager::Secret")

    uris = [one["Properties"] for key, one in secrets.items() if key.startswith("NodeSecret")]
    assert {one["Name"] for one in uris} == {
        names.node_secret(STAGE, node) for node in STAGES[STAGE].nodes
    }
    assert not any("SecretString" in one or "GenerateSecretString" in one for one in uris)


def test_redis_token_is_made_in_the_secret_and_nowhere_else(assembly: Assembly):
    token = assembly.resources("state", "AWS::SecretsManager::Secret")["RedisToken"]

    assert "SecretString" not in token["Properties"]
    assert token["Properties"]["GenerateSecretString"]["PasswordLength"] >= 32


def test_no_stack_writes_parameters_that_config_push_owns(assembly: Assembly):
    for stack in assembly.stacks():
        assert assembly.resources(stack, "AWS::SSM::Parameter") == {}


def test_config_root_key_and_secrets_are_told_to_the_operator(assembly: Assembly):
    outputs = assembly.template("state")["Outputs"]

    assert outputs["DefaultApiKeyId"]["Value"] == {"Ref": "DefaultApiKey"}
    assert outputs["NodeSecrets"]["Value"] == names.node_secret(STAGE, "{node}")
    assert outputs["ConfigRoot"]["Value"] == names.config_root(STAGE)
