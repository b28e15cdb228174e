"""``make smoke STAGE=aws-small``: whether a deployment on AWS works, seen from outside.

It reads and changes nothing. With ``--url`` it also puts in that page, for a biz that there is, and
waits for its record: that is one page fetched and stored.
"""

import argparse
import os
import sys
import time

from rich.console import Console

from infra.account import advised
from infra.aws_access import Access
from infra.smoke import pages
from infra.smoke.checks import CHECKS
from infra.smoke.deployment import Deployment, find_deployment
from infra.smoke.logs import tail
from infra.stages import DEFAULT_STAGE, StageError, find_stage
from infra.steps import StepError, Steps

#: How long a page may take: a worker's start, the site, a second try.
_PAGE_SECONDS = 180.0


def run(
    stage: str, access: Access, steps: Steps, fetch_context: pages.FetchContext | None = None
) -> None:
    """Run all checks.

    Raises:
        StepError: one found something.
    """
    with steps.step("looking for the stacks") as step, advised(find_stage(stage)):
        deployment = find_deployment(stage, access)
        step.saw(deployment.api_url)
    check(deployment, steps)
    if fetch_context is not None:
        with steps.step("a page"), deployment.client() as client:
            ids = pages.submit(deployment, client, fetch_context)
            pages.wait_done(deployment, client, fetch_context, ids, _PAGE_SECONDS, step)
            step.saw(pages.records(client, fetch_context, ids))


def check(deployment: Deployment, steps: Steps) -> None:
    """Check what shows without changing anything."""
    for one in CHECKS:
        with steps.step(one.name) as step:
            step.saw(one.look(deployment))


def main(arguments: list[str] | None = None) -> int:
    """Entry point; 0 when all is well."""
    parser = argparse.ArgumentParser(prog="make smoke", description=__doc__)
    parser.add_argument("--stage", default=DEFAULT_STAGE)
    parser.add_argument("--url", help="put in this page, too")
    parser.add_argument("--biz", help="whose it is")
    parser.add_argument("--rule", help="how it is read; the biz's default where none is given")
    chosen = parser.parse_args(arguments)
    try:
        stage = find_stage(chosen.stage)
    except StageError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if (chosen.url is None) != (chosen.biz is None):
        parser.error("--url and --biz go together")
    fetch_context = None
    if chosen.url is not None:
        fetch_context = pages.FetchContext(biz=chosen.biz, urls=[chosen.url], rule=chosen.rule)
    access, steps = Access(region=stage.region), Steps(Console())
    try:
        run(chosen.stage, access, steps, fetch_context)
    except StepError as error:
        if error.log_group:
            now_ms = int(time.time() * 1000)
            error.quote = tail(access, error.log_group, now_ms, region=error.region)
        steps.report(error)
        return 1
    except KeyboardInterrupt:
        return 130
    Console().print(f"\n{steps.count} checks in {steps.seconds:.0f} s, all is well")
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main())
