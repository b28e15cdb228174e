"""A rule: how a page becomes records (SPEC.md, words; DESIGN.md 11).

A rule has ``fields``; each field says where its value is (by ``css``, ``xpath``, ``json`` or
``regex``, or as a ``fact`` about the page), what to take there, and what type it is to be. With
``items`` a page gives one record per match and the fields are looked up inside it. A field that has
``fields`` of its own is a nested item. ``follow`` says which links lead on. A record schema says
what records must be to be stored (SPEC.md B9). A spider reads by an executor where a rule does not
(SPEC.md B7, B8).

``transforms`` are steps that a text goes through, one after the other. A step without anything to
say is a word, such as ``lower``; any other one is a mapping of one key, such as ``{"split": ","}``.
``split`` makes several texts of one, ``join`` and ``pick`` one of several; every other step changes
each text by itself, or leaves it out.
"""

from enum import StrEnum
from functools import cached_property
from hashlib import blake2b
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from crawlfleet.kernel.validation import Document, HostName, RuleName, Words

#: A JSON Schema (draft 2020-12) of a record's fields. References lead nowhere but into itself.
RecordSchema: TypeAlias = dict[str, Any]

Expression = Annotated[str, Meta(min_length=1, max_length=2000)]
#: A text that a step adds or looks for.
Piece = Annotated[str, Meta(max_length=1000)]
_SomePiece = Annotated[str, Meta(min_length=1, max_length=1000)]
Name = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}\Z"),
    Words("up to 64 letters, digits and _, no digit first"),
]


class Word(StrEnum):
    """Steps that need nothing said.

    ``title`` begins every word with a capital; ``collapse`` makes one space of each run of white
    space and removes it at both ends; ``html_to_text`` reads a text as HTML and keeps what is seen
    of it; ``unescape`` decodes HTML's references (``&amp;``), ``unquote`` those of URLs (``%20``).
    """

    LOWER = "lower"
    UPPER = "upper"
    TITLE = "title"
    COLLAPSE = "collapse"
    HTML_TO_TEXT = "html_to_text"
    UNESCAPE = "unescape"
    UNQUOTE = "unquote"


class Replace(Document, frozen=True, kw_only=True):
    r"""Every match of ``pattern`` (RE2) by ``with``, in which ``\1`` is the first group."""

    pattern: Expression
    by: Piece = msgspec.field(name="with", default="")


class NumberMarks(Document, frozen=True, kw_only=True):
    """The marks of a number: the one before its fraction and the one between thousands.

    A space as ``thousands`` stands for every kind of space.
    """

    decimal: Annotated[str, Meta(min_length=1, max_length=1)] = "."
    thousands: Annotated[str, Meta(max_length=1)] = ""


class DateFormats(Document, frozen=True, kw_only=True):
    """``formats`` as in Python's ``strptime``, tried in turn; names of months are English.

    ``timezone`` is where the time is told, where the text does not say it.
    """

    formats: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=100)], ...],
        Meta(min_length=1, max_length=20),
    ]
    timezone: Annotated[str, Meta(max_length=64)] = "UTC"


class Step(Document, frozen=True, kw_only=True):
    """A transform step; exactly one key is set.

    ``match`` keeps the first group of the first match of an expression (RE2), or the whole match;
    ``pick`` one text by its place from 0, or from the end by -1; ``slice`` the characters from the
    first place up to, and without, the second one; ``map`` exchanges a text that it names.
    ``number`` finds the number that a text holds and writes it as ``-1234.5``; ``date`` writes a
    time in ISO 8601. ``url_parameter`` keeps a parameter of a URL. A text in which ``match``,
    ``pick`` or ``url_parameter`` finds nothing is left out; one that ``number`` or ``date`` cannot
    read is an error.
    """

    replace: Replace | None = None
    match: Expression | None = None
    split: _SomePiece | None = None
    join: Piece | None = None
    pick: Annotated[int, Meta(ge=-10_000, le=10_000)] | None = None
    slice: tuple[int | None, int | None] | None = None
    prefix: _SomePiece | None = None
    suffix: _SomePiece | None = None
    map: Annotated[dict[str, Piece], Meta(min_length=1, max_length=1000)] | None = None
    number: NumberMarks | None = None
    date: DateFormats | None = None
    url_parameter: _SomePiece | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys that are set."""
        return tuple(key for key in self.__struct_fields__ if getattr(self, key) is not None)


Transform: TypeAlias = Word | Step
Transforms = Annotated[tuple[Transform, ...], Meta(max_length=20)]


class Source(StrEnum):
    """The format that the body is read as."""

    HTML = "html"
    XML = "xml"
    JSON = "json"
    TEXT = "text"


class Take(StrEnum):
    """The part that is taken of a matched element."""

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


class Structured(StrEnum):
    """The structured data of an HTML page."""

    JSON_LD = "json_ld"
    MICRODATA = "microdata"
    OPENGRAPH = "opengraph"


class Reach(StrEnum):
    """The distance that a link may lead. ``same_site`` goes by the public suffix list."""

    SAME_HOST = "same_host"
    SAME_SITE = "same_site"
    ANY = "any"


class Selector(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A selector: one of ``css``, ``xpath`` and ``json``, and ``regex`` alone or beside it.

    ``css`` reads HTML (inside an item it may match the item itself); ``xpath`` (1.0) reads HTML and
    XML, where names match whatever their namespace and a prefix is the one the document writes;
    ``json`` (RFC 9535) reads JSON, where inside an item ``$`` is the item. ``regex`` (RE2) reads
    any page, or an item, as it was written; beside another one it narrows the text found.

    With ``structured`` the ``json`` reads that structured data of an HTML page: a list of things,
    in which ``@type`` is what each one is, such as ``$[?@['@type']=='Product'].name``. There a
    value that is a list counts as its members, because pages write one or several as they like.
    """

    structured: Structured | None = None
    css: Expression | None = None
    xpath: Expression | None = None
    json: Expression | None = None
    regex: Expression | None = None


class Field(Selector, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    r"""A field of a record.

    Inside an item a field may say nowhere to look and then means the item itself. ``fact`` takes a
    fact of the fetch instead, ``main_text`` what people read on an HTML page, without navigation
    and the like. Of an element its text is taken, all text below it included, with inner white
    space as it is; or its markup (``take``), or an ``attribute``. ``regex`` narrows what was found
    to its first group, or the whole match; what does not match is left out. Before that
    ``plain_space`` makes a blank of each other white space (U+00A0 and the like; line ends and tabs
    stay), which neither a blank nor ``\s`` of a regex matches. ``strip`` removes white
    space at both ends, before and after ``transforms``, which the text goes through then (see
    :mod:`crawlfleet.config.documents.rule`). ``type`` casts, strictly (see
    ``crawlfleet.crawling.extract.casts``). ``absolute`` joins a link with the page's URL (and its
    ``<base>``).

    The first match counts; ``list`` keeps every match that has a value, each cast; ``count`` keeps
    their number instead; where ``transforms`` join or pick before they split, they do so with all
    matches. A value is missing where nothing matches, the attribute is absent, JSON
    holds null, or an empty text is to be anything but a string. It is then ``default``, or an error
    where ``required`` (for both of which an empty string is missing too), or null.

    ``fields`` makes a nested item of each match, and with ``type: json`` of the JSON in its text.
    """

    fact: PageFact | None = None
    main_text: bool = False
    take: Take = Take.TEXT
    attribute: str | None = None
    strip: bool = True
    plain_space: bool = False
    transforms: Transforms = ()
    list: bool = False
    count: bool = False
    type: Cast = Cast.STRING
    absolute: bool = False
    required: bool = False
    default: str | int | float | bool | None = None
    fields: dict[Name, "Field"] = {}


class Follow(Selector, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Links of a page that lead on: each becomes a request that ``rule`` reads, this one if null.

    The URL is the ``attribute`` of a matched element, or the text or JSON value found, narrowed by
    ``regex`` and changed by ``transforms``; it is joined with the page's URL (and its ``<base>``).

    A link is followed if it is no deeper than ``max_depth`` links from where the crawl began,
    leads into ``domains`` (names count with their subdomains), matches one of ``allow`` if there
    are any and none of ``deny`` (RE2, searched in the absolute URL), and neither the page nor the
    link asks not to be followed (``obey_nofollow``). At most ``limit`` of a page are, the first.

    ``pagination`` marks further pages of the same list, which lie as deep as this one; there are
    at most ``max_pages`` in a row. ``meta`` are fields of this page that each link takes along.
    """

    rule: RuleName | None = None
    attribute: Annotated[str, Meta(min_length=1, max_length=64)] = "href"
    transforms: Transforms = ()
    pagination: bool = False
    max_depth: Annotated[int, Meta(ge=0, le=1000)] = 10
    max_pages: Annotated[int, Meta(ge=1, le=100_000)] = 100
    domains: Reach | Annotated[tuple[HostName, ...], Meta(min_length=1, max_length=1000)] = (
        Reach.SAME_HOST
    )
    allow: Annotated[tuple[Expression, ...], Meta(max_length=100)] = ()
    deny: Annotated[tuple[Expression, ...], Meta(max_length=100)] = ()
    limit: Annotated[int, Meta(ge=1, le=1000)] = 1000
    obey_nofollow: bool = True
    meta: Annotated[dict[Name, Field], Meta(max_length=20)] = {}


class Rule(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    dict=True,
):
    """The way from pages of one kind to records. ``items`` selects one element per record.

    ``key`` names the fields that tell one record from another over all pages: storing such a record
    again replaces it. ``schema`` says what a record must be to be stored. A rule without ``fields``
    gives no records, only the links that it follows.
    """

    description: str = ""
    source: Source = Source.HTML
    items: Selector | None = None
    key: Annotated[tuple[Name, ...], Meta(max_length=16)] = ()
    schema: RecordSchema | None = None
    fields: Annotated[dict[Name, Field], Meta(max_length=200)] = {}
    follow: Annotated[tuple[Follow, ...], Meta(max_length=20)] = ()

    @cached_property
    def version(self) -> str:
        """Twelve hex digits that differ for every different rule (the description aside)."""
        return _version(self)

    @property
    def selected(self) -> frozenset[str]:
        """Return the fields that pages are searched for: no facts, which every page has."""
        return frozenset(name for name, field in self.fields.items() if field.fact is None)


class Spider(Document, frozen=True, kw_only=True, dict=True):
    """An executor and its configuration, which read pages where a rule does not.

    ``executor`` is a name of the registry (crawlfleet.executors), ``parameters`` match the ones it
    declares one to one. ``key`` and ``schema`` are as in a rule.
    """

    executor: Annotated[
        str,
        Meta(pattern=r"^[a-z][a-z0-9_]{0,63}\Z"),
        Words("up to 64 of a-z, 0-9 and _, a letter first"),
    ]
    parameters: dict[str, Any] = {}
    key: Annotated[tuple[str, ...], Meta(max_length=16)] = ()
    schema: RecordSchema | None = None
    description: str = ""

    @cached_property
    def version(self) -> str:
        """Twelve hex digits that differ for every different spider (the description aside)."""
        return _version(self)


def _version(reader: Rule | Spider) -> str:
    content = msgspec.json.encode(msgspec.structs.replace(reader, description=""), order="sorted")
    return blake2b(content, digest_size=6).hexdigest()
