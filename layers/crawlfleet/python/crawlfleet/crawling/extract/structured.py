"""Structured data of an HTML page: microdata, JSON-LD and OpenGraph, by extruct.

All three have one shape: a list of things as JSON writes them, ``@type`` being what each one is.
Members of a JSON-LD ``@graph`` stand beside the other things. What one script or tag gets wrong
costs that thing, not the page. extruct trusts its pages, so what would cost it more than linear
time, and what no record can hold, is kept from it or left out here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import extruct  # type: ignore[import-untyped]  # there are no stubs of it
import msgspec
from lxml import etree, html

from crawlfleet.config.documents.rule import Structured
from crawlfleet.crawling.extract.casts import parse_json
from crawlfleet.crawling.extract.limits import Meter, UnreadableError

PAGE_BYTES_MAX: Final = 5_000_000  #: Bytes of a page that is read.
THINGS_MAX: Final = 2_000  #: Things of one kind on a page.
#: Scripts of JSON-LD, and the characters of one that is not quite JSON, which is read by Python.
SCRIPTS_MAX: Final = 200
LENIENT_MAX: Final = 200_000
#: Elements below microdata's properties, each counted as often as properties lie around it: the
#: text of a property is cleaned in a copy of it.
COPIED_MAX: Final = 200_000
#: Pairs of properties inside of one thing, which XPath compares with one another.
COMPARED_MAX: Final = 20_000_000
REFERENCES_MAX: Final = 200  #: References of things to properties elsewhere.
PREFIX_MAX: Final = 2_000  #: Characters of a ``prefix``, by which OpenGraph names its vocabularies.

_BYTE_UNITS: Final = 3
_LENIENT_CHARACTER_UNITS: Final = 40
_SCRIPTS: Final[Any] = etree.XPath("//script[@type]")
_ITEMS: Final[Any] = etree.XPath("//*[@itemscope]")
_PROPERTIES: Final[Any] = etree.XPath("//*[@itemprop]")
_BELOW: Final[Any] = etree.XPath("count(descendant::*)")
_PROPERTIES_BELOW: Final[Any] = etree.XPath("count(descendant::*[@itemprop])")
_PREFIXED: Final[Any] = etree.XPath("//html[@prefix] | //head[@prefix]")
_GRAPH: Final = "@graph"


def structured_of(
    kind: Structured, guarded: bytes, meter: Meter, base: Callable[[], str]
) -> list[Any]:
    """Return the things of one kind on a guarded page, in its order.

    ``base`` is asked for only where links are looked into. Raises UnreadableError: the page is too
    large, or has too many things.
    """
    size = len(guarded)
    if size > PAGE_BYTES_MAX:
        raise UnreadableError(f"structured data is read of {PAGE_BYTES_MAX:,} bytes at most")
    meter.spend(size * _BYTE_UNITS)
    tree = _tree(guarded)
    if tree is None:
        return []
    things: Iterable[Any]
    match kind:
        case Structured.JSON_LD:
            things = _json_ld(tree, meter)
        case Structured.MICRODATA:
            things = _microdata(tree, meter, base)
        case Structured.OPENGRAPH:
            things = _opengraph(tree)
    found = [storable for thing in things if (storable := _storable(thing)) is not None]
    meter.tick()
    if len(found) > THINGS_MAX:
        raise UnreadableError(f"the page has more than {THINGS_MAX:,} things")
    return found


def _tree(body: bytes) -> html.HtmlElement | None:
    parser = html.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False)
    try:
        root = etree.fromstring(body, parser)
    except (etree.LxmlError, ValueError):
        return None
    return root if isinstance(root, html.HtmlElement) else None


def _json_ld(tree: html.HtmlElement, meter: Meter) -> Iterator[Any]:
    count = 0
    for script in _SCRIPTS(tree):
        kind = (script.get("type") or "").partition(";")[0].strip().lower()
        if kind != "application/ld+json":
            continue
        count += 1
        if count > SCRIPTS_MAX:
            raise UnreadableError(f"the page has more than {SCRIPTS_MAX} scripts of JSON-LD")
        for thing in _of_script(script, meter):
            graph = thing.get(_GRAPH) if isinstance(thing, dict) else None
            yield from graph if isinstance(graph, list) else (thing,)


def _of_script(script: html.HtmlElement, meter: Meter) -> list[Any]:
    text = script.text or ""
    try:
        found = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return _leniently(script, text, meter)
    return found if isinstance(found, list) else [found]


def _leniently(script: html.HtmlElement, text: str, meter: Meter) -> list[Any]:
    """Read JSON with comments, line ends inside of texts and commas too many, as sites write it."""
    if len(text) > LENIENT_MAX:
        return []
    meter.spend(len(text) * _LENIENT_CHARACTER_UNITS)
    meter.tick()
    script.set("type", "application/ld+json")
    try:
        found: list[Any] = extruct.JsonLdExtractor().extract_items(script)
    except (ValueError, RecursionError, IndexError):
        return []
    return found


def _microdata(tree: html.HtmlElement, meter: Meter, base: Callable[[], str]) -> list[Any]:
    _guard_microdata(tree, meter)
    for base_url in (base(), ""):
        try:
            found = extruct.extract(tree, base_url=base_url, syntaxes=["microdata"], uniform=True)
        except (ValueError, RecursionError, etree.LxmlError):
            continue  # without a base extruct does not read links, of which one is broken
        things: list[Any] = found["microdata"]
        return things
    return []


def _guard_microdata(tree: html.HtmlElement, meter: Meter) -> None:
    items, properties = _ITEMS(tree), _PROPERTIES(tree)
    if len(items) > THINGS_MAX:
        raise UnreadableError(f"the page has more than {THINGS_MAX:,} things")
    if sum(len((item.get("itemref") or "").split()) for item in items) > REFERENCES_MAX:
        raise UnreadableError(f"the page's microdata has more than {REFERENCES_MAX} references")
    copied = compared = 0.0
    for element in properties:
        copied += 1 + _BELOW(element)
        if copied > COPIED_MAX:
            raise UnreadableError("the page's microdata is nested too much")
    for item in items:
        compared += _PROPERTIES_BELOW(item) ** 2
        if compared > COMPARED_MAX:
            raise UnreadableError("the page's microdata is nested too much")
    meter.tick()


def _opengraph(tree: html.HtmlElement) -> list[Any]:
    if tree.find("head") is None:
        return []
    for element in _PREFIXED(tree):
        if len(element.get("prefix")) > PREFIX_MAX:  # extruct reads it in quadratic time
            del element.attrib["prefix"]
    try:
        found = extruct.extract(tree, syntaxes=["opengraph"], uniform=True, with_og_array=True)
    except (ValueError, RecursionError, etree.LxmlError):
        return []
    things: list[Any] = found["opengraph"]
    for thing in things:
        thing.pop("@context", None)  # which prefixes there are is no fact of the page
    return things


def _storable(thing: Any) -> Any:
    """Return the thing as records hold it, or None."""
    if not isinstance(thing, dict | list):
        return None
    try:
        return parse_json(msgspec.json.encode(thing))
    except (UnreadableError, msgspec.MsgspecError, ArithmeticError, ValueError, RecursionError):
        return None
