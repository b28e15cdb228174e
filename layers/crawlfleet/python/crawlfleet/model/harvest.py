"""What was read of a page: records, and links to go on with; and items that come from outside."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from crawlfleet.errors import Problem
from crawlfleet.model.document import RuleName


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A page to go on with. ``rule`` names the rule or spider that is to read it.

    An empty ``rule`` is the one that found the link, which does not know its own name.
    ``depth`` counts links from where the crawl began; a further page of the same list is as deep
    as the first one.
    """

    url: str
    rule: str = ""
    depth: int = 0
    meta: dict[str, Any] = {}
    headers: dict[str, str] = {}


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """How many records a rule gave, and of how many each field had a value.

    ``rejected`` of the records were not stored: the schema or the key did not take them.
    """

    pages: int = 0
    records: int = 0
    rejected: int = 0
    fields: dict[str, int] = {}


class Harvest(msgspec.Struct, frozen=True, kw_only=True):
    """Records as mappings of their fields, in the page's order; links without repeats."""

    records: tuple[dict[str, object], ...] = ()
    links: tuple[Link, ...] = ()
    coverage: Coverage = Coverage()


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule makes of one page, tried before it is in force (SPEC.md H8).

    ``refused`` counts the links that were found and are not followed, by reason. With ``problems``
    there is nothing else: they are the rule's mistakes, or the field that could not be read.

    Once records are checked (flows.trial_reading), ``rejected`` says of the first of
    ``rejected_count`` others why they would not be stored. ``left_out`` says of the first of
    ``left_out_count`` things of the page, such as lines, why a spider could not read them;
    ``unread``, that it was stopped before the end of the page.
    """

    records: tuple[dict[str, object], ...] = ()
    links: tuple[Link, ...] = ()
    refused: dict[str, int] = {}
    coverage: Coverage = Coverage()
    problems: tuple[Problem, ...] = ()
    rejected: tuple[str, ...] = ()
    rejected_count: int = 0
    left_out: tuple[str, ...] = ()
    left_out_count: int = 0
    unread: bool = False
    seconds: float = 0.0


class Skipped(msgspec.Struct, frozen=True):
    """Something of a page that was left out, and why; ``place`` is such as ``line 17``."""

    place: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.why}"


class Item(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A record that reaches the data queue from outside of workers, such as a Scrapy project's.

    On the wire it is a JSON object of these names (policy.items). ``rule`` is a rule or spider of
    the biz, whose schema and key fields hold for it; a name that the biz does not have is kept as
    it is, and neither is asked for. ``key`` is any text that tells the item from others, where no
    key fields do. ``request`` is the id of the request it came of, as clients write it.
    """

    rule: RuleName
    url: Annotated[str, Meta(max_length=8_000)]
    fields: dict[str, Any]
    key: Annotated[str, Meta(min_length=1, max_length=1_000)] | None = None
    request: Annotated[str, Meta(max_length=36)] | None = None


class QueuedItem(msgspec.Struct, frozen=True):
    """An item as it is handed out: what it is finished by, and which attempt this is, from 1.

    The id says when it was put (policy.items.put_of).
    """

    id: str
    data: bytes
    attempt: int


class RuleCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """The coverage of one version of a rule or spider; ``current`` is what new requests have."""

    rule: str
    version: str
    current: bool
    coverage: Coverage
