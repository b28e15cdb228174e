"""id-issuer: a block of ids for whoever asks (SPEC.md A2).

Opens Redis for the lease of a worker number, and MongoDB where Redis does not answer or the biz
counts.
"""

from typing import Any

from crawlfleet.wiring.importing import all_of_it_stays

with all_of_it_stays():
    from crawlfleet.wiring.id_issuer import id_issuer


def lambda_handler(event: dict[str, Any], context: Any) -> dict[str, object]:  # noqa: ARG001  Lambda's
    """Answer ``{kind, count, tenant, biz}`` with ``{runs, ids, expires_at}``."""
    return id_issuer().issue(event)
