"""What the API asks of whoever wires it about spiders."""

from typing import Protocol

from crawlfleet.model.plan import ConfiguredSpider, KeptSpider, SpiderPlan


class SpiderPage(Protocol):
    """A page of spiders."""

    @property
    def items(self) -> list[KeptSpider | ConfiguredSpider]:
        """Its spiders."""
        ...

    @property
    def cursor(self) -> str | None:
        """Where to go on."""
        ...

    @property
    def more(self) -> bool:
        """Whether there is more now."""
        ...


class SpiderOperations(Protocol):
    """What can be done with spiders, each for the tenant of the call's API key."""

    def put_spider(
        self, tenant: str, biz: str, name: str, plan: SpiderPlan
    ) -> tuple[KeptSpider, bool]:
        """Keep a plan; the version that stands for it, and whether it is new."""
        ...

    def get_spider(
        self, tenant: str, biz: str, name: str, version: int | None
    ) -> KeptSpider | ConfiguredSpider:
        """One spider."""
        ...

    def list_spiders(self, tenant: str, biz: str, *, cursor: str | None, limit: int) -> SpiderPage:
        """A page of what the biz document has, then of what is kept."""
        ...

    def list_spider_versions(self, tenant: str, biz: str, name: str) -> list[KeptSpider]:
        """The versions of a spider, the newest first."""
        ...

    def delete_spider(self, tenant: str, biz: str, name: str) -> None:
        """Delete a spider."""
        ...
