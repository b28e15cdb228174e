"""Reckon in money under quotas: the most that an attempt may cost (SPEC.md H2). Pure.

What it has cost is computed where costs of jobs are, from what was measured (fleet.prices); a
budget is charged that in whole nano-dollars, so that sums of it are exact.
"""

from typing import Final

from crawlfleet.config.documents.biz import Biz, Stage
from crawlfleet.config.documents.quota import nano_dollars
from crawlfleet.config.lookup import proxies_of
from crawlfleet.fleet.prices import Measured, cost_of, prices_of
from crawlfleet.kernel.queue_key import MAIN_POOL

#: What a worker has where nobody says it: that of the consumer function.
DEFAULT_GB: Final = 1.0
_GB: Final = 1e9


def worst_case(stage: Stage, biz: Biz, pool: str = MAIN_POOL, gb: float = DEFAULT_GB) -> int:
    """Compute the most that an attempt at a page may cost, in nano-dollars, by prices of now.

    That is a body as large as may be, through the proxies of the biz, and the time of a download
    and of reading a page, as if a worker of so many GB did nothing else. Records that take more
    than that are asked for before they are stored.

    >>> worst_case(Stage(), Biz())
    700383
    """
    pool_of_proxies = proxies_of(stage, biz, pool)
    proxies = None if pool_of_proxies is None else stage.proxies.get(pool_of_proxies)
    size = biz.fetch.max_body_bytes
    seconds = biz.fetch.total_seconds + stage.reading.cpu_seconds
    most = Measured(
        requests=1,
        bytes=size,
        gb_seconds=seconds * gb,
        proxy_usd=0.0 if proxies is None else size / _GB * proxies.usd_per_gb,
    )
    return max(1, nano_dollars(cost_of(most, prices_of(stage.prices)).usd))
