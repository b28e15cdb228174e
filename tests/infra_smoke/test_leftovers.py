"""The search for leftovers finds every resource of a stage, and none of another owner."""

import io
import json
import zipfile

import boto3
import pytest
from moto import mock_aws

from infra.aws_access import Access
from infra.localstack.leftovers import KINDS, standing

_ENVIRONMENT = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
}


def client(service):
    return boto3.client(service, region_name="us-east-1")


@pytest.fixture
def access():
    with mock_aws():
        yield Access(_ENVIRONMENT)


def make_all(stage):
    """Create one resource of each kind under the names of a stage; return the id of the key."""
    prefix = f"crawlfleet-{stage}-"
    role = client("iam").create_role(RoleName=f"{prefix}compute-r", AssumeRolePolicyDocument="{}")
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("handler.py", "")
    client("lambda").create_function(
        FunctionName=f"{prefix}router",
        Runtime="python3.13",
        Role=role["Role"]["Arn"],
        Handler="handler.it",
        Code={"ZipFile": code.getvalue()},
    )
    client("events").put_rule(Name=f"{prefix}tick", ScheduleExpression="rate(1 minute)")
    client("cloudwatch").put_metric_alarm(
        AlarmName=f"{prefix}monitor-silent",
        Namespace="Crawlfleet",
        MetricName="Looks",
        Statistic="Sum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1,
        ComparisonOperator="LessThanThreshold",
    )
    client("sns").create_topic(Name=f"{prefix}people")
    client("s3").create_bucket(Bucket=f"{prefix}state-archive-1")
    client("sqs").create_queue(QueueName=f"{prefix}compute-deadletters-1")
    client("secretsmanager").create_secret(Name=f"crawlfleet/{stage}/nodes/main", SecretString="x")
    client("apigateway").create_rest_api(name=f"crawlfleet-{stage}")
    client("apigateway").create_api_key(name=f"crawlfleet-{stage}-default")
    client("logs").create_log_group(logGroupName=f"/aws/lambda/{prefix}router")
    return client("kms").create_key(Description=f"Messages of crawlfleet {stage}")["KeyMetadata"][
        "KeyId"
    ]


def test_one_of_each_kind_is_found_by_its_name(access):
    make_all("a")

    found = standing(access, "a")

    assert set(found) == set(KINDS)
    assert found["secrets"] == ["crawlfleet/a/nodes/main"]
    assert found["KMS keys"] == ["Messages of crawlfleet a"]
    assert {len(each) for each in found.values()} == {1}, json.dumps(found)


def test_what_is_another_stages_is_not_found(access):
    make_all("ab")

    assert standing(access, "a") == {}


def test_a_key_that_waits_for_its_deletion_is_gone(access):
    key = make_all("a")
    client("kms").schedule_key_deletion(KeyId=key)

    assert "KMS keys" not in standing(access, "a")
