"""router: the HTTP API behind API Gateway (SPEC.md A1, A4-A6, A8, A10).

Opens the config centre, MongoDB and Redis; asks the id-issuer for ids, wakes a consumer.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from crawlfleet.apps.process import all_of_it_stays

with all_of_it_stays():
    from crawlfleet.apps.api import Router, router

#: Where `make console` builds the console.
SITE: Final = Path(__file__).parent / "site"


def lambda_handler(
    event: dict[str, Any],
    context: Any,
    opened: Callable[[], Router] = partial(router, site=SITE),  # noqa: B008  opens nothing yet
) -> dict[str, Any]:
    """Answer one REST proxy event, or a health check."""
    return opened().answer(event, context)
