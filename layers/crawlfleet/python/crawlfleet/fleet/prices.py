"""The price table, and the cost of what was measured, line by line. Pure, but for reading the file.

Costs of jobs, bizs and tenants (jobs.costs) and what budgets in money are charged (fleet.quotas)
are computed here, by one formula. Only what work causes is in it: what a stage costs by the month,
whatever it does, is in docs/how-it-works/cost.md.
"""

import tomllib
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from crawlfleet.config.documents.prices import PriceTerms

#: The file; infra computes its bills from it, too.
TABLE: Final = Path(__file__).with_name("prices.toml")
_GB: Final = 1e9
_KB: Final = 1e3
_MILLION: Final = 1e6
#: Members of a replica set: each keeps what is stored.
_MEMBERS: Final = 3
#: Of the bytes over one NAT for two zones so many cross from one to the other.
_BEYOND: Final = 0.5


class Prices(msgspec.Struct, frozen=True, kw_only=True):
    """The prices of a stage, in US dollars, and what a request takes that nobody measures.

    ``gb_second`` of a worker's memory, a ``call`` of a function, a GB through the NAT (``nat_gb``),
    out of AWS (``out_gb``), between zones (``region_gb``), and kept for a month on all members.
    """

    region: str
    as_of: str
    gb_second: float
    call: float
    nat_gb: float
    out_gb: float
    region_gb: float
    stored_gb_month: float
    request_bytes: float
    store_bytes: float
    queue_bytes: float
    stored_bytes: float


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The amounts that are paid for, of an attempt, a run or a day.

    ``requests`` are attempts at pages, ``errors`` those that failed; ``bytes`` are those of pages
    as they travelled, ``stored_bytes`` those of records. Workers had it for ``gb_seconds``: their
    time by their memory in GB, each second shared by all that was under way in it.
    """

    bytes: int = 0
    requests: int = 0
    errors: int = 0
    workers: int = 0
    gb_seconds: float = 0.0
    proxy_usd: float = 0.0
    stored_bytes: int = 0


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """US dollars by line; ``pages`` are those that were read."""

    lines: dict[str, float]
    pages: int

    @property
    def usd(self) -> float:
        """Return the sum of all lines."""
        return sum(self.lines.values())

    @property
    def per_1000_pages(self) -> float | None:
        """Return what a thousand pages cost, those that failed included; None without any."""
        return self.usd / self.pages * 1_000 if self.pages else None


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(TABLE.read_text())
    return found


class _Region(msgspec.Struct, frozen=True, kw_only=True):
    """The list prices that pages are paid with."""

    gb_second_arm64: float
    gb_second_x86_64: float
    million_calls: float
    nat_gateway_gb: float
    out_gb: float
    region_gb: float
    disk_gb_month: Annotated[float, Meta(ge=0)]


@lru_cache(maxsize=64)
def prices_of(terms: PriceTerms) -> Prices:
    """Return what a stage pays.

    >>> prices_of(PriceTerms()).gb_second, prices_of(PriceTerms(gb_second=0.0)).gb_second
    (1.33334e-05, 0.0)
    """
    table = _table()
    listed = {**table["prices"]["lambda"], **table["prices"]["network"]}
    listed |= table["regions"].get(terms.region, {})
    region = msgspec.convert(listed, _Region)
    measured, assumed = table["measured"], table["assumed"]
    gb_second = getattr(region, f"gb_second_{terms.architecture}")
    between = _or(terms.region_gb, region.region_gb)
    nat = {"shared": _BEYOND * between, "zonal": 0.0, "gateway": region.nat_gateway_gb}
    return Prices(
        region=terms.region,
        as_of=str(table["about"]["as_of"]),
        gb_second=_or(terms.gb_second, gb_second),
        call=_or(terms.million_calls, region.million_calls) / _MILLION,
        nat_gb=_or(terms.nat_gb, nat[terms.nat]),
        out_gb=_or(terms.out_gb, region.out_gb),
        region_gb=between,
        stored_gb_month=_MEMBERS * _or(terms.disk_gb_month, region.disk_gb_month),
        request_bytes=assumed["request_kb"] * _KB,
        store_bytes=assumed["store_kb"] * _KB,
        queue_bytes=assumed["queue_kb"] * _KB,
        stored_bytes=measured["stored_kb"] * _KB,
    )


def _or(own: float | None, listed: float) -> float:
    return listed if own is None else own


def cost_of(figures: Measured, prices: Prices) -> Cost:
    """Compute the cost of what was measured, by line.

    Proxies were paid at the price of their pool when they were used; the rest is paid at those of
    now.

    >>> found = cost_of(Measured(gb_seconds=1000, requests=1000), prices_of(PriceTerms()))
    >>> {line: round(usd, 6) for line, usd in found.lines.items() if usd > 0.0001}
    {'compute': 0.013333, 'network': 0.00018, 'storage': 0.00012}
    """
    requests = figures.requests
    sent = requests * prices.request_bytes
    over_nat = figures.bytes + sent + requests * prices.store_bytes
    kept = requests * prices.stored_bytes + figures.stored_bytes
    lines = {
        "compute": figures.gb_seconds * prices.gb_second,
        "calls": figures.workers * prices.call,
        "network": (over_nat * prices.nat_gb + sent * prices.out_gb) / _GB,
        "stores": requests * (prices.store_bytes + prices.queue_bytes) / _GB * prices.region_gb,
        "storage": kept / _GB * prices.stored_gb_month,
        "proxies": figures.proxy_usd,
    }
    return Cost(lines=lines, pages=max(0, requests - figures.errors))
