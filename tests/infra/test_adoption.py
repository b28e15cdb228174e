"""Tests that the retained resources of a removed stage are found by their import identifiers."""

import dataclasses
import importlib.resources
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from infra.aws_access import Access
from infra.notify import Notify
from infra.removal.__main__ import main
from infra.removal.adoption import IDENTIFIERS, REWRITTEN, Adoption
from infra.stages import AWS_LARGE, Atlas, Stage
from infra.steps import StepError
from tests.infra.assembly import Assembly

_ENVIRONMENT = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
}
_STACK = "crawlfleet-aws-large-state"
_BUCKET = f"{_STACK}-archive-9c1dkq2v0aaf"


def client(service):
    return boto3.client(service, region_name="us-east-1")


@pytest.fixture
def access(monkeypatch: pytest.MonkeyPatch):
    for key, value in _ENVIRONMENT.items():
        monkeypatch.setenv(key, value)
    with mock_aws():
        yield Access(_ENVIRONMENT)


@pytest.fixture(scope="module")
def template(composed: Callable[[Stage], Assembly]) -> dict[str, Any]:
    """The state of a large stage in which somebody is told."""
    notify = Notify(emails=("ops@example.org",))
    return composed(dataclasses.replace(AWS_LARGE, notify=notify)).template("state")


def keep(*, confirmed: bool = True) -> dict[str, dict[str, str]]:
    """Create a stage's retained resources and some of another; return the first's mapping."""
    kms, sns, s3 = client("kms"), client("sns"), client("s3")
    found: dict[str, dict[str, str]] = {}
    for stage in ("aws-large", "aws-large-2"):
        key = kms.create_key()["KeyMetadata"]
        topics = {
            listeners: sns.create_topic(
                Name=f"crawlfleet-{stage}-{listeners}",
                Attributes={"KmsMasterKeyId": key["Arn"]},
            )["TopicArn"]
            for listeners in ("people", "phones", "machines")
        }
        reported = sns.subscribe(
            TopicArn=topics["people"],
            Protocol="email",
            Endpoint="ops@example.org",
            ReturnSubscriptionArn=True,
        )["SubscriptionArn"]
        secret = client("secretsmanager").create_secret(Name=f"crawlfleet/{stage}/nodes/main")
        api_key = client("apigateway").create_api_key(name=f"crawlfleet-{stage}-default")
        bucket = _BUCKET if stage == "aws-large" else f"crawlfleet-{stage}-state-archive-x"
        s3.create_bucket(Bucket=bucket)
        s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17"}))
        found = found or {
            "TopicKey": {"KeyId": key["KeyId"]},
            "TopicPeople": {"TopicArn": topics["people"]},
            "TopicPhones": {"TopicArn": topics["phones"]},
            "TopicMachines": {"TopicArn": topics["machines"]},
            "NotificationsEmail": {"Arn": reported},
            "NodeSecretMain": {"Id": secret["ARN"]},
            "DefaultApiKey": {"APIKeyId": api_key["id"]},
            "Archive": {"BucketName": bucket},
            "ArchivePolicy": {"Bucket": bucket},
        }
    return found


def test_what_was_kept_is_named_as_cloudformation_wants_it(
    access: Access, template: dict[str, Any]
):
    kept = keep()

    mapping = Adoption(_STACK, template, access).mapping()

    # The subscription's logical id is CDK's own.
    named = {"NotificationsEmail" if "Email" in key else key: one for key, one in mapping.items()}
    assert named == kept


def test_where_nothing_was_kept_nothing_is_found(access: Access, template: dict[str, Any]):
    assert Adoption(_STACK, template, access).mapping() == {}


def test_everything_that_the_large_stage_keeps_is_looked_for(assembly: Assembly, access: Access):
    adoption = Adoption(_STACK, assembly.template("state"), access)

    assert adoption.strangers() == []


@pytest.mark.parametrize("kind", [*IDENTIFIERS, *REWRITTEN])
def test_identifiers_are_those_of_cloudformations_schemas(kind: str):
    schemas = importlib.resources.files("cfnlint") / "data" / "schemas"
    provider = json.loads((schemas / "providers" / "us-east-1.json").read_text())
    schema = json.loads((schemas / "resources" / f"{provider[kind]}.json").read_text())

    # Importable is what CloudFormation can read.
    assert ("read" in schema["handlers"]) == (kind in IDENTIFIERS)
    if kind in IDENTIFIERS:
        assert schema["primaryIdentifier"] == [f"/properties/{IDENTIFIERS[kind]}"]


def test_two_that_could_be_meant_are_reported_and_none_is_taken(
    access: Access, template: dict[str, Any]
):
    keep()
    client("apigateway").create_api_key(name="crawlfleet-aws-large-default")

    with pytest.raises(StepError, match=r"2 API keys .*crawlfleet-aws-large-default"):
        Adoption(_STACK, template, access).mapping()


def test_a_secret_about_to_be_deleted_is_to_be_restored_first(
    access: Access, template: dict[str, Any]
):
    keep()
    client("secretsmanager").delete_secret(SecretId="crawlfleet/aws-large/nodes/main")

    with pytest.raises(StepError, match="crawlfleet/aws-large/nodes/main") as refused:
        Adoption(_STACK, template, access).mapping()

    assert "restore-secret --secret-id crawlfleet/aws-large/nodes/main" in refused.value.do


def test_a_bucket_without_its_policy_is_taken_without(access: Access, template: dict[str, Any]):
    keep()
    client("s3").delete_bucket_policy(Bucket=_BUCKET)

    mapping = Adoption(_STACK, template, access).mapping()

    assert "ArchivePolicy" not in mapping
    assert mapping["Archive"] == {"BucketName": _BUCKET}


def test_a_cluster_of_atlas_is_not_looked_for_and_said_so(
    access: Access, composed: Callable[[Stage], Assembly]
):
    atlas = Atlas(org_id="5f", region="EU_WEST_1")
    template = composed(dataclasses.replace(AWS_LARGE, atlas=atlas)).template("state")

    assert set(Adoption(_STACK, template, access).strangers()) == {
        "AtlasProject",
        "AtlasCluster",
        "AtlasDatabaseUser",
    }


def test_the_command_writes_the_mapping_and_prints_it(
    access: Access, template: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert access is not None
    (tmp_path / f"{_STACK}.template.json").write_text(json.dumps(template))
    into = tmp_path / "kept.json"
    arguments = ["kept", "--stage", "aws-large", "--assembly", str(tmp_path), "--into", str(into)]

    assert main(arguments) == 1
    assert "nothing" in capsys.readouterr().err
    assert not into.exists()

    kept = keep()
    assert main(arguments) == 0
    assert json.loads(into.read_text())["Archive"] == kept["Archive"]
    assert _BUCKET in capsys.readouterr().out
