"""The twin of MongoDB's store of kept spiders."""

import threading
from datetime import datetime
from typing import TypeAlias

from msgspec.structs import replace

from crawlfleet.errors import QuotaExceededError
from crawlfleet.model.plan import MOST_SPIDERS, MOST_VERSIONS, KeptSpider, SpiderPlan
from crawlfleet.model.times import from_ms, to_ms

_Key: TypeAlias = tuple[str, str, str]


class MemorySpiders:
    """ports.SpiderStore in memory."""

    def __init__(self) -> None:
        self._newest: dict[_Key, KeptSpider] = {}
        self._numbers: dict[_Key, int] = {}
        self._versions: dict[_Key, dict[int, KeptSpider]] = {}
        self._held: set[tuple[_Key, int]] = set()
        self._lock = threading.Lock()

    def put(self, tenant: str, biz: str, name: str, plan: SpiderPlan, now: datetime) -> KeptSpider:
        """See ports.SpiderStore.put."""
        key = (tenant, biz, name)
        with self._lock:
            standing = self._newest.get(key)
            if standing is not None and standing.plan.digest == plan.digest:
                return self._keep(key, replace(standing, plan=plan))
            if standing is None and self._count(tenant, biz) >= MOST_SPIDERS:
                raise QuotaExceededError(f"a biz keeps at most {MOST_SPIDERS:,} spiders")
            made = KeptSpider(
                tenant=tenant,
                biz=biz,
                name=name,
                version=max((*self._versions.get(key, ()), self._numbers.get(key, 0))) + 1,
                plan=plan,
                put_at=from_ms(to_ms(now)),
            )
            self._keep(key, made)
            self._drop(key, made.version - MOST_VERSIONS)
            return made

    def hold(self, spider: KeptSpider) -> None:
        """See ports.SpiderStore.hold."""
        key = (spider.tenant, spider.biz, spider.name)
        with self._lock:
            self._versions.setdefault(key, {}).setdefault(spider.version, spider)
            self._held.add((key, spider.version))

    def get(
        self, tenant: str, biz: str, name: str, version: int | None = None
    ) -> KeptSpider | None:
        """See ports.SpiderStore.get."""
        key = (tenant, biz, name)
        with self._lock:
            if version is None:
                return self._newest.get(key)
            return self._versions.get(key, {}).get(version)

    def of_biz(self, tenant: str, biz: str, after: str | None, limit: int) -> list[KeptSpider]:
        """See ports.SpiderStore.of_biz."""
        with self._lock:
            kept = sorted(self._newest.items())
        return [
            spider
            for key, spider in kept
            if key[:2] == (tenant, biz) and (after is None or spider.name > after)
        ][:limit]

    def versions(self, tenant: str, biz: str, name: str, limit: int) -> list[KeptSpider]:
        """See ports.SpiderStore.versions."""
        with self._lock:
            kept = dict(self._versions.get((tenant, biz, name), {}))
        return [kept[version] for version in sorted(kept, reverse=True)[:limit]]

    def delete(self, tenant: str, biz: str, name: str) -> bool:
        """See ports.SpiderStore.delete."""
        key = (tenant, biz, name)
        with self._lock:
            standing = self._newest.pop(key, None)
            if standing is None:
                return False
            self._drop(key, standing.version)
            if not self._versions[key]:
                del self._versions[key], self._numbers[key]
            return True

    def _keep(self, key: _Key, spider: KeptSpider) -> KeptSpider:
        self._newest[key] = spider
        self._numbers[key] = spider.version
        self._versions.setdefault(key, {})[spider.version] = spider
        return spider

    def _count(self, tenant: str, biz: str) -> int:
        return sum(key[:2] == (tenant, biz) for key in self._newest)

    def _drop(self, key: _Key, last: int) -> None:
        """Forget versions up to one, that one included, but for those that are held."""
        for version in [v for v in self._versions[key] if v <= last]:
            if (key, version) not in self._held:
                del self._versions[key][version]
