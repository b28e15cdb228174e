"""Whose call this is: the tenant comes from the API key and from nowhere else (SPEC.md C7)."""

from crawlfleet.errors import NotOperatorError, UnknownTenantError
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


def operates(tree: Tree, tenant: str) -> bool:
    """Whether a tenant is an operator: see :func:`must_operate`."""
    return tenant in (tree.stage.operators or (DEFAULT_TENANT,))


def must_operate(tree: Tree, tenant: str) -> None:
    """Pass a tenant that may see what concerns the platform and other tenants.

    Those are the stage document's ``operators``; where it names none, the default tenant, whose key
    the deployment made for whoever deployed it.

    Raises:
        NotOperatorError: this one may not.
    """
    if not operates(tree, tenant):
        message = (
            "what concerns all tenants is shown to operators only: the stage document's "
            "`operators` names them, or else the default tenant is the one"
        )
        raise NotOperatorError(message)


def readable_tenants(tree: Tree, tenant: str) -> tuple[str, ...] | None:
    """Whose incidents a tenant may read: its own; an operator everybody's, which is None.

    >>> from crawlfleet.model.biz import Stage
    >>> tree = Tree(revision="", stage=Stage(operators=("ops",)), tenants={}, bizs={})
    >>> readable_tenants(tree, "acme"), readable_tenants(tree, "ops")
    (('acme',), None)
    """
    return None if operates(tree, tenant) else (tenant,)
