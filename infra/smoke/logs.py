"""Read the logs of functions."""

import json
from collections.abc import Iterator
from typing import Any, Final

from infra.aws_access import Access

#: Lines that are shown of a log, and how long each may be.
LINES: Final = 25
_WIDTH: Final = 600
#: What Lambda itself writes of each invocation, and metrics: they would push out what was said.
_NOT_SAID: Final = (
    "START RequestId",
    "END RequestId",
    "REPORT RequestId",
    "INIT_START",
    '{"_aws"',
)
#: How far back the latest lines are looked for.
_BACK_MS: Final = 15 * 60 * 1_000


def tail(access: Access, group: str, now_ms: int, count: int = LINES, *, region: str = "") -> str:
    """The latest lines of a log group; a sentence where there is none."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        events = access.all(
            "logs",
            "filter_log_events",
            "events",
            region=region,
            logGroupName=group,
            startTime=now_ms - _BACK_MS,
        )
    except (BotoCoreError, ClientError) as error:
        return f"(it cannot be read: {error})"
    reported = [event for event in events if not event["message"].startswith(_NOT_SAID)]
    return shown(reported[-count:]) or "(it is empty)"


def entries(access: Access, group: str, since_ms: int = 0) -> Iterator[dict[str, Any]]:
    """Decode the lines that functions have written as JSON; other lines are Lambda's own."""
    for event in access.all(
        "logs", "filter_log_events", "events", logGroupName=group, startTime=since_ms
    ):
        try:
            found = json.loads(event["message"])
        except ValueError:
            continue
        if isinstance(found, dict):
            yield found


def shown(events: list[dict[str, Any]]) -> str:
    """Events as lines."""
    return "\n".join(str(event["message"]).rstrip()[:_WIDTH] for event in events)
