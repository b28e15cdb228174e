"""The router's calls about what runs took."""

from functools import cached_property
from typing import TYPE_CHECKING

from crawlfleet.wiring.parts import Parts

if TYPE_CHECKING:
    from crawlfleet.adapters.mongo.demands import MongoDemands
    from crawlfleet.model.run import RunRecord
    from crawlfleet.model.usage import JobDemand


class RouterDemands:
    """edge.operations.Operations, as far as demands are concerned.

    What few calls are about is imported by them.
    """

    _parts: Parts

    @cached_property
    def _demands(self) -> "MongoDemands":
        from crawlfleet.adapters.mongo.demands import MongoDemands

        return MongoDemands(self._parts.nodes)

    def list_demands(
        self, tenant: str, biz: str, *, after: str | None, limit: int
    ) -> "list[JobDemand]":
        """flows.learning."""
        from crawlfleet.flows.learning import list_demands

        tree = self._parts.config.current()
        return list_demands(self._demands, tree, tenant, biz, after, limit)

    def get_demand(self, tenant: str, biz: str, spider: str) -> "JobDemand":
        """flows.learning."""
        from crawlfleet.flows.learning import get_demand

        return get_demand(self._demands, self._parts.config.current(), tenant, biz, spider)

    def get_run(self, tenant: str, biz: str, name: str) -> "RunRecord":
        """flows.learning."""
        from crawlfleet.flows.learning import get_run

        return get_run(self._demands, self._parts.config.current(), tenant, biz, name)
