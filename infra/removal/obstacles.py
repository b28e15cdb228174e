"""Find what would end ``make destroy`` half-way, before anything is deleted.

CDK deletes the last stack first. A stack that refuses is met when others are gone already, and so
is a bucket with something in it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from infra.aws_access import Access, asked
from infra.smoke.deployment import stack_name
from infra.stages import Stage

#: What a stage that keeps its state leaves, in words.
_KEPT: Final = (
    "Secrets, the default key, the topics with who is subscribed, and the archive stay even then,"
    " and Redis leaves a snapshot"
)
_GONE: Final = "Secrets, keys, topics and what Redis holds are then gone for good"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Something that holds a removal up.

    Attributes:
        said: What it is, in a sentence.
        commands: What ends it, for a shell.
    """

    said: str
    commands: tuple[str, ...]


def find_obstacles(stage: Stage, access: Access) -> list[Obstacle]:
    """Return all obstacles to a removal; none means that all stacks can be deleted.

    Raises:
        StepError: AWS refused or did not answer.
    """
    of_stage = {stack_name(stage.name, stack): stack for stack in reversed(stage.stacks)}
    standing: dict[str, Mapping[str, Any]] = {}
    for region in sorted({stage.region_of(stack) for stack in stage.stacks}):
        described = asked(
            "looking for the stacks",
            *(access.all, "cloudformation", "describe_stacks", "Stacks"),
            region=region,
        )
        standing |= {
            one["StackName"]: one
            for one in described
            if stage.region_of(of_stage.get(one["StackName"], "")) == region
            and one["StackName"] in of_stage
        }
    refusing = {
        name: stage.region_of(stack)
        for name, stack in of_stage.items()
        if standing.get(name, {}).get("EnableTerminationProtection")
    }
    return [
        *_protected(refusing, stage),
        *_archive(standing.get(stack_name(stage.name, "state"), {}), stage, access),
    ]


def _protected(refusing: Mapping[str, str], stage: Stage) -> Iterator[Obstacle]:
    """Yield an obstacle for protected stacks; ``refusing`` maps their names to regions."""
    if refusing:
        yield Obstacle(
            said=f"termination protection is on for {', '.join(refusing)}: nothing was deleted."
            f" End it, and ask again. {_KEPT if stage.keep_state else _GONE}",
            commands=tuple(
                "aws cloudformation update-termination-protection"
                + (f" --region {region}" if region else "")
                + f" --no-enable-termination-protection --stack-name {name}"
                for name, region in refusing.items()
            ),
        )


def _archive(state: Mapping[str, Any], stage: Stage, access: Access) -> Iterator[Obstacle]:
    outputs = {one["OutputKey"]: one["OutputValue"] for one in state.get("Outputs", ())}
    bucket = outputs.get("ArchiveBucket")
    if bucket is None or stage.keep_state:
        return
    held = asked(
        f"looking into the archive {bucket}",
        access.client("s3").list_object_versions,
        Bucket=bucket,
        MaxKeys=1,
    )
    if held.get("Versions") or held.get("DeleteMarkers"):
        yield Obstacle(
            said=f"the archive {bucket} has something in it, and AWS deletes no such bucket:"
            " nothing was deleted. Empty it, versions too, a thousand at a time:",
            commands=_emptying(bucket),
        )


def _emptying(bucket: str) -> tuple[str, ...]:
    """Commands that delete the first thousand versions of what a bucket has."""
    wanted = "{Objects: [Versions, DeleteMarkers][].{Key: Key, VersionId: VersionId}}"
    listing = f"aws s3api list-object-versions --bucket {bucket} --max-items 1000 --output json"
    return (
        f"{listing} --query '{wanted}' > versions.json",
        f"aws s3api delete-objects --bucket {bucket} --delete file://versions.json",
    )
