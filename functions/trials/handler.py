"""trials: tries a rule on a page that anybody names (SPEC.md H8).

Opens the web alone: it has neither stores nor configuration nor secrets.
"""

from collections.abc import Callable
from typing import Any

from crawlfleet.apps.process import all_of_it_stays

with all_of_it_stays():
    from crawlfleet.apps.trials import TrialApp, trials


def lambda_handler(
    event: dict[str, Any],
    _context: Any,
    opened: Callable[[], TrialApp] = trials,
) -> dict[str, object]:
    """Do a step of a trial, or answer a health check."""
    return opened().answer(event)
