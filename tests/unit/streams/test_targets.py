"""Targets of subscriptions: one form, and only those that the stage lets a tenant name."""

import json

import pytest

from tests.kit.config import Stage, Tree
from tests.kit.kernel import InvalidRequestError, decode
from tests.kit.streams import Target, TargetKind, is_allowed, must_be_allowed, target_of
from tests.kit.subscriptions import targets_of

QUEUE = "arn:aws:sqs:eu-west-1:123456789012:acme-items"


@pytest.mark.parametrize(
    ("document", "kind", "address"),
    [
        ({"sqs": QUEUE}, "sqs", QUEUE),
        ({"sqs": "https://sqs.eu-west-1.amazonaws.com/123456789012/acme-items"}, "sqs", QUEUE),
        (
            {"sqs": "https://sqs.cn-north-1.amazonaws.com.cn/123456789012/q.fifo"},
            "sqs",
            "arn:aws-cn:sqs:cn-north-1:123456789012:q.fifo",
        ),
        ({"sns": "arn:aws:sns:eu-west-1:123456789012:t"}, "sns", None),
        ({"eventbridge": "arn:aws:events:eu-west-1:123456789012:event-bus/b"}, "eventbridge", None),
        ({"redis_stream": "items"}, "redis_stream", None),
    ],
)
def test_a_target_has_one_form(document, kind, address):
    target = target_of(document)

    assert target.kind == kind
    assert target.address == (address or document[kind])
    assert target_of(target.written) == target


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (None, "deliver"),
        ("sqs", "deliver"),
        ({}, "deliver"),
        ({"sqs": QUEUE, "redis_stream": "items"}, "deliver"),
        ({"kafka": "items"}, "deliver.kafka"),
        ({5: "items"}, "deliver.5"),
        ({"sqs": 5}, "deliver.sqs"),
        ({"sqs": "http://169.254.169.254/latest"}, "deliver.sqs"),
        ({"sqs": "https://sqs.eu-west-1.amazonaws.com.evil.test/123456789012/q"}, "deliver.sqs"),
        ({"sqs": f"{QUEUE}\n"}, "deliver.sqs"),
        ({"sns": QUEUE}, "deliver.sns"),
        ({"eventbridge": "default"}, "deliver.eventbridge"),
        ({"redis_stream": "acme:items"}, "deliver.redis_stream"),
        ({"redis_stream": ""}, "deliver.redis_stream"),
    ],
)
def test_what_is_no_target_is_refused_by_its_field(document, field):
    with pytest.raises(InvalidRequestError) as refused:
        target_of(document)

    assert [problem.field for problem in refused.value.problems] == [field]


@pytest.mark.parametrize(
    ("patterns", "allowed"),
    [
        ([], False),
        ([{"sqs": QUEUE}], True),
        ([{"sqs": QUEUE[:-1]}], False),
        ([{"sqs": f"{QUEUE[:-5]}*"}], True),
        ([{"sqs": "arn:aws:sqs:eu-west-1:123456789012:other-*"}], False),
        ([{"sns": "*"}], False),
        ([{"sns": "*"}, {"sqs": "*"}], True),
    ],
)
def test_a_tenant_names_what_the_stage_allows(patterns, allowed):
    queue = Target(TargetKind.SQS, QUEUE)

    assert is_allowed(queue, patterns) == allowed

    if allowed:
        must_be_allowed(queue, patterns)
    else:
        with pytest.raises(InvalidRequestError, match="an operator adds arn:aws:sqs"):
            must_be_allowed(queue, patterns)


def test_a_target_knows_its_region_and_whether_it_keeps_an_order():
    queue = Target(TargetKind.SQS, f"{QUEUE}.fifo")

    assert (queue.region, queue.is_fifo) == ("eu-west-1", True)
    assert Target(TargetKind.REDIS_STREAM, "items").region is None


def test_the_stage_names_targets_by_tenant():
    allowed = {"acme": [{"sqs": f"{QUEUE[:-5]}*"}, {"redis_stream": "*"}]}
    stage, problems = decode(json.dumps({"streams": {"targets": allowed}}), Stage)
    tree = Tree(revision="1", stage=stage, tenants={}, bizs={})

    assert problems == ()
    assert is_allowed(Target(TargetKind.SQS, QUEUE), targets_of(tree, "acme"))
    assert is_allowed(Target(TargetKind.REDIS_STREAM, "items"), targets_of(tree, "acme"))
    assert not is_allowed(Target(TargetKind.SQS, QUEUE), targets_of(tree, "other"))


@pytest.mark.parametrize("pattern", ["", "*a", "a b", "a**", "x" * 600])
def test_a_pattern_has_its_star_at_its_end(pattern):
    given = {"streams": {"targets": {"acme": [{"sqs": pattern}]}}}

    _, problems = decode(json.dumps(given), Stage)

    assert [problem.field for problem in problems] == ["streams.targets.acme[0].sqs"]
