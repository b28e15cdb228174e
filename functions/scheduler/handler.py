"""scheduler: the minute's tick (SPEC.md A5, A9, B1, C5): schedules, dead workers, recovery, staff.

Opens the config centre, MongoDB and Redis; asks the id-issuer for ids, wakes consumers.
"""

from typing import Any

from crawlfleet.wiring.scheduler import scheduler


def lambda_handler(event: dict[str, Any], context: Any) -> dict[str, int]:  # noqa: ARG001  the tick says nothing
    """Do what is due now, however late or often this is called."""
    return scheduler().tick(
        f"scheduler-{context.aws_request_id}",
        lambda: context.get_remaining_time_in_millis() / 1000,
    )
