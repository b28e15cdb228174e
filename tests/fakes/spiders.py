"""An in-memory fake keeps spiders and their versions."""

import threading
from collections.abc import Collection
from datetime import datetime
from typing import TypeAlias

from msgspec.structs import replace

from tests.kit.kernel import QuotaExceededError, from_ms, to_ms
from tests.kit.spiders import HOLD, MOST_SPIDERS, MOST_VERSIONS, KeptSpider, SpiderPlan

_Key: TypeAlias = tuple[str, str, str]


class MemorySpiders:
    """In-memory ``MongoSpiders``."""

    def __init__(
        self, *, most_spiders: int = MOST_SPIDERS, most_versions: int = MOST_VERSIONS
    ) -> None:
        self._most_spiders, self._most_versions = most_spiders, most_versions
        self._newest: dict[_Key, KeptSpider] = {}
        self._numbers: dict[_Key, int] = {}
        self._versions: dict[_Key, dict[int, KeptSpider]] = {}
        self._held: dict[tuple[_Key, int], datetime] = {}
        self._lock = threading.Lock()

    def put(self, tenant: str, biz: str, name: str, plan: SpiderPlan, now: datetime) -> KeptSpider:
        key = (tenant, biz, name)
        with self._lock:
            standing = self._newest.get(key)
            if standing is not None and standing.plan.digest == plan.digest:
                return self._keep(key, replace(standing, plan=plan))
            if standing is None and self._count(tenant, biz) >= self._most_spiders:
                raise QuotaExceededError(f"a biz keeps at most {self._most_spiders:,} spiders")
            made = KeptSpider(
                tenant=tenant,
                biz=biz,
                name=name,
                version=max((*self._versions.get(key, ()), self._numbers.get(key, 0))) + 1,
                plan=plan,
                put_at=from_ms(to_ms(now)),
            )
            return self._keep(key, made)

    def hold(self, spider: KeptSpider, now: datetime) -> None:
        key = (spider.tenant, spider.biz, spider.name)
        with self._lock:
            self._versions.setdefault(key, {}).setdefault(spider.version, spider)
            self._held[key, spider.version] = now

    def get(
        self, tenant: str, biz: str, name: str, version: int | None = None
    ) -> KeptSpider | None:
        key = (tenant, biz, name)
        with self._lock:
            if version is None:
                return self._newest.get(key)
            return self._versions.get(key, {}).get(version)

    def of_biz(self, tenant: str, biz: str, after: str | None, limit: int) -> list[KeptSpider]:
        with self._lock:
            kept = sorted(self._newest.items())
        return [
            spider
            for key, spider in kept
            if key[:2] == (tenant, biz) and (after is None or spider.name > after)
        ][:limit]

    def versions(self, tenant: str, biz: str, name: str, limit: int) -> list[KeptSpider]:
        with self._lock:
            kept = dict(self._versions.get((tenant, biz, name), {}))
        return [kept[version] for version in sorted(kept, reverse=True)[:limit]]

    def delete(self, tenant: str, biz: str, name: str) -> bool:
        key = (tenant, biz, name)
        with self._lock:
            return self._newest.pop(key, None) is not None

    def forget(
        self, tenant: str, biz: str, name: str, named: Collection[int], now: datetime
    ) -> int:
        key = (tenant, biz, name)
        with self._lock:
            kept, last = self._versions.get(key, {}), self._numbers.get(key, 0)
            last -= self._most_versions if key in self._newest else 0
            gone = [
                version
                for version in kept
                if version <= last and version not in named and not self._is_held(key, version, now)
            ]
            for version in gone:
                del kept[version]
                self._held.pop((key, version), None)
            return len(gone)

    def deleted(self, tenant: str, biz: str, after: str | None, limit: int) -> list[str]:
        with self._lock:
            names = sorted(
                key[2]
                for key, kept in self._versions.items()
                if key[:2] == (tenant, biz) and kept and key not in self._newest
            )
        return [name for name in names if after is None or name > after][:limit]

    def _keep(self, key: _Key, spider: KeptSpider) -> KeptSpider:
        self._newest[key] = spider
        self._numbers[key] = spider.version
        self._versions.setdefault(key, {})[spider.version] = spider
        return spider

    def _count(self, tenant: str, biz: str) -> int:
        return sum(key[:2] == (tenant, biz) for key in self._newest)

    def _is_held(self, key: _Key, version: int, now: datetime) -> bool:
        held = self._held.get((key, version))
        return held is not None and held > now - HOLD
