"""monitor: samples rates, backlog and health, and emits them as metrics (SPEC.md A10, A11).

Opens the config centre, MongoDB and Redis; writes embedded-metric-format lines to its log.
"""

from typing import Any

from crawlfleet.wiring.importing import all_of_it_stays

with all_of_it_stays():
    from crawlfleet.wiring.monitor import monitor


def lambda_handler(event: dict[str, Any], context: Any) -> dict[str, object]:  # noqa: ARG001  the tick says nothing
    """Look at everything once."""
    return monitor().look()
