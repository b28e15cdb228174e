"""A function reads parameters and secrets in the stage's home region, wherever it runs itself."""

import json

import boto3
import pytest

from tests.kit.apps import Parts
from tests.kit.config import write_tree
from tests.kit.kernel import ConfigError, NoConfigurationError, Settings

HOME = "eu-west-1"
FAR = "ap-southeast-1"


@pytest.fixture
def parts_in(aws, monkeypatch):
    """The parts of a function that runs in a region, of a stage whose home is in Ireland."""
    documents = {"stage": json.dumps({"home_node": "main", "nodes": ["main"]})}
    write_tree(boto3.client("ssm", region_name=HOME), "wide", documents)
    boto3.client("secretsmanager", region_name=HOME).create_secret(
        Name="crawlfleet/wide/redis", SecretString="the token"
    )

    def parts(region, home_region):
        for variable in ("AWS_DEFAULT_REGION", "AWS_REGION"):
            monkeypatch.setenv(variable, region)
        return Parts(Settings(stage="wide", home_region=home_region), "test")

    return parts


@pytest.mark.parametrize(("region", "home_region"), [(FAR, HOME), (HOME, None)])
def test_parameters_and_secrets_are_read_at_home(parts_in, region, home_region):
    parts = parts_in(region, home_region)

    assert parts.config.current().stage.home_node == "main"
    assert parts.secrets.read("crawlfleet/wide/redis") == "the token"


def test_who_is_not_reported_where_home_is_finds_nothing(parts_in):
    parts = parts_in(FAR, None)

    with pytest.raises(NoConfigurationError):
        parts.config.current()
    with pytest.raises(ConfigError, match="no such secret"):
        parts.secrets.read("crawlfleet/wide/redis")
