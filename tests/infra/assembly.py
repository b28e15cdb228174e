"""What the CDK app writes, read as CloudFormation would."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crawlfleet import names
from infra.bundle import ROOT

STAGE = "prod"


@dataclass(frozen=True)
class Assembly:
    """What one run of the CDK app wrote."""

    folder: Path

    def template(self, stack: str) -> dict[str, Any]:
        return json.loads((self.folder / f"crawlfleet-{STAGE}-{stack}.template.json").read_text())

    def resources(self, stack: str, kind: str) -> dict[str, dict[str, Any]]:
        """Resources of a type, by logical id."""
        found = self.template(stack)["Resources"]
        return {key: value for key, value in found.items() if value["Type"] == kind}

    def only(self, stack: str, kind: str) -> dict[str, Any]:
        """The one resource of a type."""
        (resource,) = self.resources(stack, kind).values()
        return resource

    def functions(self) -> dict[str, dict[str, Any]]:
        """Properties of every Lambda function in every stack, by deployed name."""
        properties = [
            resource["Properties"]
            for stack in self.stacks()
            for resource in self.resources(stack, "AWS::Lambda::Function").values()
        ]
        return {one["FunctionName"]: one for one in properties}

    def function(self, name: str) -> dict[str, Any]:
        return self.functions()[names.function_name(STAGE, name)]

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
        prefix = f"crawlfleet-{STAGE}-"
        return {
            key.removeprefix(prefix): value
            for key, value in artifacts.items()
            if value["type"] == "aws:cloudformation:stack"
        }


def synthesise(folder: Path) -> None:
    """Runs ``python infra/app.py`` as on a machine that knows no AWS account."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("AWS_", "CDK_", "CRAWLFLEET_", "PYTHONPATH"))
    }
    done = subprocess.run(
        [sys.executable, str(ROOT / "infra" / "app.py")],
        cwd=folder.parent,
        env=kept | {"CDK_OUTDIR": str(folder), names.ENV_STAGE: STAGE},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
