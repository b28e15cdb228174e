"""A removal reports what would stop it half-way before it begins, with the commands to clear it."""

import dataclasses
import json

import boto3
import jmespath
import pytest
from moto import mock_aws

from infra.aws_access import Access
from infra.bundle import ROOT
from infra.pools import PoolKind
from infra.removal.__main__ import main
from infra.removal.obstacles import find_obstacles
from infra.smoke.deployment import stack_name
from infra.stages import STAGES, GivenRedis, Stage

_ENVIRONMENT = {
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
}
_ARCHIVE = "the-archive"


def client(service, region=""):
    return boto3.client(service, region_name=region or "us-east-1")


@pytest.fixture
def access(monkeypatch: pytest.MonkeyPatch):
    for key, value in _ENVIRONMENT.items():
        monkeypatch.setenv(key, value)
    with mock_aws():
        client("s3").create_bucket(Bucket=_ARCHIVE)
        client("s3").put_bucket_versioning(
            Bucket=_ARCHIVE, VersioningConfiguration={"Status": "Enabled"}
        )
        yield Access(_ENVIRONMENT)


def deploy(stage: str, *, unprotected: bool = False) -> None:
    """Stacks of the stage, protected as it says or, as after the operator's commands, not."""
    stand(STAGES[stage], unprotected=unprotected)


def stand(stage: Stage, *, unprotected: bool = False, by_hand: bool = False) -> None:
    """The same of any stage, each stack in its region; ``by_hand`` somebody has protected all."""
    for stack in stage.stacks:
        template = {
            "Resources": {"Nothing": {"Type": "AWS::SQS::Queue"}},
            "Outputs": {"ArchiveBucket": {"Value": _ARCHIVE}} if stack == "state" else {},
        }
        client("cloudformation", stage.region_of(stack)).create_stack(
            StackName=stack_name(stage.name, stack),
            TemplateBody=json.dumps(template),
            EnableTerminationProtection=by_hand or (stage.protects(stack) and not unprotected),
        )


def test_stacks_of_other_regions_refuse_as_well_and_are_named_with_them(access: Access):
    wide = dataclasses.replace(
        STAGES["aws-large"],
        vpc=None,
        redis=GivenRedis(url="rediss://cache.example", has_token=True),
        region="eu-west-1",
        pools=(PoolKind(name="far", memory_mb=512, concurrency=1, region="us-east-2"),),
    )
    stand(wide, by_hand=True)

    [refusal] = find_obstacles(wide, access)

    places = [command.split(" --region ")[1] for command in refusal.commands]
    assert [place.partition(" ")[0] for place in places] == [
        "us-east-2",
        "eu-west-1",
        "eu-west-1",
        "eu-west-1",
        "eu-west-1",
    ]
    assert [command.rpartition(" ")[2] for command in refusal.commands] == [
        f"crawlfleet-aws-large-{stack}" for stack in reversed(wide.stacks)
    ]


def test_a_stage_that_keeps_its_state_refuses_with_all_its_stacks(access: Access):
    deploy("aws-large")

    [refusal] = find_obstacles(STAGES["aws-large"], access)

    # The last first, as they are deleted.
    order = ("events", "api", "compute", "state", "network")
    assert [command.rpartition(" ")[2] for command in refusal.commands] == [
        f"crawlfleet-aws-large-{stack}" for stack in order
    ]
    assert "nothing was deleted" in refusal.said
    assert "Redis leaves a snapshot" in refusal.said


def test_the_small_stage_refuses_for_its_state_and_says_that_it_goes_for_good(access: Access):
    deploy("aws-small")

    [refusal] = find_obstacles(STAGES["aws-small"], access)

    assert [command.rpartition(" ")[2] for command in refusal.commands] == [
        "crawlfleet-aws-small-state"
    ]
    assert "gone for good" in refusal.said


@pytest.mark.parametrize("stage", ["aws-small", "aws-large"])
def test_whose_protection_was_ended_is_held_up_by_nothing(stage: str, access: Access):
    deploy(stage, unprotected=True)

    assert find_obstacles(STAGES[stage], access) == []


def test_what_was_never_deployed_is_held_up_by_nothing(access: Access):
    deploy("aws-large")

    assert find_obstacles(STAGES["aws-small"], access) == []


def test_an_archive_with_something_in_it_refuses_where_it_would_be_deleted(access: Access):
    deploy("aws-small", unprotected=True)
    client("s3").put_object(Bucket=_ARCHIVE, Key="page", Body=b"x")
    client("s3").delete_object(Bucket=_ARCHIVE, Key="page")

    [refusal] = find_obstacles(STAGES["aws-small"], access)

    listing, deleting = refusal.commands
    assert _ARCHIVE in refusal.said
    # What the command's query makes of the answer is what the other command takes.
    query = listing.partition("--query '")[2].partition("'")[0]
    answer = client("s3").list_object_versions(Bucket=_ARCHIVE)
    client("s3").delete_objects(Bucket=_ARCHIVE, Delete=jmespath.search(query, answer))
    assert find_obstacles(STAGES["aws-small"], access) == []
    assert deleting.endswith("--delete file://versions.json")


def test_an_archive_that_is_kept_may_have_something_in_it(access: Access):
    deploy("aws-large", unprotected=True)
    client("s3").put_object(Bucket=_ARCHIVE, Key="page", Body=b"x")

    assert find_obstacles(STAGES["aws-large"], access) == []


def test_the_command_ends_with_one_and_says_what_to_do(
    access: Access, capsys: pytest.CaptureFixture[str]
):
    assert access is not None
    deploy("aws-large")

    assert main(["obstacles", "--stage", "aws-large"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("aws-large: ")
    assert "crawlfleet-aws-large-events" in said
    assert said.count("--no-enable-termination-protection") == 5

    assert main(["obstacles", "--stage", "aws-small"]) == 0
    assert capsys.readouterr().err == ""


def test_whoever_may_not_look_deletes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    for key, value in (_ENVIRONMENT | {"AWS_MAX_ATTEMPTS": "1"}).items():
        monkeypatch.setenv(key, value)

    assert main(["obstacles", "--stage", "aws-small"]) == 1
    assert "stacks" in capsys.readouterr().err


def test_make_looks_before_it_deletes():
    recipe = (ROOT / "Makefile").read_text().partition("\ndestroy:")[2].partition("\n\n")[0]

    first, second = recipe.splitlines()[1:]
    assert first == '\t@$(BIN)/python -m infra.removal obstacles --stage "$(DEPLOYED)"'
    assert " destroy --all " in second
