"""The published costs of others for a million pages.

Each is quoted with its source; what is marked as worked out follows from what is published there.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The published cost of a peer for a million pages."""

    who: str
    per_million: float
    what: str
    source: str


PUBLISHED: Final = (
    Published(
        who="Chan 2025",
        per_million=0.46,
        what="1.005 billion pages in 25.5 hours on 12 i7i.4xlarge for $462 (worked out)",
        source="andrewkchan.dev/posts/crawler.html",
    ),
    Published(
        who="Nielsen 2012",
        per_million=2.32,
        what="250.1 million pages in 39 h 25 min on 20 EC2 instances, under $580 (worked out)",
        source="michaelnielsen.org/ddi",
    ),
    Published(
        who="Apify, queue alone",
        per_million=28.0,
        what="two writes and two reads a page of the request queue, at up to $0.01 and $0.004 a "
        "thousand; compute comes on top (worked out)",
        source="Apify docs, pricing_and_costs.mdx and usage_and_resources.md",
    ),
    Published(
        who="Firecrawl",
        per_million=990.0,
        what="a credit a page, 100,000 credits for about $99 (worked out)",
        source="firecrawl-docs, billing.mdx",
    ),
)
