"""``python -m infra.account``: whether there is an account to ask, before anything takes its time.

``make deploy`` begins with it. What else stands in the command line is CDK's, and of that only
``--profile`` counts here.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import boto3

from infra.aws_access import CREDENTIALS, Access, asked
from infra.notify import ENV_NOTIFY, NOBODY
from infra.places import ADVICE, is_out_of_place
from infra.stages import DEFAULT_STAGE, Stage, StageError, find_stage
from infra.steps import StepError


def check_account(stage: Stage, access: Access) -> None:
    """Asks who asks, which everybody may whose credentials are valid.

    Raises:
        StepError: There are no credentials or no region, or AWS does not take them.
    """
    with advised(stage):
        try:
            asked("looking for the account", lambda: access.client("sts").get_caller_identity())
        except StepError as error:
            raise StepError(error.said, CREDENTIALS) from error


@contextmanager
def advised(stage: Stage) -> Iterator[None]:
    """Advise a stage of this machine otherwise where AWS itself was asked for it."""
    try:
        yield
    except StepError as error:
        if is_out_of_place(stage, os.environ):
            error.do = ADVICE
        raise


def exit_code(
    name: str, act: Callable[[Stage], int], find: Callable[[str], Stage] = find_stage
) -> int:
    """Return what ``act`` returns for the stage; 1, with the reason on stderr, where it fails."""
    try:
        return act(find(name))
    except StageError as error:
        sys.stderr.write(f"{error}\n")
    except StepError as error:
        sys.stderr.write(f"{name}: {error.said}\n{error.do}\n")
    return 1


def main(arguments: list[str] | None = None, find: Callable[[str], Stage] = find_stage) -> int:
    """Entry point; 0 when somebody may ask."""
    parser = argparse.ArgumentParser(
        prog="python -m infra.account", description=__doc__, add_help=False, allow_abbrev=False
    )
    parser.add_argument("--stage", default=DEFAULT_STAGE)
    parser.add_argument("--profile")
    chosen, _ = parser.parse_known_args(arguments)
    # As the command of the CDK reads them.
    if chosen.profile:
        os.environ["AWS_PROFILE"] = chosen.profile
    if region := os.environ.get("AWS_REGION"):
        os.environ.setdefault("AWS_DEFAULT_REGION", region)
    return exit_code(chosen.stage, _check, find)


def check_region(stage: Stage, environment: str | None) -> None:
    """Check that a stage that names its region is deployed from there.

    What only reads the environment, as `crawlfleet config push` does, would go astray otherwise.

    Raises:
        StepError: The environment is of another region.
    """
    if stage.region and environment and environment != stage.region:
        raise StepError(
            f"the stage stands in {stage.region}, and the environment is of {environment}",
            f"Set AWS_DEFAULT_REGION={stage.region}: `crawlfleet config push` reads it too.",
        )


def check_listeners(stage: Stage, named: str) -> None:
    """Check that somebody is notified of what is wrong: in the stage, or as ``named`` besides.

    Raises:
        StepError: Nobody is.
    """
    if replace(stage, notify=stage.notify.joined(named)).notifies_nobody:
        raise StepError("it is not deployed", NOBODY[0].upper() + NOBODY[1:])


def _check(stage: Stage) -> int:
    check_account(stage, Access(region=stage.region))
    check_region(stage, boto3.session.Session().region_name)
    check_listeners(stage, os.environ.get(ENV_NOTIFY, ""))
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main())
