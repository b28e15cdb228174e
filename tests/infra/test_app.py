"""The app as a whole: what it asks of the machine, and what it refuses."""

import json

import pytest

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


def test_an_unknown_stage_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(names.ENV_STAGE, "moon")

    with pytest.raises(SystemExit, match=r"'moon'; the stages are dev, prod"):
        app.app()


def test_stages_are_named_as_they_are_keyed():
    assert {name: stage.name for name, stage in STAGES.items()} == {name: name for name in STAGES}
