"""Whose call this is: the tenant comes from the API key and from nowhere else (SPEC.md C7)."""

from crawlfleet.errors import UnknownTenantError
from crawlfleet.model.biz import Tree
from crawlfleet.names import DEFAULT_TENANT


def tenant_of(tree: Tree, api_key_id: str | None, default_key_id: str | None) -> str:
    """The tenant that an API key belongs to, by the key's id.

    Raises:
        UnknownTenantError: it belongs to none.
    """
    if api_key_id:
        for name, tenant in tree.tenants.items():
            if api_key_id in tenant.api_keys:
                return name
        if api_key_id == default_key_id:
            return DEFAULT_TENANT
    message = "the API key belongs to no tenant"
    raise UnknownTenantError(message)
