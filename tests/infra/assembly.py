"""The CDK app's cloud assembly, read as CloudFormation would read it."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.app import add_stacks
from infra.bundle import ROOT
from infra.bundle_contents import Bundle
from infra.stages import Stage
from tests.kit.kernel import names

if TYPE_CHECKING:
    from aws_cdk import App

#: The stage with everything on; what holds of the others alone is in tests of their own.
STAGE = "aws-large"


@dataclass(frozen=True)
class Assembly:
    """The output of one run of the CDK app for one stage."""

    folder: Path
    stage: str = STAGE

    def template(self, stack: str) -> dict[str, Any]:
        name = f"crawlfleet-{self.stage}-{stack}.template.json"
        return json.loads((self.folder / name).read_text())

    def resources(self, stack: str, kind: str) -> dict[str, dict[str, Any]]:
        """Resources of a type, by logical id."""
        found = self.template(stack)["Resources"]
        return {key: value for key, value in found.items() if value["Type"] == kind}

    def every(self, kind: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Stack, logical id and resource, of every stack; of one type, or of all."""
        for stack in self.stacks():
            for key, resource in self.template(stack)["Resources"].items():
                if kind in ("", resource["Type"]):
                    yield stack, key, resource

    def only(self, stack: str, kind: str) -> dict[str, Any]:
        """The one resource of a type."""
        (resource,) = self.resources(stack, kind).values()
        return resource

    def functions(self) -> dict[str, dict[str, Any]]:
        """Properties of every Lambda function in every stack, by deployed name."""
        functions = [one["Properties"] for _, _, one in self.every("AWS::Lambda::Function")]
        return {one["FunctionName"]: one for one in functions}

    def function(self, name: str) -> dict[str, Any]:
        return self.functions()[names.function_name(self.stage, name)]

    def statements(self, name: str) -> list[dict[str, Any]]:
        """Every policy statement of a function's role."""
        role = self.function(name)["Role"]["Fn::GetAtt"][0]
        return [
            statement
            for policy in self.resources("compute", "AWS::IAM::Policy").values()
            if {"Ref": role} in policy["Properties"]["Roles"]
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        ]

    def stacks(self) -> dict[str, dict[str, Any]]:
        """Manifest entry of every stack, by its short name."""
        artifacts = json.loads((self.folder / "manifest.json").read_text())["artifacts"]
        prefix = f"crawlfleet-{self.stage}-"
        return {
            key.removeprefix(prefix): value
            for key, value in artifacts.items()
            if value["type"] == "aws:cloudformation:stack"
        }


def app_command() -> list[str]:
    """The command by which the CDK's own, typed in the checkout, runs the app."""
    return shlex.split(json.loads((ROOT / "cdk.json").read_text())["app"])


def synthesise(folder: Path, stage: str = STAGE, **context: str) -> None:
    """Runs what ``cdk.json`` names as on a machine that knows no AWS account.

    What follows is what ``-c`` would say to the command of the CDK, which hands it on so.
    """
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("AWS_", "CDK_", "CRAWLFLEET_", "PYTHONPATH"))
    }
    done = subprocess.run(
        [sys.executable, *app_command()[1:]],
        cwd=ROOT,
        env=kept
        | {
            "CDK_OUTDIR": str(folder),
            "CDK_CONTEXT_JSON": json.dumps(context),
            names.ENV_STAGE: stage,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def compose(stage: Stage, folder: Path, build: Callable[..., Bundle]) -> "App":
    """Compose a stage in this process; it is not synthesised yet.

    The CDK is imported here, as by all tests that need it: that starts Node, and most tests read
    what a process of its own has synthesised.
    """
    from aws_cdk import App

    settings = json.loads((ROOT / "cdk.json").read_text())
    app = App(context=settings["context"], outdir=str(folder))
    add_stacks(app, stage, build)
    return app
