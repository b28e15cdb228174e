"""Whose call this is: the tenant comes from the API key and from nowhere else (SPEC.md C7).

Finding a biz in the configuration: the first step of nearly every journey.
"""

from crawlfleet.config.documents.biz import Biz, Tree
from crawlfleet.kernel.errors import (
    ConfigError,
    NotOperatorError,
    Problem,
    UnknownBizError,
    UnknownTenantError,
)
from crawlfleet.kernel.names import DEFAULT_TENANT
from crawlfleet.kernel.queue_key import Lane


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

    >>> from crawlfleet.config.documents.biz import Stage
    >>> tree = Tree(revision="", stage=Stage(operators=("ops",)), tenants={}, bizs={})
    >>> readable_tenants(tree, "acme"), readable_tenants(tree, "ops")
    (('acme',), None)
    """
    return None if operates(tree, tenant) else (tenant,)


def biz_of(tree: Tree, tenant: str, name: str) -> tuple[Lane, Biz]:
    """The tenant's biz and its lane.

    Raises:
        UnknownBizError: this tenant has none of that name, whoever else has.
        ConfigError: it has one, whose document was never right.
    """
    biz = tree.bizs.get(tenant, {}).get(name)
    if biz is None and (tenant, name) in tree.refused:
        raise ConfigError([Problem(f"bizs/{tenant}/{name}", "has no valid document")])
    if biz is None:
        message = f"there is no biz called {name[:64]!r}"
        raise UnknownBizError(message)
    return Lane(tenant, name, biz.queue), biz


def nodes_of(tree: Tree, lane: Lane) -> frozenset[str]:
    """The nodes of MongoDB that the ledger of a lane's biz is on."""
    _, biz = biz_of(tree, lane.tenant, lane.biz)
    return frozenset(node for generation in biz.generations for node in generation.nodes)
