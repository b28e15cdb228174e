"""The site's pages: small, each one different, each with records that are known beforehand."""

from typing import Final

#: Records of a page: 1 up to this many, by its number.
MOST_RECORDS: Final = 3
#: Numbers of pages fit into this many digits, so that every page weighs about the same.
_DIGITS: Final = 8


def path_of(run: str, number: int) -> str:
    """Get the path of a page on the site; ``run`` keeps the runs of one site apart."""
    return f"/{run}/{number}"


def names_on(number: int) -> list[str]:
    """Get the names of the page's records, in their order.

    >>> names_on(4)
    ['item 4-0', 'item 4-1']
    """
    return [f"item {number}-{place}" for place in range(number % MOST_RECORDS + 1)]


def page(number: int) -> bytes:
    """The page as HTML."""
    items = "".join(f"<li><b>{name}</b></li>" for name in names_on(number))
    text = f"<title>page {number:0{_DIGITS}}</title><h1>{number}</h1><ul>{items}</ul>"
    return f"<!doctype html><html><body>{text}</body></html>".encode()
