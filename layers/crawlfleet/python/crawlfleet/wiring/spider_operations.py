"""The router's calls about spiders: each is a flow, given the configuration in force."""

from functools import cached_property
from typing import TYPE_CHECKING

from crawlfleet.flows.tracking import Listing
from crawlfleet.model.plan import ConfiguredSpider, KeptSpider, SpiderPlan
from crawlfleet.model.pool import MAIN_POOL
from crawlfleet.wiring.parts import Parts

if TYPE_CHECKING:
    from crawlfleet.flows.spiders import SpiderPorts


class RouterSpiders:
    """edge.spider_operations.SpiderOperations."""

    _parts: Parts

    @cached_property
    def _keeping(self) -> "SpiderPorts":
        from crawlfleet.adapters.mongo.jobs import MongoJobs
        from crawlfleet.adapters.mongo.schedules import MongoSchedules
        from crawlfleet.adapters.mongo.spiders import MongoSpiders
        from crawlfleet.flows.spiders import SpiderPorts

        nodes = self._parts.nodes
        return SpiderPorts(
            spiders=MongoSpiders(nodes), schedules=MongoSchedules(nodes), jobs=MongoJobs(nodes)
        )

    def put_spider(
        self, tenant: str, biz: str, name: str, plan: SpiderPlan
    ) -> tuple[KeptSpider, bool]:
        """flows.spiders."""
        from crawlfleet.flows.spiders import put_spider

        tree = self._parts.config.current()
        others = getattr(self._parts.settings, "pools", ())
        pools = {MAIN_POOL, *(pool.name for pool in others)}
        return put_spider(self._keeping, tree, tenant, biz, name, plan, pools, self._parts.now())

    def get_spider(
        self, tenant: str, biz: str, name: str, version: int | None
    ) -> KeptSpider | ConfiguredSpider:
        """flows.spiders."""
        from crawlfleet.flows.spiders import get_spider

        tree = self._parts.config.current()
        return get_spider(self._keeping, tree, tenant, biz, name, version)

    def list_spiders(
        self, tenant: str, biz: str, *, cursor: str | None, limit: int
    ) -> Listing[KeptSpider | ConfiguredSpider]:
        """flows.spiders."""
        from crawlfleet.flows.spiders import list_spiders

        tree = self._parts.config.current()
        return list_spiders(self._keeping, tree, tenant, biz, cursor=cursor, limit=limit)

    def list_spider_versions(self, tenant: str, biz: str, name: str) -> list[KeptSpider]:
        """flows.spiders."""
        from crawlfleet.flows.spiders import list_versions

        return list_versions(self._keeping, self._parts.config.current(), tenant, biz, name)

    def delete_spider(self, tenant: str, biz: str, name: str) -> None:
        """flows.spiders."""
        from crawlfleet.flows.spiders import delete_spider

        delete_spider(
            self._keeping, self._parts.config.current(), tenant, biz, name, self._parts.now()
        )
