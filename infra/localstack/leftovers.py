"""List what remains of a stage, by asking each service: nothing may after its deletion.

The stacks would not tell: what they have lost sight of is what is looked for.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from crawlfleet.kernel import names
from infra.aws_access import Access

#: Service, list, its key, and what in an entry has the stage's name; an entry may be a name itself.
_LISTS: Final[Mapping[str, tuple[str, str, str, str]]] = {
    "functions": ("lambda", "list_functions", "Functions", "FunctionName"),
    "rules": ("events", "list_rules", "Rules", "Name"),
    "alarms": ("cloudwatch", "describe_alarms", "MetricAlarms", "AlarmName"),
    "topics": ("sns", "list_topics", "Topics", "TopicArn"),
    "buckets": ("s3", "list_buckets", "Buckets", "Name"),
    "queues": ("sqs", "list_queues", "QueueUrls", ""),
    "secrets": ("secretsmanager", "list_secrets", "SecretList", "Name"),
    "REST APIs": ("apigateway", "get_rest_apis", "items", "name"),
    "API keys": ("apigateway", "get_api_keys", "items", "name"),
    "log groups": ("logs", "describe_log_groups", "logGroups", "logGroupName"),
    "roles": ("iam", "list_roles", "Roles", "RoleName"),
}
KINDS: Final = (*_LISTS, "KMS keys")


def standing(access: Access, stage: str) -> dict[str, list[str]]:
    """Names of what stands of a stage, by kind; a kind of which nothing does is not there."""
    of_stage = re.compile(rf"(^|[:/ ]){names.PRODUCT}[-/ ]{re.escape(stage)}($|[-/ ])").search
    found = {kind: list(_listed(access, of_stage, *asked)) for kind, asked in _LISTS.items()}
    found["KMS keys"] = list(_keys(access, of_stage))
    return {kind: each for kind, each in found.items() if each}


def _listed(
    access: Access, of_stage: Callable[[str], Any], service: str, operation: str, key: str, at: str
) -> Iterator[str]:
    for one in access.all(service, operation, key):
        name = str(one[at] if at else one)
        if of_stage(name):
            yield name


def _keys(access: Access, of_stage: Callable[[str], Any]) -> Iterator[str]:
    """A key has no name, and waits for days until it is deleted; by then nobody can use it."""
    for one in access.all("kms", "list_keys", "Keys"):
        about = access.client("kms").describe_key(KeyId=one["KeyId"])["KeyMetadata"]
        if about["KeyState"] != "PendingDeletion" and of_stage(str(about.get("Description", ""))):
            yield str(about["Description"])
