"""The topics by which people and machines are told."""

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from infra.notify import Notify
from infra.stages import AWS_SMALL, Stage, StageError
from tests.infra.assembly import Assembly

if TYPE_CHECKING:
    from aws_cdk.assertions import Template


def synthesised(notify: Notify, *, keep_state: bool = False) -> "Template":
    from aws_cdk import App, Stack
    from aws_cdk.assertions import Template

    from infra.components.notifications import Notifications

    stage = dataclasses.replace(AWS_SMALL, notify=notify, keep_state=keep_state)
    stack = Stack(App(), "test")
    Notifications(stack, "Notifications", stage=stage)
    return Template.from_stack(stack)


def subscriptions(notify: Notify) -> list[dict[str, Any]]:
    found = synthesised(notify).find_resources("AWS::SNS::Subscription").values()
    return [one["Properties"] for one in found]


def test_all_topics_are_encrypted_with_a_key_that_alarms_may_use(each_stage: Assembly):
    found = each_stage.resources("state", "AWS::SNS::Topic")
    key = each_stage.resources("state", "AWS::KMS::Key")["TopicKey"]

    assert set(found) == {"TopicPeople", "TopicPhones", "TopicMachines"}
    for topic in found.values():
        assert topic["Properties"]["KmsMasterKeyId"] == {"Fn::GetAtt": ["TopicKey", "Arn"]}
    assert key["Properties"]["EnableKeyRotation"] is True
    [alarms] = [
        one
        for one in key["Properties"]["KeyPolicy"]["Statement"]
        if one["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    ]
    assert alarms["Action"] == ["kms:Decrypt", "kms:GenerateDataKey*"]
    # A condition on what CloudWatch may not say of itself to KMS would end all alarms' actions.
    assert "Condition" not in alarms


def test_topics_are_spoken_to_by_tls_and_by_this_accounts_alarms(assembly: Assembly):
    policies = assembly.resources("state", "AWS::SNS::TopicPolicy").values()

    assert len(policies) == 3
    for policy in policies:
        statements = policy["Properties"]["PolicyDocument"]["Statement"]
        refused = [one for one in statements if one["Effect"] == "Deny"]
        allowed = [one for one in statements if one["Effect"] == "Allow"]
        assert refused[0]["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        assert [one["Principal"] for one in allowed] == [{"Service": "cloudwatch.amazonaws.com"}]
        assert allowed[0]["Condition"]["StringEquals"]["aws:SourceAccount"]


def test_what_has_been_confirmed_stays_when_the_stack_goes(assembly: Assembly):
    for kind in ("AWS::SNS::Topic", "AWS::SNS::TopicPolicy", "AWS::KMS::Key"):
        for resource in assembly.resources("state", kind).values():
            assert resource["DeletionPolicy"] == "RetainExceptOnCreate"


@pytest.mark.parametrize(
    ("keep_state", "policy"), [(True, "RetainExceptOnCreate"), (False, "Delete")]
)
def test_who_was_subscribed_stays_subscribed_where_state_is_kept(keep_state: bool, policy: str):
    made = synthesised(Notify(emails=("ops@example.org",)), keep_state=keep_state)

    [subscription] = made.find_resources("AWS::SNS::Subscription").values()
    assert subscription["DeletionPolicy"] == policy


def test_a_stage_says_who_is_notified_and_by_what():
    found = subscriptions(
        Notify(
            emails=("ops@example.org",),
            phones=("+4915112345678",),
            machines=("https://hook.example/x", "arn:aws:sqs:eu-central-1:123456789012:q"),
        )
    )

    reported = {one["Endpoint"]: one["Protocol"] for one in found}
    assert reported == {
        "ops@example.org": "email",
        "+4915112345678": "sms",
        "https://hook.example/x": "https",
        "arn:aws:sqs:eu-central-1:123456789012:q": "sqs",
    }


def test_phones_have_a_topic_of_their_own_as_no_filter_lets_through_messages_without_attributes():
    [phone] = subscriptions(Notify(phones=("+4915112345678",)))

    assert phone["TopicArn"] == {"Ref": "TopicPhones"}
    assert "FilterPolicy" not in phone


@pytest.mark.parametrize("field", ["emails", "phones", "machines"])
def test_who_is_taken_out_takes_nobody_else_along(field: str):
    gone, stays, comes = {
        "emails": ("a@example.org", "b@example.org", "c@example.org"),
        "phones": ("+4915112345678", "+4915112345679", "+4915112345670"),
        "machines": ("https://a.example", "arn:aws:sqs:eu-central-1:123456789012:q", "https://b.b"),
    }[field]

    def of_who_stays(*addresses: str) -> str:
        made = synthesised(Notify(**{field: addresses})).find_resources("AWS::SNS::Subscription")
        [key] = [key for key, one in made.items() if one["Properties"]["Endpoint"] == stays]
        return key

    before = of_who_stays(gone, stays)

    assert before == of_who_stays(stays) == of_who_stays(stays, gone) == of_who_stays(comes, stays)


def test_without_anybody_there_are_topics_that_more_can_subscribe_to():
    template = synthesised(Notify())

    template.resource_count_is("AWS::SNS::Topic", 3)
    template.resource_count_is("AWS::SNS::Subscription", 0)


def test_the_monitor_and_nobody_else_may_send(assembly: Assembly):
    for spec_name in ("monitor", "router", "consumer", "scheduler", "id-issuer"):
        sends = "sns:Publish" in json.dumps(assembly.statements(spec_name))
        assert sends == (spec_name == "monitor")


@pytest.mark.parametrize(
    "wrong",
    [
        Notify(emails=("nobody",)),
        Notify(phones=("0151 12345678",)),
        Notify(phones=("+49151x",)),
        Notify(machines=("http://plain.example",)),
        Notify(emails=("ops@example.org", "ops@example.org")),
    ],
)
def test_an_address_that_cannot_be_is_refused_before_anything_is_built(wrong: Notify):
    def changed() -> Stage:
        return dataclasses.replace(AWS_SMALL, notify=wrong)

    with pytest.raises(StageError, match="notify"):
        changed()
