"""Turn matches into the value of a field: take, narrow, strip, join, cast, keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from crawlfleet.config.documents.rule import Cast, Field, PageFact
from crawlfleet.crawling.extract import casts, links
from crawlfleet.crawling.extract.document import Document
from crawlfleet.crawling.extract.engines import ValueReader
from crawlfleet.crawling.extract.limits import MATCH_UNITS, MATCHES_MAX, UnreadableError
from crawlfleet.crawling.extract.plan import Context, Finish, Given, Group, Query, Read
from crawlfleet.crawling.extract.regex import RegexQuery

#: The error of a field without the value that it is to have.
MISSING: Final = "missing, and required"


class Facts:
    """The facts of a page's fetch. ``clock`` says when a page is read."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock

    def reader(self, fact: PageFact) -> Callable[[Document, Context], Any]:
        """Return the function that reads one of them."""
        if fact is PageFact.URL:
            return lambda document, _: _clean(document.page.url)
        if fact is PageFact.STATUS:
            return lambda document, _: document.page.status
        if fact is PageFact.CONTENT_TYPE:
            return lambda document, _: _clean(document.page.content_type)
        return lambda _document, _context: self._clock().isoformat()


def _clean(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


@dataclass(slots=True)
class Values:
    """The raw values of a field: what ``query`` finds and ``take`` takes, or what ``of`` gives.

    With ``regex`` every value becomes its matches. Without query and ``of`` the context is taken.
    """

    query: Query | None
    take: ValueReader
    regex: RegexQuery | None
    of: Callable[[Document, Context], Any] | None

    def single(self, document: Document, context: Context) -> object:
        """Return the first value, or None."""
        regex = self.regex
        if regex is not None:
            for text in self._texts(document, context):
                narrowed = regex.first(text, document.meter)
                if narrowed is not None:
                    return narrowed
            return None
        if self.query is None:
            return self.of(document, context) if self.of is not None else self.take(context)
        match = self.query.first(document, context)
        return None if match is None else self.take(match)

    def several(self, document: Document, context: Context) -> Sequence[object]:
        """Return all values; one match without a value is a None among them."""
        regex = self.regex
        if regex is None:
            return self._raw(document, context)
        found: list[object] = []
        for text in self._texts(document, context):
            found += regex.values(text, document.meter)
            if len(found) > MATCHES_MAX:
                raise UnreadableError(f"more than {MATCHES_MAX:,} matches")
        return found

    def _raw(self, document: Document, context: Context) -> list[object]:
        if self.query is not None:
            matches = self.query.matches(document, context)
            document.meter.spend(len(matches) * MATCH_UNITS)
            return [self.take(match) for match in matches]
        return [self.of(document, context) if self.of is not None else self.take(context)]

    def _texts(self, document: Document, context: Context) -> list[str]:
        return [casts.to_string(v) for v in self._raw(document, context) if v is not None]


#: White space that is neither a blank nor a tab nor ends a line.
_SPACES: Final = dict.fromkeys((0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " ")


def plain_spaces(take: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``take`` with blanks in the place of other white space in its texts.

    >>> plain_spaces(str)("1\u00a0000\u202f€")
    '1 000 €'
    """

    def taken(*of: Any) -> Any:
        value = take(*of)
        return value.translate(_SPACES) if isinstance(value, str) else value

    return taken


def finisher(field: Field, *, from_json: bool) -> Finish:
    """Return what strips, joins and casts a value; for type json JSON's own stay as they are."""
    strip, absolute, kind = field.strip, field.absolute, field.type
    if kind is Cast.STRING and not absolute and not from_json:

        def text(_: Document, value: object) -> object:
            value = value if isinstance(value, str) else casts.to_string(value)
            return value.strip() if strip else value

        return text
    if kind is Cast.JSON and from_json:
        return lambda _, value: value
    convert = casts.CASTS[kind]

    def finish(document: Document, value: object) -> object:
        if isinstance(value, str):
            value = value.strip() if strip else value
            if kind is not Cast.STRING and not from_json and not value.strip():
                return None
        value = convert(value)
        return links.join(document.base, str(value)) if absolute and value else value

    return finish


def read_one(field: Field, values: Given, finish: Finish) -> Read:
    """Read a field of one value."""
    required, default = field.required, field.default
    single = values.single
    refuses_empty = required or default is not None

    def read(document: Document, context: Context) -> object:
        raw = single(document, context)
        value = None if raw is None else finish(document, raw)
        if value is None or (refuses_empty and value == ""):
            if required:
                raise UnreadableError(MISSING)
            value = default
        _keep(document, value)
        return value

    return read


def read_list(field: Field, values: Given, finish: Finish) -> Read:
    """Read a field of all values; matches without one are left out."""
    if field.type is Cast.STRING and not field.absolute:
        return _read_texts(field, values)

    def read(document: Document, context: Context) -> object:
        found: list[object] = []
        for number, raw in enumerate(values.several(document, context)):
            try:
                value = None if raw is None else finish(document, raw)
            except UnreadableError as error:
                error.message = f"value {number}: {error.message}"
                raise
            if value is not None:
                _keep(document, value)
                found.append(value)
        if field.required and not found:
            raise UnreadableError(MISSING)
        return found

    return read


def _read_texts(field: Field, values: Given) -> Read:
    strip, required = field.strip, field.required

    def read(document: Document, context: Context) -> object:
        raw = [value for value in values.several(document, context) if value is not None]
        texts = [value if isinstance(value, str) else casts.to_string(value) for value in raw]
        if strip:
            texts = [text.strip() for text in texts]
        if required and not texts:
            raise UnreadableError(MISSING)
        document.meter.keep_bytes(8 * len(texts))
        document.meter.keep("".join(texts))
        return texts

    return read


def read_count(count: Callable[[Document, Context], int]) -> Read:
    """Read a field that is a number of matches, or of values."""

    def read(document: Document, context: Context) -> object:
        document.meter.keep(0)
        return count(document, context)

    return read


def read_group(field: Field, values: Given, group: Group) -> Read:
    """Read a nested item, or None."""

    def read(document: Document, context: Context) -> object:
        found = values.single(document, context)
        if found is None:
            if field.required:
                raise UnreadableError(MISSING)
            return None
        group.charge(document, 1)
        return group.read(document, found)

    return read


def read_groups(field: Field, values: Given, group: Group) -> Read:
    """Read all nested items."""

    def read(document: Document, context: Context) -> object:
        found = [item for item in values.several(document, context) if item is not None]
        if field.required and not found:
            raise UnreadableError(MISSING)
        return group.read_all(document, found, "")

    return read


def _keep(document: Document, value: object) -> None:
    if isinstance(value, dict | list):
        # What the page's JSON held: as large as its text, whatever is inside.
        document.meter.keep_bytes(len(casts.to_string(value)))
    else:
        document.meter.keep(value)
