"""The stage accepts each configuration of the journey."""

import boto3
import pytest
from moto import mock_aws

from infra.aws_access import Access
from infra.localstack import settings
from infra.stages import STAGES
from infra.steps import StepError
from tests.kit.config import Stage, read_documents
from tests.kit.kernel import decode

STAGE = "localstack"
_ENVIRONMENT = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
}


@pytest.fixture
def access():
    with mock_aws():
        yield Access(_ENVIRONMENT)


def in_force():
    documents = read_documents(boto3.client("ssm", "us-east-1"), STAGE)
    stage, problems = decode(documents["stage"], Stage)
    assert not problems
    assert f"bizs/default/{settings.BIZ}" in documents
    return stage


def test_the_sample_comes_first_and_then_more_workers_and_a_full_disk(access):
    first = settings.push(access, STAGE)
    assert in_force().fleet.max_consumers == 2

    second = settings.push(access, STAGE, settings.BUSY, settings.FULL)
    assert in_force().fleet.max_consumers == settings.WORKERS
    # What the sample says and the change does not is as it was.
    assert in_force().fleet.batch == 100
    assert in_force().thresholds.storage_bytes == 1

    bidding = settings.push(access, STAGE, settings.BUSY, settings.FULL, settings.BIDDING)
    assert in_force().bidding.window_seconds == 0.5
    assert bidding != second

    third = settings.push(access, STAGE, settings.BUSY)
    assert in_force().bidding is None
    assert in_force().thresholds.storage_bytes > 1
    assert len({first, second, third}) == 3


def test_a_configuration_that_is_refused_is_reported(access):
    with pytest.raises(StepError, match=r"fleet\.max_consumers"):
        settings.push(access, STAGE, {"fleet": {"max_consumers": -1}})


def test_neither_a_busy_fleet_nor_an_idle_one_may_have_what_the_stage_is_deployed_with():
    deployed = STAGES[STAGE].consumer_concurrency

    assert settings.IDLE < settings.PEAK < deployed
    assert settings.PEAK > settings.WORKERS
