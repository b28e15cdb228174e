"""What of a page counts when it is asked whether the page has changed (SPEC.md H7). Pure.

People collect records: where a rule or a spider gives any, these are the page, in their order, but
for facts of the fetch that are of the moment. A page that gives none is its text: what HTML and XML
have of scripts, styles, comments and tags changes with every download on many sites (tokens, build
numbers, advertisements) and means nothing. Anything else is its bytes.
"""

from collections.abc import Mapping
from hashlib import blake2b
from re import compile as pattern
from typing import Any, Final

import msgspec

from crawlfleet.model.rule import Field, PageFact, Rule
from crawlfleet.model.spider import Spider
from crawlfleet.page import Page

_DIGEST_BYTES: Final = 16
_MARKUP: Final = ("text/html", "application/xhtml+xml", "text/xml", "application/xml", "+xml")
#: Where text begins that nobody reads, and what ends it.
_UNREAD_START: Final = pattern(rb"<script\b|<style\b|<!--")
_UNREAD_END: Final = {
    b"<script": pattern(rb"</script[\s/>]"),
    b"<style": pattern(rb"</style[\s/>]"),
    b"<!--": pattern(rb"-->"),
}
#: A tag ends before the next one begins: what is never closed costs no second look.
_TAG: Final = pattern(rb"<[^<>]*>")


class PageContent:
    """The hash of a page's content, taken record by record, as they are found.

    Args:
        reader: What reads the page; the facts that its fields take are known by it.
    """

    def __init__(self, reader: Rule | Spider | None = None) -> None:
        self._passing = _passing(reader.fields) if isinstance(reader, Rule) else {}
        self._hash = blake2b(digest_size=_DIGEST_BYTES)
        self._any = False

    def add(self, fields: Mapping[str, object]) -> None:
        """The next record."""
        self._any = True
        kept = _without(dict(fields), self._passing) if self._passing else fields
        self._hash.update(msgspec.json.encode(kept, enc_hook=str, order="sorted"))
        self._hash.update(b"\n")

    def digest(self, page: Page) -> str:
        """The hash of all records, or of the page if there are none; in hex."""
        if self._any:
            return self._hash.hexdigest()
        return blake2b(_text(page), digest_size=_DIGEST_BYTES).hexdigest()


def _text(page: Page) -> bytes:
    kind = page.content_type.partition(";")[0].strip()
    if not kind.endswith(_MARKUP) and not (kind == "" and page.body.lstrip()[:1] == b"<"):
        return page.body
    return b" ".join(_TAG.sub(b" ", _read_part(page.body)).split())


def _read_part(body: bytes) -> bytes:
    """The body without what nobody reads; what is not ended goes on to the end, as in browsers."""
    lower = body.lower()
    parts, at = [], 0
    while (start := _UNREAD_START.search(lower, at)) is not None:
        parts.append(body[at : start.start()])
        end = _UNREAD_END[start.group()].search(lower, start.end())
        if end is None:
            return b" ".join(parts)
        # What is left of an end tag is a tag still.
        at = end.end() if start.group() == b"<!--" else end.start()
    parts.append(body[at:])
    return b" ".join(parts)


#: By field, what of it is of the moment: all of it (None), or fields inside.
_Passing = dict[str, "_Passing | None"]


def _passing(fields: Mapping[str, Field]) -> _Passing:
    found: _Passing = {}
    for name, field in fields.items():
        if field.fact is PageFact.FETCHED_AT:
            found[name] = None
        elif inner := _passing(field.fields):
            found[name] = inner
    return found


def _without(value: Any, passing: _Passing) -> Any:
    if isinstance(value, list | tuple):
        return [_without(one, passing) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: inner if name not in passing else _without(inner, passing[name] or {})
        for name, inner in value.items()
        if passing.get(name, {}) is not None
    }
