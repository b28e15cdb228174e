"""id-issuer: a block of ids for whoever asks (SPEC.md A2).

Opens Redis for the lease of a worker number, and MongoDB where Redis does not answer or the biz
counts.
"""

from collections.abc import Callable
from typing import Any

from crawlfleet.apps.process import all_of_it_stays

with all_of_it_stays():
    from crawlfleet.apps.id_issuer import EnvironmentIdIssuer, id_issuer


def lambda_handler(
    event: dict[str, Any],
    context: Any,  # noqa: ARG001  Lambda's
    opened: Callable[[], EnvironmentIdIssuer] = id_issuer,
) -> dict[str, object]:
    """Answer ``{kind, count, tenant, biz}`` with ``{runs, ids, expires_at}``; or a health check."""
    return opened().answer(event)
