"""Checks of who is told of alarms: people, phones and machines that have confirmed it."""

import pytest

from infra.aws_access import Access
from infra.smoke import checks
from infra.smoke.deployment import Deployment
from infra.stages import STAGES
from infra.steps import Warned
from tests.infra_smoke.deployed import ENVIRONMENT, REGION, client, failure

ACCOUNT = "123456789012"


MACHINE = ("MachinesTopic", "sqs", f"arn:aws:sqs:{REGION}:{ACCOUNT}:dead")
PHONE = ("PhonesTopic", "sms", "+4915112345678")
EMAIL = ("PeopleTopic", "email", "ops@example.org")


def subscribe(deployment, output, protocol, endpoint):
    client("sns").subscribe(
        TopicArn=deployment.output("state", output), Protocol=protocol, Endpoint=endpoint
    )


class Unconfirmed(Access):
    """AWS where nobody has answered AWS's question yet; moto never asks."""

    def all(self, service, call, key, **arguments):
        found = super().all(service, call, key, **arguments)
        if call != "list_subscriptions_by_topic":
            return found
        return [one | {"SubscriptionArn": "PendingConfirmation"} for one in found]


def unconfirmed(deployment, stage):
    return Deployment(stage, Unconfirmed(ENVIRONMENT), deployment.outputs, deployment.states)


def test_who_listens_is_counted(deployment):
    for one in (MACHINE, PHONE, EMAIL):
        subscribe(deployment, *one)

    said = checks.topics(deployment)

    assert not isinstance(said, Warned)
    assert said == "1 people, 1 phones, 1 machines listen"


@pytest.mark.parametrize("others", [(), (MACHINE,), (PHONE,), (MACHINE, PHONE)])
def test_where_no_people_listen_one_is_warned_whatever_else_does(deployment, others):
    for one in others:
        subscribe(deployment, *one)

    said = checks.topics(deployment)

    assert isinstance(said, Warned)
    assert "0 people" in said


@pytest.mark.parametrize("others", [(), (MACHINE,), (PHONE,), (MACHINE, PHONE)])
def test_a_stage_that_keeps_its_state_must_have_people_who_listen(deployment, others):
    keeping = Deployment("aws-large", deployment.access, deployment.outputs, deployment.states)
    for one in others:
        subscribe(deployment, *one)

    assert "nobody is told" in failure(checks.topics, keeping)
    subscribe(deployment, *EMAIL)
    assert checks.topics(keeping).startswith("1 people, ")


@pytest.mark.parametrize("stage", ["aws-small", "aws-large"])
def test_who_has_not_confirmed_does_not_listen_and_is_named(deployment, stage):
    subscribe(deployment, *EMAIL)
    waiting = unconfirmed(deployment, stage)

    if STAGES[stage].keep_state:
        said = failure(checks.topics, waiting)
    else:
        said = checks.topics(waiting)
        assert isinstance(said, Warned)

    assert "0 people" in said
    assert "ops@example.org" in said


def test_one_of_two_who_has_not_confirmed_is_warned_of(deployment):
    subscribe(deployment, *EMAIL)
    subscribe(deployment, "PeopleTopic", "email", "late@example.org")

    class OneWaits(Unconfirmed):
        def all(self, service, call, key, **arguments):
            found = Access.all(self, service, call, key, **arguments)
            for one in found:
                if one.get("Endpoint") == "late@example.org":
                    one["SubscriptionArn"] = "PendingConfirmation"
            return found

    access = OneWaits(ENVIRONMENT)
    said = checks.topics(Deployment("aws-large", access, deployment.outputs, deployment.states))

    assert isinstance(said, Warned)
    assert said.startswith("1 people, 0 phones, 0 machines ")
    assert said.endswith(" late@example.org")
