"""A rule: how a page becomes records (SPEC.md, words; DESIGN.md 11).

A rule has ``fields``; each field says where its value is (by ``css``, ``xpath``, ``json`` or
``regex``, or as a ``fact`` about the page), what to take there, and what type it is to be. With
``items`` a page gives one record per match and the fields are looked up inside it. A field that
has ``fields`` of its own is a nested item.
"""

from enum import StrEnum
from hashlib import blake2b
from typing import Annotated

import msgspec
from msgspec import Meta

from crawlfleet.model.schema import RecordSchema

Name = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}\Z")]
Expression = Annotated[str, Meta(min_length=1, max_length=2000)]


class Source(StrEnum):
    """What the body is read as."""

    HTML = "html"
    XML = "xml"
    JSON = "json"
    TEXT = "text"


class Take(StrEnum):
    """What is taken of a matched element."""

    TEXT = "text"
    HTML = "html"
    INNER_HTML = "inner_html"


class Cast(StrEnum):
    """The type of a field's value. ``date`` values are ISO 8601 strings in records."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    JSON = "json"


class PageFact(StrEnum):
    """A value that comes from the fetch, not from the body."""

    URL = "url"
    STATUS = "status"
    CONTENT_TYPE = "content_type"
    FETCHED_AT = "fetched_at"


class Selector(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Where something is: one of ``css``, ``xpath`` and ``json``, and ``regex`` alone or beside it.

    ``css`` reads HTML (inside an item it may match the item itself); ``xpath`` (1.0) reads HTML and
    XML, where names match whatever their namespace and a prefix is the one the document writes;
    ``json`` (RFC 9535) reads JSON, where inside an item ``$`` is the item. ``regex`` (RE2) reads
    any page, or an item, as it was written; beside another one it narrows the text found.
    """

    css: Expression | None = None
    xpath: Expression | None = None
    json: Expression | None = None
    regex: Expression | None = None


class Field(Selector, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One field of a record.

    Inside an item a field may say nowhere to look and then means the item itself. ``fact`` takes a
    fact of the fetch instead. Of an element its text is taken, all text below it included, with
    inner white space as it is; or its markup (``take``), or an ``attribute``. ``regex`` narrows
    what was found to its first group, or the whole match; what does not match is left out.
    ``strip`` removes white space at both ends. ``absolute`` joins a link with the page's URL (and
    its ``<base>``). ``type`` casts, strictly (see ``crawlfleet.extract.casts``).

    The first match counts; ``list`` keeps every match that has a value, each cast; ``count`` keeps
    their number instead. A value is missing where nothing matches, the attribute is absent, JSON
    holds null, or an empty text is to be anything but a string. It is then ``default``, or an error
    where ``required`` (for both of which an empty string is missing too), or null.

    ``fields`` makes a nested item of each match, and with ``type: json`` of the JSON in its text.
    """

    fact: PageFact | None = None
    take: Take = Take.TEXT
    attribute: str | None = None
    strip: bool = True
    list: bool = False
    count: bool = False
    type: Cast = Cast.STRING
    absolute: bool = False
    required: bool = False
    default: str | int | float | bool | None = None
    fields: dict[Name, "Field"] = {}


class Rule(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """How pages of one kind become records. ``items`` selects one element per record.

    ``key`` names the fields that tell one record from another over all pages: storing such a record
    again replaces it. ``schema`` says what a record must be to be stored.
    """

    description: str = ""
    source: Source = Source.HTML
    items: Selector | None = None
    key: Annotated[tuple[Name, ...], Meta(max_length=16)] = ()
    schema: RecordSchema | None = None
    fields: Annotated[dict[Name, Field], Meta(min_length=1, max_length=200)]

    @property
    def version(self) -> str:
        """Twelve hex digits that differ for every different rule (the description aside)."""
        content = msgspec.json.encode(msgspec.structs.replace(self, description=""), order="sorted")
        return blake2b(content, digest_size=6).hexdigest()
