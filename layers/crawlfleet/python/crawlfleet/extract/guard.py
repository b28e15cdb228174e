"""Looks at HTML before a parser does: three shapes of markup that cost a parser quadratic time.

HTML's own algorithm is quadratic in the depth of open elements, in the attributes of one tag (each
new one is compared with all before) and in formatting elements (``<b id=1><b id=2>...`` is built
again in every later paragraph: 50 KB of it fill gigabytes). Most pages cannot be bad enough to
matter, which counting shows; only the others are walked tag by tag (``nesting``).
"""

import re
from heapq import nlargest
from typing import Any, Final

from crawlfleet.extract.nesting import REBUILT_MAX, walk

#: So many tags, each inside of the one before, cost a parser two seconds.
_MANY_TAGS: Final = 40_000
#: So many bytes of attributes, of two bytes each, cost it as much.
_MANY_BYTES: Final = 200_000
#: With so few tags a page can be blown up to a million elements at most.
_FEW_TAGS: Final = 2_000
#: Formatting elements with attributes: of equal ones HTML keeps three.
_FORMATTING: Final = rb"<(?i:b|big|code|em|font|i|nobr|s|small|strike|strong|tt|u)[\s/]"
#: What may be an attribute's value with a ``>`` in it, so that its tag does not end there.
_QUOTED: Final = re.compile(rb"=[\t\n\f\r ]*+(?:\"[^\">]*+>|'[^'>]*+>)")
#: More of them are not counted, but walked.
_QUOTED_MAX: Final = 200


def guard_html(body: bytes) -> None:
    """Let the page through to a parser.

    Raises:
        UnreadableError: it is built to exhaust one.

    >>> guard_html(b"<p>hello" * 1000)
    """
    size = len(body)
    if size <= 3 * _FEW_TAGS:  # a tag takes three bytes at least
        return
    tags = body.count(b"<")
    if tags > _MANY_TAGS or _rebuilds(body, tags) or (size > _MANY_BYTES and _long_tags(body)):
        walk(body, tags)


def _rebuilds(body: bytes, tags: int) -> bool:
    return tags > _FEW_TAGS and len(_formatting().findall(body)) * tags > REBUILT_MAX


def _long_tags(body: bytes) -> bool:
    """Whether one tag may have too many attributes.

    Up to the first ``>`` it is no longer than the longest stretch between two of them. It goes on
    to the next one only from within a quoted value, and such values are few on most pages.
    """
    quoted = 0
    for _ in _QUOTED.finditer(body):
        quoted += 1
        if quoted > _QUOTED_MAX:
            return True
    stretches = map(len, body.split(b">"))
    longest = nlargest(quoted + 1, stretches) if quoted else (max(stretches),)
    return sum(longest) > _MANY_BYTES


_compiled: list[Any] = []


def _formatting() -> Any:
    """RE2, which counts them several times as fast as Python does."""
    if not _compiled:
        import re2

        _compiled.append(re2.compile(_FORMATTING))
    return _compiled[0]
