"""The store of spiders, as their verbs ask for it."""

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from crawlfleet.jobs.spiders.models import KeptSpider, SpiderPlan


class SpiderStore(Protocol):
    """Kept spiders: of each the last versions (``MOST_VERSIONS``), and whatever is named or held.

    What open jobs and schedules name is not known here: whoever has versions forgotten says it.
    """

    def put(self, tenant: str, biz: str, name: str, plan: SpiderPlan, now: datetime) -> KeptSpider:
        """Keep a plan as the spider's newest version; the newest itself where it is the same.

        Another description alone makes no version: it takes the old one's place. Two that put at
        once make two versions, none lost. A deleted spider's numbers go on where they were.

        Raises:
            QuotaExceededError: the biz keeps as many spiders as it may (``MOST_SPIDERS``).
            StoreUnavailableError: also where so many put at once that it never had its turn.
        """
        ...

    def hold(self, spider: KeptSpider, now: datetime) -> None:
        """A job or a schedule will name this version: it stays for as long as keeping that takes.

        Forgotten meanwhile, it is kept again. After ``HOLD`` it stays only if it is named.
        """
        ...

    def get(
        self, tenant: str, biz: str, name: str, version: int | None = None
    ) -> KeptSpider | None:
        """One version, the newest where none is named; None where there is none.

        Those of a deleted spider are found by their number until they are forgotten.
        """
        ...

    def of_biz(self, tenant: str, biz: str, after: str | None, limit: int) -> list[KeptSpider]:
        """The newest version of each spider, by name, beginning after a name."""
        ...

    def versions(self, tenant: str, biz: str, name: str, limit: int) -> list[KeptSpider]:
        """Versions of a spider, the newest first."""
        ...

    def delete(self, tenant: str, biz: str, name: str) -> bool:
        """Start it no more; its versions stay until they are forgotten. False without one."""
        ...

    def forget(
        self, tenant: str, biz: str, name: str, named: Collection[int], now: datetime
    ) -> int:
        """Forget versions but for those ``named`` or held: old ones; all of a deleted spider.

        Returns how many. A deleted spider's number stays for as long as ended jobs may have it.
        """
        ...

    def deleted(self, tenant: str, biz: str, after: str | None, limit: int) -> list[str]:
        """Deleted spiders of which versions are left, by name, beginning after one."""
        ...
