"""consumer: downloads pages and stores records until there is nothing to do (SPEC.md A7).

Opens the config centre, MongoDB, Redis, and the web.
"""

from collections.abc import Callable
from typing import Any

from crawlfleet.apps.process import all_of_it_stays

with all_of_it_stays():
    from crawlfleet.apps.consumer import Consumer, consumer


def lambda_handler(
    event: dict[str, Any],
    context: Any,
    opened: Callable[[], Consumer] = consumer,
) -> dict[str, object]:
    """Work; the invocation's id is the worker's."""
    return opened().answer(
        event, context.aws_request_id, lambda: context.get_remaining_time_in_millis() / 1000
    )
