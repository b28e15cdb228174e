"""lxml, told to trust nothing: no entities, no DTD, no network, no huge trees."""

from __future__ import annotations

import re
from typing import Final

from lxml import etree

from crawlfleet.crawling.extract.limits import UnreadableError

_DOCTYPE_END: Final = re.compile(rb"[\[>]")


def parse_html(body: bytes) -> etree._Element:
    """The root element; every page of HTML has one, an empty one too.

    Raises:
        UnreadableError: the page cannot be parsed.
    """
    root = _parsed(body, etree.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False))
    return etree.Element("html") if root is None else root


def parse_xml(body: bytes) -> etree._Element:
    """The root element; a document type is left out with all the entities it declares.

    Raises:
        UnreadableError: there is no element, or entities are declared where none can be.

    >>> parse_xml(b'<!DOCTYPE r [<!ENTITY e SYSTEM "file:///x">]><r>a&e;b</r>').xpath("string()")
    'ab'
    """
    parser = etree.XMLParser(
        encoding="utf-8",
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=False,
        recover=True,
    )
    root = _parsed(_without_doctype(body), parser)
    if root is None:
        raise UnreadableError("the page holds no element")
    return root


def _parsed(body: bytes, parser: etree.HTMLParser | etree.XMLParser) -> etree._Element | None:
    if not body:
        return None
    try:
        # lxml gives None where its stubs promise an element.
        root: etree._Element | None = etree.fromstring(body, parser)
    except (etree.LxmlError, ValueError) as error:
        raise UnreadableError(f"the page cannot be parsed: {error}") from error
    return root


def _without_doctype(body: bytes) -> bytes:
    if b"<!ENTITY" not in body:
        return body
    start = body.find(b"<!DOCTYPE")
    mark = _DOCTYPE_END.search(body, start) if start >= 0 else None
    if mark is not None:
        end = body.find(b">", body.find(b"]", mark.end())) if mark[0] == b"[" else mark.start()
        body = body[:start] + body[end + 1 :] if end >= 0 else body[:start]
    if b"<!ENTITY" in body and b"<!DOCTYPE" in body:
        raise UnreadableError("the page declares entities")
    return body
