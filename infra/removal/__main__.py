"""``python -m infra.removal``: what ``make destroy`` and ``make adopt`` look for first.

``obstacles`` changes nothing; it ends with 1, and says what to do, where stacks would refuse their
deletion. ``ready`` ends with 1 where a stage keeps nothing. ``kept`` writes the mapping by which
``cdk import`` finds what a removed stage has kept.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from infra.account import advised, check_account, exit_code
from infra.aws_access import Access
from infra.removal.adoption import Adoption
from infra.removal.obstacles import find_obstacles
from infra.smoke.deployment import stack_name
from infra.stages import DEFAULT_STAGE, Stage


def report_obstacles(stage: Stage, access: Access) -> int:
    """Prints each obstacle with its commands; 1 where there is one."""
    with advised(stage):
        found = find_obstacles(stage, access)
    for one in found:
        sys.stderr.write("\n".join([f"{stage.name}: {one.said}", *one.commands]) + "\n\n")
    return int(bool(found))


def report_ready(stage: Stage, access: Access) -> int:
    """1, with the reason, where there is nothing to look for; else who asks is let in."""
    if not stage.keep_state:
        sys.stderr.write(
            f"{stage.name} keeps nothing (keep_state is off in infra/stages.py),"
            " so there is nothing to adopt\n"
        )
        return 1
    check_account(stage, access)
    return os.EX_OK


def write_kept(stage: str, access: Access, assembly: Path, into: Path) -> int:
    """Writes the mapping, and prints what it has; 1 where nothing was kept."""
    stack = stack_name(stage, "state")
    template = json.loads((assembly / f"{stack}.template.json").read_text())
    adoption = Adoption(stack, template, access)
    mapping = adoption.mapping()
    if not mapping:
        sys.stderr.write(f"{stage}: nothing of it was kept here; `make deploy STAGE={stage}`\n")
        return 1
    into.write_text(json.dumps(mapping, indent=2) + "\n")
    for logical_id, identifier in mapping.items():
        sys.stdout.write(f"{logical_id:<24} {next(iter(identifier.values()))}\n")
    for logical_id in adoption.strangers():
        sys.stdout.write(f"{logical_id:<24} not looked for: see docs/guides/remove.md\n")
    return os.EX_OK


def main(arguments: list[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m infra.removal", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    obstacles = verbs.add_parser("obstacles", help="what would refuse its deletion")
    kept = verbs.add_parser("kept", help="what a removed stage has kept")
    ready = verbs.add_parser("ready", help="whether there is anything to look for")
    for verb in (obstacles, ready, kept):
        verb.add_argument("--stage", default=DEFAULT_STAGE)
    kept.add_argument("--assembly", type=Path, required=True, help="folder that synth wrote")
    kept.add_argument("--into", type=Path, required=True, help="file for the mapping")
    chosen = parser.parse_args(arguments)

    def act(stage: Stage) -> int:
        if chosen.verb == "obstacles":
            return report_obstacles(stage, Access(region=stage.region))
        if chosen.verb == "ready":
            return report_ready(stage, Access(region=stage.region))
        return write_kept(stage.name, Access(region=stage.region), chosen.assembly, chosen.into)

    return exit_code(chosen.stage, act)


if __name__ == "__main__":
    sys.exit(main())
