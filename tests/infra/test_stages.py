"""The stages themselves: what they must differ in, and settings that exclude each other."""

import dataclasses

import pytest

from infra.bundle import ROOT
from infra.stages import (
    AWS_LARGE,
    AWS_SMALL,
    DEFAULT_STAGE,
    LOCALSTACK,
    STAGES,
    Archive,
    Atlas,
    ElastiCache,
    GivenRedis,
    Stage,
    StageError,
)
from tests.kit.kernel import Need, Settings

ATLAS = Atlas(org_id="5f0000000000000000000000", region="US_EAST_1")


def test_stages_are_named_as_they_are_keyed():
    assert {name: stage.name for name, stage in STAGES.items()} == {name: name for name in STAGES}


@pytest.mark.parametrize("name", STAGES)
def test_a_stages_name_is_one_that_the_functions_take(name: str):
    assert Settings.from_environment({"CRAWLFLEET_STAGE": name}, ()).stage == name


def test_who_names_no_stage_gets_the_cheap_one():
    assert AWS_SMALL.name == DEFAULT_STAGE
    assert AWS_SMALL.vpc is not None
    assert AWS_LARGE.vpc is not None
    assert AWS_SMALL.vpc.nat_count < AWS_LARGE.vpc.nat_count
    assert AWS_SMALL.consumer_concurrency < AWS_LARGE.consumer_concurrency
    assert isinstance(AWS_SMALL.redis, ElastiCache)
    assert AWS_SMALL.redis.replicas == 0


def test_only_the_large_stage_keeps_what_it_stores():
    assert [stage.name for stage in STAGES.values() if stage.keep_state] == ["aws-large"]


def test_state_of_a_stage_in_an_account_is_protected():
    assert [stage.name for stage in STAGES.values() if stage.protects("state")] == [
        "aws-small",
        "aws-large",
    ]


def test_no_stage_makes_a_database_that_nobody_asked_for():
    assert {stage.atlas for stage in STAGES.values()} == {None}


@pytest.mark.parametrize(
    "url",
    [
        *("redis://cache.example:6379", "rediss://cache.example:6379"),
        *("redis+cluster://10.0.0.1:6379", "rediss+cluster://cache.example:6379"),
    ],
)
def test_an_address_that_a_stage_takes_is_one_that_the_functions_take(url: str):
    stage = dataclasses.replace(LOCALSTACK, redis=GivenRedis(url=url))

    given = {
        "CRAWLFLEET_STAGE": stage.name,
        "CRAWLFLEET_REDIS_URL": url,
        "CRAWLFLEET_PLAIN_STORES": ",".join(stage.plain_stores),
    }
    assert Settings.from_environment(given, [Need.REDIS]).redis_url == url


@pytest.mark.parametrize(
    ("stage", "changes", "said"),
    [
        (AWS_SMALL, {"vpc": None}, "ElastiCache stands in a VPC"),
        (LOCALSTACK, {"redis": GivenRedis(url="localhost:6379")}, "redis.url is none of"),
        (LOCALSTACK, {"redis": GivenRedis(url="http://a:1")}, "redis.url is none of"),
        (LOCALSTACK, {"redis": GivenRedis(url="redis://:x@a:1")}, "holds a password"),
        (
            LOCALSTACK,
            {"redis": GivenRedis(url="redis://10.0.0.7:6379"), "plain_stores": ("10.0.0.8",)},
            "redis.url needs TLS",
        ),
        (LOCALSTACK, {"atlas": ATLAS}, "atlas lets in the addresses of the NAT"),
        (AWS_LARGE, {"atlas": dataclasses.replace(ATLAS, node="b")}, "'b' is none of nodes"),
        (
            AWS_LARGE,
            {"redis": dataclasses.replace(AWS_LARGE.redis, cluster_shards=0)},
            "cluster_shards is below 1",
        ),
        (LOCALSTACK, {"archive": Archive(days=30)}, "S3 wants more than the 30 of"),
        (LOCALSTACK, {"archive": Archive(infrequent_after_days=40, days=40)}, "more than the 40"),
        (AWS_SMALL, {"archive": Archive(infrequent_after_days=29)}, "is 29: S3 wants 30 at least"),
        (AWS_SMALL, {"archive": Archive(infrequent_after_days=None, days=0)}, "days is 0: S3"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(
    stage: Stage, changes: dict[str, object], said: str
):
    with pytest.raises(StageError, match=f"stage '{stage.name}': .*{said}"):
        dataclasses.replace(stage, **changes)


@pytest.mark.parametrize(
    "archive",
    [
        Archive(days=31),
        Archive(days=None),
        Archive(infrequent_after_days=None, days=1),
        Archive(infrequent_after_days=None, days=None),
    ],
)
def test_what_s3_takes_is_taken(archive: Archive):
    assert dataclasses.replace(LOCALSTACK, archive=archive).archive == archive


def test_a_refused_address_is_not_repeated_with_its_password():
    with pytest.raises(StageError) as refused:
        dataclasses.replace(LOCALSTACK, redis=GivenRedis(url="redis://:s3cret@a:1"))

    assert "s3cret" not in str(refused.value)


def test_all_errors_are_reported_at_once():
    with pytest.raises(StageError, match=r"redis\.url .*; atlas "):
        dataclasses.replace(LOCALSTACK, redis=GivenRedis(url="x"), atlas=ATLAS)


def test_make_deploys_the_default_stage_too():
    makefile = (ROOT / "Makefile").read_text()

    assert f"DEPLOYED := $(or $(STAGE),{DEFAULT_STAGE})\n" in makefile
