"""AWS's rules for good practice, over every stage: each that is not followed has its reason."""

import dataclasses
from pathlib import Path

import pytest

from infra import nag
from infra.bundle_contents import Bundle
from infra.nag import ACCEPTED, Finding
from infra.pools import PoolKind
from infra.spider_rules import SpiderRule
from infra.stages import AWS_LARGE, AWS_SMALL, STAGES, Atlas, GivenRedis, Nat, Stage, Vpc
from infra.streams import StreamReaders
from tests.infra.assembly import compose

#: What people may choose in a stage of their own, beside the stages that there are.
CHOICES = {
    "gateways": dataclasses.replace(AWS_LARGE, vpc=Vpc(nat_count=2, nat=Nat.GATEWAY)),
    "atlas": dataclasses.replace(AWS_LARGE, atlas=Atlas(org_id="5f", region="US_EAST_1")),
    "spider-rules": dataclasses.replace(
        AWS_LARGE,
        spider_rules=(
            SpiderRule(name="a", tenant="acme", biz="shop", spider="s", schedule="rate(1 day)"),
        ),
    ),
    "streams": dataclasses.replace(
        AWS_LARGE,
        streams=StreamReaders(targets=("arn:aws:sqs:eu-west-1:123456789012:items-*",)),
    ),
    "public-stores": dataclasses.replace(
        AWS_SMALL, vpc=None, redis=GivenRedis(url="rediss://cache.example", has_token=True)
    ),
    "regions": dataclasses.replace(
        AWS_SMALL,
        vpc=None,
        redis=GivenRedis(url="rediss://cache.example", has_token=True),
        region="eu-west-1",
        pools=(PoolKind(name="far", memory_mb=512, concurrency=3, region="us-east-2"),),
    ),
}


@pytest.fixture(scope="module")
def found(
    empty_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Finding]]:
    """Return the findings of the rules for each stage and each of the choices."""

    def look(stage: Stage) -> list[Finding]:
        app = compose(stage, tmp_path_factory.mktemp(stage.name), lambda *_, **__: empty_bundle)
        return list(nag.findings(app, stage.name))

    return {name: look(stage) for name, stage in {**STAGES, **CHOICES}.items()}


def test_every_finding_has_a_reason(found: dict[str, list[Finding]]):
    for findings in found.values():
        assert len(findings) > 10
        unknown = [one for one in findings if not any(known.covers(one) for known in ACCEPTED)]
        assert unknown == []


def test_no_reason_is_kept_for_what_is_mended(found: dict[str, list[Finding]]):
    every = [finding for findings in found.values() for finding in findings]

    assert [known for known in ACCEPTED if not any(map(known.covers, every))] == []


def test_a_bucket_that_takes_plain_text_would_be_found(empty_bundle: Bundle, tmp_path: Path):
    from aws_cdk import RemovalPolicy
    from aws_cdk import aws_s3 as s3

    app = compose(AWS_SMALL, tmp_path, lambda *_, **__: empty_bundle)
    state = app.node.find_child("crawlfleet-aws-small-state")
    s3.Bucket(state, "Careless", removal_policy=RemovalPolicy.DESTROY)

    careless = [one for one in nag.findings(app, "aws-small") if "Careless" in one.at]
    assert "S10" in {one.rule for one in careless}
    assert not any(known.covers(one) for known in ACCEPTED for one in careless)


def test_a_reason_says_more_than_that_there_is_one():
    assert [known for known in ACCEPTED if len(known.reason.split()) < 8] == []
