"""A crawl under quotas beside one without any: CPU a page of the worker.

The pages, the rule and the site are those of ``crawl``. There is a quota of every unit, by day, by
month and in all, of the biz and its tenant; none of them is used up.
"""

import statistics
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from benchmarks.bench import Bench, BenchError, Found
from benchmarks.crawl import ours
from benchmarks.figures import rotated
from benchmarks.house import BIZ, TENANT, tree_of
from benchmarks.site import running_site
from crawlfleet.config.documents.biz import Tree
from crawlfleet.config.documents.quota import Quota, QuotaPeriod, QuotaUnit
from crawlfleet.fleet.quotas.models import limits_of, window_of
from crawlfleet.fleet.quotas.redis import RedisQuotaLedgers
from crawlfleet.kernel.redis.connection import RedisConnection

SIDES: Final = ("without", "under quotas")
_MOST: Final = 10**12
_OF_TENANT: Final = (
    Quota(unit=QuotaUnit.REQUESTS, most=_MOST, per=QuotaPeriod.MONTH),
    Quota(unit=QuotaUnit.BYTES, most=_MOST, per=QuotaPeriod.DAY),
)
_OF_BIZ: Final = (
    Quota(unit=QuotaUnit.REQUESTS, most=_MOST, per=QuotaPeriod.ALL),
    Quota(unit=QuotaUnit.RECORDS, most=_MOST, per=QuotaPeriod.DAY),
    Quota(unit=QuotaUnit.USD, most=1_000_000, per=QuotaPeriod.MONTH),
)


def metered() -> Tree:
    """The configuration of ``crawl``, under quotas."""
    tree = tree_of()
    tenant = replace(tree.tenants[TENANT], quotas=_OF_TENANT)
    biz = replace(tree.bizs[TENANT][BIZ], quotas=_OF_BIZ)
    return replace(tree, tenants={TENANT: tenant}, bizs={TENANT: {BIZ: biz}})


def run(bench: Bench) -> Found:
    """Measure both sides in turn."""
    scale = bench.scale
    spent: dict[str, list[float]] = {side: [] for side in SIDES}
    with running_site(scale.pages) as site:
        urls = site.urls(scale.crawl_requests)
        for number in range(scale.metering_rounds):
            for side in rotated(list(SIDES), number):
                bench.addresses.clear()
                tree = tree_of() if side == "without" else metered()
                done = ours(bench, tree, urls)
                counted = _counted(bench, tree)
                if done["pages"] != len(urls) or any(one != len(urls) for one in counted):
                    raise BenchError(f"{side}: {counted} of {len(urls)} pages are booked")
                spent[side].append(done["working_cpu"] / done["pages"])
                bench.tick(f"metering, {side}: {1000 * spent[side][-1]:.3f} ms a page")
    ratios = [
        under / without
        for under, without in zip(spent["under quotas"], spent["without"], strict=True)
    ]
    return Found(
        figures={"metering_cost_ratio": statistics.median(ratios)},
        details={"CPU a page": spent, "under quotas / without": ratios},
    )


def _counted(bench: Bench, tree: Tree) -> list[int]:
    """Read how many requests each quota of them has booked."""
    limits = [
        limit for limit in limits_of(tree, TENANT, BIZ) if limit.quota.unit is QuotaUnit.REQUESTS
    ]
    if not limits:
        return []
    now = datetime.now(UTC)
    accounts = [(limit, window_of(limit.quota.per, now)) for limit in limits]
    with RedisConnection(bench.addresses.redis) as connection:
        booked = RedisQuotaLedgers(connection).read(accounts)
    return [0 if one is None else one.spent for one in booked]
