"""A stage that stands in an account of moto, and what a check of it fails with."""

import io
import zipfile

import boto3
import pytest

from infra.pools import fleet_of
from infra.stages import STAGES
from infra.steps import StepError
from tests.kit.kernel import names

STAGE = "aws-small"
REGION = "us-east-1"
ENVIRONMENT = {
    "AWS_DEFAULT_REGION": REGION,
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
}


def client(service, region=REGION):
    return boto3.client(service, region_name=region or REGION)


def make_functions(stage=STAGE, **changed):
    role = client("iam").create_role(
        RoleName="r", AssumeRolePolicyDocument="{}", Path="/service-role/"
    )["Role"]["Arn"]
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("handler.py", "")
    for spec in fleet_of(STAGES[stage].pools).functions:
        client("lambda", spec.region).create_function(
            FunctionName=names.function_name(stage, spec.name),
            Runtime="python3.13",
            Role=role,
            Handler=spec.handler,
            Code={"ZipFile": code.getvalue()},
            **{
                "MemorySize": spec.memory_mb,
                "Timeout": spec.timeout_seconds,
                "Environment": {"Variables": dict.fromkeys(spec.environment, "x")},
                **changed,
            },
        )


def failure(check, deployment):
    with pytest.raises(StepError) as caught:
        check(deployment)
    assert caught.value.do
    return str(caught.value)
