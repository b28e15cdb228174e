"""Grant host slots to processes outside of the fleet, which ask for them by the API (SPEC.md H3).

They learn nothing of other tenants, and say nothing that others would have to believe: limits and
shares are those of the biz's own requests, and how a site answers them slows nobody else down.
"""

from collections.abc import Sequence

import msgspec

from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.documents.policies import Robots
from crawlfleet.config.lookup import biz_of, share_of
from crawlfleet.crawling.politeness.models import HostAsk, HostGrant, interval_of, limits_for
from crawlfleet.crawling.politeness.redis import RedisHosts
from crawlfleet.crawling.politeness.robots_txt import product_of

#: Stands before the name that a process gives itself, so that it is no worker's.
_OUTSIDE = "outside-"


class OutsideAsk(msgspec.Struct, frozen=True, kw_only=True):
    """An ask for ``count`` slots at a host, where ``running`` downloads are in flight or have one.

    ``crawl_delay_seconds`` is what the site's robots.txt asks for.
    """

    host: str
    count: int
    running: int = 0
    crawl_delay_seconds: float | None = None


class OutsideGrant(msgspec.Struct, frozen=True, kw_only=True):
    """The slots of each ask, in order, and how the biz is to read robots.txt files.

    ``obeys_robots`` is false where the biz ignores them; ``product`` is who they are asked for.
    """

    slots: tuple[HostGrant, ...]
    obeys_robots: bool
    product: str


def grant_outside(
    hosts: RedisHosts,
    tree: Tree,
    tenant: str,
    biz_name: str,
    process: str,
    asks: Sequence[OutsideAsk],
) -> OutsideGrant:
    """Reserve slots for a process of a tenant, by the limits of its biz.

    Raises StoreUnavailableError if slots cannot be granted now.
    """
    _, biz = biz_of(tree, tenant, biz_name)
    asked = []
    for ask in asks:
        limits = limits_for(tree.stage, biz, ask.host)
        asked.append(
            HostAsk(
                host=ask.host,
                tenant=tenant,
                count=ask.count,
                running=ask.running,
                interval_seconds=interval_of(limits, ask.crawl_delay_seconds),
                concurrency=limits.concurrency,
                share=share_of(tree, tenant),
            )
        )
    return OutsideGrant(
        slots=tuple(hosts.reserve(asked, _OUTSIDE + process)),
        obeys_robots=biz.politeness.robots is not Robots.IGNORE,
        product=product_of(biz.politeness, biz.fetch),
    )
