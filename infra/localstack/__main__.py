"""``make localstack``: everything on a LocalStack of one's own, then nothing is left running.

``choose`` says which one is taken.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console

from crawlfleet.kernel.errors import CrawlfleetError
from infra.local.parts import PartError
from infra.localstack.cdk import Cdk, synthesise, wait_synthesised
from infra.localstack.folding import fold_layers
from infra.localstack.journey import STAGE, Journey
from infra.localstack.ordinary import Ordinary, docker_answers
from infra.localstack.scene import LocalStack, running
from infra.localstack.site import module_names
from infra.localstack.tools import ENV_TOOLS, Tools, find_tools
from infra.places import ENV_ENDPOINT
from infra.smoke.logs import tail
from infra.steps import StepError, Steps

PAGES: Final = 500
#: Fewer are done before the fleet has grown.
_LEAST_PAGES: Final = 300


def choose(folder: Path, environ: Mapping[str, str]) -> LocalStack:
    """The LocalStack that there is: the one that is named, or else Docker's.

    Raises:
        StepError: there is none.
    """
    if tools := find_tools(environ):
        return Tools(tools, folder, environ)
    if not environ.get(ENV_ENDPOINT) and not docker_answers(environ):
        raise StepError(
            "there is no LocalStack here",
            f"Start Docker; or name a LocalStack that runs in {ENV_ENDPOINT}, or in {ENV_TOOLS} the"
            " folder of one that needs no Docker.",
        )
    return Ordinary(folder, environ)


def run(
    localstack: LocalStack, folder: Path, pages: int, steps: Steps, *, folded: bool = False
) -> None:
    """Run all steps, from the build of LocalStack to the end of the journey.

    Raises:
        StepError: a step has failed.
    """
    with steps.step("LocalStack is built"):
        localstack.prepare()
    with ExitStack() as stack:
        with steps.step("Redis, MongoDB, a site and LocalStack are started") as step:
            scene = stack.enter_context(running(localstack, folder))
            step.saw(scene.environment[ENV_ENDPOINT])
        assembly, cdk = folder / "cdk.out", Cdk(scene.environment, folder)
        with steps.step("synthesis and bootstrap") as step:
            synthesis = synthesise(assembly, STAGE, scene.redis_url, folder / "synth.log")
            try:
                cdk.bootstrap()
                wait_synthesised(synthesis)
            finally:
                synthesis.end()
            if folded or localstack.folded:
                step.saw(f"{fold_layers(assembly)} functions carry their layers")
        journey = Journey(scene, steps, cdk, assembly, pages)
        try:
            journey.run()
        except StepError as error:
            if error.log_group:
                # Now: LocalStack is gone, and its logs with it, when this is told.
                error.quote = tail(journey.access, error.log_group, int(time.time() * 1000))
            raise


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    """Yield the folder for all output: one that is kept, or one that is not."""
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="crawlfleet-localstack-") as name:
        yield Path(name)


def main(arguments: list[str] | None = None) -> int:
    """Entry point; 0 when all of it went well."""
    parser = argparse.ArgumentParser(prog="make localstack", description=__doc__)
    parser.add_argument(
        "--pages", type=int, default=PAGES, help="how many pages (default %(default)s)"
    )
    parser.add_argument(
        "--folded", action="store_true", help="functions carry their layers, whatever LocalStack"
    )
    parser.add_argument("--keep", type=Path, help="an empty folder for logs, which are kept there")
    chosen = parser.parse_args(arguments)
    most = len(module_names())
    if not _LEAST_PAGES <= chosen.pages <= most:
        parser.error(f"argument --pages: must be {_LEAST_PAGES} to {most}, which the site has")
    if chosen.keep is not None and chosen.keep.exists() and any(chosen.keep.iterdir()):
        parser.error(f"argument --keep: {chosen.keep} is not empty")
    # What a closed terminal or `kill` sends ends this as Ctrl-C does: nothing stays running.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda *_: sys.exit(143))
    steps = Steps(console := Console())
    try:
        with _folder(chosen.keep) as folder:
            run(choose(folder, os.environ), folder, chosen.pages, steps, folded=chosen.folded)
    except StepError as error:
        steps.report(error)
        return 1
    except (PartError, CrawlfleetError) as error:
        steps.report(StepError(str(error), "Mend that, and try again."))
        return 1
    except KeyboardInterrupt:
        return 130
    console.print(f"\n{steps.count} steps in {steps.seconds:.0f} s; everything is stopped")
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main())
