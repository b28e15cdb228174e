"""Guess rules from a page: its title, headings, structured data, and the list that repeats on it.

A guess is a beginning for whoever writes a rule, so it is kept short, and every field of it has a
value on this page: it is tried before it is told.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from crawlfleet.config.documents.rule import (
    Cast,
    Field,
    Follow,
    PageFact,
    Rule,
    Selector,
    Source,
    Structured,
)
from crawlfleet.crawling.extract.document import Document
from crawlfleet.crawling.extract.limits import UnreadableError
from crawlfleet.crawling.trials.pages import try_rule
from crawlfleet.kernel.page import Page
from crawlfleet.requests.models import Trial

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

#: Elements of one kind beside each other that are a list.
_LEAST: Final = 3
#: What is looked at of a page, and fields that are taken of structured data.
_NODES: Final = 20_000
_PROPERTIES: Final = 8
#: Things that describe a page's surroundings rather than what it shows.
_SURROUNDINGS: Final = frozenset(
    ("WebSite", "WebPage", "Organization", "BreadcrumbList", "ImageObject", "SearchAction")
)
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,40}\Z")
#: Classes that say a state, or a place in the list, and so differ from page to page.
_PASSING: Final = re.compile(
    r"\d|active|current|first|last|odd|even|selected|hover|open", re.IGNORECASE
)
_PRICE: Final = re.compile(r"(?:[€$£¥]|EUR|USD|GBP)\s*\d|\d\s*(?:[€$£¥]|EUR|USD|GBP)")
_MENUS: Final = frozenset(("nav", "header", "footer", "head", "script", "style", "select"))
_HEADINGS: Final = ("h1", "h2", "h3", "h4")


def source_of(page: Page) -> Source:
    """Tell by its type, or else its first character, what a page is to be read as.

    >>> source_of(Page(url="", status=200, headers={"content-type": "application/json"}, body=b"1"))
    <Source.JSON: 'json'>
    """
    kind = page.content_type.partition(";")[0].strip().lower()
    if kind.endswith("json") or (not kind and page.body.lstrip()[:1] in {b"{", b"["}):
        return Source.JSON
    if kind.endswith("xml") and "html" not in kind:
        return Source.XML
    return Source.TEXT if kind == "text/plain" else Source.HTML


def guess(page: Page) -> dict[str, tuple[Rule, Trial]]:
    """Guess rules by name, each with what it yields of this page: the page's own first.

    ``page`` makes one record of it, ``list`` one of each member of the list that repeats.
    """
    if source_of(page) is not Source.HTML:
        return {"page": _tried(Rule(fields=_bare_fields(page), source=source_of(page)), page)}
    document = Document(page, Source.HTML)
    found = {"page": _tried(Rule(key=("url",), fields=dict(_page_fields(document))), page)}
    if (listed := _list_rule(document)) is not None:
        rule, trial = _tried(listed, page)
        if len(trial.records) >= _LEAST and len(rule.fields) > 0:
            found["list"] = rule, trial
    return found


def _bare_fields(page: Page) -> dict[str, Field]:
    fields = {"url": Field(fact=PageFact.URL)}
    if source_of(page) is Source.JSON:
        try:
            value = Document(page, Source.JSON).json
        except UnreadableError:
            return fields
        if isinstance(value, dict):
            for name, inner in list(value.items())[:_PROPERTIES]:
                if _PLAIN.match(name) and "-" not in name:
                    kind = Cast.JSON if isinstance(inner, dict | list) else _cast(inner)
                    fields[name] = Field(json=f"$.{name}", type=kind)
    return fields


def _tried(rule: Rule, page: Page) -> tuple[Rule, Trial]:
    """Leave out the fields that found nothing, or cannot be read; return what is left of it."""
    while True:
        trial = try_rule(rule, page)
        if trial.problems:
            bad = {name for name in rule.fields if f"{name}" in trial.problems[0].field.split(".")}
        else:
            bad = {name for name, count in trial.coverage.fields.items() if not count}
        kept = {name: field for name, field in rule.fields.items() if name not in bad}
        if len(kept) == len(rule.fields) or not kept:
            return rule, trial
        key = tuple(name for name in rule.key if name in kept)
        rule = msgspec.structs.replace(rule, fields=kept, key=key)


def _page_fields(document: Document) -> Iterator[tuple[str, Field]]:
    yield "url", Field(fact=PageFact.URL)
    tree = document.lexbor
    alone = len(tree.css("h1")) == 1
    yield "title", Field(css="h1" if alone else "title")
    yield "description", Field(css='meta[name="description"]', attribute="content")
    yield "headings", Field(css="h2, h3", list=True)
    yield from _structured_fields(document)


def _structured_fields(document: Document) -> Iterator[tuple[str, Field]]:
    try:
        things = document.structured(Structured.JSON_LD)
    except UnreadableError:
        return
    chosen = next((thing for thing in things if _shows(thing)), None)
    if chosen is None:
        return
    where = f"$[?@['@type']=='{chosen['@type']}']"
    count = 0
    for name, value in chosen.items():
        path, inner = f"{where}.{name}", value
        if isinstance(value, list) and value:
            inner = value[0]
        if isinstance(inner, dict):
            part = next((key for key in ("price", "name", "ratingValue") if key in inner), None)
            # Pages write one offer or several as they like.
            path, inner = (f"{path}..{part}", inner[part]) if part else (path, None)
        if not _PLAIN.match(name) or "-" in name or not isinstance(inner, str | int | float):
            continue
        if count == _PROPERTIES:
            return
        count += 1
        kind = _cast(inner)
        yield f"data_{name}", Field(structured=Structured.JSON_LD, json=path, type=kind)


def _shows(thing: Any) -> bool:
    kind = thing.get("@type") if isinstance(thing, dict) else None
    return isinstance(kind, str) and bool(_PLAIN.match(kind)) and kind not in _SURROUNDINGS


def _cast(value: object) -> Cast:
    if isinstance(value, bool):
        return Cast.BOOLEAN
    return Cast.NUMBER if isinstance(value, int | float) else Cast.STRING


def _list_rule(document: Document) -> Rule | None:
    """Find the list that shows most: neighbours of one kind, by their number and their texts."""
    best: tuple[float, str, list[LexborNode]] | None = None
    for parent in document.lexbor.css("*")[:_NODES]:
        kinds: dict[tuple[str, str], list[LexborNode]] = {}
        for child in parent.iter():
            kinds.setdefault((child.tag or "", _class_of(child)), []).append(child)
        for members in kinds.values():
            if len(members) < _LEAST or _in_menu(parent):
                continue
            texts = [len(member.text().split()) for member in members]
            parts = min(sum(1 for _ in member.css("*")) for member in members)
            if not min(texts) or members[0].tag in {"br", "option", "p"} | set(_HEADINGS):
                continue
            score = len(members) ** 0.5 * (parts + 1) * min(sum(texts) / len(texts), 60) ** 0.5
            if best is None or score > best[0]:
                best = score, _selector(parent, members[0]), members
    if best is None:
        return None
    _, items, members = best
    fields = dict(_member_fields(members))
    if not fields:
        return None
    follow: tuple[Follow, ...] = ()
    if document.lexbor.css_first('a[rel="next"]') is not None:
        follow = (Follow(css='a[rel="next"]', pagination=True),)
    elif document.lexbor.css_first("li.next a[href]") is not None:
        follow = (Follow(css="li.next a", pagination=True),)
    return Rule(items=Selector(css=items), fields=fields, follow=follow)


def _in_menu(node: LexborNode | None) -> bool:
    while node is not None:
        if node.tag in _MENUS:
            return True
        node = node.parent
    return False


def _class_of(node: LexborNode) -> str:
    names = (node.attributes.get("class") or "").split()
    return next((n for n in names if _PLAIN.match(n) and not _PASSING.search(n)), "")


def _named(node: LexborNode) -> str:
    return f"{node.tag}.{name}" if (name := _class_of(node)) else str(node.tag)


def _selector(parent: LexborNode, member: LexborNode) -> str:
    """Name the members: by their own class, or else by what they stand in."""
    if _class_of(member):
        return _named(member)
    identity = parent.attributes.get("id") or ""
    if _PLAIN.match(identity) and not _PASSING.search(identity):
        return f"{parent.tag}#{identity} > {member.tag}"
    above = parent.parent
    if not _class_of(parent) and above is not None and above.tag not in {"html", "body", None}:
        return f"{_named(above)} > {parent.tag} > {member.tag}"
    return f"{_named(parent)} > {member.tag}"


def _member_fields(members: list[LexborNode]) -> Iterator[tuple[str, Field]]:
    """Guess what each member says: its heading, link, price and image, by what most have."""
    enough = max(_LEAST, len(members) * 2 // 3)
    heading = next((tag for tag in _HEADINGS if _have(members, tag) >= enough), None)
    links = _have(members, "a[href]") >= enough
    if heading is not None:
        yield "name", Field(css=heading)
    elif links:
        yield "name", Field(css="a[href]")
    else:
        yield "text", Field()
    if links:
        yield "link", Field(css="a[href]", attribute="href", absolute=True)
    if (price := _price(members, enough)) is not None:
        yield "price", Field(css=price)
    if _have(members, "img[src]") >= enough:
        yield "image", Field(css="img", attribute="src", absolute=True)


def _have(members: list[LexborNode], css: str) -> int:
    return sum(member.css_first(css) is not None for member in members)


def _price(members: list[LexborNode], enough: int) -> str | None:
    """Return the selector of the innermost elements that read like a price."""
    seen: Counter[str] = Counter()
    for member in members:
        found = [node for node in member.css("*") if _PRICE.search(node.text(deep=False))]
        seen.update({_named(node) for node in found if _class_of(node)})
    return next((css for css, count in seen.most_common(1) if count >= enough), None)


def name_of(url: str) -> str:
    """Make a name for a biz of a URL's host.

    >>> name_of("https://books.to-scrape.com/x"), name_of("http://127.0.0.1:8000/")
    ('books-to-scrape', 'host-127-0-0-1')
    """
    host = (urlsplit(url).hostname or "").removeprefix("www.")
    labels = host.split(".")
    is_address = labels[-1].isdigit() or ":" in host
    named = labels if is_address else labels[:-1] or labels
    words = re.sub(r"[^a-z0-9]+", "-", "-".join(named)).strip("-")
    if is_address or not words[:1].isalpha():
        words = f"host-{words}"
    return words[:32].strip("-")


def shown_values(trial: Trial) -> Mapping[str, object]:
    """Return the first value of each field, over the records."""
    found: dict[str, object] = {}
    for record in trial.records:
        for name, value in record.items():
            if name not in found and value not in (None, "", []):
                found[name] = value
    return found
