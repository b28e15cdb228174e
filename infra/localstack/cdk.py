"""The CDK command: bootstrap, deploy and destroy against a LocalStack."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from crawlfleet.kernel import names
from infra.bundle import ROOT
from infra.local.parts import python_environment
from infra.localstack.commands import Command

_SECONDS: Final = 300.0
#: Wheels may have to be downloaded first.
_SYNTH_SECONDS: Final = 600.0
_ASSETS: Final = "Its output says which resource failed; the log of LocalStack says why."


def synthesise(target: Path, stage: str, redis_url: str, log: Path) -> Command:
    """Begin to write the stacks' templates and assets to ``target``."""
    environment = {
        **python_environment(),
        "CDK_OUTDIR": str(target),
        "CDK_CONTEXT_JSON": json.dumps({"stage": stage, "redis": redis_url}),
        names.ENV_STAGE: stage,
    }
    return Command(
        "the synthesis", [sys.executable, str(ROOT / "infra" / "app.py")], log, environment, ROOT
    )


def wait_synthesised(command: Command) -> None:
    """Wait for its end.

    Raises:
        StepError: it failed.
    """
    command.wait(_SYNTH_SECONDS, "`make synth STAGE=localstack` does the same by itself.")


class Cdk:
    """The command in one environment.

    Args:
        environment: Of the command; says where AWS is.
        logs: Where its output goes.
    """

    def __init__(self, environment: Mapping[str, str], logs: Path) -> None:
        self._environment = {**environment, "CDK_DISABLE_CLI_TELEMETRY": "true"}
        self._logs = logs
        self._command = find_command(environment)

    def bootstrap(self) -> None:
        """Make the bucket and the roles that deployments go through."""
        region = self._environment["AWS_DEFAULT_REGION"]
        self._run("bootstrap", f"aws://{_ACCOUNT}/{region}")

    def deploy(
        self, assembly: Path, outputs: Path, meanwhile: Callable[[], None] = lambda: None
    ) -> None:
        """Deploy all stacks of an assembly.

        Raises:
            StepError: a resource could not be made.
        """
        command = self._begin(
            "deploy",
            *("--app", str(assembly), "--all", "--require-approval", "never"),
            *("--concurrency", "4", "--outputs-file", str(outputs)),
        )
        command.wait(_SECONDS, _ASSETS, meanwhile)

    def destroy(self, assembly: Path) -> None:
        """Delete all stacks of an assembly.

        Raises:
            StepError: a resource could not be deleted.
        """
        self._run("destroy", "--app", str(assembly), "--all", "--force")

    def _run(self, verb: str, *arguments: str) -> None:
        self._begin(verb, *arguments).wait(_SECONDS, _ASSETS)

    def _begin(self, verb: str, *arguments: str) -> Command:
        return Command(
            f"cdk {verb}",
            [*self._command, verb, *arguments, "--no-notices", "--ci"],
            self._logs / f"cdk-{verb}.log",
            self._environment,
            self._logs,
        )


#: LocalStack's, unless the credentials say otherwise.
_ACCOUNT: Final = "000000000000"


def find_command(environment: Mapping[str, str]) -> list[str]:
    """The command of the CDK: on PATH, or the one that is fetched and checked."""
    found = shutil.which("cdk", path=environment.get("PATH", os.defpath))
    return [found] if found else [sys.executable, str(ROOT / "infra" / "cdk_command.py")]


def gaps(access_all: Callable[..., list[dict[str, str]]], stacks: list[str]) -> list[str]:
    """List what LocalStack has only pretended to make."""
    return [
        f"{one['ResourceType']} {one['LogicalResourceId']}"
        for stack in stacks
        for one in access_all(
            "cloudformation", "list_stack_resources", "StackResourceSummaries", StackName=stack
        )
        if "not supported" in one.get("ResourceStatusReason", "")
    ]
