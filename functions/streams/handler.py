"""streams: reads streams for their subscribers, and delivers what they want (SPEC.md D1 to D10).

Opens the config centre, MongoDB, Redis, the channels' addresses, and the targets of subscriptions.
"""

from collections.abc import Callable
from typing import Any

from crawlfleet.apps.process import all_of_it_stays

with all_of_it_stays():
    from crawlfleet.apps.stream_function import StreamFunction, streams


def lambda_handler(
    event: dict[str, Any],
    context: Any,
    opened: Callable[[], StreamFunction] = streams,
) -> dict[str, object]:
    """Read for as long as this invocation may; its id is the reader's."""
    return opened().answer(
        event, context.aws_request_id, lambda: context.get_remaining_time_in_millis() / 1000
    )
