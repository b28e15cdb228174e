"""Looks at HTML before a parser does: three shapes of markup that cost a parser quadratic time.

HTML's own algorithm is quadratic in the depth of open elements, in the attributes of one tag (each
new one is compared with all before) and in formatting elements (``<b id=1><b id=2>...`` is built
again in every later paragraph: 50 KB of it fill gigabytes). Small pages cannot be bad enough to
matter and are told apart by counting; the others are walked tag by tag, in linear time.
"""

import re
from functools import cache
from typing import Final

from crawlfleet.extract.bounds import UnreadableError

#: Open elements at once.
DEPTH_MAX: Final = 5_000
#: Attributes of one tag.
ATTRIBUTES_MAX: Final = 5_000
#: Formatting elements open at once, times the tags of the page.
REBUILT_MAX: Final = 1_000_000

#: Below this size depth and attributes cost a few seconds at most, whatever the page does; above
#: it the walk is paid for, which costs about what parsing does.
_SMALL_BYTES: Final = 196_608

#: With so few tags a page can be blown up to a million elements at most.
_FEW_TAGS: Final = 2_000

_FORMATTING: Final = frozenset(
    (b"b", b"big", b"code", b"em", b"font", b"i", b"nobr", b"s", b"small", b"strike", b"strong",
     b"tt", b"u")
)  # fmt: skip
#: With attributes only: of equal ones HTML keeps three.
_FORMATTING_OPENED: Final = re.compile(
    rb"<(?:b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)[\s/]", re.IGNORECASE
)
#: The same and more, several times as fast: what most pages are let through by.
_PERHAPS_FORMATTING: Final = re.compile(
    rb"<[bcefinstuBCEFINSTU][\s/iIoOmMtT](?<![iI][mM])(?![a-zA-Z]*>)"  # no <img, no bare <em>
)
#: They hold nothing, or end by themselves when the next of their kind begins.
_SHALLOW: Final = frozenset(
    (b"area", b"base", b"br", b"col", b"embed", b"hr", b"img", b"input", b"link", b"meta", b"param",
     b"source", b"track", b"wbr", b"p", b"li", b"dt", b"dd", b"tr", b"td", b"th", b"thead",
     b"tbody", b"tfoot", b"option", b"optgroup")
)  # fmt: skip
#: CDATA sections outside scripts; in HTML proper they are none, so the walk cannot know their end.
_CDATA_MAX: Final = 10
_ATTRIBUTE: Final = (
    rb"(?:=[^\t\n\f\r />=]*+|[^\t\n\f\r />=]++)"
    rb"(?>[\t\n\f\r ]*+=[\t\n\f\r ]*+(?>\"[^\"]*+\"|'[^']*+'|(?![\"'])[^\t\n\f\r >]*+))?+"
)
#: Exactly the standard's tokens, so that nothing can hide from the walk; possessive, so linear.
_TOKEN: Final = re.compile(
    rb"<!--(?>-?>|.*?--!?>|.*)"
    rb"|(?P<cdata><!\[CDATA\[)"
    rb"|<(?:[!?]|/(?![a-zA-Z]))[^>]*+>?+"
    rb"|<(?P<close>/?)(?P<name>[a-zA-Z][^\t\n\f\r />]*+)"
    rb"(?P<attributes>(?>[\t\n\f\r /]++|" + _ATTRIBUTE + rb")*+)>?+",
    re.DOTALL,
)
_ATTRIBUTES: Final = re.compile(_ATTRIBUTE)
_RAW_TEXT: Final = frozenset(
    (b"script", b"style", b"textarea", b"title", b"xmp", b"iframe", b"noembed", b"noframes")
)


def guard_html(body: bytes) -> None:
    """Let the page through to a parser.

    Raises:
        UnreadableError: it is built to exhaust one.

    >>> guard_html(b"<p>hello" * 1000)
    """
    tags = body.count(b"<")
    if len(body) > _SMALL_BYTES or _rebuilds(body, tags):
        _walk(body, tags)


def _rebuilds(body: bytes, tags: int) -> bool:
    return (
        tags > _FEW_TAGS
        and len(_PERHAPS_FORMATTING.findall(body)) * tags > REBUILT_MAX
        and len(_FORMATTING_OPENED.findall(body)) * tags > REBUILT_MAX
    )


def _walk(body: bytes, tags: int) -> None:
    opened: dict[bytes, int] = {}
    depth = formatting = cdata = at = 0
    while (found := _TOKEN.search(body, at)) is not None:
        at = found.end()
        if found["cdata"]:
            cdata += 1
            if cdata > _CDATA_MAX:
                raise UnreadableError(f"the page has more than {_CDATA_MAX} CDATA sections")
        if not found["name"]:
            continue
        name = found["name"].lower()
        if found["close"]:
            if opened.get(name):
                opened[name] -= 1
                depth -= 1
                formatting -= name in _FORMATTING
            continue
        _guard_attributes(found["attributes"])
        if name in _RAW_TEXT:
            end = _end_of(name).search(body, at)
            at = end.start() if end else len(body)
        if name in _SHALLOW:
            continue
        opened[name] = opened.get(name, 0) + 1
        depth += 1
        formatting += name in _FORMATTING
        if depth > DEPTH_MAX:
            raise UnreadableError(f"the page's elements are nested over {DEPTH_MAX:,} deep")
        if formatting * tags > REBUILT_MAX and formatting > 50:
            raise UnreadableError("the page leaves too many formatting elements open")


def _guard_attributes(attributes: bytes) -> None:
    # One takes two bytes at least.
    if len(attributes) > 2 * ATTRIBUTES_MAX:
        count = sum(1 for _ in _ATTRIBUTES.finditer(attributes))
        if count > ATTRIBUTES_MAX:
            raise UnreadableError(f"a tag of the page has more than {ATTRIBUTES_MAX:,} attributes")


@cache
def _end_of(name: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"</" + name, re.IGNORECASE)
