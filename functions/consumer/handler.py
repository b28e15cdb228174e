"""consumer: downloads pages and stores records until there is nothing to do (SPEC.md A7).

Opens the config centre, MongoDB, Redis, and the web.
"""

from typing import Any

from crawlfleet.wiring.consumer import consumer


def lambda_handler(event: dict[str, Any], context: Any) -> dict[str, object]:  # noqa: ARG001  a wake-up says nothing
    """Work; the invocation's id is the worker's."""
    return consumer().work(
        context.aws_request_id, lambda: context.get_remaining_time_in_millis() / 1000
    )
