"""Looks at HTML before a parser does: three shapes of markup that cost a parser quadratic time.

HTML's own algorithm is quadratic in the depth of open elements, in the attributes of one tag (each
new one is compared with all before) and in formatting elements (``<b id=1><b id=2>...`` is built
again in every later paragraph: 50 KB of it fill gigabytes). Most pages cannot be bad enough to
matter, which counting shows; only the others are walked tag by tag (``nesting``).
"""

from functools import cache
from typing import Any, Final

from crawlfleet.crawling.extract.nesting import REBUILT_MAX, walk

#: Elements times tags of a page: were each inside of the one before, a parser would take two to
#: four seconds.
_NESTED_MAX: Final = 1_600_000_000
#: With so few tags, of three bytes at least, there are never that many.
_MANY_TAGS: Final = 40_000
#: So many bytes of attributes, of two bytes each, cost it as much.
_MANY_BYTES: Final = 200_000
#: With so few tags a page can be blown up to a million elements at most.
_FEW_TAGS: Final = 2_000
_NAMES: Final = "b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u"
#: Formatting elements with attributes: of equal ones HTML keeps three.
_FORMATTING: Final = rf"<(?i:{_NAMES})[\s/]"
#: Those that end before another tag begins: they are never built again.
_ENDED: Final = "|".join(
    rf"<{name}(?:\s+[\w:.-]+=\"[^\"<>]*\")+\s*>[^<]*</{name}>" for name in _NAMES.split("|")
)
#: What may be an attribute's value with a ``>`` in it, so that its tag does not end there.
_QUOTED: Final = r"=[\t\n\f\r ]*(?:\"[^\">]*>|'[^'>]*>)"
#: More of them are not counted, but walked.
_QUOTED_MAX: Final = 200


def guard_html(body: bytes) -> None:
    """Let the page through to a parser.

    Raises:
        UnreadableError: it is built to exhaust one.

    >>> guard_html(b"<p>hello" * 1000)
    """
    size = len(body)
    if size <= 3 * _FEW_TAGS:
        return
    built_again = len(_expression(_FORMATTING).findall(body))
    # Most pages are let through here, uncounted.
    if size <= 3 * _MANY_TAGS and built_again * _MANY_TAGS <= REBUILT_MAX:
        return
    tags = body.count(b"<")
    if tags > _FEW_TAGS and built_again * tags > REBUILT_MAX:
        built_again -= len(_expression(_ENDED).findall(body))
    rebuilds = tags > _FEW_TAGS and built_again * tags > REBUILT_MAX
    if rebuilds or _nests(body, tags) or (size > _MANY_BYTES and _long_tags(body)):
        walk(body, tags)


def _nests(body: bytes, tags: int) -> bool:
    """Whether elements may be nested too deep; end tags and line breaks begin none."""
    if tags <= _MANY_TAGS:
        return False
    return tags * (tags - body.count(b"</") - body.count(b"<br>")) > _NESTED_MAX


def _long_tags(body: bytes) -> bool:
    """Whether one tag may have too many attributes.

    Up to the first ``>`` it is no longer than the longest stretch between two of them. It goes on
    to the next one only from within a quoted value, and such values are few on most pages.
    """
    quoted = len(_expression(_QUOTED).findall(body))
    if quoted > _QUOTED_MAX:
        return True
    longest = _MANY_BYTES // (quoted + 1)
    at = 0
    while at + longest < len(body):
        at = body.rfind(b">", at + 1, at + longest)
        if at < 0:
            return True
    return False


@cache
def _expression(pattern: str) -> Any:
    """RE2, which counts several times as fast as Python does."""
    import re2

    return re2.compile(pattern.encode())
