"""What was read of a page: records, and links to go on with."""

from typing import Any

import msgspec


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A page to go on with. ``rule`` names the rule or spider that is to read it.

    ``depth`` counts links from where the crawl began; a further page of the same list is as deep
    as the first one.
    """

    url: str
    rule: str
    depth: int = 0
    meta: dict[str, Any] = {}
    headers: dict[str, str] = {}


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """How many records a rule gave, and of how many each field had a value."""

    pages: int = 0
    records: int = 0
    fields: dict[str, int] = {}


class Harvest(msgspec.Struct, frozen=True, kw_only=True):
    """Records as mappings of their fields, in the page's order; links without repeats."""

    records: tuple[dict[str, object], ...] = ()
    links: tuple[Link, ...] = ()
    coverage: Coverage = Coverage()


class Skipped(msgspec.Struct, frozen=True):
    """Something of a page that was left out, and why; ``place`` is such as ``line 17``."""

    place: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.why}"
