"""Reading incidents (SPEC.md A11): a tenant reads of its own bizs, an operator of everything."""

from crawlfleet.flows.tracking import Listing
from crawlfleet.model.biz import Tree
from crawlfleet.model.incident import Incident
from crawlfleet.model.times import to_ms
from crawlfleet.policy import cursor as cursors
from crawlfleet.policy.tenancy import readable_tenants
from crawlfleet.ports import IncidentBook


def list_incidents(
    book: IncidentBook,
    tree: Tree,
    tenant: str,
    *,
    open_only: bool,
    cursor: str | None,
    limit: int,
) -> Listing[Incident]:
    """Incidents, the newest first; those that are open, or all of the last months."""
    before = None if cursor is None else cursors.decode(cursor)
    found = book.find(
        readable_tenants(tree, tenant), open_only=open_only, before=before, limit=limit + 1
    )
    shown, more = found[:limit], len(found) > limit
    last = shown[-1] if shown else None
    if last is None or last.opened_at is None or not more:
        return Listing(shown, None, more=False)
    return Listing(shown, cursors.encode((to_ms(last.opened_at), last.id)), more=True)
