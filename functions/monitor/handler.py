"""monitor: samples rates, backlog and health, and emits them as metrics (SPEC.md A10, A11).

Opens the config centre, MongoDB and Redis; writes embedded-metric-format lines to its log.
"""

from collections.abc import Callable
from typing import Any

from crawlfleet.apps.process import all_of_it_stays

with all_of_it_stays():
    from crawlfleet.apps.monitor import Monitor, monitor


def lambda_handler(
    event: dict[str, Any],
    context: Any,  # noqa: ARG001
    opened: Callable[[], Monitor] = monitor,
) -> dict[str, object]:
    """Look at everything once; the tick says nothing."""
    return opened().answer(event)
