"""Prices of a stage, where they differ from the table that ships with the product (SPEC.md H2)."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from crawlfleet.kernel.validation import Document

#: Regions whose list prices the table has (fleet/prices.toml).
Region: TypeAlias = Literal[
    "us-east-1",
    "us-east-2",
    "us-west-2",
    "eu-west-1",
    "eu-central-1",
    "ap-southeast-1",
    "ap-southeast-2",
    "ap-northeast-1",
]
Price: TypeAlias = Annotated[float, Meta(ge=0, le=1_000_000)]


class PriceTerms(Document, frozen=True, kw_only=True):
    """The region whose list prices are paid, and prices other than those, in US dollars.

    Bytes pass a NAT that is ``shared`` between two zones, one in each (``zonal``), or a
    ``gateway``. What each price is of stands in docs/reference/configuration.md.
    """

    region: Region = "us-east-1"
    architecture: Literal["arm64", "x86_64"] = "arm64"
    nat: Literal["shared", "zonal", "gateway"] = "shared"
    gb_second: Price | None = None
    million_calls: Price | None = None
    nat_gb: Price | None = None
    out_gb: Price | None = None
    region_gb: Price | None = None
    disk_gb_month: Price | None = None
