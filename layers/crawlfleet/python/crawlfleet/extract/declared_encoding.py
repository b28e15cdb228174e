"""Which encoding a page says it is in: the prescan of the HTML standard (13.2.3.3).

The standard reads the first 1,024 bytes, and then changes its mind when the parser meets a later
``<meta>``. Both come to the same here: one scan, as far as a head may reasonably reach.
"""

import re
from typing import Final

#: How far into a page a declaration counts.
WITHIN: Final = 16_384

_XML: Final = re.compile(
    rb"<\?xml[\t\n\f\r ][^>]{0,400}?encoding[\t\n\f\r ]*=[\t\n\f\r ]*[\"']([^\"'>]{1,60})[\"']"
)
#: What the scan stops at: a comment, a tag with attributes, or another construct up to its ``>``.
_CONSTRUCT: Final = re.compile(
    rb"<(?:(?P<comment>!--)|(?P<meta>meta)(?=[\t\n\f\r /])|(?P<tag>/?[a-z][^\t\n\f\r >]*)|[!/?])",
    re.IGNORECASE,
)
#: An attribute, or the end of the tag.
_ATTRIBUTE: Final = re.compile(
    rb"[\t\n\f\r /]*(?:(?P<end>>)|(?P<name>[^\t\n\f\r />=]+|=[^\t\n\f\r />=]*)"
    rb"(?:[\t\n\f\r ]*=[\t\n\f\r ]*"
    rb"(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<bare>[^\t\n\f\r >]*)))?)"
)
#: The charset in ``content="text/html; charset=..."``.
_IN_CONTENT: Final = re.compile(
    rb"charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:\"([^\"]*)\"|'([^']*)'|([^\t\n\f\r ;\"']+))",
    re.IGNORECASE,
)
#: Inside of these a ``<meta>`` is text.
_RAW: Final = frozenset({b"script", b"style", b"title", b"textarea", b"xmp"})


def declared_label(body: bytes) -> str | None:
    """The label that the page declares, or None.

    >>> declared_label(b"<!-- <meta charset=koi8-r> --><META content='a; charset=big5' http-equiv="
    ...                b"Content-Type>")
    'big5'
    """
    if body.startswith(b"<\x00?\x00x\x00"):
        return "utf-16le"
    if body.startswith(b"\x00<\x00?\x00x"):
        return "utf-16be"
    head = body[:WITHIN]
    if found := _XML.match(head):
        return _label(found[1])
    lower, at = head.lower(), 0
    while found := _CONSTRUCT.search(head, at):
        if found["comment"]:
            at = _after(head, b"-->", found.start() + 2)
        elif found["meta"] or found["tag"]:
            attributes, at = _attributes(head, found.end())
            if found["meta"]:
                if label := _of_meta(attributes):
                    return label
            elif (name := found["tag"].lower()) in _RAW:
                at = _after(lower, b"</" + name, at)
        else:
            at = _after(head, b">", found.end())
    return None


def _after(head: bytes, end: bytes, at: int) -> int:
    where = head.find(end, at)
    return len(head) if where < 0 else where + len(end)


def _attributes(head: bytes, at: int) -> tuple[dict[bytes, bytes], int]:
    """The attributes of a tag, the first of each name, and where the tag ends."""
    found: dict[bytes, bytes] = {}
    while attribute := _ATTRIBUTE.match(head, at):
        at = attribute.end()
        if attribute["end"]:
            return found, at
        value = attribute["double"] or attribute["single"] or attribute["bare"] or b""
        found.setdefault(attribute["name"].lower(), value)
    return found, len(head)


def _of_meta(attributes: dict[bytes, bytes]) -> str | None:
    if charset := attributes.get(b"charset"):
        return _label(charset)
    if attributes.get(b"http-equiv", b"").strip().lower() != b"content-type":
        return None
    found = _IN_CONTENT.search(attributes.get(b"content", b""))
    return _label(found[1] or found[2] or found[3] or b"") if found else None


def _label(raw: bytes) -> str | None:
    return raw[:60].decode("ascii", "replace").strip() or None
