"""Steps that a rule's texts go through, one after the other (SPEC.md, words: rule).

A step without anything to say is a word, such as ``lower``; any other one is a mapping of one key,
such as ``{"split": ","}``. ``split`` makes several texts of one, ``join`` and ``pick`` one of
several; every other step changes each text by itself, or leaves it out.
"""

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from crawlfleet.model.document import Document

Expression = Annotated[str, Meta(min_length=1, max_length=2000)]
#: A text that a step adds or looks for.
Piece = Annotated[str, Meta(max_length=1000)]
_SomePiece = Annotated[str, Meta(min_length=1, max_length=1000)]


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
    """How a number is written: the mark before its fraction and the one between thousands.

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
    """One step; exactly one key is set.

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
        """The keys that are set."""
        return tuple(key for key in self.__struct_fields__ if getattr(self, key) is not None)


Transform: TypeAlias = Word | Step
Transforms = Annotated[tuple[Transform, ...], Meta(max_length=20)]
