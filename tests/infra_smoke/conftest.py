"""A deployment that is well, in an account of moto."""

import json

import pytest
from moto import mock_aws

from infra.aws_access import Access
from infra.smoke.deployment import find_deployment, stack_name
from infra.stages import STAGES
from tests.infra_smoke.deployed import ENVIRONMENT, STAGE, client
from tests.kit.kernel import names


@pytest.fixture
def aws():
    with mock_aws():
        yield


@pytest.fixture
def deployment(aws):
    """Stacks whose outputs lead to what the checks look at."""
    topics = {
        listeners: client("sns").create_topic(Name=names.topic_name(STAGE, listeners))["TopicArn"]
        for listeners in ("people", "phones", "machines")
    }
    queue = client("sqs").create_queue(QueueName="dead")["QueueUrl"]
    key = client("apigateway").create_api_key(name="k", enabled=True, value="k" * 30)["id"]
    outputs = {
        "state": {
            "PeopleTopic": topics["people"],
            "PhonesTopic": topics["phones"],
            "MachinesTopic": topics["machines"],
            "DefaultApiKeyId": key,
        },
        "compute": {"MonitorDeadLetters": queue},
        "api": {"Url": "https://abc.execute-api.us-east-1.amazonaws.com/aws-small/"},
        "events": {},
        "network": {"EgressAddresses": "192.0.2.1"},
    }
    for stack in STAGES[STAGE].stacks:
        template = {
            "Resources": {"Nothing": {"Type": "AWS::SQS::Queue"}},
            "Outputs": {name: {"Value": value} for name, value in outputs[stack].items()},
        }
        client("cloudformation").create_stack(
            StackName=stack_name(STAGE, stack), TemplateBody=json.dumps(template)
        )
    return find_deployment(STAGE, Access(ENVIRONMENT))
