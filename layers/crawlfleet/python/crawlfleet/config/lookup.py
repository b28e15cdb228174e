"""Look up tenants, bizs and pools in the configuration: the first step of nearly every journey.

The tenant of a call comes from the API key and from nowhere else (SPEC.md C7). All pools share the
stage's Redis, MongoDB and configuration; what differs is who takes what (SPEC.md B12). The usual
pool takes whatever is bound for no other. A further one takes what is bound for it and, where its
limits say so (``bound_only`` false), the usual work as well.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec.structs import replace

from crawlfleet.config.documents.biz import Biz, FleetLimits, PoolLimits, Stage, Tree
from crawlfleet.config.documents.ceilings import Ceilings
from crawlfleet.kernel import errors
from crawlfleet.kernel.names import DEFAULT_TENANT
from crawlfleet.kernel.queue_key import MAIN_POOL, QueueKey, bound
from crawlfleet.kernel.validation import named


def tenant_of(tree: Tree, api_key_id: str | None, default_key_id: str | None, now: datetime) -> str:
    """Return the tenant that an API key belongs to, by the key's id.

    Raises:
        UnknownTenantError: it belongs to none, or another one has replaced it.
    """
    if api_key_id:
        for name, tenant in tree.tenants.items():
            if api_key_id in tenant.api_keys:
                return name
            if (until := tenant.retiring_keys.get(api_key_id)) is None:
                continue
            if now < until:
                return name
            ended = until.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            raise errors.UnknownTenantError(f"the API key was replaced, and ended at {ended}")
        if api_key_id == default_key_id:
            return DEFAULT_TENANT
    raise errors.UnknownTenantError("the API key belongs to no tenant")


def operates(tree: Tree, tenant: str) -> bool:
    """Return whether a tenant is an operator: see :func:`must_operate`."""
    return tenant in (tree.stage.operators or (DEFAULT_TENANT,))


def must_operate(tree: Tree, tenant: str) -> None:
    """Pass a tenant that may see what concerns the platform and other tenants.

    Those are the stage document's ``operators``; where it names none, the default tenant, whose key
    the deployment made.

    Raises:
        NotOperatorError: this one may not.
    """
    if not operates(tree, tenant):
        raise errors.NotOperatorError(
            "what concerns all tenants is shown to operators only: the stage document's "
            "`operators` names them, or else the default tenant is the one"
        )


def readable_tenants(tree: Tree, tenant: str) -> tuple[str, ...] | None:
    """Return whose incidents a tenant may read: its own; None for an operator, who may read all.

    >>> from crawlfleet.config.documents.biz import Stage
    >>> tree = Tree(revision="", stage=Stage(operators=("ops",)), tenants={}, bizs={})
    >>> readable_tenants(tree, "acme"), readable_tenants(tree, "ops")
    (('acme',), None)
    """
    return None if operates(tree, tenant) else (tenant,)


def is_suspended(tree: Tree, tenant: str) -> bool:
    """Return whether an operator has suspended a tenant."""
    found = tree.tenants.get(tenant)
    return found is not None and found.suspended


def must_be_active(tree: Tree, tenant: str) -> None:
    """Pass a tenant that is not suspended.

    Raises:
        TenantSuspendedError: this one is.
    """
    if is_suspended(tree, tenant):
        raise errors.TenantSuspendedError(
            f"an operator has suspended the tenant {tenant}: what it has stays and can be read, "
            "and goes on when it is resumed"
        )


def active_queues(tree: Tree) -> tuple[QueueKey, ...]:
    """Return the usual queue keys of the tenants that are not suspended."""
    return tuple(one for one in tree.queues() if not is_suspended(tree, one.tenant))


def biz_of(tree: Tree, tenant: str, name: str) -> tuple[QueueKey, Biz]:
    """Return the tenant's biz and its queue key.

    Raises:
        UnknownBizError: this tenant has none of that name.
        ConfigError: it has one, whose document was never right.
    """
    biz = tree.bizs.get(tenant, {}).get(name)
    if biz is None and (tenant, name) in tree.refused:
        raise errors.ConfigError([errors.Problem(f"bizs/{tenant}/{name}", "has no valid document")])
    if biz is None:
        there = named(sorted(tree.bizs.get(tenant, {})), name) or "none"
        raise errors.UnknownBizError(f"there is no biz called {name[:64]!r}; there are: {there}")
    return QueueKey(tenant, name, biz.queue), biz


def nodes_of(tree: Tree, queue_key: QueueKey) -> frozenset[str]:
    """Return the nodes of MongoDB that the ledger of a queue key's biz is on."""
    _, biz = biz_of(tree, queue_key.tenant, queue_key.biz)
    return frozenset(node for generation in biz.generations for node in generation.nodes)


def pool_limits(stage: Stage, pool: str) -> PoolLimits:
    """Return the limits of a pool beside the usual one; one not named has no worker kept there."""
    return stage.pools.get(pool, PoolLimits())


def shares_work(stage: Stage, pool: str) -> bool:
    """Return whether workers of a pool take what is bound for none, and do background tasks.

    >>> shares_work(Stage(), "main"), shares_work(Stage(), "large")
    (True, False)
    """
    return pool == MAIN_POOL or not pool_limits(stage, pool).bound_only


def share_of(tree: Tree, tenant: str) -> int:
    """Return a tenant's share of what workers and stores can do; 1 where it states none.

    >>> share_of(Tree(revision="", stage=Stage(), tenants={}, bizs={}), "acme")
    1
    """
    found = tree.tenants.get(tenant)
    return 1 if found is None else found.share


def ceilings_of(tree: Tree, tenant: str) -> Ceilings:
    """Return a tenant's ceilings; a tenant without a document has none."""
    found = tree.tenants.get(tenant)
    return Ceilings() if found is None else found.ceilings


def serves(stage: Stage, pool: str, queue_key: QueueKey) -> bool:
    """Return whether workers of a pool take work of a queue key.

    >>> queue_key = QueueKey("a", "b", "main@large")
    >>> [serves(Stage(), pool, queue_key) for pool in ("main", "large", "far")]
    [False, True, False]
    """
    return shares_work(stage, pool) if queue_key.pool is None else queue_key.pool == pool


def served_queues(tree: Tree, pool: str) -> tuple[QueueKey, ...]:
    """Return the queue keys that workers of a pool serve, those that are bound for it first.

    Nothing of a suspended tenant is served.
    """
    own = tuple(one for one in tree.bound_queues(pool) if not is_suspended(tree, one.tenant))
    return (*own, *active_queues(tree)) if shares_work(tree.stage, pool) else own


def limits_of(stage: Stage, pool: str) -> FleetLimits:
    """Return the limits of a pool: as the fleet's, but for the number of workers."""
    if pool == MAIN_POOL:
        return stage.fleet
    limits = pool_limits(stage, pool)
    return replace(
        stage.fleet, min_consumers=limits.min_consumers, max_consumers=limits.max_consumers
    )


def queues_beside(tree: Tree, queue_key: QueueKey) -> tuple[QueueKey, ...]:
    """Return a biz's queue keys beside its usual one: one for each further pool."""
    return tuple(bound(queue_key, pool) for pool in tree.further_pools)


def queue_key_of(queue_key: QueueKey, pool: str | None) -> QueueKey:
    """Return the queue key of a request that is bound for a pool, or for none."""
    return bound(queue_key, MAIN_POOL if pool is None else pool)


def every_queue(tree: Tree, beside: Iterable[str] = ()) -> tuple[QueueKey, ...]:
    """Return the queue keys of all pools, as recovery has to look at all of them.

    ``beside`` are pools that this configuration may know nothing of, as live workers name them.
    """
    pools = sorted({*tree.further_pools, *beside} - {MAIN_POOL})
    return (*tree.queues(), *(queue_key for pool in pools for queue_key in tree.bound_queues(pool)))


def proxies_of(stage: Stage, biz: Biz, pool: str) -> str | None:
    """Return the pool of proxies by which a biz's downloads leave from workers of a pool.

    It is the biz's own, or that of the workers' pool, or else the stage's; None is no proxy.
    """
    workers = stage.pools.get(pool)
    own = None if workers is None else workers.proxies
    return biz.fetch.proxies or own or stage.default_proxies
