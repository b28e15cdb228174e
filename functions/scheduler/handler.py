"""scheduler: a tick each half minute (SPEC.md A5, A9, B1, C5): schedules, recovery, scaling.

An event of a rule of somebody's own starts a spider (SPEC.md B1, C2).
An alarm that comes through SNS has it look after the number of workers at once (SPEC.md A12).

Opens the config centre, MongoDB and Redis; asks the id-issuer for ids, wakes consumers and sets
how many there may be.
"""

from collections.abc import Callable, Mapping
from typing import Any

from crawlfleet.apps.process import all_of_it_stays

with all_of_it_stays():
    from crawlfleet.apps.scheduler import Scheduler, scheduler


def lambda_handler(
    event: dict[str, Any],
    context: Any,
    opened: Callable[[], Scheduler] = scheduler,
) -> Mapping[str, object]:
    """Do what is due now, however late or often this is called."""
    return opened().answer(
        event,
        f"scheduler-{context.aws_request_id}",
        lambda: context.get_remaining_time_in_millis() / 1000,
    )
