"""Walk over a page's tags to show how deep a parser's open elements can get.

It keeps open elements as HTML's parser does, as far as it can tell what an end tag closes. Where it
cannot (``<b><table></b>`` closes nothing), the elements that it closes count as hidden: they may
still be open. So what it counts is never less than what a parser has to do, whatever a page says;
and on pages that people write nearly nothing is hidden.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple

from crawlfleet.crawling.extract.limits import UnreadableError


def _names(text: str) -> frozenset[bytes]:
    return frozenset(text.encode().split())


#: Built again where they are missing.
FORMATTING: Final = _names("b big code em font i nobr s small strike strong tt u")
#: They stand in a paragraph and are passed over by the end of it.
INLINE: Final = FORMATTING | _names("a span label abbr cite q sub sup mark time kbd samp var")
IGNORED: Final = _names("html head body")  #: There is one of each at most, wherever its tags are.
#: They hold nothing.
VOID: Final = _names(
    "area base basefont bgsound br col embed frame hr image img input keygen link meta param "
    "source track wbr"
)
#: They hold text, whatever it looks like.
RAW_TEXT: Final = _names("script style textarea title xmp iframe noembed noframes")
#: They end a drawing or a formula that is open.
BREAKOUT: Final = _names(
    "b big blockquote br center code dd div dl dt em embed h1 h2 h3 h4 h5 h6 hr i img li listing "
    "menu meta nobr ol p pre ruby s small span strong strike sub sup table tt u ul var"
)
#: What drawings mostly consist of.
SVG_LEAVES: Final = _names(
    "path g rect circle line polygon polyline ellipse use defs symbol stop lineargradient "
    "radialgradient clippath mask pattern marker tspan text image filter animate animatetransform "
    "style"
)
#: They are nothing outside of a table.
IN_TABLE: Final = _names("caption tbody thead tfoot tr td th colgroup")
_BLOCKS: Final = _names(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure "
    "footer header hgroup listing main menu nav ol pre search section summary ul h1 h2 h3 h4 h5 h6"
)
#: End tags do not look past these.
_SCOPE: Final = _names(
    "applet caption html table td th marquee object template select svg math mi mo mn ms mtext "
    "annotation-xml foreignobject desc title"
)
MARKERS: Final = _SCOPE  #: Formatting elements on both sides of these do not know each other.
#: An end tag of another kind of element does not look past these.
SPECIAL: Final = (
    _BLOCKS
    | _SCOPE
    | IN_TABLE
    | RAW_TEXT
    | VOID
    | _names("p li dd dt button form frameset iframe noscript optgroup option plaintext")
)


class Closing(NamedTuple):
    """The open elements that the start of one ends: ``targets``, unless one of ``stops`` is inside.

    With ``passes`` only those may be inside. Of several targets the outermost counts where
    ``all`` is set, else the innermost. With ``root`` they have to be in one: a cell outside of a
    table is none.
    """

    targets: frozenset[bytes]
    stops: frozenset[bytes] = frozenset()
    passes: frozenset[bytes] | None = None
    all: bool = False
    root: bytes = b""


_PAST: Final = SPECIAL - _names("address div p")
#: What stands between a part of a table and a table that it is no part of.
TABLES: Final = _names("table template svg math select")
_GROUPS: Final = _names("tbody thead tfoot tr td th")
_NOTHING: Final[frozenset[bytes]] = frozenset()
_LI, _ITEMS = _names("li"), _names("dt dd")
_CELL: Final = Closing(_names("td th"), TABLES, root=b"table")
_GROUP: Final = Closing(_GROUPS, TABLES, all=True, root=b"table")
CLOSED_BY: Final = {  #: By the element that starts.
    b"p": Closing(_names("p"), passes=INLINE),
    b"li": Closing(_LI, _PAST - _LI),
    b"dt": Closing(_ITEMS, _PAST - _ITEMS),
    b"dd": Closing(_ITEMS, _PAST - _ITEMS),
    b"option": Closing(_names("option"), passes=_NOTHING),
    b"optgroup": Closing(_names("option optgroup"), passes=_names("option"), all=True),
    b"a": Closing(_names("a"), passes=_NOTHING),
    b"nobr": Closing(_names("nobr"), passes=_NOTHING),
    b"td": _CELL,
    b"th": _CELL,
    b"tr": Closing(_names("tr td th"), TABLES, all=True, root=b"table"),
    b"tbody": _GROUP,
    b"thead": _GROUP,
    b"tfoot": _GROUP,
}
_LISTS: Final = _SCOPE | _names("ul ol")
_ROWS: Final = _SCOPE - _names("td th")


def between_is_sound(name: bytes, between: Sequence[bytes]) -> bool:
    """Tell whether an end tag surely closes its element and those that were opened after it.

    >>> between_is_sound(b"div", [b"span", b"p"]), between_is_sound(b"div", [b"table", b"td"])
    (True, False)
    >>> between_is_sound(b"span", [b"b"]), between_is_sound(b"span", [b"div"])
    (True, False)
    """
    if name in _BLOCKS or name in {b"dd", b"dt", b"button"}:
        return _SCOPE.isdisjoint(between)
    if name == b"p":
        return INLINE.issuperset(between)
    if name == b"li":
        return _LISTS.isdisjoint(between)
    if name == b"table":
        return TABLES.isdisjoint(between)
    if name in IN_TABLE:
        return _ROWS.isdisjoint(between)
    if name in FORMATTING or name == b"a":
        return False
    return name not in SPECIAL and SPECIAL.isdisjoint(between)


_FOREIGN: Final = frozenset((b"svg", b"math"))
#: Open elements at once.
DEPTH_MAX: Final = 5_000
_TOO_DEEP: Final = f"the page's elements are nested over {DEPTH_MAX:,} deep"
ATTRIBUTES_MAX: Final = 5_000  #: Attributes of one tag.
REBUILT_MAX: Final = 1_000_000  #: Formatting elements open at once, times the tags of the page.
#: Open elements over all tags: a parser may look at all of them for each tag.
WORK_MAX: Final = 800_000_000

_LOOK_BACK: Final = 100  #: How far up the open elements the one that a start tag ends is searched.

_SPACE: Final = rb"[\t\n\f\r ]"
_PLAIN: Final = rb"(?>" + _SPACE + rb"++[a-zA-Z][\w:.-]*+=\"[^\"]*+\")*+"
_ATTRIBUTE: Final = (
    rb"(?:=[^\t\n\f\r />=]*+|[^\t\n\f\r />=]++)"
    rb"(?>[\t\n\f\r ]*+=[\t\n\f\r ]*+(?>\"[^\"]*+\"|'[^']*+'|(?![\"'])[^\t\n\f\r >]*+))?+"
)
_NO_LEAF: Final = b"|".join(
    sorted((CLOSED_BY.keys() - {b"a"}) | RAW_TEXT | VOID | IGNORED | _FOREIGN)
)
#: Exactly the standard's tokens, so that nothing can hide from the walk; possessive, so linear.
#: First come runs of elements with nothing but text in them, which leave nothing open, and
#: attributes as nearly everybody writes them, because both are read faster than one by one.
_TOKEN: Final = re.compile(
    rb"(?P<leaves>(?:<(?>(?:br|hr|img)" + _PLAIN + _SPACE + rb"*+/?+>"
    rb"|(?!(?i:"
    + _NO_LEAF
    + rb")[\t\n\f\r />])(?P<leaf>[a-zA-Z][\w-]*+)"
    + _PLAIN
    + rb">[^<]*+</(?P=leaf)>)[^<]*+)++)"
    rb"|<(?:(?P<close>/?)(?P<name>[a-zA-Z][^\t\n\f\r />]*+)"
    rb"(?P<attributes>(?>" + _PLAIN + rb"(?=/?>)"
    rb"|(?>[\t\n\f\r /]++|" + _ATTRIBUTE + rb")*+)/?+)>?+"
    rb"|!--(?>-?>|.*?--!?>|.*)"
    rb"|(?P<cdata>!\[CDATA\[)"
    rb"|(?:[!?]|/(?![a-zA-Z]))[^>]*+>?+)",
    re.DOTALL,
)
_ATTRIBUTES: Final = re.compile(_ATTRIBUTE)
_WRITTEN_PLAINLY: Final = re.compile(
    rb"(?:" + _SPACE + rb"++[\w:.-]++=(?:\"[^\"]*+\"|'[^']*+'))*+" + _SPACE + rb"*+/"
)
_TAG: Final = re.compile(rb"</?[a-zA-Z]")
_SCRIPT_AGAIN: Final = re.compile(rb"<!--(?:(?!-->).)*<script", re.DOTALL | re.IGNORECASE)


def walk(body: bytes, tags: int, elements: "Elements | None" = None) -> None:
    """Let the page through to a parser; ``elements``, of nobody else, follow what is open.

    Raises UnreadableError: it is built to exhaust one.
    """
    elements = Elements() if elements is None else elements
    stack = elements.stack
    at, work = 0, 0
    search = _TOKEN.search
    while (found := search(body, at)) is not None:
        at = found.end()
        leaves, _, close, name, attributes, cdata = found.groups()
        depth = len(stack) + elements.hidden + elements.formatting
        if leaves is not None:
            elements.plain_svg = False
            work += depth * leaves.count(b"<")
        elif name is not None:
            work += depth
            name = name.lower()
            if close:
                elements.end(name)
                continue
            # One takes two bytes at least.
            if (
                len(attributes) > 2 * ATTRIBUTES_MAX
                and sum(1 for _ in _ATTRIBUTES.finditer(attributes)) > ATTRIBUTES_MAX
            ):
                raise UnreadableError(
                    f"a tag of the page has more than {ATTRIBUTES_MAX:,} attributes"
                )
            elements.start(name, attributes)
            if name in RAW_TEXT:
                at, tags_inside = elements.raw_text(name, body, at)
                work += tags_inside * (depth + tags_inside)
            elements.guard(tags)
        elif cdata is not None:
            at, tags_inside = elements.cdata(body, at)
            work += tags_inside * (depth + tags_inside)
        if work > WORK_MAX:
            raise UnreadableError(_TOO_DEEP)


@dataclass(slots=True)
class Elements:
    """Open elements, and how many more there may be."""

    #: Names, each with the epoch before it.
    stack: list[tuple[bytes, int]] = field(default_factory=list)
    hidden: int = 0
    formatting: int = 0  #: Formatting elements that are built again where they are missing.
    _counts: defaultdict[bytes, int] = field(default_factory=lambda: defaultdict(int))
    # An end tag finds the formatting elements of its own epoch only: since the last marker.
    _active: defaultdict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))
    _epoch: int = 0
    _fresh: int = 0
    # Drawings and formulas that are open, or may be.
    _drawings: int = 0
    plain_svg: bool = False  #: Whether there was nothing but drawing since the innermost <svg>.

    def guard(self, tags: int) -> None:
        """Let it be so many."""
        if len(self.stack) > DEPTH_MAX:
            raise UnreadableError(_TOO_DEEP)
        if self.formatting * tags > REBUILT_MAX and self.formatting > 50:
            raise UnreadableError("the page leaves too many formatting elements open")

    def start(self, name: bytes, attributes: bytes) -> None:
        """Take a start tag."""
        if name in IGNORED:
            return
        foreign = self._drawings > 0
        if foreign:
            if name not in SVG_LEAVES:
                self.plain_svg = False
            elif self.plain_svg and _WRITTEN_PLAINLY.fullmatch(attributes):
                return  # closed at once
        if name in VOID and (not foreign or name in BREAKOUT):
            return
        if name in CLOSED_BY and (not foreign or name in BREAKOUT):
            self._close_implied(CLOSED_BY[name])
        if name in _FOREIGN:
            self._drawings += 1
            self.plain_svg = name == b"svg"
        self.stack.append((name, self._epoch))
        self._counts[name] += 1
        if name in MARKERS:
            self._fresh += 1
            self._epoch = self._fresh
        elif name in FORMATTING:
            self._active[name].append(self._epoch)
            self.formatting += 1

    def end(self, name: bytes) -> None:
        """Take an end tag."""
        stack = self.stack
        if name in FORMATTING:
            active = self._active[name]
            if active and active[-1] == self._epoch:
                active.pop()
                self.formatting -= 1
        if name not in SVG_LEAVES:
            self.plain_svg = False
        if not self._counts[name]:
            return
        if stack[-1][0] == name:
            self._pop(1, sound=True)
            return
        at = len(stack) - 2
        while stack[at][0] != name:
            at -= 1
        between = [each for each, _ in stack[at + 1 :]]
        sound = between_is_sound(name, between) and (name not in IN_TABLE or self._in_table(at))
        self._pop(len(between) + 1, sound=sound)

    def _in_table(self, at: int) -> bool:
        """Tell whether what is open at that place is a part of a table."""
        below = self.stack[max(0, at - _LOOK_BACK) : at]
        return next((name for name, _ in reversed(below) if name in TABLES), None) == b"table"

    def raw_text(self, name: bytes, body: bytes, at: int) -> tuple[int, int]:
        """Find where the text of an element without tags ends, and how many may yet be in it."""
        found = _end_of(name).search(body, at)
        end = found.start() if found else len(body)
        inside = 0
        if self._drawings:
            # It may be markup all the same: then all of it may be open, and a comment in it too.
            for opening, closing in ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>")):
                opened = body.rfind(opening, at, end)
                closed = body.find(closing, opened, end) if opened >= 0 else end
                end = len(body) if closed < 0 else end
            inside = sum(1 for _ in _TAG.finditer(body, at, end))
            if inside:
                self._drawings += 1  # which never ends
                self.plain_svg = False
        elif name == b"script" and _SCRIPT_AGAIN.search(body, at, end):
            # A script that holds <!-- and <script does not end with the first end tag.
            closed = body.find(b"-->", end)
            later = _end_of(name).search(body, closed) if closed >= 0 else None
            last = later.start() if later else len(body)
            inside = body.count(b"<", end, last)
            end = last
        self.hidden += inside
        return end, inside

    def cdata(self, body: bytes, at: int) -> tuple[int, int]:
        """Find where a CDATA section ends: in drawings with ``]]>``, else with the first ``>``."""
        if not self._drawings:
            end = body.find(b">", at)
            return (end + 1 if end >= 0 else len(body)), 0
        last = body.find(b"]]>", at)
        last = last if last >= 0 else len(body)
        inside = body.count(b"<", at, last)
        self.hidden += inside
        return last, inside

    def _close_implied(self, closing: Closing) -> None:
        stack, number = self.stack, 0
        rooted = not closing.root
        for back in range(1, min(_LOOK_BACK, len(stack)) + 1):
            name = stack[-back][0]
            if name in closing.targets:
                number = number if number and not closing.all else back
                if not closing.all and rooted:
                    break
            elif name in closing.stops or (
                closing.passes is not None and name not in closing.passes
            ):
                rooted = rooted or name == closing.root
                break
        if number and rooted:
            self._pop(number, sound=True)

    def _pop(self, number: int, *, sound: bool) -> None:
        for _ in range(number):
            name, epoch = self.stack.pop()
            self._counts[name] -= 1
            self._epoch = epoch
            # One that may still be open counts for ever.
            self._drawings -= sound and name in _FOREIGN
        if not sound:
            self.hidden += number
            self._fresh += 1
            self._epoch = self._fresh


@cache
def _end_of(name: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"</" + name + rb"[\t\n\f\r />]", re.IGNORECASE)
