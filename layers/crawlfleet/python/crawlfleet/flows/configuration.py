"""Finding a biz in the configuration: the first step of nearly every journey."""

from crawlfleet.errors import ConfigError, Problem, UnknownBizError
from crawlfleet.model.biz import Biz, Tree
from crawlfleet.model.lane import Lane


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
