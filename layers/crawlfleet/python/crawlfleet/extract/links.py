"""Links made absolute."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urljoin

if TYPE_CHECKING:
    from crawlfleet.extract.document import Document


def join(base: str, link: str) -> str | None:
    """The link as seen from ``base``, or None for what is no link at all.

    >>> join("https://example.org/a/b", "../c?q#f")
    'https://example.org/c?q#f'
    >>> join("https://example.org/", "http://[broken") is None
    True
    """
    try:
        return urljoin(base, link.strip())
    except ValueError:
        return None


def base_of(document: Document) -> str:
    """The page's URL, or the ``href`` of its first ``<base>`` where that leads to http(s)."""
    url = document.page.url
    if document.source != "html" or b"<base" not in document.utf8.lower():
        return url
    node = document.lexbor.css_first("base[href]")
    joined = join(url, node.attributes.get("href") or "") if node is not None else None
    return joined if joined and joined.startswith(("http://", "https://")) else url
