"""Stateful resources outlive a deployment: encrypted, retained, never renamed."""

import json

from infra.stages import STAGES, ElastiCache
from tests.infra.assembly import STAGE, Assembly
from tests.kit.kernel import names

#: A logical id that changes is a store replaced. Change this list only with a plan for the data.
PINNED = {
    "Redis": "AWS::ElastiCache::ReplicationGroup",
    "RedisToken": "AWS::SecretsManager::Secret",
    "NodeSecretMain": "AWS::SecretsManager::Secret",
    "DefaultApiKey": "AWS::ApiGateway::ApiKey",
    "Archive": "AWS::S3::Bucket",
    "ArchivePolicy": "AWS::S3::BucketPolicy",
}

#: What becomes of them with a stage that keeps its state, where it is not kept.
ENDING = {"Redis": "Snapshot", "RedisToken": "Delete"}

#: What holds nothing by itself and goes with its stack.
FITTINGS = {
    "AWS::ElastiCache::ParameterGroup",
    "AWS::ElastiCache::SubnetGroup",
    "AWS::EC2::SecurityGroup",
    "AWS::EC2::SecurityGroupIngress",
    "AWS::KMS::Alias",
}


def test_logical_ids_of_stateful_resources_are_pinned(assembly: Assembly):
    stateful = {
        key: value["Type"]
        for key, value in assembly.template("state")["Resources"].items()
        if value["Type"] in PINNED.values()
    }

    assert stateful == PINNED


def test_stateful_resources_outlive_their_stack_but_no_failed_creation(assembly: Assembly):
    resources = assembly.template("state")["Resources"]

    for logical_id in set(PINNED) - set(ENDING):
        # Kept after a creation that was rolled back, its name would refuse the next one.
        assert resources[logical_id]["DeletionPolicy"] == "RetainExceptOnCreate"
        assert resources[logical_id]["UpdateReplacePolicy"] == "Retain"
    assert {key: resources[key]["DeletionPolicy"] for key in ENDING} == ENDING


def test_nothing_that_is_kept_stands_on_something_that_goes(assembly: Assembly):
    resources = assembly.template("state")["Resources"]
    kept = {
        key for key, one in resources.items() if one.get("DeletionPolicy") == "RetainExceptOnCreate"
    }

    assert {resources[key]["Type"] for key in set(resources) - kept - set(ENDING)} == FITTINGS
    for logical_id in kept:
        said = json.dumps(resources[logical_id].get("Properties", {}))
        assert not [key for key in set(resources) - kept if f'"{key}"' in said]
        # The network must be free to go.
        assert "Fn::ImportValue" not in said


def test_every_stack_of_a_stage_that_keeps_its_state_refuses_deletion(each_stage: Assembly):
    stage = STAGES[each_stage.stage]
    protected = {
        name
        for name, stack in each_stage.stacks().items()
        if stack["properties"].get("terminationProtection", False)
    }

    # `cdk destroy --all` begins with the stacks that hold nothing.
    if stage.keep_state:
        assert protected == set(each_stage.stacks())
    else:
        assert protected == ({"state"} if stage.protect_state else set())


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


def test_redis_of_the_large_stage_fails_over_and_is_saved_daily(assembly: Assembly):
    redis = assembly.only("state", "AWS::ElastiCache::ReplicationGroup")["Properties"]
    settings = STAGES[STAGE].redis

    assert isinstance(settings, ElastiCache)
    assert redis["NumCacheClusters"] == 1 + settings.replicas == 2
    assert redis["AutomaticFailoverEnabled"] is True
    assert redis["MultiAZEnabled"] is True
    assert redis["SnapshotRetentionLimit"] == settings.snapshot_days >= 1


def test_redis_lets_in_the_functions_and_nobody_else(assembly: Assembly):
    rule = assembly.only("state", "AWS::EC2::SecurityGroupIngress")["Properties"]
    firewall = assembly.only("state", "AWS::EC2::SecurityGroup")["Properties"]

    assert "SecurityGroupIngress" not in firewall
    assert (rule["IpProtocol"], rule["FromPort"], rule["ToPort"]) == ("tcp", 6379, 6379)
    functions = {
        json.dumps(function["VpcConfig"]["SecurityGroupIds"])
        for name, function in assembly.functions().items()
        if not name.endswith(names.TRIALS)  # it stands outside of the network
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


def test_no_stack_writes_parameters_that_config_push_owns(each_stage: Assembly):
    assert list(each_stage.every("AWS::SSM::Parameter")) == []


def test_the_archive_is_closed_to_the_public_and_to_plain_text(each_stage: Assembly):
    bucket = each_stage.only("state", "AWS::S3::Bucket")["Properties"]
    policy = each_stage.only("state", "AWS::S3::BucketPolicy")["Properties"]

    assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
    assert len(bucket["PublicAccessBlockConfiguration"]) == 4
    [rule] = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["SSEAlgorithm"] == "AES256"
    [statement] = policy["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Principal"]) == ("Deny", {"AWS": "*"})
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_the_archive_forgets_as_the_stage_says_and_no_rubbish_stays(each_stage: Assembly):
    bucket = each_stage.only("state", "AWS::S3::Bucket")["Properties"]
    archive = STAGES[each_stage.stage].archive

    rules = {rule["Id"]: rule for rule in bucket["LifecycleConfiguration"]["Rules"]}
    assert {rule["Status"] for rule in rules.values()} == {"Enabled"}
    ageing = rules["cheaper-then-gone"]
    assert ageing.get("ExpirationInDays") == archive.days
    moved = [one["TransitionInDays"] for one in ageing.get("Transitions", ())]
    assert moved == [days for days in [archive.infrequent_after_days] if days is not None]
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    # Versions without this rule would be kept, and paid for, for ever.
    assert ageing["NoncurrentVersionExpiration"]["NoncurrentDays"] <= 30
    assert rules["no-half-uploads"]["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"] == 1


def test_config_root_key_and_secrets_are_reported_to_the_operator(assembly: Assembly):
    outputs = assembly.template("state")["Outputs"]

    assert outputs["DefaultApiKeyId"]["Value"] == {"Ref": "DefaultApiKey"}
    assert outputs["NodeSecrets"]["Value"] == names.node_secret(STAGE, "{node}")
    assert outputs["ArchiveBucket"]["Value"] == {"Ref": "Archive"}
    assert outputs["ConfigRoot"]["Value"] == names.config_root(STAGE)
