"""``xml``: a file of many records, streamed (catalogues, exports, product feeds)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final

from msgspec import Meta

from crawlfleet.errors import ExtractError, Problem
from crawlfleet.executors.base import Context, Executor, Found, Parameters, UsedRule
from crawlfleet.executors.chunks import BadRecords, Chunks, Piece
from crawlfleet.executors.following import LinkField, with_links
from crawlfleet.model.rule import Field, Name, Rule, Selector, Source
from crawlfleet.model.words import Words
from crawlfleet.page import Page

_STEP: Final = r"[^\W\d][\w.-]*"
#: Each record takes along the namespaces that are declared around it.
_NAMESPACES_MAX: Final = 100
_SMALL_BYTES: Final = 2_000
#: ``catalog/product``, from the root; ``//product``, anywhere.
ElementPath = Annotated[
    str,
    Meta(max_length=500, pattern=rf"^(?://{_STEP}|/?{_STEP})(?:/(?:{_STEP}|\*))*\Z"),
    Words("a path of names, such as catalog/product or //product"),
]


class XmlParameters(Parameters, frozen=True, kw_only=True):
    """``records`` is the path to the element of each record, by local names and ``*``.

    It starts at the root (``catalog/product``), or with ``//`` anywhere. ``fields`` are as in a
    rule of ``source: xml``: by XPath from the record's element (``name``, ``price/@currency``),
    whatever the namespaces. ``bad_records`` says what becomes of those that cannot be read.
    """

    records: ElementPath
    fields: Annotated[dict[Name, Field], Meta(min_length=1, max_length=200)]
    bad_records: BadRecords = BadRecords.FAIL
    link: LinkField | None = None

    def rule(self) -> Rule:
        """What reads the elements, some at a time."""
        return Rule(source=Source.XML, items=Selector(xpath="/*/*"), fields=self.fields)


class XmlFile(Executor[XmlParameters]):
    """A record of each element at a path."""

    name = "xml"
    Parameters = XmlParameters

    def read(self, page: Page, context: Context) -> Iterator[Found]:
        """In the document's order."""
        rule, bad = self.parameters.rule(), self.parameters.bad_records
        found = Chunks(self.rules, rule, _document, bad).read(
            self._pieces(page, context), page, context
        )
        yield from with_links(found, self.parameters.link, context)

    def _pieces(self, page: Page, context: Context) -> Iterator[Piece]:
        from lxml import etree

        from crawlfleet.executors.xml_stream import elements

        path = _compiled(self.parameters.records)

        def wanted(names: list[str]) -> bool:
            return path.fullmatch("/".join(names)) is not None

        for number, element in enumerate(elements(page, wanted, context)):
            written = etree.tostring(element, encoding="utf-8", with_tail=False)
            if len(written) > _SMALL_BYTES and len(element.nsmap) > _NAMESPACES_MAX:
                raise ExtractError(f"records[{number}]", f"has over {_NAMESPACES_MAX} namespaces")
            yield Piece(f"records[{number}]", written)

    @classmethod
    def problems(cls, parameters: XmlParameters) -> Iterable[Problem]:
        """A field to follow has to be one."""
        return parameters.link.problems(parameters.fields) if parameters.link else ()

    @classmethod
    def used_rules(cls, parameters: XmlParameters) -> Iterable[UsedRule]:
        """The one that reads the elements."""
        return (UsedRule(parameters.rule()),)

    @classmethod
    def fields(cls, parameters: XmlParameters) -> Iterable[str]:
        """Those of the rule."""
        return parameters.fields


def _document(pieces: Sequence[bytes]) -> bytes:
    return b"<records>" + b"".join(pieces) + b"</records>"


def _compiled(path: str) -> re.Pattern[str]:
    """The path as a pattern of joined names; it holds nothing but names, so nothing backtracks.

    >>> bool(_compiled("//product").fullmatch("catalog/books/product"))
    True
    >>> bool(_compiled("catalog/*").fullmatch("catalog/a/b"))
    False
    """
    anywhere = path.startswith("//")
    steps = path.lstrip("/").split("/")
    form = "/".join("[^/]+" if step == "*" else re.escape(step) for step in steps)
    return re.compile(f"(?:.*/)?{form}" if anywhere else form)
